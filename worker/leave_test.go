package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan/state"
	"strait/worker/task/tasktest"
)

func leaving(e kv.Entry) bool {
	w, err := record.Decode[record.Worker](e.Value)
	return err == nil && w.Leaving
}

// endless is a worker that runs attempt 1 of a job without an end.
func endless(t *testing.T, change func(*Config)) (*fleet, *running) {
	world := tasktest.New(t, 1, 10)
	world.Unbounded = true
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase")))
	w := f.start("w1", change)
	f.run(1, w)
	f.status("w1", "running", isState(state.TaskRunning, 1))
	return f, w
}

// TestHandOver: asked to end, a worker says so and goes on until the leader has taken what runs there elsewhere.
func TestHandOver(t *testing.T) {
	f, w := endless(t, func(c *Config) { c.StopTimeout = 2 * kvtest.Limit })
	f.put(f.tree.Leader()+"1", &record.Leader{Header: record.Head, Name: "c1"})
	key := f.tree.Worker("w1")
	inc := w.Incarnation()
	w.stop()
	e := f.await("it says that it leaves", key, leaving)
	if e.CreateRev != inc || e.Lease == 0 {
		t.Errorf("another incarnation, or no lease: %+v", e)
	}
	if s := f.status("w1", "still there", isState(state.TaskRunning, 1)); s.Stopped != 0 {
		t.Errorf("it stopped before anybody took over: %+v", s)
	}
	// Attempt 2 is for others.
	f.change(func(w *record.Word) { w.Attempt, w.Phase = 2, state.PipelineDeploying })
	if s := f.status("w1", "stopped", ended(1)); s.Failure != nil || s.State != state.TaskCancelled {
		t.Errorf("status %+v", s)
	}
	kvtest.Delete(t, f.etcd.Store, f.tree.Task("w1", f.job, 1))
	if err := w.end(t); err != nil {
		t.Error(err)
	}
	f.await("its name is free", key, func(e kv.Entry) bool { return !e.Exists() })
}

// TestHandOverToNobody: where nobody leads nobody is asked, and where nobody takes over in time the tasks end here, in
// order and within the stop timeout.
func TestHandOverToNobody(t *testing.T) {
	for _, c := range []struct {
		name   string
		leader bool
		within time.Duration
	}{{"nobody leads", false, kvtest.Limit}, {"nobody takes over", true, 200 * time.Millisecond}, {"not wanted", true, -1}} {
		t.Run(c.name, func(t *testing.T) {
			f, w := endless(t, func(cfg *Config) { cfg.StopTimeout, cfg.HandOver = 2*kvtest.Limit, c.within })
			if c.leader {
				f.put(f.tree.Leader()+"1", &record.Leader{Header: record.Head, Name: "c1"})
			}
			if err := w.end(t); err != nil {
				t.Error(err)
			}
			if s := f.status("w1", "stopped", ended(1)); s.Failure != nil || s.State != state.TaskCancelled {
				t.Errorf("status %+v", s)
			}
			f.await("its name is free", f.tree.Worker("w1"), func(e kv.Entry) bool { return !e.Exists() })
		})
	}
}

// TestIdleLeaves: a worker without work has nothing to hand over.
func TestIdleLeaves(t *testing.T) {
	tasktest.New(t, 1, 10)
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	f.put(f.tree.Leader()+"1", &record.Leader{Header: record.Head, Name: "c1"})
	w := f.start("w1", func(c *Config) { c.StopTimeout, c.HandOver = 2*kvtest.Limit, kvtest.Limit })
	if err := w.end(t); err != nil {
		t.Error(err)
	}
	f.await("its name is free", f.tree.Worker("w1"), func(e kv.Entry) bool { return !e.Exists() })
}

// TestForeignProtocol: an assignment of a protocol that this build does not speak is refused, and the status says why.
func TestForeignProtocol(t *testing.T) {
	tasktest.New(t, 1, 10)
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w := f.start("w1", nil)
	f.change(func(w *record.Word) { w.Attempt, w.Phase, w.Scope = 1, state.PipelineDeploying, record.ScopeAll })
	pl := tasktest.Place(f.plan, 1, "w1")
	pl.Workers["w1"] = record.PlacedWorker{Incarnation: w.Incarnation()}
	f.put(f.tree.Placement(f.job, 1), pl)
	a := tasktest.Assign(pl, "w1", w.Incarnation())
	a.Protocol = record.Protocol[1] + 1
	f.put(f.tree.Task("w1", f.job, 1), a)
	s := f.status("w1", "refused", isState(state.TaskFailed, 1))
	if s.Failure == nil || !strings.Contains(s.Failure.Message, fmt.Sprintf("the assignment is of protocol %d, this worker", a.Protocol)) {
		t.Errorf("%+v", s.Failure)
	}
}
