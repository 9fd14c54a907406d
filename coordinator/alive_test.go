package coordinator

import (
	"context"
	"testing"
	"time"

	"strait/kv/kvtest"
)

// TestAlive: the loop of a leader answers, and one that is stuck shows.
func TestAlive(t *testing.T) {
	f := newFleet(t)
	f.stop()
	x := f.lead()
	f.leaderKey()
	for !x.Leads() { // the key comes first
		time.Sleep(time.Millisecond)
	}
	if err := x.Alive(kvtest.Context(t)); err != nil {
		t.Error(err)
	}
	l := x.loop.Load()
	stuck, free := make(chan struct{}), make(chan struct{})
	go l.ask(t.Context(), func() { close(stuck); <-free })
	<-stuck
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := x.Alive(short); err == nil {
		t.Error("a loop that is stuck counts as alive")
	}
	close(free)
	if err := x.Alive(kvtest.Context(t)); err != nil {
		t.Error(err)
	}
	f.stop()
	if err := x.Alive(kvtest.Context(t)); err != nil || x.Leads() {
		t.Error("after the end:", err)
	}
}
