package protocol

import (
	"strings"
	"testing"
	"time"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func running(change ...func(*record.Word)) *record.Word {
	w := &record.Word{Attempt: 2, Phase: state.PipelineRunning, Abandoned: true}
	for _, c := range change {
		c(w)
	}
	return w
}

func barrier(id int64, k checkpoint.Kind, s record.BarrierState) func(*record.Word) {
	return func(w *record.Word) { w.Barrier = record.Barrier{ID: plan1(id), Kind: k, State: s, Triggered: t0} }
}

func facts(w *record.Word, change ...func(*Facts)) *Facts {
	f := &Facts{Word: w, Workers: map[string]int64{"w1": 11, "w2": 12}, Acks: map[string]*record.Ack{}, Timeout: time.Minute, Now: t0.Add(time.Second), Opened: t0, Owed: t0}
	if w.Deadline != nil {
		f.Deadline = *w.Deadline
	}
	for _, c := range change {
		c(f)
	}
	return f
}

func ackOf(name string, inc int64, attempt, id, prepared, committed int64) func(*Facts) {
	return func(f *Facts) {
		f.Acks[name] = &record.Ack{Incarnation: inc, Attempt: planA(attempt), Checkpoint: plan1(id), Prepared: int(prepared), Committed: plan1(committed)}
	}
}

func TestDecide(t *testing.T) {
	open := running(barrier(3, checkpoint.Final, record.BarrierOpen))
	bounded := func(f *Facts) { f.Bounded, f.Drained = true, true }
	point := func(k checkpoint.Kind, attempt int64) func(*Facts) {
		return func(f *Facts) { f.Checkpoint = &record.Checkpoint{Kind: k, Attempt: planA(attempt), Started: t0} }
	}
	completed := func(n, m int64) func(*record.Word) {
		return func(w *record.Word) {
			barrier(n, checkpoint.Final, record.BarrierComplete)(w)
			w.Completed, w.Committed = plan1(n), plan1(m)
		}
	}
	late := func(f *Facts) { f.Now = t0.Add(time.Hour) }
	closing := func(w *record.Word) {
		w.Phase, w.Outcome, w.Abandoned = state.PipelineClosing, record.Cancelled, false
		d := t0.Add(time.Minute)
		w.Deadline = &d
	}
	for _, c := range []struct {
		name string
		f    *Facts
		want Act
		why  string
	}{
		{"deploying", facts(&record.Word{Phase: state.PipelineDeploying}, bounded), Wait, ""},
		{"not drained", facts(running(), func(f *Facts) { f.Bounded = true }), Wait, ""},
		{"drained but unbounded", facts(running(), func(f *Facts) { f.Drained = true }), Wait, ""},
		{"drained", facts(running(), bounded), Trigger, ""},
		{"drained, not placed", facts(running(), bounded, func(f *Facts) { f.Workers = nil }), Wait, ""},
		{"no ack", facts(open, bounded), Wait, "waits for w1, w2"},
		{"one ack", facts(open, ackOf("w1", 11, 2, 3, 0, 0)), Wait, "waits for w2"},
		{"all acks", facts(open, ackOf("w1", 11, 2, 3, 0, 0), ackOf("w2", 12, 2, 3, 1, 0)), Complete, ""},
		{"ack of another incarnation", facts(open, ackOf("w1", 11, 2, 3, 0, 0), ackOf("w2", 13, 2, 3, 1, 0)), Wait, "w2"},
		{"ack of an older attempt", facts(open, ackOf("w1", 11, 2, 3, 0, 0), ackOf("w2", 12, 1, 3, 1, 0)), Wait, "w2"},
		{"ack of another barrier", facts(open, ackOf("w1", 11, 2, 3, 0, 0), ackOf("w2", 12, 2, 2, 1, 0)), Wait, "w2"},
		{"too late", facts(open, ackOf("w1", 11, 2, 3, 0, 0), late), Abort, "w2 did not ack within 1m0s"},
		{"too late, but all are there", facts(open, ackOf("w1", 11, 2, 3, 0, 0), ackOf("w2", 12, 2, 3, 1, 0), late), Complete, ""},
		{"no storage", facts(open, func(f *Facts) { f.NoStorage = "disk full" }), Abort, "disk full"},
		{"aborted too often", facts(running(barrier(3, checkpoint.Final, record.BarrierAborted), func(w *record.Word) { w.FailedPoints, w.Message = 3, "slow" }), bounded, func(f *Facts) { f.Tolerated = 2 }), Restart, "3 checkpoints in a row failed; the last: slow"},
		{"aborted, tolerated", facts(running(barrier(3, checkpoint.Final, record.BarrierAborted), func(w *record.Word) { w.FailedPoints = 2 }), bounded, func(f *Facts) { f.Tolerated = 2 }), Trigger, ""},
		{"commits owed", facts(running(completed(3, 0)), point(checkpoint.Final, 2), ackOf("w1", 11, 2, 3, 1, 0), ackOf("w2", 12, 2, 3, 0, 0)), Wait, "w1"},
		{"commits done", facts(running(completed(3, 0)), point(checkpoint.Final, 2), ackOf("w1", 11, 2, 3, 1, 3), ackOf("w2", 12, 2, 3, 0, 0)), RecordCommit, ""},
		{"aggregator owes", facts(running(completed(3, 0)), point(checkpoint.Final, 2), ackOf("w1", 11, 2, 3, 0, 0), ackOf("w2", 12, 2, 3, 0, 0), func(f *Facts) { f.Aggregators = map[string]bool{"w2": true} }), Wait, "w2"},
		{"commits late", facts(running(completed(3, 0)), point(checkpoint.Final, 2), ackOf("w1", 11, 2, 3, 1, 0), late), Restart, "w1 within 1m0s"},
		{"replay owed", facts(running(completed(3, 0)), point(checkpoint.Periodic, 1), func(f *Facts) { f.Replayers = map[string]bool{"w1": true} }), Wait, "w1"},
		{"replay done", facts(running(completed(3, 0)), point(checkpoint.Periodic, 1), ackOf("w1", 11, 2, 0, 0, 3), func(f *Facts) { f.Replayers = map[string]bool{"w1": true} }), RecordCommit, ""},
		{"key gone", facts(running(completed(3, 0))), Wait, "restore it from a backup"},
		{"final committed", facts(running(completed(3, 3)), point(checkpoint.Final, 2)), Stop, ""},
		{"final committed, one is waited out", facts(running(completed(3, 3), func(w *record.Word) { w.Holders = []record.Holder{{Worker: "w9", Incarnation: 4, Waiting: true}} }), point(checkpoint.Final, 2)), Wait, "w9 (incarnation 4) to be waited out"},
		{"final committed, not abandoned", facts(running(completed(3, 3), func(w *record.Word) { w.Abandoned = false }), point(checkpoint.Final, 2)), Wait, "not yet removed"},
		{"periodic committed", facts(running(completed(3, 3)), point(checkpoint.Periodic, 2)), Wait, ""},
		{"periodic committed, drained", facts(running(completed(3, 3)), point(checkpoint.Periodic, 2), bounded), Trigger, ""},
		{"closing, not abandoned", facts(running(closing)), Wait, "not yet removed"},
		{"closing, abandoned", facts(running(closing, func(w *record.Word) { w.Abandoned = true })), Stop, ""},
		{"closing, late", facts(running(closing), late), Stop, "deadline"},
		{"closing, replay owed", facts(running(completed(3, 0), closing, func(w *record.Word) { w.Restore = 3 }), point(checkpoint.Final, 1), func(f *Facts) { f.Replayers = map[string]bool{"w1": true} }), Wait, "w1"},
		{"closing, replay skipped", facts(running(completed(3, 0), closing, func(w *record.Word) { w.Abandoned = true }), point(checkpoint.Final, 1)), Stop, ""},
	} {
		d := Decide(c.f)
		if d.Act != c.want || !strings.Contains(d.Why, c.why) {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, d.Act, d.Why, c.want, c.why)
		}
		if d.Act == Trigger && d.ID != c.f.Word.Barrier.ID+1 {
			t.Errorf("%s: id %d", c.name, d.ID)
		}
		if d.Act == Wait || d.Act == Restart {
			continue
		}
		to := Apply(*c.f.Word, d, c.f.Commits(), c.f.Now)
		if err := CheckMove(c.f.Word, &to); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A closing that ran out of time tells what is left, and does not call unfinished commits finished.
func TestLeft(t *testing.T) {
	d := t0.Add(time.Minute)
	w := running(func(w *record.Word) {
		barrier(3, checkpoint.Final, record.BarrierComplete)(w)
		w.Phase, w.Outcome, w.Completed, w.Restore, w.Abandoned, w.Deadline = state.PipelineClosing, record.Finished, 3, 3, false, &d
		w.Holders = []record.Holder{{Worker: "w1", Incarnation: 11, Attempt: 1}}
	})
	f := facts(w, func(f *Facts) {
		f.Now = t0.Add(time.Hour)
		f.Replayers, f.Checkpoint = map[string]bool{"w1": true}, &record.Checkpoint{Kind: checkpoint.Final, Attempt: 1, Started: t0}
	})
	to := Apply(*w, Decide(f), false, f.Now)
	if to.Phase != state.PipelineStopped || to.Outcome != record.Failed || len(to.Left) != 3 || len(to.Holders) != 0 {
		t.Errorf("%+v", to)
	}
}

func TestResolve(t *testing.T) {
	w := func(completed, committed, barrier int64) *record.Word {
		x := &record.Word{Attempt: 5, Completed: plan1(completed), Committed: plan1(committed)}
		x.Barrier.ID = plan1(barrier)
		return x
	}
	cp := func(k checkpoint.Kind, a int64, st string) *record.Checkpoint {
		return &record.Checkpoint{Kind: k, Attempt: planA(a), State: st}
	}
	for _, c := range []struct {
		name string
		r    Restore
		want Start
		why  string
		out  record.Outcome
	}{
		{"first", Restore{Attempt: 5, Word: w(0, 0, 0)}, Ready, "", ""},
		{"aborted only", Restore{Attempt: 5, Word: w(0, 0, 4)}, Ready, "", ""},
		{"older attempt", Restore{Attempt: 4, Word: w(0, 0, 0)}, Orphan, "attempt 4 is over", ""},
		{"newer attempt", Restore{Attempt: 6, Word: w(0, 0, 0)}, Fail, "older backup", ""},
		{"storage is ahead", Restore{Attempt: 5, Word: w(3, 3, 3), Newest: 4, Checkpoint: cp(checkpoint.Periodic, 1, "live")}, Fail, "storage has a manifest of checkpoint 4", ""},
		{"periodic, committed", Restore{Attempt: 5, Word: w(3, 3, 4), Checkpoint: cp(checkpoint.Periodic, 4, "live")}, Ready, "", ""},
		{"periodic, not committed", Restore{Attempt: 5, Word: w(3, 2, 4), Checkpoint: cp(checkpoint.Periodic, 4, "live")}, Replay, "", ""},
		{"savepoint goes on", Restore{Attempt: 5, Word: w(3, 2, 4), Checkpoint: cp(checkpoint.Savepoint, 4, "live")}, Replay, "", ""},
		{"handover goes on", Restore{Attempt: 5, Word: w(3, 3, 3), Checkpoint: cp(checkpoint.Handover, 4, "live")}, Ready, "", ""},
		{"final", Restore{Attempt: 5, Word: w(3, 0, 3), Checkpoint: cp(checkpoint.Final, 4, "live")}, ReplayOnly, "", record.Finished},
		{"final, committed", Restore{Attempt: 5, Word: w(3, 3, 3), Checkpoint: cp(checkpoint.Final, 4, "live")}, ReplayOnly, "", record.Finished},
		{"stop", Restore{Attempt: 5, Word: w(3, 0, 3), Checkpoint: cp(checkpoint.Stop, 4, "live")}, ReplayOnly, "", record.SavepointDone},
		{"key gone", Restore{Attempt: 5, Word: w(3, 0, 3)}, Fail, "its key is gone", ""},
		{"being deleted", Restore{Attempt: 5, Word: w(3, 3, 3), Checkpoint: cp(checkpoint.Periodic, 4, "deleting")}, Fail, "being deleted", ""},
		{"of the future", Restore{Attempt: 5, Word: w(3, 3, 3), Checkpoint: cp(checkpoint.Periodic, 6, "live")}, Fail, "older backup", ""},
		{"changed by hand", Restore{Attempt: 5, Word: w(3, 4, 3), Checkpoint: cp(checkpoint.Periodic, 4, "live")}, Fail, "by hand", ""},
	} {
		got := Resolve(c.r)
		if got.Start != c.want || !strings.Contains(got.Why, c.why) || got.Outcome != c.out {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got.Start <= ReplayOnly && got.Point != c.r.Word.Completed {
			t.Errorf("%s: a completed checkpoint is passed over: %+v", c.name, got)
		}
	}
}

func TestCheckMove(t *testing.T) {
	ok := func(name string, from *record.Word, change func(*record.Word), legal bool) {
		t.Helper()
		to := *from
		change(&to)
		if err := CheckMove(from, &to); (err == nil) != legal {
			t.Errorf("%s: %v", name, err)
		}
	}
	open := running(barrier(3, checkpoint.Periodic, record.BarrierOpen))
	raise := func(w *record.Word) { w.Attempt, w.Phase = w.Attempt+1, state.PipelineDeploying }
	ok("nothing", open, func(*record.Word) {}, true)
	ok("attempt+1 keeps the barrier open", open, raise, false)
	ok("attempt+1 aborts it", open, func(w *record.Word) { raise(w); w.Barrier.State = record.BarrierAborted }, true)
	ok("attempt+2", running(), func(w *record.Word) { raise(w); w.Attempt++ }, false)
	ok("attempt-1", running(), func(w *record.Word) { w.Attempt-- }, false)
	ok("restart in place", running(), func(w *record.Word) { w.Phase = state.PipelineDeploying }, false)
	ok("closing in place", running(), func(w *record.Word) { w.Phase = state.PipelineClosing }, false)
	ok("id back", open, func(w *record.Word) { w.Barrier.ID-- }, false)
	ok("id over an open one", open, func(w *record.Word) { w.Barrier.ID++ }, false)
	ok("id skips", running(), func(w *record.Word) { barrier(2, checkpoint.Final, record.BarrierOpen)(w) }, false)
	ok("trigger", running(), func(w *record.Word) { barrier(1, checkpoint.Final, record.BarrierOpen)(w) }, true)
	ok("trigger before committed", running(barrier(1, checkpoint.Periodic, record.BarrierComplete), func(w *record.Word) { w.Completed = 1 }), func(w *record.Word) { barrier(2, checkpoint.Final, record.BarrierOpen)(w) }, false)
	ok("reopen", running(barrier(1, checkpoint.Final, record.BarrierAborted)), func(w *record.Word) { w.Barrier.State = record.BarrierOpen }, false)
	ok("complete what is aborted", running(barrier(1, checkpoint.Final, record.BarrierAborted)), func(w *record.Word) { w.Completed = 1 }, false)
	ok("complete and attempt+1 at once", open, func(w *record.Word) {
		w.Completed, w.Barrier.State = 3, record.BarrierComplete
		raise(w)
		w.Restore = 3
	}, false)
	ok("committed before completed", open, func(w *record.Word) { w.Committed = 3 }, false)
	ok("fall back", running(barrier(2, checkpoint.Periodic, record.BarrierComplete), func(w *record.Word) { w.Completed, w.Committed = 2, 2 }), func(w *record.Word) { raise(w); w.Restore = 1 }, false)
	ok("run beside an older attempt", &record.Word{Attempt: 2, Phase: state.PipelineDeploying, Holders: []record.Holder{{Worker: "w1"}}}, func(w *record.Word) { w.Phase = state.PipelineRunning }, false)
	ok("run while one is waited out", &record.Word{Attempt: 2, Phase: state.PipelineDeploying, Holders: []record.Holder{{Worker: "w1", Waiting: true}}}, func(w *record.Word) { w.Phase = state.PipelineRunning }, true)
	ok("leave stopped", &record.Word{Attempt: 2, Phase: state.PipelineStopped, Outcome: record.Finished}, raise, false)
	ok("stop without an outcome", running(), func(w *record.Word) { w.Phase = state.PipelineStopped }, false)
	if CheckMove(nil, &record.Word{Attempt: 1, Phase: state.PipelineDeploying}) != nil || CheckMove(nil, running()) == nil {
		t.Error("the first word")
	}
}

func plan1(n int64) plan.CheckpointID { return plan.CheckpointID(n) }
func planA(n int64) plan.Attempt      { return plan.Attempt(n) }
