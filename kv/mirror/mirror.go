package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/kv"
)

// ErrStoreWentBack ends Run: the store was restored from an older backup, or is another one. The
// process stops and says so.
var ErrStoreWentBack = kv.ErrWentBack

// Kind is what happened to a key.
type Kind uint8

// The kinds of Event.
const (
	Put Kind = iota + 1
	Delete
)

// String implements fmt.Stringer.
func (k Kind) String() string {
	switch k {
	case Put:
		return "put"
	case Delete:
		return "delete"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Event is one change of one key.
type Event struct {
	Kind  Kind
	Entry kv.Entry // as it is now; of a Delete only Key and ModRev (the revision at which it was known to be gone)
	Prev  kv.Entry // as the mirror had it before; ModRev 0: absent
}

// Batch is what changed up to a revision. The owner may keep it.
type Batch struct {
	Rev     int64
	Events  []Event // in order of revisions; empty only when Initial
	Initial bool    // the first one: everything there is, as Puts
}

// Options of Follow.
type Options struct {
	// OnBatch is called for every batch, one at a time, in Run's goroutine. View already shows the
	// batch. It must not call Run or Wait. nil: only View is wanted.
	OnBatch func(Batch)
	// Logger receives faults of the watch; nil is silence.
	Logger *slog.Logger
	// MinPause and MaxPause bound the growing pause before a new listing; 0: 50 ms and 2 s.
	MinPause, MaxPause time.Duration
	// CheckEvery is how often a quiet store is asked for its revision, to notice that it went back or that
	// the watch has gone silent; 0: 30 s.
	CheckEvery time.Duration
}

// View is the store at one revision, as far as the mirror follows it.
type View struct {
	Rev     int64
	Entries map[string]kv.Entry
}

// Mirror is a live copy. View, Get, Rev and Wait are safe for concurrent use.
type Mirror struct {
	store   *kv.Store
	targets targets
	o       Options
	ready   chan struct{}

	mu      sync.Mutex
	entries map[string]kv.Entry
	rev     int64
	moved   chan struct{} // closed and replaced when rev moves
	again   func()        // ends the round under way; nil before the first
}

// Follow makes a mirror of targets: one that ends in "/" is a prefix, any other is one key. Nothing
// happens before Run.
func Follow(store *kv.Store, targets []string, o Options) *Mirror {
	if o.OnBatch == nil {
		o.OnBatch = func(Batch) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MinPause <= 0 {
		o.MinPause = 50 * time.Millisecond
	}
	if o.MaxPause <= 0 {
		o.MaxPause = max(2*time.Second, o.MinPause)
	}
	if o.CheckEvery <= 0 {
		o.CheckEvery = 30 * time.Second
	}
	return &Mirror{store: store, targets: newTargets(targets), o: o, ready: make(chan struct{}),
		entries: map[string]kv.Entry{}, moved: make(chan struct{})}
}

// Ready is closed when OnBatch has returned from the initial batch.
func (m *Mirror) Ready() <-chan struct{} { return m.ready }

// Rev is the revision up to which nothing is missing; 0 before the first listing.
func (m *Mirror) Rev() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rev
}

// Get is one key of the copy; ModRev 0 when it is absent.
func (m *Mirror) Get(key string) kv.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok {
		return e
	}
	return kv.Entry{Key: key}
}

// View copies the index (the values are shared): it costs a step per key.
func (m *Mirror) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return View{Rev: m.rev, Entries: maps.Clone(m.entries)}
}

// Wait returns when the copy shows revision rev or a later one: after a write inside the targets,
// when the write has come round. Outside the targets it may take as long as the store stays quiet.
func (m *Mirror) Wait(ctx context.Context, rev int64) error {
	for {
		m.mu.Lock()
		at, moved := m.rev, m.moved
		m.mu.Unlock()
		if at >= rev {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("mirror: at revision %d, waiting for %d: %w", at, rev, context.Cause(ctx))
		}
	}
}

// Run follows the store until ctx ends (nil) or an error no retry heals: ErrStoreWentBack,
// kv.ErrRefused. An etcd that is away is waited for. One Run a mirror.
func (m *Mirror) Run(ctx context.Context) error {
	if len(m.targets.list) == 0 {
		return errors.New("mirror: BUG: nothing to follow")
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.follow(gctx) })
	g.Go(func() error { return m.check(gctx) })
	if err := g.Wait(); ctx.Err() == nil {
		return fmt.Errorf("mirror of %s: %w", m.targets, err)
	}
	return nil
}

func fatal(err error) bool {
	return errors.Is(err, kv.ErrWentBack) || errors.Is(err, kv.ErrRefused)
}

func (m *Mirror) follow(ctx context.Context) error {
	pause := m.o.MinPause
	for {
		err := m.round(ctx, func() { pause = m.o.MinPause })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case fatal(err):
			return err
		}
		m.o.Logger.Warn("mirror lists again", "targets", m.targets, "rev", m.Rev(), "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause + rand.N(pause/4+1)):
		}
		pause = min(2*pause, m.o.MaxPause)
	}
}

// load lists every target at one revision and emits the difference to the copy.
func (m *Mirror) load(ctx context.Context) error {
	now := map[string]kv.Entry{}
	rev := int64(0)
	for _, t := range m.targets.list {
		entries, at, err := m.store.Range(ctx, t.from, t.end(), rev)
		if err != nil {
			return err
		}
		rev = at
		for _, e := range entries {
			now[e.Key] = e
		}
	}
	m.mu.Lock()
	initial, known := m.rev == 0, m.rev
	m.mu.Unlock()
	if rev < known {
		// The store itself notices nearly always; a listing behind what we have is the last line.
		id := m.store.ClusterID()
		return &kv.WentBack{Cluster: id, Known: id, Rev: rev, KnownRev: known}
	}
	b := Batch{Rev: rev, Events: difference(m.entries, now, rev), Initial: initial} // only this goroutine writes entries
	m.mu.Lock()
	m.entries = now
	m.move(rev)
	m.mu.Unlock()
	if initial || len(b.Events) > 0 {
		m.o.OnBatch(b)
	}
	if initial {
		close(m.ready)
	}
	return nil
}

// move sets the revision and wakes Wait. Called with mu held.
func (m *Mirror) move(rev int64) {
	if rev > m.rev {
		m.rev = rev
		close(m.moved)
		m.moved = make(chan struct{})
	}
}

// round opens a watch that begins now, lists, and follows until the watch ends. In that order nothing is missed:
// the list is at least as new as the beginning of the watch, and what both bring is dropped by its revision. The
// other order would begin the watch in the past, which etcd serves up to 100 ms later.
func (m *Mirror) round(ctx context.Context, healthy func()) error {
	rctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.mu.Lock()
	m.again = func() { cancel(errSilent) }
	m.mu.Unlock()
	from, end := m.targets.span()
	w := m.store.Watch(rctx, from, end, 0)
	defer w.Close()
	err := w.Opened()
	if err == nil {
		err = m.load(rctx)
	}
	if err == nil {
		err = m.watch(rctx, w, healthy)
	}
	if errors.Is(context.Cause(rctx), errSilent) {
		return errSilent
	}
	return err
}

var errSilent = errors.New("the watch is silent although its keys have changed")

// watch follows a watch behind the copy until it ends.
func (m *Mirror) watch(ctx context.Context, w *kv.Watch, healthy func()) error {
	for {
		changes, rev, err := w.Next()
		if err != nil {
			return err
		}
		healthy()
		if len(changes) == 0 && rev < m.Rev() {
			// A member that lags, or a store that went back: a linearizable read tells which.
			if _, err := m.store.Revision(ctx); fatal(err) {
				return err
			}
			continue
		}
		if b := m.apply(changes, rev); len(b.Events) > 0 {
			m.o.OnBatch(b)
		}
	}
}

func (m *Mirror) apply(changes []kv.Change, rev int64) Batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := Batch{Rev: rev}
	for _, ch := range changes {
		key := ch.Entry.Key
		if ch.Entry.ModRev <= m.rev || !m.targets.has(key) {
			continue // seen before (a second line: the watch starts behind the copy), or between two targets
		}
		prev, had := m.entries[key]
		if !had {
			prev = kv.Entry{Key: key}
		}
		ev := Event{Kind: Put, Entry: ch.Entry, Prev: prev}
		if ch.Deleted {
			ev.Kind = Delete
			delete(m.entries, key)
		} else {
			m.entries[key] = ch.Entry
		}
		b.Events = append(b.Events, ev)
	}
	m.move(rev)
	return b
}

// check asks a quiet store for its revision. A watch on a store that went back waits, silent, for a revision that is
// long gone; and a watch whose stream has died somewhere between here and the store, while other calls still pass, is
// as silent. The second is found by looking: what the store had a whole check ago must have come by now.
func (m *Mirror) check(ctx context.Context) error {
	tick := time.NewTicker(m.o.CheckEvery)
	defer tick.Stop()
	seen, behind := int64(0), int64(0) // behind: revision of the store at the last check, when it was ahead of seen
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if at := m.Rev(); at != seen {
			seen, behind = at, 0
			continue
		}
		rev, err := m.store.Revision(ctx)
		switch {
		case errors.Is(err, kv.ErrWentBack):
			return err
		case err != nil || rev <= seen || seen == 0:
			behind = 0
			continue
		case behind != 0 && m.missed(ctx, seen, behind):
			m.store.NewStream()
			m.mu.Lock()
			m.again()
			m.mu.Unlock()
			behind = 0
			continue
		}
		behind = rev
	}
}

// missed says that the copy, still at revision at, lacks a change that the store had at revision rev. In doubt it has
// missed nothing: the next check looks again.
func (m *Mirror) missed(ctx context.Context, at, rev int64) bool {
	count := 0
	for _, t := range m.targets.list {
		keys, _, err := m.store.RangeKeys(ctx, t.from, t.end(), rev)
		if err != nil {
			return false
		}
		for _, e := range keys {
			if e.ModRev > at {
				return m.Rev() == at
			}
		}
		count += len(keys)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rev == at && count != len(m.entries) // fewer: deletions
}
