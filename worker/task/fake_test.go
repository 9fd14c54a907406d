package task

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"go.uber.org/goleak"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/config"
	"strait/plan/option"
	"strait/plan/physical"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/transport/stream"
	"strait/worker/connector"
	"strait/worker/transform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var fakeTable = &schema.Table{Path: schema.Path{Table: "t"}, Columns: []schema.Column{schema.Col("n", schema.Of(schema.BigInt))}}

// world is what the fake plugins of one test share; plugins find it by the option "world".
type world struct {
	mu       sync.Mutex
	written  map[int64]int // value -> how often Write had it
	visible  map[int64]int // what was committed
	prepared map[plan.CheckpointID]int
	abandons []plan.Attempt
	commits  int
	opened   int
	closed   int

	splits    int
	rows      int64
	batch     int64 // rows a Read gives
	unbounded bool
	onRead    func(ctx context.Context, subtask int, split string) error
	onWrite   func(ctx context.Context, b *batch.Batch) error
	onPrepare func(ctx context.Context, n plan.CheckpointID) error
	onCommit  func(ctx context.Context) error
	readers   map[string]int // split -> subtask
}

var worlds struct {
	sync.Mutex
	m map[string]*world
}

func newWorld(t testing.TB, splits int, rows int64) *world {
	w := &world{written: map[int64]int{}, visible: map[int64]int{}, prepared: map[plan.CheckpointID]int{},
		readers: map[string]int{}, splits: splits, rows: rows, batch: 1000}
	worlds.Lock()
	defer worlds.Unlock()
	if worlds.m == nil {
		worlds.m = map[string]*world{}
	}
	worlds.m[t.Name()] = w
	return w
}

func worldOf(v option.Values) *world {
	worlds.Lock()
	defer worlds.Unlock()
	return worlds.m[v.String("world")]
}

func init() {
	spec := option.Spec{Options: []option.Option{{Name: "world", Type: option.TString}}}
	connector.RegisterSource(connector.SourceFactory{Name: "TestSource", Options: spec,
		New: func(_ context.Context, c connector.SourceConfig) (connector.Source, error) {
			return &fakeSource{worldOf(c.Options)}, nil
		}})
	connector.RegisterSink(connector.SinkFactory{Name: "TestSink", Options: spec,
		New: func(_ context.Context, c connector.SinkConfig) (connector.Sink, error) {
			return &fakeSink{w: worldOf(c.Options)}, nil
		}})
	connector.RegisterSink(connector.SinkFactory{Name: "TestTwoPhase", Options: spec,
		New: func(_ context.Context, c connector.SinkConfig) (connector.Sink, error) {
			return &fakeTwoPhase{fakeSink{w: worldOf(c.Options), twoPhase: true}}, nil
		}})
	connector.RegisterSink(connector.SinkFactory{Name: "TestAggregating", Options: spec,
		New: func(_ context.Context, c connector.SinkConfig) (connector.Sink, error) {
			return &fakeAggregating{fakeSink{w: worldOf(c.Options), twoPhase: true}}, nil
		}})
	transform.Register(transform.Factory{Name: "TestEven", Options: spec,
		New: func(transform.Config) (transform.Transform, error) { return evenTransform{}, nil }})
}

type fakeSource struct{ w *world }

func (s *fakeSource) Tables() []*schema.Table { return []*schema.Table{fakeTable} }
func (s *fakeSource) Bounded() bool           { return !s.w.unbounded }
func (s *fakeSource) NewEnumerator(context.Context) (connector.Enumerator, error) {
	return &fakeEnumerator{s.w}, nil
}
func (s *fakeSource) NewReader(_ context.Context, rc connector.ReaderContext) (connector.Reader, error) {
	return &fakeReader{w: s.w, subtask: rc.Subtask}, nil
}

type fakeEnumerator struct{ w *world }

func (e *fakeEnumerator) Discover(_ context.Context, cursor []byte) (connector.Discovery, error) {
	d := connector.Discovery{Cursor: []byte("end"), Done: !e.w.unbounded, Again: time.Hour}
	for i := range e.w.splits {
		d.Splits = append(d.Splits, connector.Split{ID: strconv.Itoa(i)})
	}
	return d, nil
}
func (e *fakeEnumerator) Close() error { return nil }

type fakeReader struct {
	w       *world
	subtask int
	split   int64
	at      int64
	b       *array.Int64Builder
}

func (r *fakeReader) Open(_ context.Context, s connector.Split, position []byte) error {
	n, err := strconv.Atoi(s.ID)
	r.split, r.at = int64(n), 0
	if position != nil {
		r.at, err = strconv.ParseInt(string(position), 10, 64)
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.readers[s.ID] = r.subtask
	return err
}

func (r *fakeReader) Read(ctx context.Context, out *connector.Output) (connector.Progress, error) {
	if f := r.w.onRead; f != nil {
		if err := f(ctx, r.subtask, strconv.FormatInt(r.split, 10)); err != nil {
			return connector.Progress{}, err
		}
	}
	b := out.Builder(0)
	col := b.Field(0).(*array.Int64Builder)
	n := min(r.w.batch, r.w.rows-r.at)
	for range n {
		col.Append(r.split*r.w.rows + r.at)
		r.at++
	}
	b.EndRows(int(n))
	p := connector.Progress{Position: []byte(strconv.FormatInt(r.at, 10)), Done: r.at >= r.w.rows && !r.w.unbounded}
	if r.at >= r.w.rows && r.w.unbounded {
		p.Idle = time.Hour
	}
	return p, nil
}
func (r *fakeReader) Close() error { return nil }

type fakeSink struct {
	w        *world
	twoPhase bool
}

func (s *fakeSink) Claim() connector.Claim { return connector.Claim{Guarantee: connector.AtLeastOnce} }
func (s *fakeSink) NewWriter(_ context.Context, wc connector.WriterContext) (connector.Writer, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.opened++
	return &fakeWriter{w: s.w, twoPhase: s.twoPhase}, nil
}

type fakeWriter struct {
	w        *world
	twoPhase bool
	unseen   []int64
}

func (w *fakeWriter) Write(ctx context.Context, b *batch.Batch) error {
	if f := w.w.onWrite; f != nil {
		if err := f(ctx, b); err != nil {
			return err
		}
	}
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	for _, v := range b.Cols[0].(*array.Int64).Int64Values() {
		w.w.written[v]++
		w.unseen = append(w.unseen, v)
	}
	return nil
}

func (w *fakeWriter) Prepare(ctx context.Context, n plan.CheckpointID) ([][]byte, error) {
	if f := w.w.onPrepare; f != nil {
		if err := f(ctx, n); err != nil {
			return nil, err
		}
	}
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	w.w.prepared[n]++
	if !w.twoPhase {
		return nil, nil
	}
	data, err := json.Marshal(w.unseen)
	w.unseen = nil
	return [][]byte{data}, err
}

func (w *fakeWriter) Close() error {
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	w.w.closed++
	return nil
}

type fakeTwoPhase struct{ fakeSink }

func (s *fakeTwoPhase) NewCommitter(context.Context, connector.CommitterContext) (connector.Committer, error) {
	return &fakeCommitter{s.w, map[string]bool{}}, nil
}

type fakeAggregating struct{ fakeSink }

func (s *fakeAggregating) NewAggregated(context.Context, connector.CommitterContext) (connector.Committer, error) {
	return &fakeCommitter{s.w, map[string]bool{}}, nil
}

type fakeCommitter struct {
	w    *world
	done map[string]bool
}

func (c *fakeCommitter) Commit(ctx context.Context, prepared []checkpoint.Prepared) error {
	if f := c.w.onCommit; f != nil {
		if err := f(ctx); err != nil {
			return err
		}
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.commits++
	for _, p := range prepared {
		var rows []int64
		if err := json.Unmarshal(p.Data, &rows); err != nil {
			return err
		}
		for _, v := range rows {
			c.w.visible[v]++
		}
	}
	return nil
}

func (c *fakeCommitter) Abandon(_ context.Context, older plan.Attempt, keep []checkpoint.Prepared) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.abandons = append(c.w.abandons, older)
	return nil
}
func (c *fakeCommitter) Close() error { return nil }

// evenTransform keeps even numbers.
type evenTransform struct{}

func (evenTransform) Output(in *schema.Table) (*schema.Table, error) { return in, nil }
func (evenTransform) Open(in, out *batch.Schema) (transform.Runner, error) {
	return evenRunner{out}, nil
}

type evenRunner struct{ out *batch.Schema }

func (r evenRunner) Apply(_ context.Context, b *batch.Batch) (*batch.Batch, error) {
	var rows []int32
	for i, v := range b.Cols[0].(*array.Int64).Int64Values() {
		if v%2 == 0 {
			rows = append(rows, int32(i))
		}
	}
	return batch.Select(b, rows), nil
}

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

// shape is a plan: the vertices of each chain, by plugin, with the parallelism of the chain. Each chain but the
// first hangs on chain 0.
type shape struct {
	plugins     []string
	parallelism int
}

func section(p string) config.Section {
	switch p {
	case "TestSource":
		return config.Source
	case "TestEven":
		return config.Transform
	}
	return config.Sink
}

func planOf(t testing.TB, chains ...shape) *physical.Plan {
	p := &physical.Pipeline{ID: 1, Bounded: true}
	n := 0
	for c, sh := range chains {
		ch := &physical.Chain{ID: plan.ChainID(c), Parallelism: sh.parallelism}
		for _, plugin := range sh.plugins {
			v := &physical.Vertex{
				ID: plan.VertexID(fmt.Sprintf("v%d", n)), Section: section(plugin), Plugin: plugin, Path: fmt.Sprintf("v%d (%s)", n, plugin),
				Parallelism: sh.parallelism, Chain: ch.ID, Options: &option.Node{Kind: option.Object, Fields: []option.Field{{Key: "world", Value: &option.Node{Kind: option.String, Text: t.Name()}}}},
				In: []*schema.Table{fakeTable}, Out: []*schema.Table{fakeTable},
			}
			n++
			ch.Vertices = append(ch.Vertices, v.ID)
			p.Vertices = append(p.Vertices, v)
		}
		p.Chains = append(p.Chains, ch)
		if c > 0 {
			e := &physical.Edge{ID: c - 1, From: 0, To: ch.ID, Exchange: "rebalance", Tables: []*schema.Table{fakeTable}}
			p.Edges = append(p.Edges, e)
			p.Chains[0].Outputs = append(p.Chains[0].Outputs, e.ID)
			ch.Inputs = []int{e.ID}
		}
	}
	return &physical.Plan{Version: 1, Pipelines: []*physical.Pipeline{p}}
}

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
	pl := &record.Placement{Attempt: 1, Scope: record.ScopeAll, Enumerators: map[plan.VertexID]string{}, Committers: map[plan.VertexID]string{}}
	as := &record.Assignment{Attempt: 1, Scope: record.ScopeAll}
	for _, c := range pipe.Chains {
		pc := record.PlacedChain{Chain: c.ID, Worker: "w1", Range: plan.Range{From: 0, To: c.Parallelism}}
		pl.Chains, as.Chains = append(pl.Chains, pc), append(as.Chains, pc)
	}
	for _, v := range pipe.Vertices {
		switch {
		case v.Section == config.Source:
			pl.Enumerators[v.ID] = "w1"
			as.Enumerators = append(as.Enumerators, v.ID)
		case v.Plugin == "TestTwoPhase" || v.Plugin == "TestAggregating":
			pl.Committers[v.ID] = "w1"
			as.Committers = append(as.Committers, v.ID)
		}
	}
	cfg := Config{
		Cluster: "c", JobID: "job", Job: "job.7", Attempt: 1, Plan: p, Pipeline: pipe, Placement: pl, Assignment: as,
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
