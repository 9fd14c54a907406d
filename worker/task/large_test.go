package task

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"strait/transport/batch"
	"strait/worker/memory"
	"strait/worker/task/tasktest"
)

// tight is memory in which a batch of 1,000 numbers is large, and takes the whole pool of its chain.
func tight(u memory.Use) (memory.Shares, error) {
	s := memory.Divide(u, 1<<20)
	s.Batch, s.LargePool = 1000, 24000
	return s, nil
}

// TestLargeElementsOneByOne: what takes the whole pool of its chain passes alone, and everything passes: readers that
// wait for the loop, sinks that wait for each other and barriers between do not lock up.
func TestLargeElementsOneByOne(t *testing.T) {
	w := tasktest.New(t, 12, 5000)
	var now, most atomic.Int64
	w.OnWrite = func(context.Context, *batch.Batch) error {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(200 * time.Microsecond) // time for others to come in
		now.Add(-1)
		return nil
	}
	x := build(t, tasktest.Plan(t, chain(4, "TestSource"), chain(3, "TestTwoPhase")), func(c *Config) { c.Admit = tight })
	defer x.stop(t)
	x.Start(1)
	s := x.drain(t, 1)
	if err := x.Commit(1, s.Prepared); err != nil {
		t.Fatal(err)
	}
	allOnce(t, "visible", w.Visible(), 60000)
	if most.Load() != 1 {
		t.Errorf("%d large elements were in sinks at once", most.Load())
	}
}

// TestLargeElementsWaitForASlowSink: with one element stuck in a sink the others wait, a stop ends the wait.
func TestLargeElementsWaitForASlowSink(t *testing.T) {
	w := tasktest.New(t, 12, 5000)
	hold := newGated()
	w.OnWrite = func(ctx context.Context, _ *batch.Batch) error { return hold.pass(ctx) }
	x := build(t, tasktest.Plan(t, chain(4, "TestSource"), chain(3, "TestSink")), func(c *Config) { c.Admit = tight })
	x.Start(1)
	within(t, "an element in a sink", hold.entered)
	x.stop(t)
	if n := len(hold.entered); n != 0 {
		t.Errorf("%d more were let in", n)
	}
}

func TestUseIsCounted(t *testing.T) {
	tasktest.New(t, 1, 1)
	var got memory.Use
	p := tasktest.Plan(t, chain(4, "TestSource", "TestEven"), chain(3, "TestTwoPhase"))
	x := build(t, p, func(c *Config) {
		c.Admit = func(u memory.Use) (memory.Shares, error) { got = u; return memory.Divide(u, 1<<30), nil }
	})
	x.stop(t)
	if got.Readers != 4 || got.Groups != 7 || got.Chains != 2 || got.Gatherers != 0 || got.Consumers != 3 || got.Links != 0 || len(got.Writers) != 1 || got.Writers[0].N != 3 {
		t.Errorf("%+v", got)
	}
}

// TestNotAdmitted: an attempt that gets no memory is not built, and closes what it had made.
func TestNotAdmitted(t *testing.T) {
	tasktest.New(t, 1, 1)
	p := tasktest.Plan(t, chain(1, "TestSource", "TestSink"))
	pl := tasktest.Place(p, 1, "w1")
	why := errors.New("no memory")
	_, err := Build(t.Context(), Config{Plan: p, Pipeline: p.Pipelines[0], Placement: pl, Assignment: tasktest.Assign(pl, "w1", 1), Gate: &openGate{}, Watcher: newWatch(),
		Admit: func(memory.Use) (memory.Shares, error) { return memory.Shares{}, why }})
	if !errors.Is(err, why) {
		t.Error(err)
	}
}

// TestTooLargeElement: it fails the job for good, with vertex, place and sizes, and reaches no sink.
func TestTooLargeElement(t *testing.T) {
	w := tasktest.New(t, 1, 5000)
	x := build(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")), func(c *Config) {
		c.Admit = func(u memory.Use) (memory.Shares, error) {
			s := memory.Divide(u, 0)
			s.Bound = 20000
			return s, nil
		}
	})
	defer x.stop(t)
	x.Start(1)
	x.until(t, "failed", func() bool { return len(x.failures) > 0 })
	f := x.failures[0]
	for _, want := range []string{"v0 (TestSource)", `split "0"`, "a batch of 1000 rows of 7.8 KiB is too large", "may take 4.9 KiB"} {
		if !strings.Contains(f.Message, want) {
			t.Errorf("%q is not said: %s", want, f.Message)
		}
	}
	if !f.Fatal || f.Vertex != "v0" || len(w.Written()) > 0 {
		t.Errorf("%+v, %d rows written", f, len(w.Written()))
	}
}
