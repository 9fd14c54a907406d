package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/keys"
)

// within bounds every wait; reaching it is a failure.
const within = 60 * time.Second

// Revision is everything that one transaction changed.
type Revision struct {
	Rev     int64
	Changes []kv.Change
}

// Recorder follows a tree. Safe for concurrent use.
type Recorder struct {
	store *kv.Store
	tree  keys.Tree
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu    sync.Mutex
	first []kv.Entry // what was there when it began
	revs  []Revision
	at    int64
	gap   error // changes were missed
	moved chan struct{}
}

// Record begins with what the store holds now. The recorder ends with Stop.
func Record(ctx context.Context, store *kv.Store, tree keys.Tree) (*Recorder, error) {
	entries, rev, err := store.List(ctx, tree.Prefix(), 0)
	if err != nil {
		return nil, err
	}
	r := &Recorder{store: store, tree: tree, first: entries, at: rev, moved: make(chan struct{})}
	run, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.done.Go(func() { r.follow(run) })
	return r, nil
}

// Start records until the test ends, and then fails it for every fault.
func Start(t testing.TB, store *kv.Store, tree keys.Tree) *Recorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	r, err := Record(ctx, store, tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		err := r.CatchUp(ctx)
		r.Stop()
		if err != nil {
			t.Error(err)
		}
		for _, fault := range r.Check() {
			t.Error("history: " + fault)
		}
	})
	return r
}

// Stop ends the recording and waits for it.
func (r *Recorder) Stop() {
	r.stop()
	r.done.Wait()
}

// CatchUp returns when everything that is in the store now is recorded: before a compaction, and before Check.
func (r *Recorder) CatchUp(ctx context.Context) error {
	_, rev, err := r.store.Read(ctx, r.tree.MetaVersion())
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	for {
		r.mu.Lock()
		at, gap, moved := r.at, r.gap, r.moved
		r.mu.Unlock()
		switch {
		case gap != nil:
			return gap
		case at >= rev:
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("history: at revision %d, the store at %d: %w", at, rev, ctx.Err())
		}
	}
}

// Revisions is what was recorded so far.
func (r *Recorder) Revisions() []Revision {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.revs)
}

// Check holds the whole recording against the rules and lists what breaks them.
func (r *Recorder) Check() []string {
	r.mu.Lock()
	first, revs, gap := r.first, slices.Clone(r.revs), r.gap
	r.mu.Unlock()
	faults := Check(r.tree, first, revs)
	if gap != nil {
		faults = append(faults, gap.Error())
	}
	return faults
}

// follow watches all keys, not those of the tree alone: so every revision is seen, and CatchUp needs no mark.
func (r *Recorder) follow(ctx context.Context) {
	for {
		w := r.store.Watch(ctx, "\x00", "\x00", r.at+1) // only this goroutine writes at
		err := r.take(w)
		w.Close()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, kv.ErrCompacted), errors.Is(err, kv.ErrWentBack):
			r.mu.Lock()
			r.gap = fmt.Errorf("history: nothing is known behind revision %d: %w; call CatchUp before a compaction", r.at, err)
			close(r.moved)
			r.moved = make(chan struct{})
			r.mu.Unlock()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *Recorder) take(w *kv.Watch) error {
	for {
		changes, rev, err := w.Next()
		if err != nil {
			return err
		}
		r.mu.Lock()
		for _, c := range changes {
			if n := len(r.revs); n > 0 && r.revs[n-1].Rev == c.Entry.ModRev {
				r.revs[n-1].Changes = append(r.revs[n-1].Changes, c)
			} else {
				r.revs = append(r.revs, Revision{c.Entry.ModRev, []kv.Change{c}})
			}
		}
		r.at = max(r.at, rev)
		close(r.moved)
		r.moved = make(chan struct{})
		r.mu.Unlock()
	}
}
