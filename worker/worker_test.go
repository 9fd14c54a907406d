package worker

import (
	"testing"

	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan/state"
	"strait/worker/task/tasktest"
)

// TestBoundedJob: READY, run, drained, final barrier, ack, complete, commit, stopped, cleaned.
func TestBoundedJob(t *testing.T) {
	for _, sink := range []string{"TestSink", "TestTwoPhase", "TestAggregating"} {
		t.Run(sink, func(t *testing.T) {
			world := tasktest.New(t, 5, 20)
			f := newFleet(t, tasktest.Plan(t, chain(2, "TestSource", sink)))
			w := f.start("w1", nil)
			f.run(1, w)
			f.status("w1", "drained", func(s *record.TaskStatus) bool { return s.Drained && s.Attempt == 1 })
			allOnce(t, "written", world.Written(), 100)
			n := f.trigger()
			prepared := f.complete(n, w)
			if sink != "TestSink" {
				if prepared != 2 {
					t.Errorf("%d prepared, want 2", prepared)
				}
				f.ack("w1", "committed", func(a *record.Ack) bool { return a.Committed == n && a.Prepared == 2 && a.Checkpoint == n })
				allOnce(t, "visible", world.Visible(), 100)
			}
			f.finish(record.Finished)
			s := f.status("w1", "finished", isState(state.TaskFinished, 1))
			if s.Stopped != 1 || len(s.Final) != 2 || s.Final[0].RowsOut != 100 || s.Final[1].RowsIn != 100 {
				t.Errorf("status %+v", s)
			}
			if o, c := world.Writers(); o != 2 || c != 2 {
				t.Errorf("%d writers opened, %d closed", o, c)
			}
			kvtest.Delete(t, f.etcd.Store, f.tree.Task("w1", f.job, 1))
			if err := w.end(t); err != nil {
				t.Error(err)
			}
			f.await("the key to be gone", f.tree.Worker("w1"), func(e kv.Entry) bool { return !e.Exists() })
		})
	}
}

// TestTwoWorkers: rows cross between workers over TCP.
func TestTwoWorkers(t *testing.T) {
	world := tasktest.New(t, 8, 500)
	f := newFleet(t, tasktest.Plan(t, chain(2, "TestSource"), chain(4, "TestEven", "TestTwoPhase")))
	a, b := f.start("w1", nil), f.start("w2", nil)
	f.run(1, a, b)
	for _, w := range []string{"w1", "w2"} {
		f.status(w, "drained", func(s *record.TaskStatus) bool { return s.Drained })
	}
	n := f.trigger()
	if p := f.complete(n, a, b); p != 4 {
		t.Errorf("%d prepared, want 4", p)
	}
	for _, w := range []string{"w1", "w2"} {
		f.ack(w, "committed", func(a *record.Ack) bool { return a.Committed == n })
	}
	if got := world.Visible(); len(got) != 2000 {
		t.Errorf("%d rows are visible, want 2000", len(got))
	}
	f.finish(record.Finished)
	for _, w := range []string{"w1", "w2"} {
		f.status(w, "finished", isState(state.TaskFinished, 1))
	}
}
