package task

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Gate is the write gate of one attempt (kv/session): open = session not lost ∧ proof not over ∧ attempt not
// withdrawn.
type Gate interface {
	// Enter is the first look, when a batch is taken. It waits while the proof is stale; an error is final.
	Enter(ctx context.Context) error
	// Begin is the second look, just before the call; with an error the call must not be made.
	Begin() error
	End()
	Withdraw()
	Quiesce(ctx context.Context) error
}

// caller makes the external calls of one plugin instance, one at a time: behind both looks at the gate and with a
// limit each. A call over its limit has its context cancelled and fails the attempt at once, whether it returns or
// not; Attempt.Stop then finds those that do not.
type caller struct {
	gate Gate
	fail func(error) // told at the limit, from the timer's goroutine
	name string      // the plugin, for messages

	ctx    context.Context // of the calls; cancelled at a limit or with the attempt
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  atomic.Int64 // of the call in flight
	what   atomic.Pointer[string]
	state  atomic.Int32
	within bool // between begin and end; the calling goroutine's
}

const (
	callNone int32 = iota
	callInFlight
	callOver // the limit has passed
)

// newCaller makes a caller whose calls end with ctx. close gives its timer back.
func newCaller(ctx context.Context, gate Gate, name string, fail func(error)) *caller {
	c := &caller{gate: gate, name: name, fail: fail}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.timer = time.AfterFunc(time.Hour, c.over)
	c.timer.Stop()
	return c
}

func (c *caller) over() {
	if !c.state.CompareAndSwap(callInFlight, callOver) {
		return // it returned in time
	}
	err := c.overLimit()
	c.cancel(err)
	c.fail(err)
}

func (c *caller) overLimit() error {
	return fmt.Errorf("%s did not return within %v; the target hangs or is overloaded: the attempt is given up", *c.what.Load(), time.Duration(c.limit.Load()))
}

// begin passes the gate. With an error no call is to be made and end not to be called. what is a constant.
func (c *caller) begin(what *string, limit time.Duration) error {
	if c.state.Load() == callOver {
		return c.overLimit()
	}
	for {
		if err := c.gate.Enter(c.ctx); err != nil {
			return err
		}
		// Invariant 4: the second look. What is merely stale waits in Enter again.
		if c.gate.Begin() == nil {
			break
		}
	}
	c.within = true
	c.what.Store(what)
	c.limit.Store(int64(limit))
	c.state.Store(callInFlight)
	c.timer.Reset(limit)
	return nil
}

// end notes that the call has returned, with err.
func (c *caller) end(err error) error {
	next := callNone
	if !c.timer.Stop() {
		next = callOver // over runs, or is about to: it must not find another call in flight
	}
	c.within = false
	c.gate.End()
	if !c.state.CompareAndSwap(callInFlight, next) || next == callOver {
		return c.overLimit() // what the call made of its cancelled context is of no interest
	}
	return err
}

// drop ends a call that panicked.
func (c *caller) drop() {
	if c.within {
		_ = c.end(nil)
	}
}

// inFlight names the call in flight; "" is none.
func (c *caller) inFlight() string {
	if c.state.Load() == callNone {
		return ""
	}
	return c.name + ": " + *c.what.Load()
}

func (c *caller) close() {
	c.timer.Stop()
	c.cancel(nil)
}

// The calls, by the names messages use.
var (
	callOpen    = "opening the writer"
	callWrite   = "Write"
	callFlush   = "Flush"
	callPrepare = "Prepare"
	callConnect = "opening the committer"
	callCommit  = "Commit"
	callAbandon = "Abandon"
)
