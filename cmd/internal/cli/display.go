package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
	"strait/plan/units"
)

// settled is how long a state must stand to be told, unless it says why the job waits: a job of milliseconds
// passes through all of them and only its end is of interest.
const settled = time.Second

// display decides what is shown of a job. On a terminal: a live line per pipeline, rewritten in place. Elsewhere:
// a line per pipeline with each answer of the leader. On both a line when the job stands in a new state. It has no
// clock and no goroutine; the callers pass the time.
type display struct {
	screen *screen
	last   client.Update

	text  string    // the state that may be told
	since time.Time // when it became so
	said  string    // the last one that was told

	trouble string // the last one that was told

	counts map[plan.PipelineID]progress
}

// progress is what the sources of a pipeline gave out.
type progress struct {
	rows, bytes int64
	rate        float64   // rows a second between the last two changes; below zero: not known yet
	at          time.Time // of the last change
}

// stale is how long rows may stand still before the rate is 0: the leader's numbers are a little old themselves.
const stale = 3 * time.Second

func newDisplay(s *screen) *display {
	return &display{screen: s, counts: map[plan.PipelineID]progress{}}
}

// update takes a newer state of the job.
func (d *display) update(u client.Update, now time.Time) {
	d.last = u
	text, urgent := stateText(u)
	if text != d.text {
		d.text, d.since = text, now
	}
	if urgent {
		d.tell(now)
	}
	d.tick(now)
}

// stateText is what may be told of a state. Urgent is what the reader waits for without knowing why.
func stateText(u client.Update) (text string, urgent bool) {
	if u.Status == nil {
		return "waiting for a coordinator to take the job", false
	}
	st := u.Status
	if st.Phase.Terminal() { // the caller tells the end
		return "", false
	}
	text = string(st.Phase)
	if st.Message == "" {
		if why := restartText(st); why != "" {
			text += ": " + why
		}
		return text, false
	}
	return text + ": " + st.Message, st.Phase == state.JobPending || st.Phase == state.JobRestarting
}

// restartText is what the first pipeline that begins anew says, while the job as a whole does not speak of it.
func restartText(st *record.JobStatus) string {
	if st.Phase != state.JobRestarting {
		return ""
	}
	for _, id := range slices.Sorted(maps.Keys(st.Pipelines)) {
		if p := st.Pipelines[id]; p.Phase == state.PipelineDeploying && p.Message != "" {
			return fmt.Sprintf("pipeline %d: %s", id, p.Message)
		}
	}
	return ""
}

func (d *display) tell(now time.Time) {
	if d.text == "" || d.text == d.said {
		return
	}
	d.said = d.text
	d.screen.say("%s %s", now.Format(time.TimeOnly), d.text)
}

// tick tells what has stood long enough and draws the live lines.
func (d *display) tick(now time.Time) {
	if !d.since.IsZero() && now.Sub(d.since) >= settled {
		d.tell(now)
	}
	if d.screen.live() && d.running() {
		d.screen.draw(d.pipelines())
	}
}

func (d *display) running() bool {
	if d.last.Status == nil {
		return false
	}
	switch d.last.Status.Phase {
	case state.JobRunning, state.JobRestarting, state.JobSavepointing, state.JobCancelling, state.JobFailing, state.JobClosing:
		return true
	}
	return false
}

// counters takes live counters, nil when there are none, and what hinders hearing of the job.
func (d *display) counters(vertices []record.VertexSummary, trouble error, now time.Time) {
	text := ""
	if trouble != nil {
		text = trouble.Error()
	}
	switch {
	case text != "" && d.trouble == "":
		d.screen.say("%s %s", now.Format(time.TimeOnly), text)
	case text == "" && d.trouble != "":
		d.screen.say("%s the fleet answers again", now.Format(time.TimeOnly))
	}
	d.trouble = text
	if len(vertices) > 0 {
		d.count(vertices, now)
	}
	switch {
	case d.screen.live():
		d.tick(now)
	case len(vertices) > 0 && d.running():
		for _, line := range d.pipelines() {
			d.screen.say("%s %s", now.Format(time.TimeOnly), line)
		}
	}
}

// count sums what the sources gave out. An attempt that begins anew counts from zero.
func (d *display) count(vertices []record.VertexSummary, now time.Time) {
	sums := map[plan.PipelineID]progress{}
	for _, v := range vertices {
		if v.RowsIn == 0 { // a source, or nothing came there yet
			s := sums[v.Pipeline]
			sums[v.Pipeline] = progress{rows: s.rows + v.RowsOut, bytes: s.bytes + v.BytesOut}
		}
	}
	for p, n := range sums {
		n.at, n.rate = now, -1
		if old, ok := d.counts[p]; ok {
			since := now.Sub(old.at)
			switch {
			case n.rows > old.rows && since > 0:
				n.rate = float64(n.rows-old.rows) / since.Seconds()
			case n.rows == old.rows && since < stale:
				n.at, n.rate = old.at, old.rate
			case n.rows == old.rows:
				n.at, n.rate = old.at, 0
			}
		}
		d.counts[p] = n
	}
}

// pipelines are the lines of the job's pipelines.
func (d *display) pipelines() []string {
	ids := slices.Sorted(maps.Keys(d.last.Status.Pipelines))
	out := make([]string, len(ids))
	for i, id := range ids {
		p := d.last.Status.Pipelines[id]
		parts := []string{fmt.Sprintf("pipeline %d %s", id, p.Phase)}
		if p.Attempt > 1 {
			parts = append(parts, fmt.Sprintf("attempt %d", p.Attempt))
		}
		if n, ok := d.counts[id]; ok {
			parts = append(parts, units.FormatCount(n.rows)+" rows", units.FormatBytes(n.bytes))
			if n.rate >= 0 {
				parts = append(parts, units.FormatCount(int64(n.rate))+" rows/s")
			}
		}
		out[i] = strings.Join(parts, ", ")
	}
	return out
}
