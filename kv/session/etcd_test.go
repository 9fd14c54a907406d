package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/session"
)

func TestOverEtcd(t *testing.T) {
	e := kvtest.New(t)
	ctx, cancel := context.WithCancel(kvtest.Context(t))
	s, err := session.Open(ctx, e.Store, session.Options{TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if s.TTL() < 2*time.Second {
		t.Fatal(s.TTL())
	}
	if _, err := e.Store.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent("/workers/a")}, Ops: []kv.Op{kv.PutLeased("/workers/a", nil, s.Lease())}}); err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	for first := s.Proof(); s.Proof() == first; { // a real renewal was answered
		time.Sleep(10 * time.Millisecond)
		if ctx.Err() != nil {
			t.Fatal("not renewed")
		}
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := e.Store.Get(ctx, "/workers/a"); err != nil || got.Exists() {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	s, err = session.Open(ctx, e.Store, session.Options{TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	go func() { ran <- s.Run(ctx) }()
	e.ExpireLease(t, s.Lease())
	if err := <-ran; !errors.Is(err, session.ErrLost) {
		t.Fatal(err)
	}
	cancel()
}

// A cut connection: renewals go on once it heals, the lease is kept.
func TestRenewsAfterCut(t *testing.T) {
	e := kvtest.New(t)
	p := e.Proxy(t)
	ctx, cancel := context.WithCancel(kvtest.Context(t))
	s, err := session.Open(ctx, e.Open(t, p.Addr()), session.Options{TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	for _, harm := range []func(){p.Cut, p.Blackhole, p.Drop} {
		harm()
		time.Sleep(200 * time.Millisecond) // some of it while a renewal is due
		p.Heal()
		for proof := s.Proof(); s.Proof() == proof; {
			time.Sleep(10 * time.Millisecond)
			if ctx.Err() != nil || s.Err() != nil {
				t.Fatalf("not renewed after the cut: %v", s.Err())
			}
		}
	}
	cancel()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
}
