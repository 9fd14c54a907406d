package worker

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"strait/kv"
	"strait/kv/record"
	"strait/kv/session"
	"strait/worker/task/keeper"
)

// statusPause is how long a change that nobody waits for may wait for others.
const statusPause = 250 * time.Millisecond

// lastStatus bounds the last write of a host.
const lastStatus = 5 * time.Second

// statusWriter writes the status of one pipeline on this worker: the newest only, on change only, one write at a
// time. Invariant 8: task groups that change one after the other cost one write together.
type statusWriter struct {
	h    *host
	kick chan struct{}
	done chan struct{} // closed by close
	over chan struct{} // closed by run

	mu     sync.Mutex
	wanted *record.TaskStatus
	urgent bool
}

func newStatusWriter(h *host) *statusWriter {
	return &statusWriter{h: h, kick: make(chan struct{}, 1), done: make(chan struct{}), over: make(chan struct{})}
}

// want sets what is to be published. nil: nothing new.
func (s *statusWriter) want(r *record.TaskStatus) {
	if r == nil {
		return
	}
	s.mu.Lock()
	s.urgent = keeper.Urgent(s.wanted, r) || s.urgent
	s.wanted = r
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// close makes run write what is wanted, for which it has a few seconds, and waits for its end.
func (s *statusWriter) close() {
	close(s.done)
	timer := time.AfterFunc(lastStatus, s.h.cancel)
	defer timer.Stop()
	<-s.over
}

func (s *statusWriter) run() {
	defer close(s.over)
	key := s.h.l.cfg.Tree.TaskStatus(s.h.l.cfg.Name, s.h.job, s.h.id)
	var written []byte
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	armed, closing := false, false
	for !closing {
		due := false
		select {
		case <-s.kick:
		case <-timer.C:
			armed, due = false, true
		case <-s.done:
			closing = true
		}
		value, urgent := s.look()
		switch {
		case value == nil || bytes.Equal(value, written):
		case urgent || due || closing:
			if s.write(key, value) {
				written = value
			}
		case !armed:
			armed = true
			timer.Reset(statusPause)
		}
	}
}

// look returns what is wanted now, and whether somebody waits for it.
func (s *statusWriter) look() (value []byte, urgent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	urgent, s.urgent = s.urgent, false
	if s.wanted == nil {
		return nil, false
	}
	return record.MustEncode(s.wanted), urgent
}

// write publishes a status; false when the worker is no longer the one it was.
func (s *statusWriter) write(key string, value []byte) bool {
	l := s.h.l
	ctx, end := l.whileSession(s.h.ctx)
	defer end()
	_, err := retry(ctx, s.h.log, "task status", func() (kv.Result, error) {
		return l.cfg.Store.Txn(ctx, kv.Txn{
			Guards: []kv.Guard{kv.AtCreate(l.key, l.incarnation)},
			Ops:    []kv.Op{kv.Put(key, value)},
		})
	})
	switch {
	case err == nil:
		l.meters.statuses.Inc()
		return true
	case errors.Is(err, kv.ErrConflict):
		l.session.Lose(err)
	case errors.As(err, new(*kv.Limit)): // a mistake of ours; the tasks run on
		s.h.log.Error("BUG: task status cannot be written", "err", err)
	case errors.Is(err, kv.ErrWentBack), errors.Is(err, kv.ErrRefused):
		l.die(err)
	case errors.Is(err, context.Canceled), errors.Is(err, session.ErrLost): // which is told where it was lost
	default:
		s.h.log.Error("task status is not written", "err", err)
	}
	return false
}
