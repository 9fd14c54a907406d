package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrFenced: this attempt may have no external effect any more. Stop it; do not retry.
	ErrFenced = errors.New("fenced")
	// ErrStale: the lease is not proved right now. Nothing is lost: Enter waits for the proof.
	ErrStale = errors.New("write gate is stale")
)

// Gate is the write gate of one attempt. Every external effect (statement, upload, send, commit) is
//
//	if err := gate.Enter(ctx); err != nil { … }   // when the batch is taken; may wait
//	…                                             // prepare the call
//	if err := gate.Begin(); err != nil { … }      // just before it; never waits
//	defer gate.End()                              // when the call has returned
//
// or gate.Do, which does the three. Safe for concurrent use.
type Gate struct {
	s         *Session
	withdrawn atomic.Bool
	gone      chan struct{} // closed by Withdraw
	calls     atomic.Int64
	waiters   atomic.Int64

	mu   sync.Mutex
	idle chan struct{} // closed and replaced when the last call ended and somebody waits
}

// Gate makes the gate of one attempt. It needs no closing; Withdraw ends it.
func (s *Session) Gate() *Gate {
	return &Gate{s: s, gone: make(chan struct{}), idle: make(chan struct{})}
}

// Open is the second look: it costs a clock reading and three atomic loads, and never waits.
func (g *Gate) Open() bool {
	return !g.s.over.Load() && !g.withdrawn.Load() && int64(g.s.clock.Now()) < g.s.proof.Load()
}

// Left is how long the proof still holds; a keyed-upsert call ends by then or by a later Left.
func (g *Gate) Left() time.Duration { return g.s.Left() }

func (g *Gate) fenced() error {
	if g.withdrawn.Load() {
		return fmt.Errorf("%w: the attempt was withdrawn", ErrFenced)
	}
	if g.s.over.Load() {
		return fmt.Errorf("%w: %w", ErrFenced, g.s.Err())
	}
	return nil
}

// Enter is the first look. It waits while the proof is stale, as long as ctx allows. Errors:
// ErrFenced; ctx's error together with ErrStale.
func (g *Gate) Enter(ctx context.Context) error {
	for {
		renewed := g.s.next() // before the look, so that no renewal is missed
		if err := g.fenced(); err != nil {
			return err
		}
		if g.Open() {
			return nil
		}
		select {
		case <-renewed:
		case <-g.gone:
		case <-g.s.done:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w; etcd has not renewed the lease of this process", ErrStale, context.Cause(ctx))
		}
	}
}

// Begin counts a call in flight and takes the second look. On an error (ErrFenced, ErrStale) the
// call must not be made and End not be called.
func (g *Gate) Begin() error {
	g.calls.Add(1) // before the look: see the package comment
	if g.Open() {
		return nil
	}
	g.End()
	if err := g.fenced(); err != nil {
		return err
	}
	return ErrStale
}

// End says that a call returned, or that its connection is closed for good.
func (g *Gate) End() {
	if g.calls.Add(-1) != 0 || g.waiters.Load() == 0 {
		return
	}
	g.mu.Lock()
	close(g.idle)
	g.idle = make(chan struct{})
	g.mu.Unlock()
}

// Do makes one external call behind both looks; it waits while the gate is stale. The call bounds
// itself by the call limit.
func (g *Gate) Do(ctx context.Context, call func(context.Context) error) error {
	for {
		if err := g.Enter(ctx); err != nil {
			return err
		}
		err := g.Begin()
		if err == nil {
			break
		}
		if !errors.Is(err, ErrStale) {
			return err
		}
	}
	defer g.End()
	return call(ctx)
}

// Withdraw shuts the gate for good: the attempt is over. Calls in flight go on. Idempotent.
func (g *Gate) Withdraw() {
	if g.withdrawn.CompareAndSwap(false, true) {
		close(g.gone)
	}
}

// Calls is the number of calls in flight.
func (g *Gate) Calls() int { return int(g.calls.Load()) }

// Quiesce waits until no call is in flight and none can begin. Only then may the attempt report
// "stopped". The gate is withdrawn or its session over before; on an open gate it is an error.
func (g *Gate) Quiesce(ctx context.Context) error {
	if g.fenced() == nil {
		return errors.New("session: BUG: quiesce of a gate that still admits calls; withdraw it first")
	}
	g.waiters.Add(1)
	defer g.waiters.Add(-1)
	for {
		g.mu.Lock()
		idle := g.idle
		g.mu.Unlock()
		n := g.calls.Load()
		if n == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("session: %d calls still in flight: %w", n, context.Cause(ctx))
		}
	}
}
