package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"strait/kv/record"
	"strait/plan/units"
)

// writeJSON prints a value for --output json: one indented object.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows in aligned columns; the first row is the heading.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		if _, err := fmt.Fprintln(tw, strings.Join(r, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// summary prints what each vertex did: rows and bytes in and out, rows a second over the job's run.
func summary(w io.Writer, vertices []record.VertexSummary, elapsed time.Duration) error {
	rows := [][]string{{"PIPELINE", "VERTEX", "SUBTASKS", "ROWS IN", "ROWS OUT", "BYTES IN", "BYTES OUT", "ROWS/S"}}
	for _, v := range vertices {
		rows = append(rows, []string{
			fmt.Sprint(v.Pipeline), vertexLabel(v), fmt.Sprint(v.Parallelism),
			units.FormatCount(v.RowsIn), units.FormatCount(v.RowsOut),
			units.FormatBytes(v.BytesIn), units.FormatBytes(v.BytesOut),
			rate(max(v.RowsIn, v.RowsOut), elapsed),
		})
	}
	return table(w, rows)
}

func vertexLabel(v record.VertexSummary) string {
	if strings.Contains(string(v.Vertex), v.Plugin) {
		return string(v.Vertex)
	}
	return fmt.Sprintf("%s (%s)", v.Vertex, v.Plugin)
}

func rate(rows int64, d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return units.FormatCount(int64(float64(rows) / d.Seconds()))
}

// round shortens a duration for people.
func round(d time.Duration) time.Duration {
	switch {
	case d > time.Minute:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
