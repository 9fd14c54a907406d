package shuffle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/transport/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testDeadline ends every wait in tests.
const testDeadline = 30 * time.Second

type tb interface {
	Helper()
	Fatalf(string, ...any)
	Errorf(string, ...any)
	Logf(string, ...any)
}

// fleet is some workers with one attempt of one pipeline each.
type fleet struct {
	t        tb
	ctx      context.Context
	names    []string
	services map[string]*Service
	attempts map[string]*Attempt
	stop     func()

	mu       sync.Mutex
	failures map[string]error // by worker
	control  map[string][]string
}

type fleetOptions struct {
	config func(worker string, c *Config)
	via    func(from, to, addr string) string // rewrites an address, for proxies
}

func key(attempt int64) stream.AttemptKey {
	return stream.AttemptKey{Job: "orders", Pipeline: 1, Attempt: plan.Attempt(attempt)}
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// newFleet starts workers w0 to wn-1 and opens attempt 1 on each.
func newFleet(t tb, n int, edges []stream.Edge, o fleetOptions) *fleet {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	f := &fleet{t: t, ctx: ctx, services: map[string]*Service{}, attempts: map[string]*Attempt{}, failures: map[string]error{}, control: map[string][]string{}}
	var wg sync.WaitGroup
	f.stop = func() {
		for _, a := range f.attempts {
			a.Close(nil)
		}
		cancel()
		wg.Wait()
	}
	for i := range n {
		name := fmt.Sprintf("w%d", i)
		cfg := Config{Cluster: "c", Worker: name, Incarnation: int64(i + 1), Listen: "127.0.0.1:0", Log: quiet}
		if o.config != nil {
			o.config(name, &cfg)
		}
		s, err := Listen(cfg)
		if err != nil {
			t.Fatalf("listen: %v", err)
		}
		f.names = append(f.names, name)
		f.services[name] = s
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := s.Run(ctx); err != nil {
				t.Errorf("run %s: %v", name, err)
			}
		}()
	}
	for _, name := range f.names {
		f.open(name, 1, edges, o)
	}
	return f
}

func (f *fleet) open(name string, attempt int64, edges []stream.Edge, o fleetOptions) *Attempt {
	f.t.Helper()
	peers := map[string]string{}
	for _, p := range f.names {
		if p != name {
			peers[p] = f.services[p].Addr()
			if o.via != nil {
				peers[p] = o.via(name, p, peers[p])
			}
		}
	}
	a, err := f.services[name].Open(AttemptConfig{
		Key: key(attempt), Token: "secret", Peers: peers, Edges: edges,
		OnControl: func(from string, frame []byte) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.control[name] = append(f.control[name], from+":"+string(frame))
		},
		OnFailure: func(peer string, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.failures[name] != nil {
				f.t.Errorf("OnFailure of %s called twice", name)
			}
			f.failures[name] = fmt.Errorf("peer %s: %w", peer, err)
		},
	})
	if err != nil {
		f.t.Fatalf("open on %s: %v", name, err)
	}
	f.attempts[name] = a
	return a
}

func (f *fleet) connect() {
	f.t.Helper()
	if err := f.tryConnect(); err != nil {
		f.t.Fatalf("connect: %v", err)
	}
}

func (f *fleet) tryConnect() error {
	var wg sync.WaitGroup
	errs := make([]error, len(f.names))
	for i, n := range f.names {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = f.attempts[n].Connect(f.ctx)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (f *fleet) failure(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failures[name]
}

// next waits for the next item of an input.
func next(ctx context.Context, in stream.Input) (stream.Item, error) {
	for {
		item, ok, err := in.TryNext()
		if ok || err != nil {
			return item, err
		}
		select {
		case <-in.Ready():
		case <-ctx.Done():
			return item, context.Cause(ctx)
		}
	}
}

// testTable has an id, a payload and a nullable string.
func testTable(name string) *batch.Schema {
	return batch.NewSchema(&schema.Table{Path: schema.Path{Table: name}, Columns: []schema.Column{
		schema.Col("producer", schema.Of(schema.Int)), schema.Col("id", schema.Of(schema.BigInt)), schema.Col("text", schema.Of(schema.String)),
	}}, 0)
}

// rowsOf makes a batch of rows (producer, from..from+n).
func rowsOf(s *batch.Schema, producer, from, n int) *batch.Batch {
	b := batch.NewBuilder(s)
	for i := range n {
		b.Field(0).(*array.Int32Builder).Append(int32(producer))
		b.Field(1).(*array.Int64Builder).Append(int64(from + i))
		if t := b.Field(2).(*array.StringBuilder); (from+i)%7 == 0 {
			t.AppendNull()
		} else {
			t.Append(fmt.Sprintf("row %d of %d", from+i, producer))
		}
		kind := schema.Insert
		if (from+i)%11 == 0 {
			kind = schema.Delete
		}
		b.EndRow(kind)
	}
	return b.Finish()
}

func column64(b *batch.Batch, i int) []int64 { return b.Cols[i].(*array.Int64).Int64Values() }
