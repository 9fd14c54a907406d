// Package tasktest has the plugins and plans that tests of the worker run: real connectors that keep what they did
// in memory and fail when told to. For tests only.
//
//	TestSource ─▶ TestEven (keeps even numbers) ─▶ TestSink | TestTwoPhase | TestAggregating
package tasktest

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/transform"
)

// Table is the one table: a column of numbers.
var Table = &schema.Table{Path: schema.Path{Table: "t"}, Columns: []schema.Column{schema.Col("n", schema.Of(schema.BigInt))}}

// World is what the plugins of one test share; they find it by the option "world". What they do is set before the
// tasks start; what they did is read through its methods.
type World struct {
	Splits    int             // split i has the numbers [i×Rows, (i+1)×Rows)
	Rows      int64           // of a split
	Batch     int64           // rows a Read gives
	Unbounded bool            // splits and the source do not end
	Tables    []*schema.Table // all of Table's shape

	OnRead    func(ctx context.Context, subtask int, split string) error
	OnOpen    func(ctx context.Context) error // of a writer
	OnWrite   func(ctx context.Context, b *batch.Batch) error
	OnPrepare func(ctx context.Context, n plan.CheckpointID) error
	OnCommit  func(ctx context.Context) error
	OnAbandon func(ctx context.Context) error

	mu        sync.Mutex
	written   map[int64]int // number → how often Write had it
	visible   map[int64]int // number → how often it was committed
	committed map[string]bool
	abandons  []plan.Attempt
	commits   int
	opened    int
	closed    int
	readers   map[string]int // split → subtask
}

var worlds struct {
	sync.Mutex
	m map[string]*World
}

// New makes the world of a test.
func New(t testing.TB, splits int, rows int64) *World {
	w := &World{Splits: splits, Rows: rows, Batch: 1000, Tables: []*schema.Table{Table}, written: map[int64]int{}, visible: map[int64]int{},
		committed: map[string]bool{}, readers: map[string]int{}}
	worlds.Lock()
	defer worlds.Unlock()
	if worlds.m == nil {
		worlds.m = map[string]*World{}
	}
	worlds.m[t.Name()] = w
	return w
}

func of(v option.Values) *World {
	worlds.Lock()
	defer worlds.Unlock()
	return worlds.m[v.String("world")]
}

func (w *World) do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func copied[K comparable, V any](w *World, m *map[K]V) map[K]V {
	out := map[K]V{}
	w.do(func() {
		for k, v := range *m {
			out[k] = v
		}
	})
	return out
}

// Written is how often each number was written.
func (w *World) Written() map[int64]int { return copied(w, &w.written) }

// Visible is how often each number was committed.
func (w *World) Visible() map[int64]int { return copied(w, &w.visible) }

// Readers is which subtask read each split.
func (w *World) Readers() map[string]int { return copied(w, &w.readers) }

// Commits is how often a committer was called, Opened and Closed count writers.
func (w *World) Commits() (n int) { w.do(func() { n = w.commits }); return n }

// Writers counts the writers that were opened and closed.
func (w *World) Writers() (opened, closed int) {
	w.do(func() { opened, closed = w.opened, w.closed })
	return opened, closed
}

// Abandons lists the attempts that Abandon was called with.
func (w *World) Abandons() (out []plan.Attempt) {
	w.do(func() { out = append(out, w.abandons...) })
	return out
}

func init() {
	spec := option.Spec{Options: []option.Option{{Name: "world", Type: option.TString}}}
	connector.RegisterSource(connector.SourceFactory{Name: "TestSource", Options: spec,
		New: func(_ context.Context, c connector.SourceConfig) (connector.Source, error) {
			return &source{of(c.Options)}, nil
		}})
	sinkOf := func(name string, made func(s sink) connector.Sink) {
		connector.RegisterSink(connector.SinkFactory{Name: name, Options: spec,
			New: func(_ context.Context, c connector.SinkConfig) (connector.Sink, error) {
				return made(sink{w: of(c.Options), prepares: name != "TestSink"}), nil
			}})
	}
	sinkOf("TestSink", func(s sink) connector.Sink { return s })
	sinkOf("TestTwoPhase", func(s sink) connector.Sink { return twoPhase{s} })
	sinkOf("TestAggregating", func(s sink) connector.Sink { return aggregating{s} })
	transform.Register(transform.Factory{Name: "TestEven", Options: spec,
		New: func(transform.Config) (transform.Transform, error) { return even{}, nil }})
}

type source struct{ w *World }

func (s *source) Tables() []*schema.Table { return s.w.Tables }
func (s *source) Bounded() bool           { return !s.w.Unbounded }
func (s *source) NewEnumerator(context.Context) (connector.Enumerator, error) {
	return &enumerator{s.w}, nil
}
func (s *source) NewReader(_ context.Context, rc connector.ReaderContext) (connector.Reader, error) {
	return &reader{w: s.w, subtask: rc.Subtask}, nil
}

type enumerator struct{ w *World }

func (e *enumerator) Discover(_ context.Context, cursor []byte) (connector.Discovery, error) {
	d := connector.Discovery{Cursor: []byte("end"), Done: !e.w.Unbounded, Again: time.Hour}
	for i := range e.w.Splits {
		d.Splits = append(d.Splits, connector.Split{ID: strconv.Itoa(i)})
	}
	return d, nil
}
func (e *enumerator) Close() error { return nil }

type reader struct {
	w       *World
	subtask int
	split   int64
	at      int64
}

func (r *reader) Open(_ context.Context, s connector.Split, position []byte) error {
	n, err := strconv.Atoi(s.ID)
	r.split, r.at = int64(n), 0
	if position != nil {
		r.at, err = strconv.ParseInt(string(position), 10, 64)
	}
	r.w.do(func() { r.w.readers[s.ID] = r.subtask })
	return err
}

func (r *reader) Read(ctx context.Context, out *connector.Output) (connector.Progress, error) {
	if f := r.w.OnRead; f != nil {
		if err := f(ctx, r.subtask, strconv.FormatInt(r.split, 10)); err != nil {
			return connector.Progress{}, err
		}
	}
	b := out.Builder(int(r.split) % len(r.w.Tables)) // split i is of table i modulo their number
	col := b.Field(0).(*array.Int64Builder)
	n := min(r.w.Batch, r.w.Rows-r.at, int64(out.Limit().Rows))
	col.Reserve(int(n))
	for range n {
		col.UnsafeAppend(r.split*r.w.Rows + r.at)
		r.at++
	}
	b.EndRows(int(n))
	p := connector.Progress{Position: strconv.AppendInt(nil, r.at, 10), Done: r.at >= r.w.Rows && !r.w.Unbounded}
	if r.at >= r.w.Rows && r.w.Unbounded {
		p.Idle = time.Hour
	}
	return p, nil
}
func (r *reader) Close() error { return nil }

type sink struct {
	w        *World
	prepares bool
}

func (s sink) Claim() connector.Claim {
	if s.prepares {
		return connector.Claim{Guarantee: connector.ExactlyOnce}
	}
	return connector.Claim{Guarantee: connector.AtLeastOnce}
}

func (s sink) NewWriter(ctx context.Context, _ connector.WriterContext) (connector.Writer, error) {
	if f := s.w.OnOpen; f != nil {
		if err := f(ctx); err != nil {
			return nil, err
		}
	}
	s.w.do(func() { s.w.opened++ })
	return &writer{sink: s}, nil
}

type writer struct {
	sink
	unseen []int64
}

func (w *writer) Write(ctx context.Context, b *batch.Batch) error {
	if f := w.w.OnWrite; f != nil {
		if err := f(ctx, b); err != nil {
			return err
		}
	}
	w.w.do(func() {
		for _, v := range b.Cols[0].(*array.Int64).Int64Values() {
			w.w.written[v]++
			w.unseen = append(w.unseen, v)
		}
	})
	return nil
}

func (w *writer) Prepare(ctx context.Context, n plan.CheckpointID) ([][]byte, error) {
	if f := w.w.OnPrepare; f != nil {
		if err := f(ctx, n); err != nil {
			return nil, err
		}
	}
	if !w.prepares {
		return nil, nil
	}
	data, err := json.Marshal(w.unseen)
	w.unseen = nil
	return [][]byte{data}, err
}

func (w *writer) Close() error {
	w.w.do(func() { w.w.closed++ })
	return nil
}

type twoPhase struct{ sink }

func (s twoPhase) NewCommitter(context.Context, connector.CommitterContext) (connector.Committer, error) {
	return &committer{s.w}, nil
}

type aggregating struct{ sink }

func (s aggregating) NewAggregated(context.Context, connector.CommitterContext) (connector.Committer, error) {
	return &committer{s.w}, nil
}

type committer struct{ w *World }

func (c *committer) Commit(ctx context.Context, prepared []checkpoint.Prepared) error {
	if f := c.w.OnCommit; f != nil {
		if err := f(ctx); err != nil {
			return err
		}
	}
	var err error
	c.w.do(func() {
		c.w.commits++
		for _, p := range prepared {
			if c.w.committed[p.CommitID()] {
				continue
			}
			c.w.committed[p.CommitID()] = true
			var rows []int64
			if err = json.Unmarshal(p.Data, &rows); err != nil {
				return
			}
			for _, v := range rows {
				c.w.visible[v]++
			}
		}
	})
	return err
}

func (c *committer) Abandon(ctx context.Context, older plan.Attempt, _ []checkpoint.Prepared) error {
	if f := c.w.OnAbandon; f != nil {
		if err := f(ctx); err != nil {
			return err
		}
	}
	c.w.do(func() { c.w.abandons = append(c.w.abandons, older) })
	return nil
}
func (c *committer) Close() error { return nil }

// even keeps even numbers.
type even struct{}

func (even) Output(in *schema.Table) (*schema.Table, error)      { return in, nil }
func (even) Open(_, out *batch.Schema) (transform.Runner, error) { return evenRunner{}, nil }

type evenRunner struct{}

func (evenRunner) Apply(_ context.Context, b *batch.Batch) (*batch.Batch, error) {
	var rows []int32
	for i, v := range b.Cols[0].(*array.Int64).Int64Values() {
		if v%2 == 0 {
			rows = append(rows, int32(i))
		}
	}
	return batch.Select(b, rows), nil
}
