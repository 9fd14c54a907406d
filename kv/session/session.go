package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"strait/kv"
)

// Defaults of Options.
const (
	DefaultTTL       = 10 * time.Second
	DefaultCallLimit = 30 * time.Second
)

var (
	// ErrLost: the session is over for good. The process comes back as a new incarnation.
	ErrLost = errors.New("session lost")
	// ErrClosed: the session was closed by its owner.
	ErrClosed = errors.New("session closed")
)

// Leases is what a session needs of the store; *kv.Store has it.
type Leases interface {
	Grant(ctx context.Context, ttl time.Duration) (kv.Lease, error)
	Renew(ctx context.Context, id int64) (time.Duration, error)
	Revoke(ctx context.Context, id int64) error
}

// Options of Open; the zero value is good.
type Options struct {
	TTL       time.Duration // asked for; the store may grant more. 0: DefaultTTL
	CallLimit time.Duration // longest external call of this process. 0: DefaultCallLimit
	Clock     Clock         // nil: Boottime
	Logger    *slog.Logger  // nil: silence
}

// Margin is how long before the possible end of a lease of ttl the proof ends: at least a second,
// a fifth of the lease, and half a percent of the time the leader waits (clock drift).
func Margin(ttl, callLimit time.Duration) time.Duration {
	return max(time.Second, ttl/5, (ttl+callLimit)/200)
}

// Session is a lease that is renewed while Run runs. Safe for concurrent use.
type Session struct {
	leases Leases
	clock  Clock
	log    *slog.Logger
	id     int64
	limit  time.Duration
	ttl    atomic.Int64 // granted, ns
	proof  atomic.Int64 // clock reading until which the lease is proved, ns
	over   atomic.Bool  // lost or closed
	done   chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every renewal
	err     error         // why over
}

// Open takes a lease. The proof counts from before the request. The session stays alive only while
// Run runs. Errors: the store's, and a call limit that does not fit the TTL.
func Open(ctx context.Context, leases Leases, o Options) (*Session, error) {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.CallLimit == 0 {
		o.CallLimit = DefaultCallLimit
	}
	if o.Clock == nil {
		o.Clock = Boottime{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.TTL < 0 || o.CallLimit < 0 {
		return nil, fmt.Errorf("session: TTL %v and call limit %v must not be negative", o.TTL, o.CallLimit)
	}
	sent := o.Clock.Now()
	l, err := leases.Grant(ctx, o.TTL)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	if left := l.TTL - Margin(l.TTL, o.CallLimit); left <= l.TTL/3 {
		_ = leases.Revoke(context.WithoutCancel(ctx), l.ID)
		return nil, fmt.Errorf("session: a lease of %v with calls of up to %v needs a margin of %v, which leaves too little; lengthen the lease or shorten the call limit",
			l.TTL, o.CallLimit, l.TTL-left)
	}
	s := &Session{leases: leases, clock: o.Clock, log: o.Logger, id: l.ID, limit: o.CallLimit,
		done: make(chan struct{}), changed: make(chan struct{})}
	s.answered(sent, l.TTL)
	return s, nil
}

// Lease is the lease's id, for kv.PutLeased.
func (s *Session) Lease() int64 { return s.id }

// TTL is the granted time to live; workers publish it, the leader waits by it.
func (s *Session) TTL() time.Duration { return time.Duration(s.ttl.Load()) }

// Proof is the clock reading until which the lease is proved to be held.
func (s *Session) Proof() time.Duration { return time.Duration(s.proof.Load()) }

// Left is how long the lease is still proved; zero or less: stale. It says nothing about loss.
func (s *Session) Left() time.Duration { return s.Proof() - s.clock.Now() }

// Done is closed when the session is lost or closed, never by silence.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is nil while the session lives, else ErrLost with its reason or ErrClosed.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Run renews the lease every third of its TTL. It returns nil when ctx ends or the session is
// closed, ErrLost when it is lost. One Run a session.
func (s *Session) Run(ctx context.Context) error {
	timer := time.NewTimer(s.TTL() / 3)
	defer timer.Stop()
	quiet := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.done:
			if err := s.Err(); !errors.Is(err, ErrClosed) {
				return err
			}
			return nil
		case <-timer.C:
		}
		third, began := s.TTL()/3, time.Now()
		err := s.renew(ctx, third)
		switch {
		case err == nil:
			if quiet > 0 {
				s.log.Info("session proved again", "lease", s.id, "tries", quiet)
			}
			quiet = 0
			timer.Reset(third - time.Since(began)) // from send to send
		case errors.Is(err, kv.ErrLeaseNotFound), errors.Is(err, kv.ErrWentBack):
			s.Lose(err)
			timer.Reset(0)
		case ctx.Err() != nil:
			timer.Reset(third)
		default:
			// Invariant 9: silence is not loss. The proof runs out by itself.
			if quiet++; quiet == 1 {
				s.log.Warn("session not renewed, trying again", "lease", s.id, "left", s.Left(), "err", err)
			}
			timer.Reset(min(third/4, 500*time.Millisecond))
		}
	}
}

func (s *Session) renew(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := s.clock.Now() // before the send, not after the answer
	ttl, err := s.leases.Renew(ctx, s.id)
	if err != nil {
		return err
	}
	s.answered(sent, ttl)
	return nil
}

func (s *Session) answered(sent, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ttl.Store(int64(ttl))
	s.proof.Store(int64(sent + ttl - Margin(ttl, s.limit))) // sends do not overlap, so it grows; a shorter grant shortens it
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Session) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Lose ends the session for good: the lease was not found, or a watch saw the process's own key
// missing or with another create revision. All its gates are shut when Lose returns. Idempotent.
func (s *Session) Lose(reason error) {
	if s.end(fmt.Errorf("%w: %w", ErrLost, reason)) {
		s.log.Error("session lost", "lease", s.id, "err", reason)
	}
}

func (s *Session) end(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.err = err
	s.over.Store(true) // Invariant 4: gates shut before anybody hears of it
	close(s.done)
	return true
}

// Close shuts all gates, then revokes the lease, so that the process's keys vanish at once. The
// owner has withdrawn and quiesced its gates before. An error leaves the lease to its TTL.
func (s *Session) Close(ctx context.Context) error {
	if !s.end(ErrClosed) && !errors.Is(s.Err(), ErrClosed) {
		return nil // lost: there is nothing to revoke
	}
	if err := s.leases.Revoke(ctx, s.id); err != nil {
		return fmt.Errorf("session: close: %w", err)
	}
	return nil
}
