package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
	"strait/plan/state"
)

// statusView is `job status --output json`: the status with the task groups of its pipelines.
type statusView struct {
	ID plan.JobID `json:"id"`
	*record.JobStatus
	Groups   []groupView            `json:"groups,omitempty"`
	Vertices []record.VertexSummary `json:"vertices,omitempty"` // counters: live from the leader, final from the history
}

// groupView is one task group: where it runs and how it is.
type groupView struct {
	Group    string          `json:"group"` // pipeline/chain/index
	Vertices []plan.VertexID `json:"vertices"`
	State    state.Task      `json:"state"`
	Worker   string          `json:"worker,omitempty"`
	Slot     int             `json:"slot"` // -1: none
}

func jobStatus(c *cli.Context, ctx context.Context, cl *client.Client, id plan.JobID, form string) error {
	d, groups, err := describe(ctx, cl, id)
	if err != nil {
		return err
	}
	st := statusOf(&d.Job)
	if form == "json" {
		return writeJSON(c.App.Writer, statusView{id, st, groups, counted(ctx, cl, d)})
	}
	writeStatus(c.App.Writer, d, st, groups)
	if vertices := counted(ctx, cl, d); len(vertices) > 0 {
		return summary(c.App.Writer, vertices, lasted(st))
	}
	return nil
}

// statusOf is what there is to show of a job's status, also where no coordinator has seen the job or where this build
// cannot read what one wrote.
func statusOf(j *client.Job) *record.JobStatus {
	if j.Status != nil {
		return j.Status
	}
	st := &record.JobStatus{Header: record.Head, Name: j.Name(), Phase: state.Job(j.Phase()), Submitted: j.Submitted(), Message: j.Problem}
	if st.Message == "" {
		st.Message = "no coordinator has taken the job yet"
	}
	return st
}

// counted are the counters of a job: those of its history, or live ones from the leader; none when neither has any.
func counted(ctx context.Context, cl *client.Client, d *client.Description) []record.VertexSummary {
	if d.History != nil {
		return d.History.Vertices
	}
	leader, err := cl.Leader(ctx)
	if err != nil {
		return nil
	}
	hc := &http.Client{Timeout: askWithin}
	defer hc.CloseIdleConnections()
	return leaderCounters(ctx, hc, leader.Ops, d.ID)
}

// lasted is how long a job has run, or ran.
func lasted(st *record.JobStatus) time.Duration {
	switch {
	case st.Started == nil:
		return 0
	case st.Finished == nil:
		return time.Since(*st.Started)
	}
	return st.Finished.Sub(*st.Started)
}

// describe reads a job with its plan and lists the task groups.
func describe(ctx context.Context, cl *client.Client, id plan.JobID) (*client.Description, []groupView, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	d, err := cl.Describe(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	data, err := cl.Plan(ctx, id)
	if err == nil && data != nil {
		var p *physical.Plan
		if p, err = physical.Decode(data); err == nil {
			return d, groupViews(d, p), nil
		}
	}
	if err != nil && ctx.Err() == nil { // there is more to say than where its groups run
		if d.Problem != "" {
			d.Problem += "; "
		}
		d.Problem += err.Error()
		return d, nil, nil
	}
	return d, nil, err
}

func groupViews(d *client.Description, p *physical.Plan) []groupView {
	var out []groupView
	for i := range d.Pipelines {
		pl := &d.Pipelines[i]
		pp := p.Pipeline(pl.ID)
		if pp == nil || pl.Word == nil {
			continue
		}
		for _, ch := range pp.Chains {
			for index := range ch.Parallelism {
				g := plan.TaskGroup{Pipeline: pl.ID, Chain: ch.ID, Index: index}
				v := groupView{Group: g.String(), Vertices: ch.Vertices, State: state.TaskCreated, Slot: -1}
				if pl.Word.Phase == state.PipelineStopped { // the last attempt may have had committers alone
					v.State = taskAtEnd(pl.Word.Outcome)
				}
				v.Worker = placed(pl, g)
				if v.Worker != "" {
					v.Slot = pl.Slot(v.Worker, g)
					v.State = groupState(pl, v.Worker, g)
				}
				out = append(out, v)
			}
		}
	}
	return out
}

func placed(pl *client.Pipeline, g plan.TaskGroup) string {
	if pl.Placement == nil || pl.Placement.Attempt != pl.Word.Attempt {
		return ""
	}
	for _, c := range pl.Placement.Chains {
		if c.Chain == g.Chain && c.From <= g.Index && g.Index < c.To {
			return c.Worker
		}
	}
	return ""
}

func groupState(pl *client.Pipeline, worker string, g plan.TaskGroup) state.Task {
	t := pl.Tasks[worker]
	if t == nil || t.Attempt != pl.Word.Attempt {
		if pl.Word.Phase == state.PipelineStopped {
			return taskAtEnd(pl.Word.Outcome)
		}
		return state.TaskCreated
	}
	for _, s := range t.Groups {
		if s.Chain == g.Chain && s.From <= g.Index && g.Index < s.To {
			return s.State
		}
	}
	return t.State
}

func taskAtEnd(o record.Outcome) state.Task {
	switch o {
	case record.Finished, record.SavepointDone:
		return state.TaskFinished
	case record.Cancelled:
		return state.TaskCancelled
	}
	return state.TaskFailed
}

func writeStatus(w io.Writer, d *client.Description, st *record.JobStatus, groups []groupView) {
	fmt.Fprintf(w, "job %s (%s)  %s", d.ID, st.Name, st.Phase)
	if st.Message != "" {
		fmt.Fprintf(w, ": %s", st.Message)
	}
	fmt.Fprintf(w, "\n  submitted %s", st.Submitted.Local().Format(time.DateTime))
	if st.Started != nil {
		fmt.Fprintf(w, "  started %s", st.Started.Local().Format(time.DateTime))
	}
	if st.Finished != nil {
		fmt.Fprintf(w, "  ended %s", st.Finished.Local().Format(time.DateTime))
	}
	fmt.Fprintln(w)
	if d.Problem != "" && d.Status != nil {
		fmt.Fprintf(w, "  problem: %s\n", oneLine(d.Problem))
	}
	for _, c := range st.Conditions {
		fmt.Fprintf(w, "  condition %s=%v %s: %s\n", c.Type, c.Status, c.Reason, oneLine(c.Message))
	}
	for i := range d.Pipelines {
		writePipeline(w, &d.Pipelines[i], groups)
	}
}

func writePipeline(w io.Writer, pl *client.Pipeline, groups []groupView) {
	if pl.Word == nil {
		return
	}
	fmt.Fprintf(w, "  pipeline %d  %s", pl.ID, pl.Word.Phase)
	if pl.Word.Outcome != "" {
		fmt.Fprintf(w, " (%s)", pl.Word.Outcome)
	}
	fmt.Fprintf(w, "  attempt %d", pl.Word.Attempt)
	if pl.Word.Completed > 0 {
		fmt.Fprintf(w, "  checkpoint %d", pl.Word.Completed)
	}
	if pl.Word.Message != "" {
		fmt.Fprintf(w, "  %s", pl.Word.Message)
	}
	fmt.Fprintln(w)
	prefix := fmt.Sprintf("%d/", pl.ID)
	for _, g := range groups {
		if !strings.HasPrefix(g.Group, prefix) {
			continue
		}
		names := make([]string, len(g.Vertices))
		for i, v := range g.Vertices {
			names[i] = string(v)
		}
		at := ""
		if g.Worker != "" {
			at = " @ " + g.Worker
			if g.Slot >= 0 {
				at = fmt.Sprintf("%s:%d", at, g.Slot)
			}
		}
		fmt.Fprintf(w, "    %-8s %-14s %s%s\n", g.Group, g.State, strings.Join(names, " → "), at)
	}
}

func describeJob(c *cli.Context, ctx context.Context, cl *client.Client, id plan.JobID, form string) error {
	d, groups, err := describe(ctx, cl, id)
	if err != nil {
		return err
	}
	if form == "json" {
		return writeJSON(c.App.Writer, d)
	}
	return writeDescription(c.App.Writer, d, statusOf(&d.Job), groups, counted(ctx, cl, d), time.Now())
}
