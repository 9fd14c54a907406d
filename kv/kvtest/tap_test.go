package kvtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/kvtest"
)

// TestTap: a tap passes everything on, stops and loses single transactions, and tells what was done.
func TestTap(t *testing.T) {
	e := kvtest.New(t)
	tap := e.Tap(t)
	s := e.Open(t, tap.Addr())
	ctx := kvtest.Context(t)
	put := func(key string) error {
		_, err := s.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent(key)}, Ops: []kv.Op{kv.Put(key, []byte("x"))}})
		return err
	}
	w := s.Watch(ctx, "/", kv.PrefixEnd("/"), 1)
	defer w.Close()
	if err := w.Opened(); err != nil {
		t.Fatal(err)
	}
	if err := put("/a"); err != nil {
		t.Fatal(err)
	}
	if ch, _, err := w.Next(); err != nil || len(ch) != 1 || ch[0].Entry.Key != "/a" {
		t.Fatalf("the watch says %v, %v", ch, err)
	}
	tap.Judge(func(x kvtest.Txn) kvtest.Verdict {
		switch x.N {
		case 1:
			return kvtest.Refuse
		case 2:
			return kvtest.Swallow
		}
		return kvtest.Pass
	})
	for _, key := range []string{"/refused", "/swallowed"} {
		if err := put(key); !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Errorf("%s: %v, want an unknown outcome", key, err)
		}
	}
	if err := put("/passed"); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]bool{"/refused": false, "/swallowed": true, "/passed": true} {
		if got, err := s.Get(ctx, key); err != nil || got.Exists() != want {
			t.Errorf("%s is there: %v, want %v (%v)", key, got.Exists(), want, err)
		}
	}
	if done := tap.Done(); len(done) != 3 || done[2].Puts()[0] != "/passed" || done[2].Rev <= done[1].Rev {
		t.Errorf("done: %+v", done)
	}
	tap.Cut()
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := s.Get(short, "/a"); err == nil {
		t.Error("a cut tap lets reads through")
	}
	tap.Heal()
	if _, err := s.Get(ctx, "/a"); err != nil {
		t.Errorf("a healed tap: %v", err)
	}
	e.Put(t, "/healed", "x") // watches go on too, also of a client that has sent nothing since
	for {
		ch, _, err := w.Next()
		if err != nil {
			t.Fatalf("the watch through a healed tap: %v", err)
		}
		if len(ch) > 0 && ch[len(ch)-1].Entry.Key == "/healed" {
			break
		}
	}
}
