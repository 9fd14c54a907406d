package local

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"go.uber.org/goleak"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/transport/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ints = batch.NewSchema(&schema.Table{Columns: []schema.Column{schema.Col("n", schema.Of(schema.BigInt))}}, 0)

// rows makes a batch of 8 bytes a row, first, first+1, ….
func rows(first, n int) *batch.Batch {
	b := batch.NewBuilder(ints)
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(first + i))
		b.EndRow(schema.Insert)
	}
	return b.Finish()
}

func first(b *batch.Batch) int { return int(b.Cols[0].(*array.Int64).Value(0)) }

func barrier(id int) checkpoint.Barrier {
	return checkpoint.Barrier{ID: plan.CheckpointID(id), Kind: checkpoint.Periodic}
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func next(ctx context.Context, in *Inbox) (stream.Item, error) {
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

// try sends without waiting longer than it takes to be sure.
func try(p *Port, b *batch.Batch) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	return p.Send(ctx, b) == nil
}

func TestBoundedInBytes(t *testing.T) {
	budget := NewBudget(1 << 20)
	in := NewInbox(2, 100, budget)
	defer in.Close(nil)
	a, b := in.Port(0, nil), in.Port(1, nil)
	if !try(a, rows(1, 10)) || !try(b, rows(2, 100)) { // 80, then anything while a byte is left
		t.Fatal("there was room")
	}
	if try(a, rows(3, 1)) || try(b, rows(4, 1)) {
		t.Fatal("there was no room")
	}
	if err := a.Barrier(barrier(1)); err != nil { // needs none
		t.Fatal(err)
	}
	if item, _, _ := in.TryNext(); first(item.Batch) != 1 {
		t.Fatalf("%+v", item)
	}
	if try(a, rows(3, 1)) {
		t.Fatal("800 of 100 bytes are still queued")
	}
	if item, _, _ := in.TryNext(); first(item.Batch) != 2 || item.Channel != 1 {
		t.Fatalf("%+v", item)
	}
	if !try(a, rows(3, 1)) {
		t.Fatal("there is room again")
	}
}

func TestNoChannelIsPreferred(t *testing.T) {
	in := NewInbox(3, 1<<20, NewBudget(1<<20))
	defer in.Close(nil)
	for c := range 3 {
		for i := range 10 {
			try(in.Port(c, nil), rows(i, 1))
		}
	}
	for i := range 30 {
		if item, ok, _ := in.TryNext(); !ok || item.Channel != i%3 || first(item.Batch) != i/3 {
			t.Fatalf("item %d: %+v", i, item)
		}
	}
	if _, ok, err := in.TryNext(); ok || err != nil {
		t.Fatal("not empty")
	}
}

func TestHold(t *testing.T) {
	in := NewInbox(2, 1<<20, NewBudget(1<<20))
	defer in.Close(nil)
	a, b := in.Port(0, nil), in.Port(1, nil)
	try(a, rows(1, 1))
	try(b, rows(2, 1))
	in.Hold(0)
	in.Hold(0)
	if item, ok, _ := in.TryNext(); !ok || item.Channel != 1 {
		t.Fatalf("%+v %v", item, ok)
	}
	if _, ok, _ := in.TryNext(); ok {
		t.Fatal("took from a held channel")
	}
	for len(in.Ready()) > 0 {
		<-in.Ready()
	}
	in.Release()
	if len(in.Ready()) == 0 {
		t.Fatal("no token after Release")
	}
	if item, ok, _ := in.TryNext(); !ok || first(item.Batch) != 1 {
		t.Fatalf("%+v %v", item, ok)
	}
}

// TestHeldMemoryDoesNotStarve: all memory lies behind a barrier of one channel, and the other must still bring
// rows before its own barrier comes.
func TestHeldMemoryDoesNotStarve(t *testing.T) {
	ctx := deadline(t)
	in := NewInbox(2, 1, NewBudget(1<<20))
	defer in.Close(nil)
	early, late := in.Port(0, nil), in.Port(1, nil)
	early.Barrier(barrier(1))
	if !try(early, rows(1, 1000)) { // behind the barrier
		t.Fatal("there was room")
	}
	if item, _, _ := in.TryNext(); item.Kind != stream.Barrier {
		t.Fatal("no barrier")
	}
	in.Hold(0)
	sent := make(chan error, 1)
	go func() {
		for i := range 50 {
			if err := late.Send(ctx, rows(100+i, 10)); err != nil {
				sent <- err
				return
			}
		}
		sent <- late.Barrier(barrier(1))
	}()
	for i := range 50 {
		item, err := next(ctx, in)
		if err != nil || item.Channel != 1 || first(item.Batch) != 100+i {
			t.Fatalf("%d: %+v %v", i, item, err)
		}
	}
	if item, err := next(ctx, in); err != nil || item.Kind != stream.Barrier {
		t.Fatal(item, err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if try(early, rows(2, 1)) {
		t.Fatal("a held channel got more memory")
	}
	in.Release()
	if item, err := next(ctx, in); err != nil || first(item.Batch) != 1 {
		t.Fatal(item, err)
	}
}

func TestCloseWakesEverybody(t *testing.T) {
	budget := NewBudget(1 << 20)
	in := NewInbox(3, 10, budget)
	if budget.Used() != 10 || budget.Left() != 1<<20-10 {
		t.Fatal(budget.Used())
	}
	try(in.Port(0, nil), rows(1, 10))
	cause := errors.New("attempt 4 failed")
	errs := make(chan error, 3)
	for c := range 3 {
		p := in.Port(c, nil)
		go func() { errs <- p.Send(context.Background(), rows(2, 1)) }()
	}
	time.Sleep(5 * time.Millisecond)
	in.Close(cause)
	in.Close(errors.New("another"))
	for range 3 {
		if err := <-errs; !errors.Is(err, cause) {
			t.Error(err)
		}
	}
	for range 2 {
		if _, err := next(context.Background(), in); !errors.Is(err, cause) {
			t.Error(err)
		}
	}
	if err := in.Port(2, nil).Barrier(barrier(1)); !errors.Is(err, cause) {
		t.Error(err)
	}
	if budget.Used() != 0 {
		t.Errorf("%d bytes are still reserved", budget.Used())
	}
}

// fakeRemote is a producer behind a connection, without the connection: what it may send is what it was granted.
type fakeRemote struct {
	mu      sync.Mutex
	p       *Port
	credit  int64
	waits   bool // announced and not granted since
	granted chan struct{}
	recalls int
}

func newRemote(in *Inbox, channel int) *fakeRemote {
	r := &fakeRemote{granted: make(chan struct{}, 1)}
	r.p = in.Port(channel, r)
	return r
}

func (r *fakeRemote) Grant(n int64) {
	r.mu.Lock()
	r.credit += n
	if r.credit > 0 {
		r.waits = false
	}
	r.mu.Unlock()
	signal(r.granted)
}

// may says whether a frame may be sent and, when not, whether it is to be announced. Both in one look: a grant
// that came between the two would leave an announcement noted that answers nothing.
func (r *fakeRemote) may() (send, announce bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.credit > 0 {
		return true, false
	}
	first := !r.waits
	r.waits = true
	return false, first
}

// Recall is answered later, as over a connection.
func (r *fakeRemote) Recall() {
	r.mu.Lock()
	r.recalls++
	r.mu.Unlock()
}

func (r *fakeRemote) answerRecalls() {
	r.mu.Lock()
	n, unused := r.recalls, max(r.credit, 0)
	r.recalls = 0
	if n > 0 {
		r.credit -= unused
	}
	r.mu.Unlock()
	if n > 0 {
		r.p.Returned(unused)
	}
}

func (r *fakeRemote) has() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.credit
}

func (r *fakeRemote) send(b *batch.Batch) {
	n := b.Bytes()
	r.mu.Lock()
	r.credit -= n
	r.mu.Unlock()
	r.p.Deliver(&fakeFrame{b: b}, n)
}

type fakeFrame struct {
	b       *batch.Batch
	err     error
	dropped bool
}

func (f *fakeFrame) Decode() (*batch.Batch, error) { return f.b, f.err }
func (f *fakeFrame) Drop()                         { f.dropped = true }

func TestCreditIsLent(t *testing.T) {
	in := NewInbox(3, 1000, NewBudget(1<<20))
	defer in.Close(nil)
	a, b, c := newRemote(in, 0), newRemote(in, 1), newRemote(in, 2)
	a.p.Announce(400)
	if a.has() < 400 {
		t.Fatalf("granted %d", a.has())
	}
	b.p.Announce(5000)
	if a.has()+b.has() > 1000 || b.has() <= 0 {
		t.Fatalf("granted %d and %d of 1000", a.has(), b.has())
	}
	c.p.Announce(100) // nothing is left; those who have it are asked for what they do not use
	if c.has() != 0 || a.recalls != 1 || b.recalls != 1 {
		t.Fatalf("granted %d, recalls %d and %d", c.has(), a.recalls, b.recalls)
	}
	a.answerRecalls()
	if c.has() < 100 {
		t.Fatalf("granted %d after a gave back", c.has())
	}
	b.send(rows(1, 625)) // 5000 bytes on some credit: one frame, whatever its size
	if b.has() >= 0 {
		t.Fatal("no debt")
	}
	c.p.Announce(1)
	b.p.Announce(8)
	if b.has() > 0 {
		t.Fatal("granted while more than the reservation is queued")
	}
	if item, ok, _ := in.TryNext(); !ok || first(item.Batch) != 1 {
		t.Fatal("no rows")
	}
	if b.has() <= 0 {
		t.Fatal("no grant after the rows were taken: the debt was not paid")
	}
	if err := b.p.End(); err != nil || b.p.Credit() != 0 {
		t.Fatalf("credit %d behind the end", b.p.Credit())
	}
}

func TestFramesAreDroppedOrDecoded(t *testing.T) {
	in := NewInbox(1, 1000, NewBudget(1<<20))
	r := newRemote(in, 0)
	bad := errors.New("does not decode")
	r.p.Deliver(&fakeFrame{err: bad}, 1)
	if _, _, err := in.TryNext(); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	f := &fakeFrame{}
	r.p.Deliver(f, 1)
	in.Close(nil)
	if !f.dropped {
		t.Error("a queued frame was not dropped")
	}
	if r.p.Deliver(f, 1) {
		t.Error("delivered to a closed inbox")
	}
}

func TestReservationFollowsTheRate(t *testing.T) {
	budget := NewBudget(16 << 20)
	in := NewInbox(1, 1000, budget)
	defer in.Close(nil)
	f := func(name string, bytes int64, dry bool, windows int, want int64) {
		t.Helper()
		in.mu.Lock()
		defer in.mu.Unlock()
		for range windows {
			in.meter = meter{since: time.Now().Add(-meterWindow), bytes: bytes, dry: dry}
			in.measure(1)
		}
		if in.limit < want*9/10 || in.limit > want*11/10 || budget.Used() != in.limit {
			t.Errorf("%s: limit %d, want %d; reserved %d", name, in.limit, want, budget.Used())
		}
	}
	f("never dry", 1<<20, false, 3, 1000)
	f("dry", 1<<20, true, 3, 8000)
	f("dry and slow", 4000, true, 5, 20000) // 100 ms worth of 4000 bytes in 20 ms
	f("no longer dry", 1<<20, false, 1, 10000)
	f("past the budget", 1<<30, true, 20, 5_120_000)
	f("idle", 10, true, 1, 1000)
}

func BenchmarkLocal(b *testing.B) {
	b.ReportAllocs()
	ctx := context.Background()
	in := NewInbox(1, 1<<20, NewBudget(1<<30))
	defer in.Close(nil)
	p, batch := in.Port(0, nil), rows(0, 1024)
	done := make(chan error, 1)
	go func() {
		for range b.N {
			if _, err := next(ctx, in); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range b.N {
		if err := p.Send(ctx, batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(1024*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
