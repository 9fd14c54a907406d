package task

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/fault"
	"strait/transport/batch"
	"strait/transport/stream"
	"strait/worker/task/tasktest"
)

func TestStopWhileBlocked(t *testing.T) {
	f := func(name string, prepare func(w *tasktest.World, x *bench, h *gated)) {
		t.Run(name, func(t *testing.T) {
			w := tasktest.New(t, 1, 1<<40)
			h := newGated()
			// No limit is near: only the withdrawn context can end the call. What waits for a limit takes a minute.
			x := build(t, tasktest.Plan(t, chain(1, "TestSource"), chain(1, "TestTwoPhase")), func(c *Config) { c.CallLimit, c.StopGrace = time.Minute, time.Minute })
			prepare(w, x, h)
			x.Start(1)
			within(t, "the call", h.entered)
			began := time.Now()
			x.stop(t)
			if d := time.Since(began); d > time.Minute/2 {
				t.Errorf("took %v", d)
			}
			if len(x.failures) > 0 {
				t.Errorf("a stop is reported as a failure: %+v", x.failures)
			}
		})
	}
	f("reader", func(w *tasktest.World, _ *bench, h *gated) {
		w.OnRead = func(ctx context.Context, _ int, _ string) error { return h.pass(ctx) }
	})
	f("writer", func(w *tasktest.World, _ *bench, h *gated) {
		w.OnWrite = func(ctx context.Context, _ *batch.Batch) error { return h.pass(ctx) }
	})
	f("opening", func(w *tasktest.World, _ *bench, h *gated) { w.OnOpen = h.pass })
	f("output", func(w *tasktest.World, x *bench, h *gated) {
		x.net.block = h.open
		w.OnRead = func(context.Context, int, string) error {
			select {
			case h.entered <- struct{}{}:
			default:
			}
			return nil
		}
	})
	f("commit", func(w *tasktest.World, x *bench, h *gated) {
		w.OnCommit = h.pass
		w.Rows = 1
		go func() {
			x.until(t, "drained", x.Drained)
			x.Barrier(checkpoint.Barrier{ID: 1, Kind: checkpoint.Final})
			x.until(t, "snapped", func() bool { return x.snapped == 1 })
			if err := x.Commit(1, nil); !x.Stopped(err) {
				t.Errorf("commit: %v", err)
			}
		}()
	})
}

func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	f := func(name, vertex, position, want string, prepare func(w *tasktest.World)) {
		t.Run(name, func(t *testing.T) {
			w := tasktest.New(t, 1, 25)
			w.Batch = 10
			prepare(w)
			x := build(t, tasktest.Plan(t, chain(1, "TestSource", "TestEven", "TestTwoPhase")), func(c *Config) {
				c.CallLimit, c.CommitLimit = 200*time.Millisecond, 200*time.Millisecond
			})
			defer x.stop(t)
			x.Start(1)
			go func() {
				limit := time.After(5 * time.Second)
				for !x.Drained() {
					select {
					case <-x.ctx.Done():
						return
					case <-limit:
						return
					case <-time.After(time.Millisecond):
					}
				}
				x.Barrier(checkpoint.Barrier{ID: 1, Kind: checkpoint.Final})
			}()
			x.until(t, "a failure", func() bool { return len(x.failures) > 0 })
			got := x.failures[0]
			if string(got.Vertex) != vertex || got.Position != position || !strings.Contains(got.Message, want) || got.Group != "1/0/0" {
				t.Errorf("failure %+v", got)
			}
		})
	}
	f("read", "v0", `split "0", position 20`, `v0 (TestSource) at split "0", position 20: boom`, func(w *tasktest.World) {
		n := 0
		w.OnRead = func(context.Context, int, string) error {
			if n++; n == 3 {
				return boom
			}
			return nil
		}
	})
	f("write", "v2", `rows up to split "0", position 20`, "v2 (TestTwoPhase) at rows up to", func(w *tasktest.World) {
		w.OnWrite = func(_ context.Context, b *batch.Batch) error {
			if b.Cols[0].(*array.Int64).Value(0) == 10 {
				return boom
			}
			return nil
		}
	})
	f("panic in write", "v2", `rows up to split "0", position 10`, "BUG: v2 (TestTwoPhase) panicked: boom", func(w *tasktest.World) {
		w.OnWrite = func(context.Context, *batch.Batch) error { panic(boom) }
	})
	f("open", "v2", "", "v2 (TestTwoPhase): boom", func(w *tasktest.World) {
		w.OnOpen = func(context.Context) error { return boom }
	})
	f("prepare", "v2", "", "v2 (TestTwoPhase): boom", func(w *tasktest.World) {
		w.OnPrepare = func(context.Context, plan.CheckpointID) error { return boom }
	})
	f("prepare over its limit", "v2", "", "v2 (TestTwoPhase): Prepare did not return within 200ms", func(w *tasktest.World) {
		w.OnPrepare = func(ctx context.Context, _ plan.CheckpointID) error { <-ctx.Done(); return ctx.Err() }
	})
}

func TestCommitterPanics(t *testing.T) {
	w := tasktest.New(t, 1, 25)
	w.OnCommit = func(context.Context) error { panic("lost my head") }
	x := build(t, tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase")), nil)
	defer x.stop(t)
	x.Start(1)
	x.drain(t, 1)
	err := x.Commit(1, nil)
	var f *Fault
	if !errors.As(err, &f) || f.Vertex != "v1" || !strings.Contains(err.Error(), "BUG: v1 (TestTwoPhase): Commit panicked: lost my head") {
		t.Errorf("commit: %v", err)
	}
}

// TestCommitsDoNotHideEachOther: a fatal verdict is reported although a commit that can be retried failed too, and
// what can be committed is.
func TestCommitsDoNotHideEachOther(t *testing.T) {
	w := tasktest.New(t, 3, 1)
	var n atomic.Int32
	w.OnCommit = func(context.Context) error {
		switch n.Add(1) {
		case 1:
			return errors.New("away")
		case 2:
			return fault.Fatalf("verdict")
		}
		return nil
	}
	x := build(t, tasktest.Plan(t, chain(3, "TestSource", "TestTwoPhase")), nil)
	defer x.stop(t)
	x.Start(1)
	x.drain(t, 1)
	if err := x.Commit(1, nil); !fault.IsFatal(err) || len(w.Visible()) != 1 {
		t.Errorf("%v, %d rows visible", err, len(w.Visible()))
	}
}

func TestHungCallsAreNamed(t *testing.T) {
	f := func(name, want string, prepare func(w *tasktest.World, stuck func())) {
		t.Run(name, func(t *testing.T) {
			w := tasktest.New(t, 1, 25)
			entered, release := make(chan struct{}), make(chan struct{})
			prepare(w, func() { close(entered); <-release })
			x := build(t, tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase")), func(c *Config) { c.StopGrace = 50 * time.Millisecond })
			x.Start(1)
			within(t, "the call", entered)
			if err := x.Stop(); !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), want) {
				t.Errorf("stop: %v", err)
			}
			close(release)
			x.wg.Wait()
		})
	}
	f("reader", "v0 (TestSource): reading for", func(w *tasktest.World, stuck func()) {
		w.OnRead = func(context.Context, int, string) error { stuck(); return nil }
	})
	f("writer", "v1 (TestTwoPhase): Write", func(w *tasktest.World, stuck func()) {
		w.OnWrite = func(context.Context, *batch.Batch) error { stuck(); return nil }
	})
}

// TestBrokenLinkIsNotAFailureOfTheTask: the transport reports it, with the peer; the tasks only end.
func TestBrokenLinkIsNotAFailureOfTheTask(t *testing.T) {
	w := tasktest.New(t, 1, 1<<40)
	reading := make(chan struct{}, 1)
	w.OnRead = func(context.Context, int, string) error {
		select {
		case reading <- struct{}{}:
		default:
		}
		return nil
	}
	x := build(t, tasktest.Plan(t, chain(1, "TestSource"), chain(1, "TestTwoPhase")), nil)
	x.net.broken.Store(&stream.LinkError{Peer: "w2", Err: errors.New("reset")})
	x.Start(1)
	within(t, "a read", reading)
	<-x.ctx.Done()
	x.stop(t)
	if len(x.failures) > 0 {
		t.Errorf("reported: %+v", x.failures)
	}
}

// TestEchoesLeaveTheFaultAlone: the tasks that a failure ends do not write their names into it.
func TestEchoesLeaveTheFaultAlone(t *testing.T) {
	tasktest.New(t, 2, 1)
	x := build(t, tasktest.Plan(t, chain(2, "TestSource"), chain(2, "TestTwoPhase")), nil)
	first := &Fault{Path: "enumerator", Err: errors.New("first")}
	x.fail(first)
	x.Start(1)
	x.stop(t)
	for _, g := range x.groups {
		if err := g.locate(context.Cause(x.ctx)); !errors.Is(err, errStopped) {
			t.Errorf("%s: %v", g.id, err)
		}
	}
	if first.Group != "" || len(x.failures) != 1 {
		t.Errorf("fault of group %q, reported %+v", first.Group, x.failures)
	}
}
