package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// ended is what is said of a job at its end: --output json prints it as it is.
type ended struct {
	ID       plan.JobID             `json:"id"`
	Name     string                 `json:"name,omitempty"`
	Phase    state.Job              `json:"phase"`
	Reason   string                 `json:"reason,omitempty"`
	Message  string                 `json:"message,omitempty"`
	Seconds  float64                `json:"seconds"` // from its start to its end
	Vertices []record.VertexSummary `json:"vertices,omitempty"`
	Failures []record.Failure       `json:"failures,omitempty"`
	Left     []string               `json:"left,omitempty"`
}

// endOf is what a status says of a job, whether it has ended or not.
func endOf(id plan.JobID, name string, st *record.JobStatus) ended {
	e := ended{ID: id, Name: name, Phase: st.Phase, Reason: st.Reason, Message: st.Message, Failures: st.Failures}
	from := st.Submitted
	if st.Started != nil {
		from = *st.Started
	}
	if st.Finished != nil {
		e.Seconds = st.Finished.Sub(from).Seconds()
	}
	return e
}

// tellEnd prints the end of a job (table and message, or JSON) and returns its outcome.
func tellEnd(ctx context.Context, cl *client.Client, id plan.JobID, form string, stdout, stderr io.Writer) error {
	d, err := cl.Describe(ctx, id)
	if err != nil {
		return err
	}
	if d.Status == nil {
		return failf("job %s has no status", id)
	}
	st := d.Status
	e := endOf(id, d.Name(), st)
	took := time.Duration(e.Seconds * float64(time.Second))
	if d.History != nil {
		e.Vertices, e.Left = d.History.Vertices, d.History.Left
	}
	if form == "json" {
		if err := writeJSON(stdout, e); err != nil {
			return err
		}
		return ofPhase(st.Phase, st.Reason)
	}
	if len(e.Vertices) > 0 {
		if err := summary(stderr, e.Vertices, took); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("job %s (%s) %s in %s", id, e.Name, st.Phase, round(took))
	if st.Message != "" {
		text += ": " + strings.TrimPrefix(st.Message, fmt.Sprintf("job %s, ", id)) // which is said already
	}
	fmt.Fprintln(stderr, text)
	for _, l := range e.Left {
		fmt.Fprintf(stderr, "left behind: %s\n", l)
	}
	return ofPhase(st.Phase, st.Reason)
}
