package election

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"strait/kv"
	"strait/kv/session"
)

var (
	// ErrNoLeader: nobody is a candidate right now.
	ErrNoLeader = errors.New("no leader")
	// ErrKeyGone: the candidate's or leader's key was deleted by somebody else.
	ErrKeyGone = errors.New("election key is gone")
	// ErrResigned: the leadership was given back by its owner.
	ErrResigned = errors.New("resigned")
)

const (
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
)

// Leadership is a won election. Its owner calls Resign when done with it, also after Lost.
type Leadership struct {
	Key string // full key
	Rev int64  // create revision of Key: the fence

	store  *kv.Store
	stop   context.CancelFunc
	lost   chan struct{}
	watch  sync.WaitGroup
	mu     sync.Mutex
	reason error
}

// Campaign puts a key under prefix (which ends in "/") with value, and returns when it is the
// oldest. It blocks as long as others lead, and through any silence of the store. When ctx ends
// first the key is removed again. Errors: ctx's; session.ErrLost or ErrClosed; ErrKeyGone (campaign
// again); kv.ErrWentBack and kv.ErrRefused.
func Campaign(ctx context.Context, store *kv.Store, s *session.Session, prefix string, value []byte) (*Leadership, error) {
	if !strings.HasSuffix(prefix, "/") {
		return nil, fmt.Errorf("election: BUG: prefix %q does not end in /", prefix)
	}
	bound, release := bind(ctx, s)
	defer release()
	c := candidate{store: store, prefix: prefix, key: fmt.Sprintf("%s%016x", prefix, s.Lease())}
	err := c.join(bound, s.Lease(), value)
	if err == nil {
		err = c.wait(bound)
	}
	if err != nil {
		if serr := s.Err(); serr != nil {
			return nil, fmt.Errorf("election: %s: %w", c.key, serr)
		}
		if c.rev != 0 {
			_ = remove(context.WithoutCancel(ctx), store, c.key, c.rev) // else its lease ends it
		}
		return nil, fmt.Errorf("election: %s: %w", c.key, err)
	}
	l := &Leadership{Key: c.key, Rev: c.rev, store: store, lost: make(chan struct{})}
	wctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.watch.Go(func() { l.follow(wctx, s) })
	return l, nil
}

// bind ends the context when the session is over. release waits for what it started.
func bind(ctx context.Context, s *session.Session) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-s.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); wg.Wait() }
}

type candidate struct {
	store       *kv.Store
	prefix, key string
	rev         int64 // create revision of key; 0: not known to exist
}

// join creates the key, once, however often the answer gets lost.
func (c *candidate) join(ctx context.Context, lease int64, value []byte) error {
	return retry(ctx, func() error {
		r, err := c.store.Txn(ctx, kv.Txn{
			Guards: []kv.Guard{kv.Absent(c.key)},
			Ops:    []kv.Op{kv.PutLeased(c.key, value, lease)},
		})
		var conflict *kv.Conflict
		switch {
		case err == nil:
			c.rev = r.Rev
		case errors.As(err, &conflict) && conflict.Current.Lease == lease:
			c.rev = conflict.Current.CreateRev // ours: an earlier try whose answer was lost
			return nil
		}
		return err
	})
}

// wait returns when no older key is left.
func (c *candidate) wait(ctx context.Context) error {
	return retry(ctx, func() error {
		for {
			entries, rev, err := c.store.List(ctx, c.prefix, 0)
			if err != nil {
				return err
			}
			mine := false
			var before kv.Entry // the youngest of the older ones
			for _, e := range entries {
				mine = mine || e.Key == c.key && e.CreateRev == c.rev
				if e.CreateRev < c.rev && e.CreateRev > before.CreateRev {
					before = e
				}
			}
			switch {
			case !mine:
				return ErrKeyGone
			case !before.Exists():
				return nil
			}
			if _, err := untilChanged(ctx, c.store, before, rev+1); err != nil {
				return err
			}
		}
	})
}

// untilChanged follows one key until it is deleted or has another create revision.
func untilChanged(ctx context.Context, store *kv.Store, e kv.Entry, from int64) (kv.Change, error) {
	w := store.Watch(ctx, e.Key, "", from)
	defer w.Close()
	for {
		changes, _, err := w.Next()
		if err != nil {
			return kv.Change{}, err
		}
		for _, ch := range changes {
			if ch.Deleted || ch.Entry.CreateRev != e.CreateRev {
				return ch, nil
			}
		}
	}
}

// retry repeats f through silence, lost answers and broken or compacted watches, with a pause.
func retry(ctx context.Context, f func() error) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := f()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, kv.ErrWentBack), errors.Is(err, kv.ErrRefused), errors.Is(err, kv.ErrConflict),
			errors.Is(err, kv.ErrLeaseNotFound), errors.Is(err, ErrKeyGone):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Guard is the condition every write of this leader carries.
func (l *Leadership) Guard() kv.Guard { return kv.LeaderGuard(l.Key, l.Rev) }

// Lost is closed when the leadership is over: the session lost, the key gone, or resigned. Silence
// of the store does not close it; the guard fences meanwhile.
func (l *Leadership) Lost() <-chan struct{} { return l.lost }

// Err says why the leadership is over; nil while it lasts.
func (l *Leadership) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

func (l *Leadership) end(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == nil {
		l.reason = reason
		close(l.lost)
	}
}

// follow watches the leader's own key.
func (l *Leadership) follow(ctx context.Context, s *session.Session) {
	ctx, release := bind(ctx, s)
	defer release()
	err := retry(ctx, func() error {
		entries, rev, err := l.store.Read(ctx, l.Key)
		if err != nil {
			return err
		}
		if entries[0].CreateRev != l.Rev {
			return ErrKeyGone
		}
		if _, err := untilChanged(ctx, l.store, entries[0], rev+1); err != nil {
			return err
		}
		return ErrKeyGone
	})
	if serr := s.Err(); serr != nil {
		err = serr
	}
	if ctx.Err() != nil && s.Err() == nil {
		err = ErrResigned
	}
	l.end(fmt.Errorf("election: %s: %w", l.Key, err))
}

// Resign deletes the key, so that the next candidate leads at once. A key already gone is no
// error; another error leaves the key to its lease. Idempotent.
func (l *Leadership) Resign(ctx context.Context) error {
	l.stop()
	l.watch.Wait()
	return remove(ctx, l.store, l.Key, l.Rev)
}

func remove(ctx context.Context, store *kv.Store, key string, rev int64) error {
	_, err := store.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.AtCreate(key, rev)}, Ops: []kv.Op{kv.Delete(key)}})
	if errors.Is(err, kv.ErrConflict) {
		return nil
	}
	return err
}

// Leader reads who leads now: the entry of the oldest key under prefix. ErrNoLeader when there is
// none. What it says may be over when it returns.
func Leader(ctx context.Context, store *kv.Store, prefix string) (kv.Entry, error) {
	entries, _, err := store.List(ctx, prefix, 0)
	if err != nil {
		return kv.Entry{}, err
	}
	var oldest kv.Entry
	for _, e := range entries {
		if !oldest.Exists() || e.CreateRev < oldest.CreateRev {
			oldest = e
		}
	}
	if !oldest.Exists() {
		return kv.Entry{}, fmt.Errorf("election: %s: %w", prefix, ErrNoLeader)
	}
	return oldest, nil
}
