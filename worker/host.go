package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"strait/checkpoint"
	"strait/kv"
	"strait/kv/mirror"
	"strait/kv/record"
	"strait/kv/session"
	"strait/plan"
	"strait/transport/shuffle"
	"strait/worker/memory"
	"strait/worker/secrets"
	"strait/worker/task"
	"strait/worker/task/keeper"
)

// host owns one pipeline on this worker: a thin shell around keeper.Step. Its goroutine takes events in and does the
// actions; what waits (builds, commits, acks, stops) runs beside it and comes back as an event.
type host struct {
	l *life
	pipeline
	log    *slog.Logger
	inbox  *inbox
	status *statusWriter
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // everything beside the loop
	ended  chan struct{}  // closed by the life when run has returned

	state keeper.State // the loop's
	part  *part        // the loop's; the newest attempt

	mu   sync.Mutex
	live *part // the same, for counters
}

// part is what runs of one attempt.
type part struct {
	attempt plan.Attempt
	gate    *session.Gate
	ctx     context.Context // of its writes and its build; ends when it is told to stop
	cancel  context.CancelCauseFunc
	built   chan struct{} // closed when the build has ended; the fields below are set then
	tasks   *task.Attempt
	net     *shuffle.Attempt
	stopped chan struct{} // closed when Stop has ended
	shares  memory.Shares // reserved, to be given back when it has stopped; nothing where there is no Bound
	scrub   *secrets.Scrubber
	log     *slog.Logger // without the secrets that scrub knows

	mu  sync.Mutex
	ack record.Ack // as last written
}

// running gives the tasks of a part, once they are built.
func (p *part) running() *task.Attempt {
	if p == nil {
		return nil
	}
	select {
	case <-p.built:
		return p.tasks
	default:
		return nil
	}
}

func newHost(l *life, p pipeline) *host {
	h := &host{l: l, pipeline: p, log: l.log.With("job", p.job, "pipeline", p.id), inbox: newInbox(), ended: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancel(l.ctx)
	h.state = keeper.State{Worker: l.cfg.Name, Incarnation: l.incarnation, Pipeline: p.id, Unread: true}
	h.status = newStatusWriter(h)
	return h
}

// run is the goroutine of the host. It returns when nothing is left to do for the pipeline, or when the life ends
// and its tasks have.
func (h *host) run() {
	go h.status.run() // close waits for it
	word := mirror.Follow(h.l.cfg.Store, []string{h.l.cfg.Tree.Pipeline(h.job, h.id)}, mirror.Options{
		Logger: h.log, OnBatch: h.seeWord, CheckEvery: 10 * time.Minute, // the mirror of the tasks looks often enough
	})
	h.beside(func() {
		if err := word.Run(h.ctx); err != nil {
			h.l.die(err)
		}
	})
	h.beside(h.find)
	h.loop()
	h.status.close()
	h.cancel()
	h.wg.Wait()
	h.mu.Lock()
	h.live = nil
	h.mu.Unlock()
}

// find reads what an earlier host of this incarnation has reported.
func (h *host) find() {
	key := h.l.cfg.Tree.TaskStatus(h.l.cfg.Name, h.job, h.id)
	e, err := retry(h.ctx, h.log, "task status", func() (kv.Entry, error) { return h.l.cfg.Store.Get(h.ctx, key) })
	switch {
	case err == nil:
	case h.ctx.Err() != nil:
		return
	default:
		h.l.die(err)
		return
	}
	found := keeper.Found{}
	if s, err := record.Decode[record.TaskStatus](e.Value); e.Exists() && err == nil {
		found.Status = s
	}
	h.inbox.put(found)
}

func (h *host) loop() {
	for {
		select {
		case <-h.inbox.kick:
		case <-h.l.hung:
			return
		}
		events, changed := h.inbox.take()
		for _, e := range events {
			h.step(e)
		}
		if changed {
			if tasks := h.part.running(); tasks != nil {
				h.step(keeper.Groups{Attempt: h.part.attempt, Groups: tasks.States(), Drained: tasks.Drained()})
			}
		}
		if h.over() && h.l.forget(h) {
			return
		}
	}
}

// over says that the host has nothing left to do.
func (h *host) over() bool {
	s := &h.state
	if s.Leaving {
		return s.Part == nil || s.Part.Life == keeper.Stopped
	}
	return s.Over()
}

func (h *host) step(e keeper.Event) {
	var actions []keeper.Action
	h.state, actions = keeper.Step(h.state, e)
	for _, a := range actions {
		h.do(a)
	}
	h.status.want(keeper.Report(h.state))
}

// beside runs f in a goroutine of the host.
func (h *host) beside(f func()) {
	h.wg.Add(1)
	go func() {
		defer h.wg.Done()
		f()
	}()
}

// protect keeps a panic within its attempt: it is a bug, and costs one job, not the other jobs of this worker.
func (h *host) protect(p *part, what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("panicked", "what", what, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = fmt.Errorf("BUG: %s panicked: %v; the stack is in the log of this worker", what, v)
		}
	}()
	return f()
}

// seeWord hands the control word on.
func (h *host) seeWord(b mirror.Batch) {
	if b.Initial && len(b.Events) == 0 {
		h.inbox.put(keeper.Word{Rev: b.Rev})
	}
	for _, ev := range b.Events {
		if ev.Kind == mirror.Delete {
			h.inbox.put(keeper.Word{Rev: ev.Entry.ModRev})
			continue
		}
		w, err := record.Decode[record.Word](ev.Entry.Value)
		if err != nil {
			h.log.Error("control word is not readable", "rev", ev.Entry.ModRev, "err", err)
			continue
		}
		h.inbox.put(keeper.Word{Value: w, Rev: ev.Entry.ModRev})
	}
}

// do carries one action out.
func (h *host) do(a keeper.Action) {
	p := h.part
	switch a := a.(type) {
	case keeper.Build:
		h.log.Info("attempt is built", "attempt", a.Assignment.Attempt, "scope", a.Assignment.Scope)
		h.build(a.Assignment)
	case keeper.Start:
		h.log.Info("attempt starts", "attempt", a.Attempt)
		p.tasks.Start(a.Next)
	case keeper.Barrier:
		p.tasks.Barrier(a.Barrier)
	case keeper.Abort:
		p.tasks.Abort(a.N)
	case keeper.Stop:
		h.log.Info("attempt stops", "attempt", a.Attempt)
		h.beside(func() { h.stop(p) })
	case keeper.Release:
		h.beside(func() {
			<-p.stopped
			if p.net != nil {
				p.net.Close(nil)
				p.net.Wait()
			}
		})
	case keeper.Commit:
		h.beside(func() {
			err := h.protect(p, "the commit", func() error { return h.commit(p, a.N) })
			h.came(p, err, keeper.Committed{Attempt: p.attempt, N: a.N})
		})
	case keeper.Replay:
		h.beside(func() {
			err := h.protect(p, "the replay of commits", func() error {
				all, err := h.manifest(p, a.N)
				if err == nil {
					err = p.tasks.Replay(all, a.Skip)
				}
				return err
			})
			h.came(p, err, keeper.Replayed{Attempt: p.attempt, N: a.N})
		})
	case keeper.Abandon:
		h.beside(func() {
			err := h.protect(p, "the abandonment", func() error {
				keep, err := h.manifest(p, a.Keep)
				if err == nil {
					err = p.tasks.Abandon(keep)
				}
				return err
			})
			h.came(p, err, keeper.Abandoned{Attempt: p.attempt})
		})
	case keeper.Ack:
		h.beside(func() {
			var n int
			var ok bool
			err := h.protect(p, "the ack", func() (err error) {
				n, ok, err = h.ack(p, a.N, a.Rev)
				return err
			})
			if ok || err != nil {
				h.came(p, err, keeper.Acked{Attempt: p.attempt, N: a.N, Prepared: n})
			}
		})
	case keeper.Mark:
		h.beside(func() {
			if err := h.protect(p, "the mark of a commit", func() error { return h.mark(p, a.N, a.Rev) }); err != nil {
				h.came(p, err, nil)
			}
		})
	case keeper.Upstream: // no source of this build needs it
	default:
		panic(fmt.Sprintf("BUG: action %T", a))
	}
}

// came hands the result of an action in, or its failure.
func (h *host) came(p *part, err error, ok keeper.Event) {
	switch {
	case err == nil:
		h.inbox.put(ok)
	case p.ctx.Err() != nil || p.tasks.Stopped(err): // it was told to stop
	case errors.Is(err, session.ErrLost):
	default:
		h.failed(p, err, "")
	}
}

func (h *host) failed(p *part, err error, link string) {
	f := task.NewFailure(h.id, p.attempt, h.l.cfg.Name, p.scrub, err)
	h.note(f)
	h.inbox.put(keeper.Failed{Attempt: p.attempt, Failure: f, Link: link})
}

// note counts and logs a failure.
func (h *host) note(f record.Failure) {
	h.l.meters.failures.Inc()
	h.log.Warn("attempt failed", "attempt", f.Attempt, "vertex", f.Vertex, "group", f.Group, "fatal", f.Fatal, "err", f.Message)
}

// stop ends a part. A call that does not come back ends the process: nothing else takes it back.
func (h *host) stop(p *part) {
	p.cancel(errPartStopped)
	<-p.built
	var final []record.VertexCount
	if p.tasks != nil {
		if err := p.tasks.Stop(); err != nil {
			h.log.Error("a call of a plugin does not come back, the process must end", "attempt", p.attempt, "err", err)
			h.l.die(fmt.Errorf("job %s, pipeline %d, attempt %d: %w", h.job, h.id, p.attempt, err))
			return
		}
		final = task.Records(p.tasks.Counts())
	}
	h.l.memory.Release(p.shares) // before it is said: the leader gives the slots to others then
	close(p.stopped)
	h.inbox.put(keeper.Ended{Attempt: p.attempt, Final: final})
}

var errPartStopped = errors.New("the attempt is stopped")

// watcher hands in what happens in the tasks of a part.
type watcher struct {
	h *host
	p *part
}

func (w watcher) Failed(f record.Failure) {
	w.h.note(f)
	w.h.inbox.put(keeper.Failed{Attempt: w.p.attempt, Failure: f})
}

func (w watcher) Changed() { w.h.inbox.change() }

func (w watcher) Snapped(n plan.CheckpointID) {
	w.h.inbox.put(keeper.Snapped{Attempt: w.p.attempt, N: n})
}

// commit makes checkpoint n visible.
func (h *host) commit(p *part, n plan.CheckpointID) error {
	var all []checkpoint.Prepared
	if p.tasks.Aggregates() {
		var err error
		if all, err = h.manifest(p, n); err != nil {
			return err
		}
	}
	return p.tasks.Commit(n, all)
}
