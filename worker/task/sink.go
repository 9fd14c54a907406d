package task

import (
	"context"
	"fmt"
	"sync"
	"time"

	"strait/checkpoint"
	"strait/plan"
	"strait/transport/batch"
	"strait/worker/connector"
)

// sinkEnd is the sink at the end of a group: its writer, used by the group's loop, and what it prepared, which the
// committer takes from another goroutine.
type sinkEnd struct {
	a       *Attempt
	v       *vertex
	subtask int
	call    *caller
	writer  connector.Writer
	flusher connector.Flusher
	count   *vertexCount
	commit  *committer // nil: one task commits for all, or nothing is ever prepared

	mu      sync.Mutex
	pending []checkpoint.Prepared // prepared and not yet committed, in order
}

func newSinkEnd(a *Attempt, v *vertex, id plan.TaskGroup) *sinkEnd {
	s := &sinkEnd{a: a, v: v, subtask: id.Index, call: a.caller(v, id.String()), count: newVertexCount(v.ID, v.In)}
	if v.twoPhase() != nil {
		s.commit = newCommitter(a, v)
	}
	return s
}

// open makes the writer: the first external effect of the subtask.
func (s *sinkEnd) open() error {
	if err := s.call.begin(&callOpen, s.a.cfg.CallLimit); err != nil {
		return err
	}
	w, err := s.v.sink.NewWriter(s.call.ctx, connector.WriterContext{
		Identity:    s.a.cfg.identity(s.v.ID, s.subtask),
		Worker:      s.a.cfg.Worker,
		Parallelism: s.v.Parallelism,
		Schemas:     s.v.in,
		Next:        s.a.next,
		Memory:      s.a.shares.Writer(s.v.buffers),
		Stdout:      s.a.cfg.Stdout,
		Log:         s.a.cfg.Log.With(plan.LogVertex, s.v.ID),
	})
	if err == nil {
		s.writer = w
		s.flusher, _ = w.(connector.Flusher)
	}
	return s.call.end(err)
}

// write writes a batch. rows and bytes are its size.
func (s *sinkEnd) write(b *batch.Batch, bytes int64) error {
	t := s.count.table(b)
	t.in(b.Rows, bytes)
	if err := s.call.begin(&callWrite, s.a.cfg.CallLimit); err != nil {
		return err
	}
	if err := s.call.end(s.writer.Write(s.call.ctx, b)); err != nil {
		return err
	}
	t.out(b.Rows, bytes)
	return nil
}

func (s *sinkEnd) flush() error {
	if s.flusher == nil {
		return nil
	}
	if err := s.call.begin(&callFlush, s.a.cfg.CallLimit); err != nil {
		return err
	}
	return s.call.end(s.flusher.Flush(s.call.ctx))
}

// prepareLimit: what becomes visible by Prepare itself is bound by the limit that a replacement waits for.
func (s *sinkEnd) prepareLimit() time.Duration {
	if s.v.claim.Guarantee == connector.ExactlyOnce {
		return max(s.a.cfg.CommitLimit, s.a.cfg.CallLimit)
	}
	return s.a.cfg.CallLimit
}

// prepare flushes and returns everything that is prepared and not committed: each ack lists all of it.
func (s *sinkEnd) prepare(n plan.CheckpointID) ([]checkpoint.Prepared, error) {
	if err := s.call.begin(&callPrepare, s.prepareLimit()); err != nil {
		return nil, err
	}
	data, err := s.writer.Prepare(s.call.ctx, n)
	if err := s.call.end(err); err != nil {
		return nil, err
	}
	if len(data) > 0 && s.v.twoPhase() == nil && s.v.aggregating() == nil {
		return nil, fmt.Errorf("BUG: the sink prepares commits and has no committer")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range data {
		s.pending = append(s.pending, checkpoint.Prepared{
			Identity: s.a.cfg.identity(s.v.ID, s.subtask), Checkpoint: n, Sequence: i, Worker: s.a.cfg.Worker, Data: d,
		})
	}
	return append([]checkpoint.Prepared(nil), s.pending...), nil
}

// settle commits what was prepared up to n, where that is this subtask's to do, and forgets it.
func (s *sinkEnd) settle(n plan.CheckpointID) error {
	s.mu.Lock()
	i := 0
	for i < len(s.pending) && s.pending[i].Checkpoint <= n {
		i++
	}
	due := s.pending[:i:i]
	s.mu.Unlock()
	if s.commit != nil && len(due) > 0 {
		if err := s.commit.commit(due); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.pending = s.pending[i:]
	s.mu.Unlock()
	return nil
}

// close releases the writer: what was not prepared is dropped.
func (s *sinkEnd) close() error {
	s.call.close()
	if s.writer == nil {
		return nil
	}
	w := s.writer
	s.writer = nil
	return w.Close()
}

// committer commits for one sink subtask, or for a whole vertex. It has its own connection, and
// its calls never run in a task's loop, which may be blocked on a lock that only the commit releases.
type committer struct {
	a          *Attempt
	v          *vertex
	aggregated bool
	call       *caller

	mu sync.Mutex // one call at a time
	c  connector.Committer
}

func newCommitter(a *Attempt, v *vertex) *committer {
	c := &committer{a: a, v: v, aggregated: v.aggregating() != nil, call: a.caller(v, "")}
	a.closing = append(a.closing, c)
	return c
}

// open connects when the first call is due.
func (c *committer) open() error {
	if c.c != nil {
		return nil
	}
	cc := connector.CommitterContext{
		Identity: c.a.cfg.identity(c.v.ID, -1), Worker: c.a.cfg.Worker, Schemas: c.v.in, Log: c.a.cfg.Log.With(plan.LogVertex, c.v.ID),
	}
	if err := c.call.begin(&callConnect, c.a.cfg.CallLimit); err != nil {
		return err
	}
	made, err := c.make(c.call.ctx, cc)
	if err == nil {
		c.c = made
	}
	return c.call.end(err)
}

func (c *committer) make(ctx context.Context, cc connector.CommitterContext) (connector.Committer, error) {
	if g := c.v.aggregating(); g != nil {
		return g.NewAggregated(ctx, cc)
	}
	if t := c.v.twoPhase(); t != nil {
		return t.NewCommitter(ctx, cc)
	}
	return nil, fmt.Errorf("BUG: %s is named as having commits and has no committer", c.v.Path)
}

func (c *committer) commit(prepared []checkpoint.Prepared) error {
	return c.do(&callCommit, func(ctx context.Context) error { return c.c.Commit(ctx, prepared) })
}

func (c *committer) abandon(older plan.Attempt, keep []checkpoint.Prepared) error {
	return c.do(&callAbandon, func(ctx context.Context) error { return c.c.Abandon(ctx, older, keep) })
}

func (c *committer) do(what *string, f func(context.Context) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.call.drop()
	err := protect(c.a.cfg.Log, func() string { return c.v.Path + ": " + *what }, func() error {
		if err := c.open(); err != nil {
			return err
		}
		if err := c.call.begin(what, max(c.a.cfg.CommitLimit, c.a.cfg.CallLimit)); err != nil {
			return err
		}
		return c.call.end(f(c.call.ctx))
	})
	return at(err, c.v, "")
}

// close releases the connection. It is called when no call is in flight: a commit may outlast its group's loop.
func (c *committer) close() {
	c.call.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c == nil {
		return
	}
	if err := protect(c.a.cfg.Log, func() string { return c.v.Path + ": Close" }, c.c.Close); err != nil {
		c.a.cfg.Log.Warn("committer not closed cleanly", "vertex", c.v.ID, "err", err)
	}
	c.c = nil
}
