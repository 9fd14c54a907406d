package task

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/schema"
	"strait/plan/state"
	"strait/transport/batch"
	"strait/transport/stream"
	"strait/worker/connector"
	"strait/worker/task/ledger"
	"strait/worker/task/tasktest"
)

func chain(parallelism int, plugins ...string) tasktest.Chain {
	return tasktest.Chain{Plugins: plugins, Parallelism: parallelism}
}

// gated is a test's hold on a call: it blocks until opened, or until the call's context ends.
type gated struct {
	entered chan struct{}
	open    chan struct{}
}

func newGated() *gated {
	return &gated{entered: make(chan struct{}, 1000), open: make(chan struct{})}
}

func (g *gated) pass(ctx context.Context) error {
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("waited 10 s for %s", what)
	}
}

func TestBranch(t *testing.T) {
	w := tasktest.New(t, 3, 2000)
	x := build(t, tasktest.Plan(t, chain(2, "TestSource"), chain(1, "TestTwoPhase"), chain(3, "TestEven", "TestTwoPhase")), nil)
	defer x.stop(t)
	x.Start(1)
	s := x.drain(t, 1)
	if err := x.Commit(1, s.Prepared); err != nil {
		t.Fatal(err)
	}
	for v, n := range w.Visible() {
		if want := 1 + int(1-v%2); n != want {
			t.Fatalf("row %d is visible %d times, want %d", v, n, want)
		}
	}
}

// TestReadAheadDoesNotCount: the reader is far ahead when the barrier comes; only what has passed is in the cut.
func TestReadAheadDoesNotCount(t *testing.T) {
	w := tasktest.New(t, 1, 100)
	w.Batch = 10
	hold := newGated()
	w.OnWrite = func(ctx context.Context, b *batch.Batch) error {
		if b.Cols[0].(*array.Int64).Value(0) < 30 {
			return nil
		}
		return hold.pass(ctx)
	}
	x := build(t, tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase")), nil)
	defer x.stop(t)
	x.Start(1)
	within(t, "the fourth batch", hold.entered)
	x.Barrier(checkpoint.Barrier{ID: 1, Kind: checkpoint.Periodic})
	close(hold.open)
	x.until(t, "snapped", func() bool { return x.snapped == 1 })
	s, _ := x.State(1)
	if got := string(s.Prepared[0].Data); got != "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39]" {
		t.Errorf("before the barrier: %s", got)
	}
}

// TestHeldRows: rows behind a closing barrier wait; aborted, they go on, none is lost; complete, they stay.
func TestHeldRows(t *testing.T) {
	w := tasktest.New(t, 1, 1000)
	w.Batch = 10
	var first atomic.Bool
	hold := newGated()
	w.OnWrite = func(ctx context.Context, _ *batch.Batch) error {
		if first.CompareAndSwap(false, true) {
			return hold.pass(ctx)
		}
		return nil
	}
	x := build(t, tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase")), nil)
	defer x.stop(t)
	x.Start(1)
	within(t, "the first batch", hold.entered)
	x.Barrier(checkpoint.Barrier{ID: 1, Kind: checkpoint.Stop})
	close(hold.open)
	x.until(t, "snapped", func() bool { return x.snapped == 1 })
	if x.States()[0].State != state.TaskPrepareClose || len(w.Written()) != 10 {
		t.Fatalf("%v with %d rows written", x.States(), len(w.Written()))
	}
	x.Abort(1)
	s := x.drain(t, 2)
	if len(s.Prepared) != 2 {
		t.Errorf("%d commits are listed, want those of both barriers", len(s.Prepared))
	}
	if err := x.Commit(2, nil); err != nil {
		t.Fatal(err)
	}
	allOnce(t, "visible", w.Visible(), 1000)
}

// TestBarrierAligns: Invariant 5 over channels that are far apart.
func TestBarrierAligns(t *testing.T) {
	w := tasktest.New(t, 1, 1)
	p := tasktest.Plan(t, chain(2, "TestSource"), chain(1, "TestTwoPhase"))
	x := build(t, p, func(c *Config) {
		c.Assignment.Chains = c.Assignment.Chains[1:] // the sink alone; the test is its upstream
		c.Assignment.Enumerators = nil
	})
	defer x.stop(t)
	x.Start(1)
	in := x.net.in(0, 0)
	s := batch.NewSchema(tasktest.Table, 0)
	rows := func(v int64) stream.Element {
		b := batch.NewBuilder(s)
		b.Field(0).(*array.Int64Builder).Append(v)
		b.EndRow(schema.Insert)
		return stream.Element{Kind: stream.Rows, Batch: b.Finish()}
	}
	bar := func(n plan.CheckpointID, k checkpoint.Kind) stream.Element {
		return stream.Element{Kind: stream.Barrier, Barrier: checkpoint.Barrier{ID: n, Kind: k}}
	}
	in.push(0, rows(1))
	in.push(0, bar(1, checkpoint.Periodic))
	in.push(0, rows(2)) // behind the barrier
	in.push(1, rows(3))
	x.until(t, "what is before the barrier", func() bool { return len(w.Written()) == 2 })
	in.push(1, bar(1, checkpoint.Periodic))
	x.until(t, "snapped", func() bool { return x.snapped == 1 })
	if st, _ := x.State(1); string(st.Prepared[0].Data) != "[1,3]" && string(st.Prepared[0].Data) != "[3,1]" {
		t.Errorf("before the barrier: %s", st.Prepared[0].Data)
	}
	// A barrier that is aborted in the middle of its alignment lets the held channel go on.
	in.push(0, bar(2, checkpoint.Periodic))
	in.push(0, rows(4))
	in.push(1, rows(5))
	x.until(t, "the other channel", func() bool { return w.Written()[5] == 1 })
	if w.Written()[4] != 0 {
		t.Error("a row crossed the barrier")
	}
	x.Abort(2)
	x.until(t, "the held row", func() bool { return w.Written()[4] == 1 })
	in.push(1, bar(2, checkpoint.Periodic)) // late: dropped
	for c := range 2 {
		in.push(c, stream.Element{Kind: stream.End})
		in.push(c, bar(3, checkpoint.Final))
	}
	x.until(t, "the last barrier", func() bool { return x.snapped == 3 })
	if got := x.States()[0].State; got != state.TaskPrepareClose {
		t.Errorf("state %s", got)
	}
}

// TestSeveralInputs: a chain may hang on several edges; their tables are numbered through.
func TestSeveralInputs(t *testing.T) {
	b := &batch.Batch{Schema: batch.NewSchema(tasktest.Table, 1)}
	if got := renumber(b, 2); got.Schema.Index != 3 || b.Schema.Index != 1 {
		t.Errorf("index %d", got.Schema.Index)
	}
	w := tasktest.New(t, 2, 1000)
	p := tasktest.Plan(t, chain(1, "TestSource"), chain(1, "TestTwoPhase"))
	pipe := p.Pipelines[0]
	second := *pipe.Edges[0]
	second.ID = 1
	pipe.Edges = append(pipe.Edges, &second)
	pipe.Chains[0].Outputs = []int{0, 1}
	pipe.Chains[1].Inputs = []int{0, 1}
	pipe.Vertices[1].In = append(pipe.Vertices[1].In, tasktest.Table)
	x := build(t, p, nil)
	defer x.stop(t)
	x.Start(1)
	s := x.drain(t, 1)
	if err := x.Commit(1, s.Prepared); err != nil {
		t.Fatal(err)
	}
	for v, n := range w.Visible() {
		if n != 2 {
			t.Fatalf("row %d is visible %d times, want once an edge", v, n)
		}
	}
	if got := x.Counts()[1].RowsIn; got != 4000 {
		t.Errorf("%d rows", got)
	}
}

// staleGate is stale until it is opened.
type staleGate struct {
	openGate
	renewed chan struct{}
}

func (g *staleGate) Enter(ctx context.Context) error {
	select {
	case <-g.renewed:
		return g.openGate.Enter(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestStaleGate: Invariant 9, a proof that is stale makes calls wait; nothing fails, nothing is written.
func TestStaleGate(t *testing.T) {
	w := tasktest.New(t, 1, 25)
	gate := &staleGate{renewed: make(chan struct{})}
	x := build(t, tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase")), func(c *Config) { c.Gate = gate })
	defer x.stop(t)
	x.Start(1)
	time.Sleep(20 * time.Millisecond) // nothing is to happen
	if o, _ := w.Writers(); o != 0 || len(w.Written()) > 0 || len(x.failures) > 0 {
		t.Fatalf("%d writers, %d rows, failures %v", o, len(w.Written()), x.failures)
	}
	close(gate.renewed)
	x.drain(t, 1)
	allOnce(t, "written", w.Written(), 25)
}

// flushing is a sink that wants to be flushed.
type flushing struct {
	connector.Writer
	flushed chan struct{}
}

func (f flushing) Flush(context.Context) error {
	f.flushed <- struct{}{}
	return nil
}

type flushingSink struct {
	connector.Sink
	flushed chan struct{}
}

func (s flushingSink) NewWriter(ctx context.Context, wc connector.WriterContext) (connector.Writer, error) {
	w, err := s.Sink.NewWriter(ctx, wc)
	return flushing{w, s.flushed}, err
}

func TestLinger(t *testing.T) {
	w := tasktest.New(t, 1, 25)
	w.Unbounded = true
	x := build(t, tasktest.Plan(t, chain(1, "TestSource", "TestSink")), func(c *Config) { c.Linger = 5 * time.Millisecond })
	defer x.stop(t)
	flushed := make(chan struct{}, 10)
	x.groups[0].sink.v.sink = flushingSink{x.groups[0].sink.v.sink, flushed}
	x.Start(1)
	within(t, "the flush", flushed)
	time.Sleep(20 * time.Millisecond)
	if len(flushed) > 0 {
		t.Error("flushed with nothing new")
	}
}

func TestSpreadOverReaders(t *testing.T) {
	w := tasktest.New(t, 4, 10)
	x := build(t, tasktest.Plan(t, chain(4, "TestSource", "TestSink")), nil)
	defer x.stop(t)
	x.Start(1)
	x.drain(t, 1)
	seen := map[int]bool{}
	for _, r := range w.Readers() {
		seen[r] = true
	}
	if len(seen) != 4 {
		t.Errorf("4 splits went to readers %v", w.Readers())
	}
}

func TestCommittersOnly(t *testing.T) {
	w := tasktest.New(t, 1, 10)
	p := tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase"))
	x := build(t, p, func(c *Config) {
		c.Assignment = &record.Assignment{Scope: record.ScopeCommitters, Attempt: 1, Committers: []plan.VertexID{"v1"}}
	})
	defer x.stop(t)
	all := []checkpoint.Prepared{
		{Identity: checkpoint.Identity{Vertex: "v1", Subtask: 3}, Data: []byte("[7]")},
		{Identity: checkpoint.Identity{Vertex: "other"}, Data: []byte("[8]")},
	}
	if err := x.Replay(all, []plan.VertexID{"v1"}); err != nil || w.Commits() != 0 {
		t.Errorf("a sink to be skipped: %v, %d commits", err, w.Commits())
	}
	if err := x.Replay(all, nil); err != nil {
		t.Fatal(err)
	}
	if err := x.Abandon(all); err != nil {
		t.Fatal(err)
	}
	if v := w.Visible(); len(v) != 1 || v[7] != 1 {
		t.Errorf("visible %v", v)
	}
	if o, _ := w.Writers(); o != 0 {
		t.Error("a writer was opened")
	}
}

func TestSeveralTables(t *testing.T) {
	w := tasktest.New(t, 6, 100)
	second := tasktest.Table.Clone()
	second.Path.Table = "u"
	w.Tables = []*schema.Table{tasktest.Table, second}
	p := tasktest.Plan(t, chain(2, "TestSource"), chain(1, "TestEven", "TestTwoPhase"))
	for _, v := range p.Pipelines[0].Vertices {
		if v.In != nil {
			v.In = w.Tables
		}
		if v.Out != nil {
			v.Out = w.Tables
		}
	}
	p.Pipelines[0].Edges[0].Tables = w.Tables
	x := build(t, p, nil)
	defer x.stop(t)
	x.Start(1)
	s := x.drain(t, 1)
	if err := x.Commit(1, s.Prepared); err != nil {
		t.Fatal(err)
	}
	if got := len(w.Visible()); got != 300 {
		t.Errorf("%d rows, want 300", got)
	}
	for i, c := range x.Counts() {
		if t1, t2 := c.Tables["t"], c.Tables["u"]; t1 != t2 || t1.RowsOut != []int64{300, 150, 150}[i] {
			t.Errorf("%s: %+v and %+v", c.Vertex, t1, t2)
		}
	}
}

func TestChangedTables(t *testing.T) {
	w := tasktest.New(t, 1, 10)
	p := tasktest.Plan(t, chain(1, "TestSource", "TestSink"))
	w.Tables = append(w.Tables, tasktest.Table)
	_, err := Build(t.Context(), Config{Plan: p, Pipeline: p.Pipelines[0], Placement: tasktest.Place(p, 1, "w1"),
		Assignment: tasktest.Assign(tasktest.Place(p, 1, "w1"), "w1", 1), Gate: &openGate{}, Watcher: newWatch()})
	if err == nil || !strings.Contains(err.Error(), "v0 (TestSource): the source has 2 tables now, 1 when the job was planned") {
		t.Errorf("build: %v", err)
	}
}

func TestManyStatesAreSummed(t *testing.T) {
	var all []record.GroupState
	for i := range 1000 {
		s := state.TaskRunning
		if i%2 == 0 {
			s = state.TaskDrained
		}
		all = append(all, record.GroupState{Chain: plan.ChainID(i / 500), Range: plan.Range{From: i % 500, To: i%500 + 1}, State: s})
	}
	got := summed(all)
	if fmt.Sprint(got) != "[{0 {0 500} RUNNING} {1 {0 500} RUNNING}]" {
		t.Errorf("%v", got)
	}
}

// BenchmarkChain: what the loop itself costs per batch, behind a reader and before a sink that do nothing.
func BenchmarkChain(b *testing.B) {
	tasktest.New(b, 1, 1)
	x := build(b, tasktest.Plan(b, chain(1, "TestSource", "TestSink")), nil)
	bl := batch.NewBuilder(batch.NewSchema(tasktest.Table, 0))
	for i := range int64(batch.TargetRows) {
		bl.Field(0).(*array.Int64Builder).Append(i)
	}
	bl.EndRows(batch.TargetRows)
	full := bl.Finish()
	g := x.groups[0]
	g.sink.writer, g.mark = nopWriter{}, time.Now()
	s := g.source
	s.reads, s.idle = false, atomic.Bool{}
	u := unit{batches: []*batch.Batch{full}, split: "0"}
	if err := s.book.Assign([]ledger.Handed{{Split: connector.Split{ID: "0"}}}); err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.SetBytes(full.Bytes())
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := s.queue.TryPush(u, full.Bytes()); err != nil {
			b.Fatal(err)
		}
		if err := g.control(ctx); err != nil {
			b.Fatal(err)
		}
		if moved, err := g.move(ctx); err != nil || !moved {
			b.Fatal(moved, err)
		}
	}
	b.StopTimer()
	x.stop(b)
}

// TestLoopDoesNotAllocate: Invariant of the hot path, nothing is allocated per batch by the loop itself.
func TestLoopDoesNotAllocate(t *testing.T) {
	if r := testing.Benchmark(BenchmarkChain); r.AllocsPerOp() > 0 {
		t.Errorf("%d allocations a batch", r.AllocsPerOp())
	}
}

type nopWriter struct{}

func (nopWriter) Write(context.Context, *batch.Batch) error { return nil }
func (nopWriter) Prepare(context.Context, plan.CheckpointID) ([][]byte, error) {
	return nil, nil
}
func (nopWriter) Close() error { return nil }

// TestThousandsOfSubtasks: nothing is quadratic that would show at the greatest parallelism.
func TestThousandsOfSubtasks(t *testing.T) {
	const n = 5000
	w := tasktest.New(t, n, 1)
	x := build(t, tasktest.Plan(t, chain(n, "TestSource", "TestTwoPhase")), nil)
	defer x.stop(t)
	began := time.Now()
	x.Start(1)
	s := x.drain(t, 1)
	if err := x.Commit(1, s.Prepared); err != nil {
		t.Fatal(err)
	}
	allOnce(t, "visible", w.Visible(), n)
	t.Logf("%d subtasks took %v", n, time.Since(began))
}
