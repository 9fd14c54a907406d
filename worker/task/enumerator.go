package task

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"strait/plan"
	"strait/worker/connector"
	"strait/worker/task/ledger"
)

// registerWait is how long the first splits wait for readers that have not registered: all of them are about to, for
// their tasks were ready before any was told to run.
const registerWait = 500 * time.Millisecond

// enumerator is the task that hands the splits of one source to its readers. Discovery has its own goroutine.
type enumerator struct {
	a       *Attempt
	v       *vertex
	plug    connector.Enumerator
	ctl     control
	drained atomic.Bool
	busy    atomic.Bool // discovery is inside the plugin

	// All below belongs to run.
	book  *ledger.Enumerator
	cut   ledger.Cut[*ledger.Frame]
	homes []string // worker of each reader
}

func newEnumerator(ctx context.Context, a *Attempt, v *vertex) (*enumerator, error) {
	e := &enumerator{a: a, v: v, ctl: newControl(), book: ledger.NewEnumerator(v.Parallelism), homes: make([]string, v.Parallelism)}
	for _, pc := range a.cfg.Placement.Chains {
		if pc.Chain != v.Chain {
			continue
		}
		for i := pc.From; i < pc.To && i < len(e.homes); i++ {
			e.homes[i] = pc.Worker
		}
	}
	for i, w := range e.homes {
		if w == "" {
			return nil, fmt.Errorf("BUG: the placement has no worker for subtask %d", i)
		}
	}
	err := protect(a.cfg.Log, func() string { return v.Path + ": NewEnumerator" }, func() (err error) {
		e.plug, err = v.source.NewEnumerator(ctx)
		return err
	})
	return e, err
}

// found is one step of discovery.
type found struct {
	connector.Discovery
	err error
}

// run is the goroutine of the enumerator.
func (e *enumerator) run() {
	err := protect(e.a.cfg.Log, func() string { return e.v.Path + ": the enumerator" }, e.loop)
	e.a.fail(at(err, e.v, ""))
}

func (e *enumerator) loop() error {
	ctx := e.a.ctx
	steps := make(chan found)
	cursor := e.book.Cursor()
	if !e.a.goes(func() { e.discover(ctx, cursor, steps) }) {
		e.close()
		return errStopped
	}
	wait := time.NewTimer(registerWait)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.ctl.kick:
			if err := e.control(); err != nil {
				return err
			}
		case f := <-steps:
			if f.err != nil {
				return f.err
			}
			e.book.Discover(f.Discovery)
		case <-wait.C:
			e.book.Open()
		}
		if err := e.deal(); err != nil {
			return err
		}
	}
}

// discover is the goroutine that asks the connector; it closes it in the end.
func (e *enumerator) discover(ctx context.Context, cursor []byte, steps chan<- found) {
	defer e.close()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var f found
		f.err = protect(e.a.cfg.Log, func() string { return e.v.Path + ": Discover" }, func() (err error) {
			e.busy.Store(true)
			defer e.busy.Store(false)
			f.Discovery, err = e.plug.Discover(ctx, cursor)
			return err
		})
		select {
		case steps <- f:
		case <-ctx.Done():
			return
		}
		if f.err != nil || f.Done {
			return
		}
		cursor = f.Cursor
		if f.Again > 0 {
			timer.Reset(f.Again)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (e *enumerator) calling() string {
	if !e.busy.Load() {
		return ""
	}
	return e.v.Path + ": Discover"
}

func (e *enumerator) control() error {
	n, ok := e.ctl.take()
	if !ok {
		return nil
	}
	for _, f := range n.frames {
		e.cut.Offer(f.Barrier, f)
	}
	if n.aborted > 0 {
		e.cut.Settled(n.aborted)
		e.book.Aborted(n.aborted)
	}
	if n.barrier.ID > e.cut.Tag() && n.barrier.ID > n.aborted {
		// The snapshot of e.book belongs here. A final checkpoint, the only kind yet, restores no enumerator.
		e.cut.Handled(n.barrier.ID)
		e.a.handled(e, n.barrier.ID, nil)
	}
	for _, f := range e.cut.Take() {
		if err := e.frame(f); err != nil {
			return err
		}
	}
	if n.completed > 0 {
		return e.covered(n.completed)
	}
	return nil
}

func (e *enumerator) frame(f *ledger.Frame) error {
	switch f.Kind {
	case ledger.Register:
		return e.book.Register(f.Subtask)
	case ledger.Ask:
		return e.book.Ask(f.Subtask, f.IDs)
	}
	return fmt.Errorf("BUG: a frame of kind %d for an enumerator", f.Kind)
}

// covered tells readers which finished splits a completed snapshot of this enumerator shows.
func (e *enumerator) covered(n plan.CheckpointID) error {
	for r, ids := range e.book.Completed(n) {
		for len(ids) > 0 {
			k := ledger.Fit(ids)
			if err := e.tell(r, &ledger.Frame{Kind: ledger.Covered, IDs: ids[:k]}); err != nil {
				return err
			}
			ids = ids[k:]
		}
	}
	return nil
}

// deal sends out what can be handed out.
func (e *enumerator) deal() error {
	dealt, more := e.book.Deal()
	if more {
		e.ctl.wake() // once what was dealt is on its way
	}
	for _, d := range dealt {
		f := &ledger.Frame{Kind: ledger.Assign, Splits: d.Splits}
		if d.NoMore {
			f = &ledger.Frame{Kind: ledger.NoMore}
		}
		if err := e.tell(d.Reader, f); err != nil {
			return err
		}
	}
	if d := e.book.Drained(); d != e.drained.Load() {
		e.drained.Store(d)
		e.a.cfg.Watcher.Changed()
	}
	return nil
}

func (e *enumerator) tell(reader int, f *ledger.Frame) error {
	f.Vertex, f.Subtask, f.Attempt, f.Barrier = e.v.ID, reader, e.a.cfg.Attempt, e.cut.Tag()
	return e.a.net.Control(e.homes[reader], f.Append(nil))
}

func (e *enumerator) close() {
	if e.plug == nil {
		return
	}
	if err := protect(e.a.cfg.Log, func() string { return e.v.Path + ": Close" }, e.plug.Close); err != nil {
		e.a.cfg.Log.Warn("enumerator not closed cleanly", "vertex", e.v.ID, "err", err)
	}
	e.plug = nil
}

// Frame takes in a control frame from a worker of the attempt. It does not block.
func (a *Attempt) Frame(from string, data []byte) {
	f, err := ledger.Decode(data)
	if err != nil {
		a.fail(fmt.Errorf("control frame from worker %s: %w", from, err))
		return
	}
	if f.Attempt != a.cfg.Attempt {
		return // Invariant 4
	}
	switch f.Kind {
	case ledger.Register, ledger.Ask:
		if e := a.enumerators[f.Vertex]; e != nil {
			e.ctl.frame(f)
			return
		}
	default:
		if g := a.readers[readerID{f.Vertex, f.Subtask}]; g != nil {
			g.ctl.frame(f)
			return
		}
	}
	a.fail(fmt.Errorf("BUG: worker %s sent a split frame for %s, subtask %d, which is not here", from, f.Vertex, f.Subtask))
}
