package task

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"strait/checkpoint"
	"strait/checkpoint/failpoint"
	"strait/plan/fault"
	"strait/transport/batch"
	"strait/transport/queue"
	"strait/worker/connector"
	"strait/worker/task/ledger"
)

// started is a reading of the clock that does not jump, for durations that are kept as numbers.
var started = time.Now()

// sinceStart is never 0.
func sinceStart() time.Duration { return time.Since(started) + 1 }

// sourceHead is the source at the begin of a group. Its reader runs ahead in a goroutine of its own behind a queue
// bounded in bytes; the ledger moves with what has passed the loop, so a checkpoint never counts what was only read.
type sourceHead struct {
	g      *group
	v      *vertex
	count  *vertexCount
	reader connector.Reader
	queue  *queue.Queue[unit]            // read and not yet passed
	splits *queue.Queue[[]ledger.Handed] // handed out and not yet begun
	idle   atomic.Bool                   // the reader has nothing to read
	busyAt atomic.Int64                  // ns on sinceStart: since when the reader is inside the plugin; 0: it is not
	done   chan struct{}                 // the reader's goroutine has returned

	throttle *throttle // the reader's; nil: as fast as it can
	large    large     // the reader's

	// All below belongs to the loop.
	book    ledger.Reader
	cut     ledger.Cut[*ledger.Frame]
	unit    unit // what the loop passes now, or passed last
	passing bool
	reads   bool // the reader's goroutine was started

	drained atomic.Bool
}

// unit is what one Read gave: it passes as a whole, or a barrier would part its rows from its position.
type unit struct {
	batches  []*batch.Batch
	split    string
	position []byte
	done     bool  // the split ended
	held     int64 // of the pool for large elements, until it has passed
}

func newSourceHead(ctx context.Context, g *group, v *vertex) (*sourceHead, error) {
	s := &sourceHead{
		g: g, v: v, count: newVertexCount(v.ID, v.Out),
		queue: queue.New[unit](g.a.shares.ReadAhead), splits: queue.New[[]ledger.Handed](1 << 20), done: make(chan struct{}),
	}
	s.large = g.a.newLarge(v.Chain)
	s.throttle = newThrottle(&g.a.env, &s.count.throttled)
	r, err := v.source.NewReader(ctx, connector.ReaderContext{Subtask: g.id.Index, Parallelism: v.Parallelism, Schemas: v.out, MostRow: g.a.shares.Most()})
	if err != nil {
		return nil, err
	}
	s.reader = r
	s.idle.Store(true)
	return s, nil
}

// start registers with the enumerator and lets the reader run.
func (s *sourceHead) start() error {
	if !s.g.a.goes(s.read) {
		return errStopped
	}
	s.reads = true
	s.book.Registered()
	return s.tell(&ledger.Frame{Kind: ledger.Register})
}

// tell sends a frame to the enumerator.
func (s *sourceHead) tell(f *ledger.Frame) error {
	f.Vertex, f.Subtask, f.Attempt, f.Barrier = s.v.ID, s.g.id.Index, s.g.a.cfg.Attempt, s.cut.Tag()
	to := s.g.a.cfg.Placement.Enumerators[s.v.ID]
	if to == "" {
		return fmt.Errorf("BUG: the placement names no worker for the enumerator of %s", s.v.ID)
	}
	return s.g.a.net.Control(to, f.Append(nil))
}

// read is the reader's goroutine.
func (s *sourceHead) read() {
	defer close(s.done)
	ctx := s.g.a.ctx
	err := protect(s.g.a.cfg.Log, func() string { return s.v.Path + ": the reader" }, func() error { return s.readAll(ctx) })
	s.busyAt.Store(0)
	if err != nil {
		s.queue.Close(err) // the loop meets it behind what was read before
	}
}

func (s *sourceHead) readAll(ctx context.Context) error {
	out := connector.NewOutput(s.v.out, s.throttle.limit(batch.Limit{Bytes: s.g.a.shares.Batch}))
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		next, err := s.splits.Pop(ctx)
		if err != nil {
			return err
		}
		for _, h := range next {
			if err := s.readSplit(ctx, h, out, timer); err != nil {
				return err
			}
		}
		if s.splits.Len() == 0 {
			s.idle.Store(true)
			s.g.ctl.wake() // the loop asks for more
		}
	}
}

func (s *sourceHead) readSplit(ctx context.Context, h ledger.Handed, out *connector.Output, timer *time.Timer) error {
	position := h.Position
	if failpoint.Enabled { // a split that does harm wherever it is read
		if err := failpoint.Inject("task.split." + h.ID); err != nil {
			return at(err, s.v, showPosition(h.ID, position))
		}
	}
	s.enter()
	if err := s.reader.Open(ctx, h.Split, position); err != nil {
		return at(err, s.v, showPosition(h.ID, position))
	}
	for {
		if err := s.large.expect(ctx); err != nil {
			return err
		}
		s.enter()
		p, err := s.reader.Read(ctx, out)
		s.busyAt.Store(0)
		if err != nil {
			return at(err, s.v, showPosition(h.ID, position))
		}
		u := unit{batches: out.Take(), split: h.ID, position: p.Position, done: p.Done}
		if len(u.batches) > 0 || p.Done || string(p.Position) != string(position) {
			if err := s.push(ctx, u); err != nil {
				return err
			}
			position = p.Position
		} else {
			s.large.none()
		}
		if p.Done {
			return nil
		}
		if p.Idle > 0 {
			timer.Reset(p.Idle)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		} else if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (s *sourceHead) enter() { s.busyAt.Store(int64(sinceStart())) }

// push hands a unit to the loop, at the job's rate; the time it waits for room is the source's back-pressure.
func (s *sourceHead) push(ctx context.Context, u unit) error {
	rows, bytes := 0, int64(0)
	for _, b := range u.batches {
		n := b.Bytes()
		if n > s.g.a.shares.Most() {
			return at(fault.Fatal(s.g.a.shares.TooLarge(b.Rows, n)), s.v, showPosition(u.split, u.position))
		}
		rows += b.Rows
		bytes += n
	}
	var err error
	if u.held, err = s.large.take(ctx, bytes); err != nil {
		return err
	}
	if err := s.throttle.wait(ctx, rows, bytes); err != nil {
		return err
	}
	bytes++ // what has only a position takes room too
	if ok, err := s.queue.TryPush(u, bytes); ok || err != nil {
		return err
	}
	return s.queue.Push(ctx, u, bytes)
}

// reading names the call that the reader is in; "" is none.
func (s *sourceHead) reading() string {
	since := s.busyAt.Load()
	if since == 0 {
		return ""
	}
	return fmt.Sprintf("%s: reading for %v", s.v.Path, (sinceStart() - time.Duration(since)).Round(time.Millisecond))
}

// move passes one unit.
func (s *sourceHead) move(ctx context.Context) (bool, error) {
	u, ok, err := s.queue.TryPop()
	if err != nil {
		s.g.at = s.v
		return false, err
	}
	if !ok {
		return false, nil
	}
	s.unit, s.passing = u, true
	for _, b := range u.batches {
		bytes := b.Bytes()
		s.count.table(b).out(b.Rows, bytes)
		if err := s.g.pass(ctx, b, bytes); err != nil {
			return false, err
		}
	}
	s.passing = false
	s.large.giveBack(u.held)
	if err := s.book.Passed(u.split, u.position, u.done); err != nil {
		return false, fmt.Errorf("BUG: %w", err)
	}
	return true, nil
}

// where says which input the loop works on.
func (s *sourceHead) where() string {
	if !s.passing {
		return ""
	}
	return "rows up to " + showPosition(s.unit.split, s.unit.position)
}

// control takes in frames and barriers.
func (s *sourceHead) control(ctx context.Context, n news) error {
	for _, f := range n.frames {
		s.cut.Offer(f.Barrier, f)
	}
	if n.barrier.ID > s.cut.Tag() && n.barrier.ID > n.aborted {
		if err := s.handle(ctx, n.barrier); err != nil {
			return err
		}
	}
	return s.take()
}

// handle is the barrier at a batch border.
func (s *sourceHead) handle(ctx context.Context, b checkpoint.Barrier) error {
	// The snapshot of s.book belongs here. A final checkpoint, the only kind yet, restores no source.
	if err := s.g.barrier(ctx, b); err != nil {
		return err
	}
	s.cut.Handled(b.ID)
	return nil
}

// take handles the frames that do not cross the cut backwards.
func (s *sourceHead) take() error {
	if s.cut.Empty() {
		return nil
	}
	for _, f := range s.cut.Take() {
		switch f.Kind {
		case ledger.Assign:
			if err := s.book.Assign(f.Splits); err != nil {
				return fmt.Errorf("BUG: %w", err)
			}
			s.idle.Store(false)
			if _, err := s.splits.TryPush(f.Splits, 1); err != nil {
				return err
			}
		case ledger.NoMore:
			s.book.NoMore()
		case ledger.Covered:
			s.book.Covered(f.IDs)
		}
	}
	return nil
}

// tend asks for splits when nothing is left to read, and ends the rows when nothing will come.
func (s *sourceHead) tend(ctx context.Context) error {
	if s.book.Drained() {
		if !s.drained.Load() && !s.g.holding {
			s.drained.Store(true)
			if err := s.g.end(ctx); err != nil {
				return err
			}
		}
	}
	done, ok := s.book.Ask(s.idle.Load())
	for ok {
		n := ledger.Fit(done)
		if err := s.tell(&ledger.Frame{Kind: ledger.Ask, IDs: done[:n]}); err != nil {
			return err
		}
		done = done[n:]
		ok = len(done) > 0
	}
	return nil
}

// close waits for the reader's goroutine, where one runs, and closes the reader. The attempt's context has ended.
func (s *sourceHead) close() error {
	if s.reader == nil {
		return nil
	}
	if s.reads {
		<-s.done
	}
	r := s.reader
	s.reader = nil
	return r.Close()
}
