package worker

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestAlive: a loop that is stuck shows, one that has ended does not.
func TestAlive(t *testing.T) {
	l := &life{hosts: map[pipeline]*host{}}
	w := &Worker{cfg: Config{Name: "w1"}}
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	f := func(says string) {
		t.Helper()
		ctx := t.Context()
		if says != "" {
			ctx = short()
		}
		switch err := w.Alive(ctx); {
		case says == "" && err != nil, says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%v, want %q", err, says)
		}
	}
	f("") // it has not registered
	w.life = l
	f("")
	h := &host{pipeline: pipeline{"j1", 2}, inbox: newInbox(), ended: make(chan struct{})}
	l.hosts[h.pipeline] = h
	f("pipeline 2 of job j1 does not answer")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // its loop
		defer close(done)
		for {
			select {
			case <-h.inbox.kick:
				h.inbox.take()
			case <-ctx.Done():
				return
			}
		}
	}()
	f("")
	cancel()
	<-done
	close(h.ended)
	f("")
	l.mu.Lock()
	f("the list of its pipelines")
	l.mu.Unlock()
	w.mu.Lock()
	f("its state")
	w.mu.Unlock()
	f("")
}
