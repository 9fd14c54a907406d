package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan/state"
)

// writeDescription is `job describe`: the status, then what is behind it, the events last.
func writeDescription(w io.Writer, d *client.Description, st *record.JobStatus, groups []groupView, vertices []record.VertexSummary, now time.Time) error {
	short := *st
	short.Conditions = nil // they have a table of their own
	writeStatus(w, d, &short, groups)
	writeSpec(w, d, st)
	for i := range d.Pipelines {
		writePlacement(w, &d.Pipelines[i])
	}
	for i := range d.Pipelines {
		points := d.Pipelines[i].Checkpoints
		for _, n := range slices.Sorted(maps.Keys(points)) {
			cp := points[n]
			fmt.Fprintf(w, "  checkpoint %d of pipeline %d: %s, attempt %d, %d prepared, %d bytes, %.3f s\n",
				n, d.Pipelines[i].ID, cp.Kind, cp.Attempt, cp.Prepared, cp.Size, cp.Took)
		}
	}
	if d.History != nil {
		for _, l := range d.History.Left {
			fmt.Fprintf(w, "  left behind: %s\n", l)
		}
	}
	section := func(title string, rows [][]string) error {
		if len(rows) < 2 {
			return nil
		}
		fmt.Fprintf(w, "\n%s\n", title)
		return table(w, rows)
	}
	if err := section("Conditions", conditionRows(st, now)); err != nil {
		return err
	}
	if len(vertices) > 0 {
		fmt.Fprintln(w, "\nVertices")
		if err := summary(w, vertices, lasted(st)); err != nil {
			return err
		}
	}
	if err := section("Failures", failureRows(st, now)); err != nil {
		return err
	}
	if st.Earlier > 0 {
		fmt.Fprintf(w, "%d more, behind the first, are not listed any more\n", st.Earlier)
	}
	return section("Events", eventRows(st, now))
}

func writeSpec(w io.Writer, d *client.Description, st *record.JobStatus) {
	if d.Spec != nil {
		fmt.Fprintf(w, "  spec: file %s, %d bytes", d.Spec.File, textSize(d.Spec))
		for _, k := range slices.Sorted(maps.Keys(d.Spec.Variables)) {
			fmt.Fprintf(w, ", -i %s=%s", k, d.Spec.Variables[k])
		}
		fmt.Fprintln(w)
		if len(d.Spec.Labels) > 0 {
			fmt.Fprintf(w, "  labels: %s\n", labelText(d.Spec.Labels))
		}
	}
	if st.Slots > 0 {
		fmt.Fprintf(w, "  needs %d slots", st.Slots)
		if st.Priority != 0 {
			fmt.Fprintf(w, ", priority %d", st.Priority)
		}
		fmt.Fprintln(w)
	}
	if d.Wish != "" {
		fmt.Fprintf(w, "  wish: %s\n", d.Wish)
	}
}

func textSize(s *record.Spec) int {
	if s.TextChunks != nil {
		return s.TextChunks.Size
	}
	return len(s.Text)
}

// writePlacement says which slots of which workers a pipeline has, and who of older attempts may still act.
func writePlacement(w io.Writer, pl *client.Pipeline) {
	if pl.Word == nil {
		return
	}
	slots := map[string][]string{}
	for _, g := range pl.Grants {
		slots[g.Worker] = append(slots[g.Worker], fmt.Sprint(g.Slot))
	}
	if pl.Placement != nil && pl.Placement.Attempt == pl.Word.Attempt && pl.Word.Phase != state.PipelineStopped {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(pl.Placement.Workers)) {
			text := fmt.Sprintf("%s (incarnation %d)", name, pl.Placement.Workers[name].Incarnation)
			if s := slots[name]; len(s) > 0 {
				text += " slots " + strings.Join(s, ",")
			}
			parts = append(parts, text)
		}
		fmt.Fprintf(w, "  placement of pipeline %d, attempt %d: %s\n", pl.ID, pl.Placement.Attempt, strings.Join(parts, "; "))
	}
	if b := pl.Word.Barrier; b.State == record.BarrierOpen {
		fmt.Fprintf(w, "  barrier %d of pipeline %d is open: %s\n", b.ID, pl.ID, b.Kind)
	}
	for _, h := range pl.Word.Holders {
		text := "has not confirmed that it stopped"
		if h.Waiting {
			text = "is gone and waited out: it may act for a while yet"
		}
		fmt.Fprintf(w, "  pipeline %d waits for worker %s (incarnation %d, attempt %d), which %s\n", pl.ID, h.Worker, h.Incarnation, h.Attempt, text)
	}
	if n := pl.Word.NotBefore; n != nil && pl.Word.Phase == state.PipelineDeploying {
		fmt.Fprintf(w, "  pipeline %d is not deployed before %s\n", pl.ID, n.Local().Format(time.DateTime))
	}
}

func conditionRows(st *record.JobStatus, now time.Time) [][]string {
	rows := [][]string{{"TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"}}
	for _, c := range st.Conditions {
		rows = append(rows, []string{c.Type, fmt.Sprint(c.Status), age(now, c.Since), dash(c.Reason), oneLine(c.Message)})
	}
	return rows
}

func failureRows(st *record.JobStatus, now time.Time) [][]string {
	rows := [][]string{{"AGE", "PIPELINE", "ATTEMPT", "WORKER", "GROUP", "VERTEX", "MESSAGE"}}
	for _, f := range st.Failures {
		text := oneLine(f.Message)
		if f.Position != "" {
			text += " at " + f.Position
		}
		if f.Fatal {
			text += " (fatal)"
		}
		rows = append(rows, []string{age(now, f.Time), fmt.Sprint(f.Pipeline), fmt.Sprint(f.Attempt), dash(f.Worker), dash(f.Group), dash(string(f.Vertex)), text})
	}
	return rows
}

func eventRows(st *record.JobStatus, now time.Time) [][]string {
	rows := [][]string{{"AGE", "REASON", "COUNT", "MESSAGE"}}
	for _, e := range st.Events {
		reason := e.Reason
		if e.Warn {
			reason = "! " + reason
		}
		rows = append(rows, []string{age(now, e.Time), reason, fmt.Sprint(max(e.Count, 1)), oneLine(e.Message)})
	}
	return rows
}

// oneLine makes a message fit a row of a table.
func oneLine(s string) string {
	return plainText(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\t' || r == '\r' }), " "))
}

// age is how long ago something was, as exactly as people want it.
func age(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t).Round(time.Second)
	if d < 0 {
		d = 0 // a clock elsewhere is ahead
	}
	days, hours, minutes, seconds := int(d.Hours())/24, int(d.Hours()), int(d.Minutes()), int(d.Seconds())
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", seconds)
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%ds", minutes, seconds%60)
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", minutes)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", hours, minutes%60)
	}
	return fmt.Sprintf("%dd%dh", days, hours%24)
}
