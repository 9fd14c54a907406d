package keeper

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

const (
	deploying = state.PipelineDeploying
	running   = state.PipelineRunning
	closing   = state.PipelineClosing
	stopped_  = state.PipelineStopped
)

func words(actions []Action) string {
	var out []string
	for _, a := range actions {
		switch a := a.(type) {
		case Build:
			out = append(out, fmt.Sprintf("build %d", a.Assignment.Attempt))
		case Stop:
			out = append(out, fmt.Sprintf("stop %d", a.Attempt))
		case Release:
			out = append(out, fmt.Sprintf("release %d", a.Attempt))
		case Start:
			out = append(out, fmt.Sprintf("start next=%d", a.Next))
		case Barrier:
			out = append(out, fmt.Sprintf("barrier %d", a.Barrier.ID))
		case Abort:
			out = append(out, fmt.Sprintf("abort %d", a.N))
		case Ack:
			out = append(out, fmt.Sprintf("ack %d@%d", a.N, a.Rev))
		case Commit:
			out = append(out, fmt.Sprintf("commit %d", a.N))
		case Mark:
			out = append(out, fmt.Sprintf("mark %d@%d", a.N, a.Rev))
		case Upstream:
			out = append(out, fmt.Sprintf("upstream %d", a.N))
		case Replay:
			out = append(out, fmt.Sprintf("replay %d skip=%v", a.N, a.Skip))
		case Abandon:
			out = append(out, fmt.Sprintf("abandon keep=%d", a.Keep))
		}
	}
	return strings.Join(out, ", ")
}

// run is a state under test; the revision of the word counts up by itself.
type run struct {
	t    *testing.T
	s    State
	rev  int64
	word record.Word
}

func newRun(t *testing.T) *run {
	return &run{t: t, s: State{Worker: "w", Incarnation: 7, Pipeline: 1}}
}

func (r *run) step(e Event, want string) {
	r.t.Helper()
	var actions []Action
	r.s, actions = Step(r.s, e)
	if got := words(actions); got != want {
		r.t.Errorf("%T%+v\n got %q\nwant %q", e, e, got, want)
	}
}

// see changes the word and shows it.
func (r *run) see(want string, f func(w *record.Word)) {
	r.t.Helper()
	f(&r.word)
	r.rev++
	w := r.word
	r.step(Word{&w, r.rev}, want)
}

func assignment(a plan.Attempt, scope record.Scope, committers ...plan.VertexID) *record.Assignment {
	return &record.Assignment{Incarnation: 7, Attempt: a, Scope: scope, Committers: committers}
}

// up brings attempt 1 to running.
func up(t *testing.T, committers ...plan.VertexID) *run {
	r := newRun(t)
	r.step(Assignment{Value: assignment(1, record.ScopeAll, committers...)}, "")
	r.see("build 1", func(w *record.Word) {
		w.Attempt, w.Scope, w.Phase, w.Abandoned = 1, record.ScopeAll, deploying, true
	})
	r.step(Built{Attempt: 1}, "")
	r.see("start next=1", func(w *record.Word) { w.Phase = running })
	return r
}

func open(n plan.CheckpointID) func(w *record.Word) {
	return func(w *record.Word) {
		w.Barrier = record.Barrier{ID: n, Kind: checkpoint.Final, State: record.BarrierOpen}
	}
}

func complete(n plan.CheckpointID) func(w *record.Word) {
	return func(w *record.Word) {
		w.Barrier = record.Barrier{ID: n, Kind: checkpoint.Final, State: record.BarrierComplete}
		w.Completed = n
	}
}

func TestLifeOfAnAttempt(t *testing.T) {
	r := up(t)
	r.see("barrier 1", open(1))
	r.step(Snapped{1, 1}, "ack 1@3")
	r.step(Acked{1, 1, 2}, "")
	r.see("commit 1", complete(1))
	r.step(Committed{1, 1}, "mark 1@4")
	r.see("upstream 1", func(w *record.Word) { w.Committed = 1 })
	r.see("stop 1, release 1", func(w *record.Word) { w.Phase, w.Outcome = stopped_, record.Finished })
	if got := Report(r.s); got.Stopped != 0 || got.State != state.TaskPrepareClose {
		t.Errorf("before the tasks ended: %+v", got)
	}
	r.step(Ended{Attempt: 1}, "")
	if got := Report(r.s); got.Stopped != 1 || got.State != state.TaskFinished {
		t.Errorf("at the end: %+v", got)
	}
	if r.s.Over() {
		t.Error("over although the assignment is there")
	}
	r.step(Assignment{}, "")
	if !r.s.Over() {
		t.Error("not over")
	}
}

// TestDifferences: from running with barrier 1 handed on, every word that may be seen next, whatever was skipped.
func TestDifferences(t *testing.T) {
	f := func(name, want string, change func(w *record.Word)) {
		t.Run(name, func(t *testing.T) {
			r := up(t, "sink")
			r.see("barrier 1", open(1))
			r.step(Snapped{1, 1}, "ack 1@3")
			r.step(Acked{1, 1, 2}, "")
			r.see(want, change)
		})
	}
	none := func(*record.Word) {}
	f("nothing new", "", none)
	f("rewritten", "", func(w *record.Word) { w.Message = "x" })
	f("complete", "commit 1", complete(1))
	f("complete and committed", "commit 1, upstream 1", func(w *record.Word) { complete(1)(w); w.Committed = 1 })
	f("aborted", "abort 1", func(w *record.Word) { w.Barrier.State = record.BarrierAborted })
	f("aborted, next open", "abort 1, barrier 2", open(2))
	f("aborted twice, third open", "abort 2, barrier 3", open(3))
	f("complete, next open", "commit 1, barrier 2", func(w *record.Word) { complete(1)(w); open(2)(w) })
	f("complete, committed, second aborted, third open", "commit 1, upstream 1, abort 2, barrier 3",
		func(w *record.Word) { complete(1)(w); w.Committed = 1; open(3)(w) })
	f("next one complete", "commit 2", complete(2))
	f("next attempt", "stop 1, release 1", func(w *record.Word) { w.Attempt, w.Phase = 2, deploying })
	f("next attempt, first completed", "stop 1, release 1", func(w *record.Word) {
		complete(1)(w)
		w.Attempt, w.Phase, w.Restore = 2, deploying, 1
	})
	f("closing", "stop 1, release 1", func(w *record.Word) {
		w.Attempt, w.Phase, w.Scope, w.Barrier.State = 2, closing, record.ScopeCommitters, record.BarrierAborted
	})
	f("stopped", "stop 1, release 1", func(w *record.Word) { w.Phase, w.Outcome = stopped_, record.Cancelled })
	f("stopped with a commit owed", "stop 1, release 1", func(w *record.Word) { complete(1)(w); w.Phase = stopped_ })
	f("far ahead", "stop 1, release 1", func(w *record.Word) { complete(9)(w); w.Attempt, w.Phase = 5, running })
}

func TestWordDeleted(t *testing.T) {
	r := up(t)
	r.step(Word{nil, 9}, "stop 1, release 1")
	r.step(Ended{Attempt: 1}, "")
	r.step(Assignment{}, "")
	if !r.s.Over() {
		t.Error("not over")
	}
}

func TestOnlyOnceAndInOrder(t *testing.T) {
	r := newRun(t)
	foreign := assignment(1, record.ScopeAll)
	foreign.Incarnation = 6
	r.see("", func(w *record.Word) { w.Attempt, w.Phase = 1, deploying })
	r.step(Assignment{Value: foreign}, "")
	if Report(r.s) != nil {
		t.Error("a status for a foreign assignment")
	}
	r.step(Assignment{Value: assignment(1, record.ScopeAll)}, "build 1")
	r.step(Assignment{Value: assignment(1, record.ScopeAll)}, "")
	r.see("stop 1, release 1", func(w *record.Word) { w.Attempt = 2 })
	r.step(Assignment{Value: assignment(2, record.ScopeAll)}, "")
	r.step(Built{Attempt: 1}, "")
	if got := Report(r.s); got.Stopped != 0 {
		t.Errorf("stopped before the end: %+v", got)
	}
	r.step(Ended{Attempt: 1}, "build 2")
	if got := Report(r.s); got.Stopped != 1 || got.Attempt != 2 || got.State != state.TaskInit {
		t.Errorf("building: %+v", got)
	}
	r.step(Failed{Attempt: 1, Failure: record.Failure{Message: "late"}}, "")
	r.step(Built{Attempt: 2}, "")
	if got := Report(r.s); got.State != state.TaskReady || got.Stopped != 1 {
		t.Errorf("ready: %+v", got)
	}
	// An older read of the word changes nothing.
	r.step(Word{&record.Word{Attempt: 1, Phase: running}, r.rev - 1}, "")
}

func TestFailureKeepsLinks(t *testing.T) {
	r := up(t)
	r.step(Failed{Attempt: 1, Failure: record.Failure{Message: "first"}}, "stop 1")
	r.step(Failed{Attempt: 1, Failure: record.Failure{Message: "second"}, Link: "w2"}, "")
	r.step(Ended{Attempt: 1}, "")
	got := Report(r.s)
	if got.State != state.TaskFailed || got.Failure.Message != "first" || got.Stopped != 1 || len(got.Links) != 1 {
		t.Errorf("status %+v", got)
	}
	r.see("release 1", func(w *record.Word) { w.Attempt, w.Phase = 2, deploying })
}

func TestBuildFails(t *testing.T) {
	r := newRun(t)
	r.see("", func(w *record.Word) { w.Attempt, w.Phase = 1, deploying })
	r.step(Assignment{Value: assignment(1, record.ScopeAll)}, "build 1")
	r.step(Built{Attempt: 1, Failure: &record.Failure{Message: "no"}}, "stop 1")
	r.step(Ended{Attempt: 1}, "")
	if got := Report(r.s); got.State != state.TaskFailed || got.Stopped != 1 {
		t.Errorf("status %+v", got)
	}
}

func TestReplayThenStart(t *testing.T) {
	r := newRun(t)
	r.step(Assignment{Value: assignment(3, record.ScopeAll, "sink")}, "")
	r.see("build 3", func(w *record.Word) {
		w.Attempt, w.Phase, w.Completed, w.Restore = 3, deploying, 4, 4
		w.Barrier = record.Barrier{ID: 6, State: record.BarrierAborted}
		w.Skip = []plan.VertexID{"other"}
		w.Holders = []record.Holder{{Worker: "x", Waiting: true}}
	})
	r.step(Built{Attempt: 3, Aggregated: true}, "")
	r.see("replay 4 skip=[other]", func(w *record.Word) { w.Phase = running })
	r.step(Replayed{3, 4}, "mark 4@2")
	r.see("start next=7", func(w *record.Word) { w.Committed = 4 })
	r.see("barrier 7", open(7))
	r.see("abandon keep=4", func(w *record.Word) { w.Holders = nil })
	r.step(Abandoned{3, []string{"tx9"}}, "")
	if got := Report(r.s); !got.Abandoned || got.Left[0] != "tx9" {
		t.Errorf("status %+v", got)
	}
	// An aggregated committer commits and marks also where nothing was prepared here.
	r.step(Snapped{3, 7}, "ack 7@5")
	r.step(Acked{3, 7, 0}, "")
	r.see("commit 7", complete(7))
	r.step(Committed{3, 7}, "mark 7@6")
}

func TestClosing(t *testing.T) {
	r := newRun(t)
	r.step(Assignment{Value: assignment(2, record.ScopeCommitters, "sink")}, "")
	r.see("build 2", func(w *record.Word) {
		w.Attempt, w.Phase, w.Scope, w.Completed, w.Restore = 2, closing, record.ScopeCommitters, 1, 1
		w.Holders = []record.Holder{{Worker: "w"}}
	})
	r.step(Built{Attempt: 2}, "")
	r.see("replay 1 skip=[]", func(w *record.Word) { w.Holders[0].Waiting = true })
	r.step(Replayed{2, 1}, "mark 1@2")
	r.see("", func(w *record.Word) { w.Committed = 1 })
	r.see("abandon keep=1", func(w *record.Word) { w.Holders = nil })
	r.see("stop 2, release 2", func(w *record.Word) { w.Phase, w.Outcome = stopped_, record.Cancelled })
	r.step(Ended{Attempt: 2}, "")
	if got := Report(r.s); got.State != state.TaskCancelled || got.Stopped != 2 {
		t.Errorf("status %+v", got)
	}
}

// TestCountersOutliveClosing: the attempt that only commits has no rows of its own to tell of.
func TestCountersOutliveClosing(t *testing.T) {
	r := up(t, "sink")
	r.see("stop 1, release 1", func(w *record.Word) {
		w.Attempt, w.Phase, w.Scope, w.Abandoned = 2, closing, record.ScopeCommitters, false
	})
	r.step(Ended{Attempt: 1, Final: []record.VertexCount{{Vertex: "v"}}}, "")
	r.step(Assignment{Value: assignment(2, record.ScopeCommitters, "sink")}, "build 2")
	r.step(Built{Attempt: 2}, "abandon keep=0")
	r.see("stop 2, release 2", func(w *record.Word) { w.Phase = stopped_ })
	r.step(Ended{Attempt: 2}, "")
	if got := Report(r.s); got.Attempt != 2 || got.Stopped != 2 || len(got.Final) != 1 {
		t.Errorf("status %+v", got)
	}
}

func TestLeave(t *testing.T) {
	r := up(t)
	r.step(Leave{}, "stop 1, release 1")
	r.step(Ended{Attempt: 1}, "")
	r.step(Assignment{Value: assignment(2, record.ScopeAll)}, "")
	r.see("", func(w *record.Word) { w.Attempt, w.Phase = 2, deploying })
	if got := Report(r.s); got.Stopped != 1 {
		t.Errorf("status %+v", got)
	}
}

// TestPure: Step leaves the state it was given as it was.
func TestPure(t *testing.T) {
	r := up(t)
	before := *r.s.Part
	Step(r.s, Failed{Attempt: 1, Failure: record.Failure{Message: "x"}, Link: "w2"})
	if !reflect.DeepEqual(before, *r.s.Part) {
		t.Errorf("%+v became %+v", before, *r.s.Part)
	}
}

// TestAssignedAgain: a new host of the same incarnation neither builds an attempt that has stopped here nor reports
// over what the first one did.
func TestAssignedAgain(t *testing.T) {
	r := newRun(t)
	r.s.Unread = true
	r.see("", func(w *record.Word) { w.Attempt, w.Phase = 1, running })
	r.step(Assignment{Value: assignment(1, record.ScopeAll)}, "")
	if got := Report(r.s); got != nil {
		t.Errorf("before the look: %+v", got)
	}
	r.step(Found{&record.TaskStatus{Incarnation: 7, Attempt: 1, Stopped: 1}}, "")
	if got := Report(r.s); got != nil {
		t.Errorf("stopped here before: %+v", got)
	}
	r.see("", func(w *record.Word) { w.Attempt, w.Phase = 2, deploying })
	r.step(Assignment{Value: assignment(2, record.ScopeAll)}, "build 2")

	other := newRun(t)
	other.s.Unread = true
	other.step(Assignment{Value: assignment(1, record.ScopeAll)}, "")
	other.see("", func(w *record.Word) { w.Attempt, w.Phase = 1, deploying })
	other.step(Found{&record.TaskStatus{Incarnation: 6, Stopped: 1}}, "build 1")
}
