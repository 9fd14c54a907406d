package worker

import (
	"strings"
	"testing"
	"time"

	"strait/checkpoint/storage"
	"strait/kv"
	"strait/kv/record"
	"strait/plan/state"
	"strait/worker/task/tasktest"
)

// remote makes the worker reach etcd through a proxy that the test can harm.
func (f *fleet) remote(name string) (*running, interface {
	Cut()
	Blackhole()
	Heal()
}) {
	f.t.Helper()
	p := f.etcd.Proxy(f.t)
	return f.start(name, func(c *Config) { c.Store = f.etcd.Open(f.t, p.Addr()) }), p
}

// TestStoreAway: Invariant 9, an etcd that is away for less than the lease disturbs nothing; what was to be written
// is written when it is back.
func TestStoreAway(t *testing.T) {
	world := tasktest.New(t, 4, 100)
	f := newFleet(t, tasktest.Plan(t, chain(2, "TestSource", "TestTwoPhase")))
	w, p := f.remote("w1")
	f.run(1, w)
	f.status("w1", "drained", func(s *record.TaskStatus) bool { return s.Drained })
	first := w.Incarnation()
	p.Cut()
	n := f.trigger() // not seen
	time.Sleep(500 * time.Millisecond)
	p.Heal()
	f.complete(n, w)
	f.ack("w1", "committed", func(a *record.Ack) bool { return a.Committed == n })
	allOnce(t, "visible", world.Visible(), 400)
	if w.Incarnation() != first {
		t.Error("a short silence made a new incarnation")
	}
}

// TestLargeState: what does not fit into a key goes to storage, or fails with the remedy.
func TestLargeState(t *testing.T) {
	world := tasktest.New(t, 4, 5000)
	f := newFleet(t, tasktest.Plan(t, chain(2, "TestSource", "TestAggregating")))
	w := f.start("w1", nil)
	f.run(1, w)
	f.status("w1", "drained", func(s *record.TaskStatus) bool { return s.Drained })
	f.trigger()
	s := f.status("w1", "failed", ended(1))
	if !strings.Contains(s.Failure.Message, "no checkpoint storage; give all workers and coordinators one shared folder") {
		t.Errorf("failure %+v", s.Failure)
	}
	files, err := storage.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.end(t); err != nil {
		t.Fatal(err)
	}
	w = f.start("w1", func(c *Config) { c.Storage = files })
	f.run(2, w)
	f.status("w1", "drained", func(s *record.TaskStatus) bool { return s.Drained && s.Attempt == 2 })
	n := f.trigger()
	f.complete(n, w)
	a := f.ack("w1", "committed", func(a *record.Ack) bool { return a.Attempt == 2 && a.Committed == n })
	if a.State.Location == "" || a.State.Inline != nil {
		t.Errorf("state %+v", a.State)
	}
	allOnce(t, "visible", world.Visible(), 20_000)
}

// TestCompactedBehindTheWorker: words and assignments that went by while the worker could not look, and are no
// longer kept, are not missed.
func TestCompactedBehindTheWorker(t *testing.T) {
	world := tasktest.New(t, 1, 10)
	world.Unbounded = true
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w, p := f.remote("w1")
	f.run(1, w)
	f.status("w1", "running", isState(state.TaskRunning, 1))
	p.Cut()
	for range 3 {
		f.change(func(w *record.Word) { w.Message += "x" })
	}
	f.deploy(2, record.ScopeAll, w)
	f.etcd.Compact(t)
	p.Heal()
	s := f.status("w1", "ready", isState(state.TaskReady, 2))
	if s.Stopped != 1 {
		t.Errorf("status %+v", s)
	}
	f.change(func(w *record.Word) { w.Phase = state.PipelineRunning })
	f.status("w1", "running", isState(state.TaskRunning, 2))
	// The deletion of an assignment is not missed either.
	p.Cut()
	f.forgetJob("w1")
	f.etcd.Compact(t)
	p.Heal()
	f.status("w1", "failed", ended(2))
}

// TestSilentStoreLosesTheSession: silence beyond the lease shuts the gate; when the store is back the lease is gone,
// and the worker comes back as another incarnation.
func TestSilentStoreLosesTheSession(t *testing.T) {
	world := tasktest.New(t, 1, 10)
	world.Unbounded = true
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w, p := f.remote("w1")
	f.run(1, w)
	f.status("w1", "running", isState(state.TaskRunning, 1))
	first := w.Incarnation()
	p.Cut()
	f.await("the lease to end", f.tree.Worker("w1"), func(e kv.Entry) bool { return !e.Exists() })
	if o, c := world.Writers(); w.Incarnation() != first || o != 1 || c != 0 {
		t.Errorf("silence alone ended the session: incarnation %d, then %d; %d writers, %d closed", first, w.Incarnation(), o, c)
	}
	p.Heal()
	f.await("a new incarnation", f.tree.Worker("w1"), func(e kv.Entry) bool { return e.Exists() && w.Incarnation() == e.CreateRev })
	if _, c := world.Writers(); c != 1 || w.Incarnation() == first {
		t.Error("the lost incarnation runs on")
	}
}
