package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"

	"strait/kv"
	"strait/kv/mirror"
	"strait/kv/record"
	"strait/plan"
)

// Update is the newest state of a job that a Watch has seen. States in between may be skipped, none comes twice
// or out of order.
type Update struct {
	Revision int64
	Spec     bool                             // jobs/<job> exists
	Status   *record.JobStatus                // nil: no coordinator has seen the job yet; of the history where only that is left
	Words    map[plan.PipelineID]*record.Word // the control words; not to be changed
}

// Ended says that the job has reached a terminal state.
func (u *Update) Ended() bool { return u.Status != nil && u.Status.Phase.Terminal() }

// ErrStop is what a callback of Watch returns to end it without an error.
var ErrStop = errors.New("stop watching")

// Watch calls f with the state of the job now and after every change, from one goroutine, until the job has ended
// (f is called with that state first), f returns an error (ErrStop: no error), or ctx ends. A job that does not
// exist is ErrNoJob, also one that ended while nobody looked and whose history has gone meanwhile; a status that this
// build cannot read is an error.
func (c *Client) Watch(ctx context.Context, id plan.JobID, f func(Update) error) error {
	if _, err := c.Get(ctx, id); err != nil {
		return err
	}
	w := &watch{c: c, id: id, changed: make(chan struct{}, 1), u: Update{Words: map[plan.PipelineID]*record.Word{}}}
	g, gctx := errgroup.WithContext(ctx)
	gctx, cancel := context.WithCancel(gctx)
	defer cancel()
	// Two mirrors: the keys lie far apart, and a status needs no order with a word.
	var loaded []<-chan struct{}
	for _, targets := range [][]string{{c.tree.Job(id), c.tree.JobStatus(id), c.tree.History(id)}, {c.tree.Pipelines(id)}} {
		m := mirror.Follow(c.store, targets, mirror.Options{Logger: slog.New(slog.DiscardHandler), OnBatch: func(b mirror.Batch) {
			w.take(b)
			w.signal()
		}})
		loaded = append(loaded, m.Ready())
		g.Go(func() error { return m.Run(gctx) })
	}
	g.Go(func() error {
		defer cancel()
		for _, ready := range loaded {
			select {
			case <-ready:
			case <-gctx.Done():
				return gctx.Err()
			}
		}
		for seen := uint64(0); ; {
			u, version, err := w.now()
			if err != nil {
				return err
			}
			if version != seen {
				seen = version
				if err := f(u); err != nil {
					return err
				}
				if u.Ended() {
					return ErrStop
				}
			}
			select {
			case <-w.changed:
			case <-gctx.Done():
				return gctx.Err()
			}
		}
	})
	err := g.Wait()
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

type watch struct {
	c       *Client
	id      plan.JobID
	changed chan struct{}

	mu      sync.Mutex
	u       Update
	version uint64 // grows with every change: both mirrors may bring one of the same revision
	created int64  // of the spec
	history *record.History
	problem error // of the status
}

func (w *watch) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *watch) take(b mirror.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.u.Revision = max(w.u.Revision, b.Rev)
	if w.version == 0 || len(b.Events) > 0 {
		w.version++
	}
	for _, ev := range b.Events {
		k, ok := w.c.tree.Parse(ev.Entry.Key)
		if !ok || k.Job != w.id {
			continue
		}
		there := ev.Kind == mirror.Put
		switch ev.Entry.Key {
		case w.c.tree.Job(w.id):
			w.u.Spec = there
			w.created = 0
			if there {
				w.created = ev.Entry.CreateRev
			}
		case w.c.tree.History(w.id):
			w.history = decode[record.History](ev.Entry)
			if !there {
				w.history = nil
			}
		case w.c.tree.JobStatus(w.id):
			w.u.Status, w.problem = nil, nil
			if there {
				w.u.Status, w.problem = w.decode(ev.Entry)
			}
		default:
			words := maps.Clone(w.u.Words)
			delete(words, k.Pipeline)
			if word := decode[record.Word](ev.Entry); there && word != nil {
				words[k.Pipeline] = word
			}
			w.u.Words = words
		}
	}
}

func (w *watch) decode(e kv.Entry) (*record.JobStatus, error) {
	s, err := record.Decode[record.JobStatus](e.Value)
	if err != nil {
		return nil, fmt.Errorf("job %s: its status cannot be read: key %s: %w", w.id, e.Key, err)
	}
	return s, nil
}

// now is the state as far as it belongs to the life of the id whose spec is there.
func (w *watch) now() (Update, uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.u
	if u.Status != nil && w.created != 0 && u.Status.SpecCreated != w.created {
		u.Status, u.Words = nil, nil
	}
	switch {
	case w.problem != nil:
		return u, w.version, w.problem
	case u.Status != nil || u.Spec:
	case w.history != nil:
		u.Status = w.history.Status()
	default:
		return u, w.version, fmt.Errorf("job %s: %w any more", w.id, ErrNoJob)
	}
	return u, w.version, nil
}
