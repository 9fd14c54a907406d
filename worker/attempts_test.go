package worker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/fault"
	"strait/plan/state"
	"strait/transport/batch"
	"strait/worker/task/tasktest"
)

// ended says that nothing of attempts up to a is left on the worker.
func ended(a plan.Attempt) func(*record.TaskStatus) bool {
	return func(s *record.TaskStatus) bool { return s.Stopped >= a }
}

func TestWithdrawn(t *testing.T) {
	world := tasktest.New(t, 2, 10)
	world.Unbounded = true
	f := newFleet(t, tasktest.Plan(t, chain(2, "TestSource", "TestTwoPhase")))
	w := f.start("w1", nil)
	f.run(1, w)
	f.status("w1", "running", isState(state.TaskRunning, 1))
	f.change(func(w *record.Word) { w.Attempt, w.Phase = 2, state.PipelineDeploying })
	s := f.status("w1", "stopped", ended(1))
	if s.State != state.TaskCancelled || s.Attempt != 1 {
		t.Errorf("status %+v", s)
	}
	if o, c := world.Writers(); o != 2 || c != 2 {
		t.Errorf("%d writers opened, %d closed", o, c)
	}
	if len(world.Visible()) != 0 {
		t.Error("rows of a withdrawn attempt are visible")
	}
	// The next attempt, on the same worker, reads from the start.
	f.place(2, record.ScopeAll, w)
	f.status("w1", "ready again", func(s *record.TaskStatus) bool { return isState(state.TaskReady, 2)(s) && s.Stopped == 1 })
	f.change(func(w *record.Word) { w.Phase = state.PipelineRunning })
	f.status("w1", "running again", isState(state.TaskRunning, 2))
	for v, n := range world.Written() {
		if n != 2 {
			t.Fatalf("row %d was written %d times by two attempts", v, n)
		}
	}
}

func TestAssignmentDeleted(t *testing.T) {
	world := tasktest.New(t, 1, 10)
	world.Unbounded = true
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w := f.start("w1", nil)
	f.run(1, w)
	f.status("w1", "running", isState(state.TaskRunning, 1))
	kvtest.Delete(t, f.etcd.Store, f.tree.Task("w1", f.job, 1))
	s := f.status("w1", "failed", ended(1))
	if s.State != state.TaskFailed || s.Failure.Pipeline != 1 || s.Failure.Time.IsZero() || !strings.Contains(s.Failure.Message, "assignment of this worker was deleted") {
		t.Errorf("status %+v", s)
	}
}

func TestOldAndForeignAssignments(t *testing.T) {
	tasktest.New(t, 1, 10)
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w := f.start("w1", nil)
	// Attempt 1 is assigned when the word is at 2 already.
	f.change(func(w *record.Word) { w.Attempt, w.Phase = 2, state.PipelineRunning })
	f.place(1, record.ScopeAll, w)
	s := f.status("w1", "not built", ended(1))
	if s.Attempt != 1 || s.State != state.TaskCancelled {
		t.Errorf("status of an assignment that came too late: %+v", s)
	}
	// Another incarnation of that name is meant.
	a := tasktest.Assign(tasktest.Place(f.plan, 2, "w1"), "w1", w.Incarnation()+1)
	f.put(f.tree.Task("w1", f.job, 1), a)
	f.place(2, record.ScopeAll, w) // and then this one
	if s := f.status("w1", "built", func(s *record.TaskStatus) bool { return s.Attempt == 2 && s.Drained }); s.Incarnation != w.Incarnation() {
		t.Errorf("status %+v", s)
	}
}

func TestLostSession(t *testing.T) {
	world := tasktest.New(t, 1, 10)
	world.Unbounded = true
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase")))
	w := f.start("w1", nil)
	f.run(1, w)
	f.status("w1", "running", isState(state.TaskRunning, 1))
	first := w.Incarnation()
	e, err := f.etcd.Store.Get(kvtest.Context(t), f.tree.Worker("w1"))
	if err != nil {
		t.Fatal(err)
	}
	f.etcd.ExpireLease(t, e.Lease)
	f.await("a new incarnation", f.tree.Worker("w1"), func(e kv.Entry) bool {
		return e.Exists() && e.CreateRev != first && w.Incarnation() == e.CreateRev
	})
	if o, c := world.Writers(); o != 1 || c != 1 {
		t.Errorf("%d writers opened, %d closed: the lost incarnation runs on", o, c)
	}
	f.await("it to be ready", f.tree.Worker("w1"), func(kv.Entry) bool { return w.Ready() == nil })
	// The old assignment is not obeyed, the new one is.
	f.deploy(2, record.ScopeAll, w)
	s := f.status("w1", "ready", isState(state.TaskReady, 2))
	if s.Incarnation == first {
		t.Errorf("status of the old incarnation: %+v", s)
	}
}

func TestNameTaken(t *testing.T) {
	tasktest.New(t, 1, 1)
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w := f.start("w1", nil)
	second, err := New(Config{Store: f.etcd.Store, Tree: f.tree, Name: "w1", DataListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- second.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	time.Sleep(50 * time.Millisecond) // nothing is to happen
	if second.Ready() == nil {
		t.Fatal("two workers of one name are ready")
	}
	before := w.Incarnation()
	if err := w.end(t); err != nil {
		t.Fatal(err)
	}
	f.await("the second", f.tree.Worker("w1"), func(e kv.Entry) bool { return e.Exists() && e.CreateRev > before })
}

// TestLeave: the end of the process is told in order and at once.
func TestLeave(t *testing.T) {
	world := tasktest.New(t, 1, 10)
	world.Unbounded = true
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase")))
	// No limit is near: what waits for one takes a minute.
	w := f.start("w1", func(c *Config) { c.StopGrace, c.StopTimeout = time.Minute, time.Minute })
	f.run(1, w)
	f.status("w1", "running", isState(state.TaskRunning, 1))
	began := time.Now()
	if err := w.end(t); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > time.Minute/2 {
		t.Errorf("leaving took %v", d)
	}
	if s := f.status("w1", "stopped", ended(1)); s.State != state.TaskCancelled {
		t.Errorf("status %+v", s)
	}
	e, err := f.etcd.Store.Get(kvtest.Context(t), f.tree.Worker("w1"))
	if err != nil || e.Exists() {
		t.Errorf("worker key %s, %v", e.Value, err)
	}
}

// TestReplay: a closing attempt commits what an older one completed, then abandons the rest.
func TestReplay(t *testing.T) {
	for _, sink := range []string{"TestTwoPhase", "TestAggregating"} {
		t.Run(sink, func(t *testing.T) {
			world := tasktest.New(t, 4, 10)
			var fail atomic.Bool
			fail.Store(true)
			world.OnCommit = func(context.Context) error {
				if fail.Load() {
					return errors.New("the target is away")
				}
				return nil
			}
			f := newFleet(t, tasktest.Plan(t, chain(2, "TestSource", sink)))
			w := f.start("w1", nil)
			f.run(1, w)
			f.status("w1", "drained", func(s *record.TaskStatus) bool { return s.Drained })
			n := f.trigger()
			f.complete(n, w)
			s := f.status("w1", "failed", func(s *record.TaskStatus) bool { return s.Failure != nil && s.Stopped == 1 })
			if s.Failure.Vertex != "v1" || !strings.Contains(s.Failure.Message, "the target is away") || s.Failure.Fatal {
				t.Errorf("failure %+v", s.Failure)
			}
			fail.Store(false)
			f.change(func(w *record.Word) {
				w.Holders = []record.Holder{{Worker: "w0", Incarnation: 1, Attempt: 1}}
			})
			f.deploy(2, record.ScopeCommitters, w)
			f.status("w1", "ready", isState(state.TaskReady, 2))
			if world.Commits() > 2 || len(world.Visible()) > 0 {
				t.Error("replayed beside a holder")
			}
			f.change(func(w *record.Word) { w.Holders[0].Waiting = true })
			f.ack("w1", "replayed", func(a *record.Ack) bool { return a.Attempt == 2 && a.Committed == n })
			allOnce(t, "visible", world.Visible(), 40)
			if len(world.Abandons()) > 0 {
				t.Error("abandoned beside a waiting holder")
			}
			f.change(func(w *record.Word) { w.Holders, w.Committed = nil, n })
			f.status("w1", "abandoned", func(s *record.TaskStatus) bool { return s.Abandoned })
			if a := world.Abandons(); len(a) != 1 || a[0] != 2 {
				t.Errorf("abandoned %v", a)
			}
			f.finish(record.Finished)
			f.status("w1", "finished", isState(state.TaskFinished, 2))
		})
	}
}

// TestAckAcrossRewrites: the word may be rewritten between trigger and ack, as long as the barrier is open.
func TestAckAcrossRewrites(t *testing.T) {
	world := tasktest.New(t, 1, 10)
	hold := make(chan struct{})
	world.OnPrepare = func(ctx context.Context, _ plan.CheckpointID) error {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return nil
	}
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase")))
	w := f.start("w1", nil)
	f.run(1, w)
	f.status("w1", "drained", func(s *record.TaskStatus) bool { return s.Drained })
	n := f.trigger()
	f.change(func(w *record.Word) { w.Message = "rewritten" })
	close(hold)
	f.change(func(w *record.Word) { w.Message = "and again" })
	f.complete(n, w)
	f.ack("w1", "committed", func(a *record.Ack) bool { return a.Committed == n })
}

// TestAborted: rows are held behind a closing barrier and go on when it is aborted; what was prepared is listed
// again.
func TestAborted(t *testing.T) {
	world := tasktest.New(t, 1, 10)
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase")))
	w := f.start("w1", nil)
	f.run(1, w)
	f.status("w1", "drained", func(s *record.TaskStatus) bool { return s.Drained })
	n := f.trigger()
	f.ack("w1", "of the first", func(a *record.Ack) bool { return a.Checkpoint == n && a.Prepared == 1 })
	f.change(func(w *record.Word) { w.Barrier.State = record.BarrierAborted })
	f.status("w1", "drained again", isState(state.TaskDrained, 1))
	n = f.trigger()
	if p := f.complete(n, w); p != 2 {
		t.Errorf("%d commits are listed, want those of both barriers", p)
	}
	f.ack("w1", "committed", func(a *record.Ack) bool { return a.Committed == n })
	allOnce(t, "visible", world.Visible(), 10)
}

func TestSinkFails(t *testing.T) {
	world := tasktest.New(t, 2, 50)
	world.Batch = 10
	world.OnWrite = func(_ context.Context, b *batch.Batch) error {
		if len(world.Written()) >= 70 {
			return fault.Fatalf("disk is full")
		}
		return nil
	}
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w := f.start("w1", nil)
	f.run(1, w)
	s := f.status("w1", "failed", func(s *record.TaskStatus) bool { return s.Failure != nil && s.Stopped == 1 })
	want := record.Failure{Pipeline: 1, Attempt: 1, Worker: "w1", Group: "1/0/0", Vertex: "v1", Fatal: true, Time: s.Failure.Time,
		Position: `rows up to split "1", position 30`, Message: `v1 (TestSink) at rows up to split "1", position 30: disk is full`}
	if *s.Failure != want {
		t.Errorf("failure\n%+v, want\n%+v", *s.Failure, want)
	}
}

// TestPeerStandsStill: the failure of one worker is not hidden behind broken links that others report.
func TestPeerStandsStill(t *testing.T) {
	world := tasktest.New(t, 4, 2000)
	world.Unbounded = true
	world.OnWrite = func(context.Context, *batch.Batch) error { return fault.Fatalf("verdict") }
	f := newFleet(t, tasktest.Plan(t, chain(2, "TestSource"), chain(1, "TestSink")))
	a, b := f.start("w1", nil), f.start("w2", nil)
	f.run(1, a, b)
	s := f.status("w1", "failed", ended(1))
	if !s.Failure.Fatal || len(s.Links) > 0 {
		t.Errorf("status %+v", s)
	}
	time.Sleep(100 * time.Millisecond) // nothing is to happen
	if s := f.status("w2", "there", func(*record.TaskStatus) bool { return true }); s.Failure != nil {
		t.Errorf("the peer failed too: %+v", s.Failure)
	}
	f.change(func(w *record.Word) { w.Attempt, w.Phase = 2, state.PipelineDeploying })
	f.status("w2", "stopped", ended(1))
}

func TestPanic(t *testing.T) {
	world := tasktest.New(t, 1, 50)
	world.OnRead = func(context.Context, int, string) error { panic("index out of range") }
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w := f.start("w1", nil)
	f.run(1, w)
	s := f.status("w1", "failed", func(s *record.TaskStatus) bool { return s.Failure != nil && s.Stopped == 1 })
	if s.Failure.Vertex != "v0" || !strings.Contains(s.Failure.Message, "BUG: v0 (TestSource): the reader panicked: index out of range") {
		t.Errorf("failure %+v", s.Failure)
	}
}

// TestCancelHungSink: a sink that never answers but heeds its context is stopped at once; the job is cancelled.
func TestCancelHungSink(t *testing.T) {
	world := tasktest.New(t, 1, 50)
	world.OnWrite = func(ctx context.Context, _ *batch.Batch) error {
		<-ctx.Done()
		return ctx.Err()
	}
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w := f.start("w1", func(c *Config) { c.CallLimit = time.Hour; c.TTL = time.Hour })
	f.run(1, w)
	f.status("w1", "running", isState(state.TaskRunning, 1))
	f.finish(record.Cancelled)
	f.status("w1", "cancelled", func(s *record.TaskStatus) bool { return isState(state.TaskCancelled, 1)(s) && s.Stopped == 1 })
}

// TestCallLimit: a call over its limit fails the attempt with the call named; the worker lives on.
func TestCallLimit(t *testing.T) {
	world := tasktest.New(t, 1, 50)
	world.OnWrite = func(ctx context.Context, _ *batch.Batch) error {
		<-ctx.Done()
		return ctx.Err()
	}
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w := f.start("w1", func(c *Config) { c.CallLimit = 100 * time.Millisecond })
	f.run(1, w)
	s := f.status("w1", "failed", func(s *record.TaskStatus) bool { return s.Failure != nil && s.Stopped == 1 })
	if s.Failure.Vertex != "v1" || !strings.Contains(s.Failure.Message, "v1 (TestSink): Write did not return within 100ms") {
		t.Errorf("failure %+v", s.Failure)
	}
	if w.Ready() != nil {
		t.Error("the worker did not survive")
	}
}

// TestHungForGood: a call that ignores its context ends the process.
func TestHungForGood(t *testing.T) {
	world := tasktest.New(t, 1, 50)
	release := make(chan struct{})
	defer close(release)
	world.OnWrite = func(context.Context, *batch.Batch) error {
		<-release
		return nil
	}
	f := newFleet(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")))
	w := f.start("w1", func(c *Config) { c.CallLimit = 100 * time.Millisecond; c.StopGrace = 100 * time.Millisecond })
	f.run(1, w)
	f.status("w1", "failed", isState(state.TaskFailed, 1))
	select {
	case err := <-w.done:
		if w.done <- err; !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "v1 (TestSink): Write") {
			t.Errorf("Run returned %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run goes on with a call that does not come back")
	}
	f.await("the key to be gone", f.tree.Worker("w1"), func(e kv.Entry) bool { return !e.Exists() })
}
