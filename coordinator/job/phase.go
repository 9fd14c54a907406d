package job

import (
	"fmt"
	"slices"
	"strings"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// onward is the way of a job that meets no obstacle.
var onward = map[state.Job]state.Job{
	state.JobSubmitted: state.JobPlanned,
	state.JobPlanned:   state.JobPending,
	state.JobPending:   state.JobScheduled,
	state.JobScheduled: state.JobRunning,
	state.JobRunning:   state.JobClosing,
}

// move takes the job to a phase, over the phases in between where one write stands for several. Every step of it is
// one of the table of legal moves.
func (x *stepper) move(to state.Job) {
	for range len(onward) + 1 {
		if x.st.Phase == to {
			return
		}
		next := to
		if state.Move(x.st.Phase, to) != nil {
			next = onward[x.st.Phase]
		}
		if err := state.Move(x.st.Phase, next); err != nil {
			x.bug(err)
			return
		}
		x.st.Phase = next
		switch {
		case next == state.JobRunning && x.st.Started == nil:
			now := x.now.UTC()
			x.st.Started = &now
			x.tell(nil, false, record.EventRunning, "every pipeline runs")
		case next == state.JobRunning:
			x.tell(nil, false, record.EventRunning, "every pipeline runs again")
		}
	}
}

// phases brings the job's phase and short view of its pipelines in line with the control words.
func (x *stepper) phases() {
	x.summarise()
	if x.st.Phase == state.JobSubmitted {
		return
	}
	words, deploying, again, ended, closing, clean := 0, 0, 0, 0, 0, 0
	waits := ""
	for _, p := range x.pipes {
		if p.word == nil {
			continue
		}
		words++
		switch p.word.Phase {
		case state.PipelineDeploying:
			deploying++
			if p.word.Attempt > 1 {
				again++
			}
		case state.PipelineClosing:
			closing++
		case state.PipelineStopped:
			ended++
			if p.clean {
				clean++
			}
		}
		if p.waits != "" && waits == "" {
			waits = fmt.Sprintf("pipeline %d: %s", p.id, p.waits)
		}
	}
	all := words == len(x.pipes)
	outcome, ends := x.ending()
	if !ends && x.st.Phase != state.JobClosing {
		if words == 0 || !all {
			return
		}
		switch {
		case ended+closing == words:
			x.move(state.JobClosing)
		case again > 0:
			x.move(state.JobRestarting)
			x.st.Message = waits
		case deploying == 0:
			x.move(state.JobRunning)
			x.st.Message = waits
		}
	}
	if ends && ended+closing == words {
		x.move(state.JobClosing)
	}
	if x.st.Phase != state.JobClosing {
		return
	}
	if x.st.Reason == "" {
		x.st.Message = waits
	}
	if clean == words {
		x.end(outcome)
	}
}

// summarise is the short form of the control words.
func (x *stepper) summarise() {
	if len(x.pipes) == 0 {
		return
	}
	out := map[plan.PipelineID]record.PipelineStatus{}
	for _, p := range x.pipes {
		if p.word == nil {
			continue
		}
		s := record.PipelineStatus{Phase: p.word.Phase, Attempt: p.word.Attempt, Outcome: p.word.Outcome, Message: p.waits}
		if s.Message == "" {
			s.Message = p.word.Message
		}
		out[p.id] = s
	}
	if len(out) > 0 {
		x.st.Pipelines = out
	}
}

// end writes history and terminal status. What is left of the workers' keys goes with later steps.
func (x *stepper) end(aim record.Outcome) {
	if aim == "" && len(x.pipes) == 0 { // closing, and nothing says of what
		aim = record.Failed
		if x.st.Reason == Cancelled {
			aim = record.Cancelled
		}
	}
	seen := map[record.Outcome]bool{}
	for _, p := range x.pipes {
		switch {
		case p.word != nil:
			seen[p.word.Outcome] = true
		case aim != "":
			seen[aim] = true // never placed
		default:
			seen[record.Cancelled] = true
		}
	}
	if len(x.pipes) == 0 {
		seen[aim] = true
	}
	to := state.JobFinished
	switch {
	case seen[record.Failed]:
		to = state.JobFailed
	case seen[record.Cancelled]:
		to = state.JobCancelled
	case seen[record.SavepointDone]:
		to = state.JobSavepointDone
	}
	if to == state.JobFinished {
		x.st.Reason, x.st.Message = "", ""
	}
	if to == state.JobFailed && x.st.Reason == "" {
		x.st.Reason = PipelineFailed
	}
	for _, p := range x.pipes {
		if to == state.JobFailed && x.st.Message == "" && p.word != nil && p.word.Outcome == record.Failed {
			x.st.Message = x.about(p, p.word.Message)
		}
	}
	x.clear(Draining)
	now := x.now.UTC()
	x.st.Finished = &now
	x.move(to)
	x.log(false, "job has ended", "phase", string(to), "message", x.st.Message)
	x.tellEnd()
	x.events()
	if !x.f.ended(x.st.SpecCreated) {
		var u unit
		u.write(x.c.Tree.History(x.f.ID), x.f.History.ModRev, fit(x.history()))
		x.units = slices.Insert(x.units, 0, u)
	}
}

func (x *stepper) history() *record.History {
	h := &record.History{Header: record.Head, Name: x.st.Name, Phase: x.st.Phase, Reason: x.st.Reason, Message: x.st.Message,
		Submitted: x.st.Submitted, Started: x.st.Started, Finished: *x.st.Finished, Failures: x.st.Failures, Earlier: x.st.Earlier, Events: x.st.Events,
		SpecCreated: x.st.SpecCreated}
	for _, p := range x.pipes {
		if p.word != nil {
			h.Left = append(h.Left, p.word.Left...)
		}
		if p.plan == nil {
			continue
		}
		sums := map[plan.VertexID]*record.Counters{}
		for _, name := range sorted(p.f.Statuses) {
			s := p.f.Statuses[name].Value
			if s == nil {
				continue
			}
			for _, c := range s.Final {
				if sums[c.Vertex] == nil {
					sums[c.Vertex] = &record.Counters{}
				}
				sums[c.Vertex].Add(c.Counters)
			}
			for _, l := range s.Left {
				if !slices.Contains(h.Left, l) {
					h.Left = append(h.Left, l)
				}
			}
		}
		for _, v := range p.plan.Vertices {
			s := record.VertexSummary{Pipeline: p.id, Vertex: v.ID, Plugin: v.Plugin, Parallelism: v.Parallelism}
			if c := sums[v.ID]; c != nil {
				s.Counters = *c
			}
			h.Vertices = append(h.Vertices, s)
		}
	}
	return h
}

// condition sets a condition; its time changes only with what it says. It tells whether that changed.
func (x *stepper) condition(kind, reason, message string) bool {
	c := record.Condition{Type: kind, Status: true, Reason: reason, Message: clip(message, maxNote), Since: x.now.UTC()}
	for i, old := range x.st.Conditions {
		if old.Type != kind {
			continue
		}
		if old.Reason == reason && old.Message == c.Message && old.Status {
			return false
		}
		x.st.Conditions[i] = c
		x.tell(nil, true, eventOf[kind], "%s", message)
		return true
	}
	x.st.Conditions = append(x.st.Conditions, c)
	x.tell(nil, true, eventOf[kind], "%s", message)
	return true
}

// draining says in a condition which drained workers the job waits for.
func (x *stepper) draining() {
	if len(x.drains) == 0 {
		x.clear(Draining)
		return
	}
	slices.Sort(x.drains)
	x.condition(Draining, "WorkerDrained", strings.Join(x.drains, "; "))
}

func (x *stepper) clear(kind string) {
	x.st.Conditions = slices.DeleteFunc(x.st.Conditions, func(c record.Condition) bool { return c.Type == kind })
}

// emit puts everything into one transaction, the status too where it changed.
func (x *stepper) emit() {
	if x.out.Bug != nil {
		x.out.Write = nil
		return
	}
	x.events()
	var last *unit
	x.st.Header = record.Head
	if old := x.f.Status.Value; !same(old, &x.st) {
		data, err := x.encode()
		if err != nil {
			x.bug(err)
			return
		}
		if !same(old, &x.st) { // shortened, it may be
			last = &unit{}
			last.write(x.c.Tree.JobStatus(x.f.ID), x.f.Status.ModRev, data)
		}
	}
	x.out.Write, x.out.Grants = x.pack(last), x.granted
}

// pack makes the transaction of the step. Every one compares the status, changed or not: a write that lands late, after
// the job was deleted, must not bring a key of it back because it finds that key absent.
func (x *stepper) pack(last *unit) *Write {
	w := pack(x.units, last)
	key := x.c.Tree.JobStatus(x.f.ID)
	if w != nil && !slices.ContainsFunc(w.If, func(c Cond) bool { return c.Key == key }) {
		w.If = append(w.If, Cond{Key: key, Rev: x.f.Status.ModRev})
	}
	return w
}

// same says that the status need not be written: it says what the stored one does.
func same(old, st *record.JobStatus) bool {
	return old != nil && string(record.MustEncode(old)) == string(record.MustEncode(st))
}
