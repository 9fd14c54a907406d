package task

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
	"strait/transport/batch"
	"strait/transport/stream"
	"strait/worker/task/tasktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openGate lets everything through.
type openGate struct {
	mu        sync.Mutex
	calls     int
	withdrawn bool
}

func (g *openGate) Enter(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.withdrawn {
		return fmt.Errorf("fenced")
	}
	return ctx.Err()
}

func (g *openGate) Begin() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.withdrawn {
		return fmt.Errorf("fenced")
	}
	g.calls++
	return nil
}

func (g *openGate) End()      { g.mu.Lock(); g.calls--; g.mu.Unlock() }
func (g *openGate) Withdraw() { g.mu.Lock(); g.withdrawn = true; g.mu.Unlock() }
func (g *openGate) Quiesce(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls != 0 {
		return fmt.Errorf("%d calls", g.calls)
	}
	return nil
}

// watch records what an attempt says.
type watch struct {
	mu       sync.Mutex
	kick     chan struct{}
	failures []record.Failure
	snapped  plan.CheckpointID
}

func newWatch() *watch { return &watch{kick: make(chan struct{}, 1)} }

func (w *watch) note(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
}
func (w *watch) Failed(f record.Failure) { w.note(func() { w.failures = append(w.failures, f) }) }
func (w *watch) Changed()                { w.note(func() {}) }
func (w *watch) Snapped(n plan.CheckpointID) {
	w.note(func() { w.snapped = max(w.snapped, n) })
}

// until waits for a condition that a change of the attempt brings.
func (w *watch) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		w.mu.Lock()
		done := ok()
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-w.kick:
		case <-time.After(time.Millisecond): // what plugins do changes without a word
		case <-limit:
			t.Fatalf("waited 10 s for %s; failures %+v", what, w.failures)
		}
	}
}

// fakeNet connects the groups of one attempt in this process, without bounds.
type fakeNet struct {
	mu    sync.Mutex
	ins   map[[2]int]*fakeInput
	pipe  *physical.Pipeline
	a     *Attempt
	outs  int
	block chan struct{} // closed by the test: until then Send blocks
	// broken is what Send returns
	broken atomic.Pointer[stream.LinkError]
}

func (n *fakeNet) Control(_ string, frame []byte) error {
	f := append([]byte(nil), frame...)
	n.a.goes(func() { n.a.Frame("w1", f) })
	return nil
}

func (n *fakeNet) Input(edge, consumer int) stream.Input { return n.in(edge, consumer) }

func (n *fakeNet) in(edge, consumer int) *fakeInput {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ins == nil {
		n.ins = map[[2]int]*fakeInput{}
	}
	k := [2]int{edge, consumer}
	if n.ins[k] == nil {
		producers := n.pipe.Chains[edgeOf(n.pipe, edge).From].Parallelism
		n.ins[k] = &fakeInput{kick: make(chan struct{}, 1), q: make([][]stream.Element, producers), held: make([]bool, producers)}
	}
	return n.ins[k]
}

func (n *fakeNet) Output(edge, producer int) stream.Output {
	n.outs++
	return &fakeOutput{n: n, edge: edge, producer: producer, consumers: n.pipe.Chains[edgeOf(n.pipe, edge).To].Parallelism}
}

type fakeOutput struct {
	n                         *fakeNet
	edge, producer, consumers int
	turn                      int
}

func (o *fakeOutput) push(c int, e stream.Element) { o.n.in(o.edge, c).push(o.producer, e) }
func (o *fakeOutput) Send(ctx context.Context, b *batch.Batch) error {
	if err := o.n.broken.Load(); err != nil {
		return err
	}
	if o.n.block != nil {
		select {
		case <-o.n.block:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	o.push(o.turn%o.consumers, stream.Element{Kind: stream.Rows, Batch: b})
	o.turn++
	return nil
}
func (o *fakeOutput) Flush(context.Context) error { return nil }
func (o *fakeOutput) Barrier(_ context.Context, b checkpoint.Barrier) error {
	for c := range o.consumers {
		o.push(c, stream.Element{Kind: stream.Barrier, Barrier: b})
	}
	return nil
}
func (o *fakeOutput) End(context.Context) error {
	for c := range o.consumers {
		o.push(c, stream.Element{Kind: stream.End})
	}
	return nil
}

type fakeInput struct {
	mu   sync.Mutex
	q    [][]stream.Element
	held []bool
	turn int
	kick chan struct{}
}

func (i *fakeInput) push(ch int, e stream.Element) {
	i.mu.Lock()
	i.q[ch] = append(i.q[ch], e)
	i.mu.Unlock()
	i.wake()
}
func (i *fakeInput) wake() {
	select {
	case i.kick <- struct{}{}:
	default:
	}
}
func (i *fakeInput) Channels() int { return len(i.q) }
func (i *fakeInput) TryNext() (stream.Item, bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for range i.q {
		c := i.turn
		i.turn = (i.turn + 1) % len(i.q)
		if !i.held[c] && len(i.q[c]) > 0 {
			e := i.q[c][0]
			i.q[c] = i.q[c][1:]
			return stream.Item{Channel: c, Element: e}, true, nil
		}
	}
	return stream.Item{}, false, nil
}
func (i *fakeInput) Ready() <-chan struct{} { return i.kick }
func (i *fakeInput) Hold(c int)             { i.mu.Lock(); i.held[c] = true; i.mu.Unlock() }
func (i *fakeInput) Release()               { i.mu.Lock(); clear(i.held); i.mu.Unlock(); i.wake() }

// bench is an attempt under test.
type bench struct {
	*Attempt
	*watch
	gate *openGate
	net  *fakeNet
	cfg  Config
}

func build(t testing.TB, p *physical.Plan, change func(*Config)) *bench {
	t.Helper()
	pipe := p.Pipelines[0]
	x := &bench{watch: newWatch(), gate: &openGate{}, net: &fakeNet{pipe: pipe}}
	pl := tasktest.Place(p, 1, "w1")
	cfg := Config{
		Cluster: "c", JobID: "job", Job: "job.7", Attempt: 1, Plan: p, Pipeline: pipe, Placement: pl, Assignment: tasktest.Assign(pl, "w1", 5),
		Worker: "w1", Gate: x.gate, Watcher: x.watch, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	a, err := Build(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	x.Attempt, x.net.a, x.cfg = a, a, cfg
	a.Connect(x.net)
	return x
}

func (x *bench) stop(t testing.TB) {
	t.Helper()
	if err := x.Stop(); err != nil {
		t.Error(err)
	}
}

// drain waits for the end of input and takes the final checkpoint n.
func (x *bench) drain(t testing.TB, n plan.CheckpointID) checkpoint.State {
	t.Helper()
	x.until(t, "drained", x.Drained)
	x.Barrier(checkpoint.Barrier{ID: n, Kind: checkpoint.Final})
	x.until(t, "snapped", func() bool { return x.snapped >= n })
	s, ok := x.State(n)
	if !ok {
		t.Fatal("snapped and no state")
	}
	return s
}
