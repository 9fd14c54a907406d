package task

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"strait/checkpoint"
	"strait/checkpoint/failpoint"
	"strait/plan"
	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/physical"
	"strait/plan/state"
	"strait/transport/batch"
	"strait/transport/stream"
	"strait/worker/transform"
)

// group is a task group: a chain at one subtask index. run is its only data loop.
//
//	source: reader ─▶ queue ─┐                            ┌─▶ sink writer
//	                         ├─▶ loop: transforms … ──────┤
//	inputs: alignment ───────┘                            └─▶ outputs
type group struct {
	a     *Attempt
	id    plan.TaskGroup
	chain *physical.Chain
	ctl   control

	source *sourceHead // one of source and input is set
	input  *inputHead
	first  *vertexCount // of the chain's first vertex: where its time is noted
	steps  []step
	sink   *sinkEnd // sink or outs
	outs   []stream.Output

	current atomic.Value // state.Task

	// All below belongs to the loop.
	at      *vertex           // whose code runs, for panics
	holding bool              // behind a closing barrier: no element is taken
	closing plan.CheckpointID // of that barrier
	ended   bool              // no more rows: outputs were told
	dirty   bool              // something may be gathered behind the outputs or in the sink
	flushAt time.Time         // when that is flushed
	mark    time.Time         // up to here the time is accounted for
	linger  *time.Timer
}

// step is a transform of the chain.
type step struct {
	v       *vertex
	runners []transform.Runner // by input table
	count   *vertexCount
}

// newGroup makes the subtask of a chain.
func newGroup(ctx context.Context, a *Attempt, vs *vertices, chain plan.ChainID, index int) (*group, error) {
	if int(chain) >= len(a.cfg.Pipeline.Chains) {
		return nil, fmt.Errorf("BUG: chain %d is assigned, the plan has %d", chain, len(a.cfg.Pipeline.Chains))
	}
	g := &group{
		a: a, chain: a.cfg.Pipeline.Chains[chain], ctl: newControl(),
		id: plan.TaskGroup{Pipeline: a.cfg.Pipeline.ID, Chain: chain, Index: index},
	}
	g.current.Store(state.TaskReady)
	for i, id := range g.chain.Vertices {
		v, err := vs.get(ctx, id)
		if err != nil {
			g.close()
			return nil, err
		}
		if err := protect(a.cfg.Log, func() string { return v.Path }, func() error { return g.add(ctx, v, i) }); err != nil {
			g.close()
			return nil, at(err, v, "")
		}
	}
	return g, nil
}

// add appends a vertex of the chain.
func (g *group) add(ctx context.Context, v *vertex, i int) error {
	var count *vertexCount
	switch v.Section {
	case config.Source:
		s, err := newSourceHead(ctx, g, v)
		if err != nil {
			return err
		}
		g.source, count = s, s.count
	case config.Transform:
		s := step{v: v, count: newVertexCount(v.ID, v.Out)}
		if len(v.In) != len(v.Out) {
			return fmt.Errorf("BUG: %d tables go in and %d come out", len(v.In), len(v.Out))
		}
		for t := range v.in {
			r, err := v.transform.Open(v.in[t], v.out[t])
			if err != nil {
				return err
			}
			s.runners = append(s.runners, r)
		}
		g.steps = append(g.steps, s)
		count = s.count
	case config.Sink:
		g.sink = newSinkEnd(g.a, v, g.id)
		count = g.sink.count
	}
	if i == 0 {
		g.first = count
	}
	g.a.counts = append(g.a.counts, count)
	return nil
}

// connect takes the ends of the edges.
func (g *group) connect(net Net) {
	if len(g.chain.Inputs) > 0 {
		g.input = newInputHead(g, net)
	}
	for _, e := range g.chain.Outputs {
		g.outs = append(g.outs, net.Output(e, g.id.Index))
	}
}

func (g *group) state() state.Task { return g.current.Load().(state.Task) }

func (g *group) setState(s state.Task) {
	old := g.state()
	if old == s {
		return
	}
	if err := state.Move(old, s); err != nil {
		g.a.cfg.Log.Error("BUG: illegal step of a task", "group", g.id.String(), "err", err)
	}
	g.current.Store(s)
	g.a.cfg.Watcher.Changed()
}

// run is the goroutine of the group, from Start to the end of the attempt.
func (g *group) run() {
	g.a.fail(g.locate(g.guarded())) // which ends the context that the reader's goroutine waits on
	g.close()
}

// guarded is the loop; a panic in it is the fault of the vertex whose code ran.
func (g *group) guarded() (err error) {
	defer func() {
		if p := recover(); p != nil {
			what := "the task loop of " + g.id.String()
			if g.at != nil {
				what = g.at.Path
			}
			err = panicked(g.a.cfg.Log, what, p)
			if g.sink != nil {
				g.sink.call.drop()
			}
		}
	}()
	return g.loop(g.a.ctx)
}

// locate says where an error of the loop happened.
func (g *group) locate(err error) error {
	if err == nil || stopped(g.a.ctx, err) {
		return err // an echo: the fault in it belongs to another task
	}
	var f *Fault
	if errors.As(err, &f) {
		f.Group = g.id.String()
		return err
	}
	f = &Fault{Group: g.id.String(), Path: "task group " + g.id.String(), Err: err}
	if g.at != nil {
		f.Vertex, f.Path = g.at.ID, g.at.Path
	}
	if g.source != nil {
		f.Position = g.source.where()
	}
	return f
}

// close releases the plugins of the group. Their errors change nothing any more.
func (g *group) close() {
	report := func(v *vertex, err error) {
		if err != nil {
			g.a.cfg.Log.Warn("plugin not closed cleanly", "vertex", v.ID, "group", g.id.String(), "err", err)
		}
	}
	if g.source != nil {
		report(g.source.v, protect(g.a.cfg.Log, func() string { return g.source.v.Path + ": Close" }, g.source.close))
	}
	if g.sink != nil {
		report(g.sink.v, protect(g.a.cfg.Log, func() string { return g.sink.v.Path + ": Close" }, g.sink.close))
	}
}

// open makes the group ready for rows.
func (g *group) open() error {
	g.setState(state.TaskStarting)
	if err := failpoint.Inject("task.start"); err != nil {
		return err
	}
	if g.sink != nil {
		g.at = g.sink.v
		if err := g.sink.open(); err != nil {
			return err
		}
		g.at = nil
	}
	if g.source != nil {
		if err := failpoint.Inject("task.read"); err != nil {
			return err
		}
		if err := g.source.start(); err != nil {
			return err
		}
	} else if err := g.input.start(); err != nil {
		return err
	}
	g.setState(state.TaskRunning)
	return nil
}

// loop moves elements until the attempt ends: no group ends by itself.
func (g *group) loop(ctx context.Context) error {
	if err := g.open(); err != nil {
		return err
	}
	g.linger = time.NewTimer(time.Hour)
	g.linger.Stop()
	defer g.linger.Stop()
	g.mark = time.Now()
	for {
		if err := g.control(ctx); err != nil {
			return err
		}
		moved, err := g.move(ctx)
		if err != nil {
			return err
		}
		if moved {
			if g.dirty && !g.mark.Before(g.flushAt) {
				if err := g.flush(ctx); err != nil {
					return err
				}
			}
			continue
		}
		if err := g.wait(ctx); err != nil {
			return err
		}
	}
}

// move takes one element and passes it on; false when there is none now, or none is to be taken.
func (g *group) move(ctx context.Context) (bool, error) {
	if g.holding {
		return false, nil
	}
	var moved bool
	var err error
	if g.source != nil {
		moved, err = g.source.move(ctx)
	} else {
		moved, err = g.input.move(ctx)
	}
	if moved {
		g.spend(&g.first.busy)
	}
	return moved, err
}

// spend accounts for the time since the last call.
func (g *group) spend(on *atomic.Int64) {
	now := time.Now()
	on.Add(int64(now.Sub(g.mark)))
	g.mark = now
}

// wait sleeps until there may be something to do.
func (g *group) wait(ctx context.Context) error {
	var ready <-chan struct{}
	if !g.holding {
		if g.source != nil {
			ready = g.source.queue.Ready()
		} else {
			ready = g.input.ready()
		}
	}
	var linger <-chan time.Time
	if g.dirty {
		g.linger.Reset(time.Until(g.flushAt))
		linger = g.linger.C
	}
	defer g.spend(&g.first.idle)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.ctl.kick:
	case <-ready:
	case <-linger:
		return g.flush(ctx)
	}
	return nil
}

// soil notes that something may be gathered, to be flushed when the linger is over.
func (g *group) soil() {
	if !g.dirty {
		g.dirty = true
		g.flushAt = g.mark.Add(g.a.cfg.Linger)
	}
}

func (g *group) flush(ctx context.Context) error {
	g.dirty = false
	for _, o := range g.outs {
		if err := o.Flush(ctx); err != nil {
			return err
		}
	}
	if g.sink != nil {
		g.at = g.sink.v
		if err := g.sink.flush(); err != nil {
			return err
		}
		g.at = nil
	}
	return nil
}

// pass takes a batch through the chain.
func (g *group) pass(ctx context.Context, b *batch.Batch, bytes int64) error {
	if err := g.fits(b, bytes); err != nil {
		return err
	}
	if g.sink != nil {
		// Invariant 4: the first look at the gate, when the batch is taken.
		if err := g.a.cfg.Gate.Enter(ctx); err != nil {
			return err
		}
	}
	for i := range g.steps {
		s := &g.steps[i]
		table := b.Schema.Index
		s.count.tables[table].in(b.Rows, bytes)
		g.at = s.v
		out, err := s.runners[table].Apply(ctx, b)
		if err != nil {
			return err
		}
		if out == nil || out.Rows == 0 {
			g.at = nil
			return nil
		}
		if out != b {
			bytes = out.Bytes()
			if err := g.fits(out, bytes); err != nil {
				return err
			}
		}
		b = out
		s.count.tables[table].out(b.Rows, bytes)
	}
	if g.sink != nil {
		g.at = g.sink.v
		if err := g.sink.write(b, bytes); err != nil {
			return err
		}
		if g.sink.flusher != nil {
			g.soil()
		}
	}
	g.at = nil
	if len(g.outs) > 0 {
		return g.send(ctx, b)
	}
	return nil
}

// fits refuses what the memory of the attempt here is too small for.
func (g *group) fits(b *batch.Batch, bytes int64) error {
	if bytes <= g.a.shares.Most() {
		return nil
	}
	return fault.Fatal(g.a.shares.TooLarge(b.Rows, bytes))
}

// send hands a batch to every output. The time in it counts as blocked: that of a full peer is much longer than that
// of encoding.
func (g *group) send(ctx context.Context, b *batch.Batch) error {
	g.soil()
	g.spend(&g.first.busy)
	for _, o := range g.outs {
		if err := o.Send(ctx, b); err != nil {
			return err
		}
	}
	g.spend(&g.first.blocked)
	return nil
}

// end says that no more rows follow.
func (g *group) end(ctx context.Context) error {
	if g.ended {
		return nil
	}
	g.ended = true
	for _, o := range g.outs {
		if err := o.End(ctx); err != nil {
			return err
		}
	}
	g.setState(state.TaskDrained)
	return nil
}

// control does what the loop was told since the last look.
func (g *group) control(ctx context.Context) error {
	n, ok := g.ctl.take()
	if ok && n.aborted > 0 {
		g.aborted(n.aborted)
	}
	if g.source != nil {
		if ok {
			if err := g.source.control(ctx, n); err != nil {
				return err
			}
		}
		return g.source.tend(ctx)
	}
	return nil
}

// aborted lets held rows go on. Invariant 1: they were never dropped.
func (g *group) aborted(n plan.CheckpointID) {
	if g.holding && g.closing <= n {
		g.holding = false
		if g.ended {
			g.setState(state.TaskDrained)
		} else {
			g.setState(state.TaskRunning)
		}
	}
	if g.input != nil {
		g.input.abort(n)
	}
	if g.source != nil {
		g.source.cut.Settled(n)
	}
}

// barrier is handled between two elements: Invariant 5, no row crosses it.
func (g *group) barrier(ctx context.Context, b checkpoint.Barrier) error {
	var prepared []checkpoint.Prepared
	if g.sink != nil {
		if err := failpoint.Inject("task.prepare"); err != nil {
			return err
		}
		g.at = g.sink.v
		var err error
		if prepared, err = g.sink.prepare(b.ID); err != nil {
			return err
		}
		g.at = nil
		if err := failpoint.Inject("task.prepared"); err != nil {
			return err
		}
	}
	g.dirty = false // a barrier flushes
	for _, o := range g.outs {
		if err := o.Barrier(ctx, b); err != nil {
			return err
		}
	}
	if b.Kind.Closing() {
		g.holding, g.closing = true, b.ID
		g.setState(state.TaskPrepareClose)
	}
	g.spend(&g.first.busy)
	g.a.handled(g, b.ID, prepared)
	return nil
}
