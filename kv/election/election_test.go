package election_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"strait/kv"
	"strait/kv/election"
	"strait/kv/kvtest"
	"strait/kv/session"
)

const prefix = "/strait/v1/leader/"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, store *kv.Store) *session.Session {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := session.Open(kvtest.Context(t), store, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

type outcome struct {
	l   *election.Leadership
	err error
}

func campaign(ctx context.Context, store *kv.Store, s *session.Session, name string) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		l, err := election.Campaign(ctx, store, s, prefix, []byte(name))
		ch <- outcome{l, err}
	}()
	return ch
}

func won(t *testing.T, ch <-chan outcome) *election.Leadership {
	t.Helper()
	select {
	case o := <-ch:
		if o.err != nil {
			t.Fatal(o.err)
		}
		t.Cleanup(func() { _ = o.l.Resign(kvtest.Context(t)) })
		return o.l
	case <-time.After(kvtest.Limit):
		t.Fatal("not elected")
	}
	return nil
}

func wantLost(t *testing.T, l *election.Leadership, why error) {
	t.Helper()
	select {
	case <-l.Lost():
		if !errors.Is(l.Err(), why) {
			t.Fatalf("%v, want %v", l.Err(), why)
		}
	case <-time.After(kvtest.Limit):
		t.Fatal("not told of the loss")
	}
}

// candidates waits until n keys stand for election.
func candidates(t *testing.T, store *kv.Store, n int) {
	t.Helper()
	ctx := kvtest.Context(t)
	for {
		es, _, err := store.List(ctx, prefix, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(es) == n {
			return
		}
	}
}

func write(t *testing.T, store *kv.Store, l *election.Leadership) error {
	_, err := store.Txn(kvtest.Context(t), kv.Txn{Guards: []kv.Guard{l.Guard()}, Ops: []kv.Op{kv.Put("/w", []byte(l.Key))}})
	return err
}

func TestSuccession(t *testing.T) {
	e := kvtest.New(t)
	ctx := kvtest.Context(t)
	if _, err := election.Leader(ctx, e.Store, prefix); !errors.Is(err, election.ErrNoLeader) {
		t.Fatal(err)
	}
	sa, sb, sc := open(t, e.Store), open(t, e.Store), open(t, e.Store)
	a := won(t, campaign(ctx, e.Store, sa, "a"))
	chB := campaign(ctx, e.Store, sb, "b")
	candidates(t, e.Store, 2)
	chC := campaign(ctx, e.Store, sc, "c")
	candidates(t, e.Store, 3)
	if got, err := election.Leader(ctx, e.Store, prefix); err != nil || string(got.Value) != "a" || got.CreateRev != a.Rev {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := write(t, e.Store, a); err != nil {
		t.Fatal(err)
	}

	// The lease of the leader ends: the next one leads, the old one writes no more.
	e.ExpireLease(t, sa.Lease())
	b := won(t, chB)
	if err := write(t, e.Store, a); !errors.Is(err, kv.ErrDeposed) {
		t.Fatalf("the old leader wrote: %v", err)
	}
	wantLost(t, a, election.ErrKeyGone)
	if err := write(t, e.Store, b); err != nil {
		t.Fatal(err)
	}

	if err := b.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	wantLost(t, b, election.ErrResigned)
	c := won(t, chC)
	if err := write(t, e.Store, b); !errors.Is(err, kv.ErrDeposed) {
		t.Fatalf("the resigned leader wrote: %v", err)
	}

	// Deleted by hand.
	e.Delete(t, c.Key)
	wantLost(t, c, election.ErrKeyGone)
	if err := write(t, e.Store, c); !errors.Is(err, kv.ErrDeposed) {
		t.Fatal(err)
	}
	again := won(t, campaign(ctx, e.Store, sc, "c2"))
	if again.Key != c.Key || again.Rev <= c.Rev {
		t.Fatalf("%d after %d", again.Rev, c.Rev)
	}
	if err := write(t, e.Store, c); !errors.Is(err, kv.ErrDeposed) {
		t.Fatalf("same key, older leadership: %v", err)
	}

	sc.Lose(errors.New("test"))
	wantLost(t, again, session.ErrLost)
}

// A candidate in the middle goes: who waited for it waits for the one before.
func TestMiddleLeaves(t *testing.T) {
	e := kvtest.New(t)
	ctx := kvtest.Context(t)
	a := won(t, campaign(ctx, e.Store, open(t, e.Store), "a"))
	bctx, cancel := context.WithCancel(ctx)
	chB := campaign(bctx, e.Store, open(t, e.Store), "b")
	candidates(t, e.Store, 2)
	chC := campaign(ctx, e.Store, open(t, e.Store), "c")
	candidates(t, e.Store, 3)
	cancel()
	if o := <-chB; !errors.Is(o.err, context.Canceled) {
		t.Fatal(o.err)
	}
	candidates(t, e.Store, 2) // its key went with it
	select {
	case o := <-chC:
		t.Fatalf("elected beside a leader: %+v", o)
	default:
	}
	if err := a.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	won(t, chC)
}

// The store compacts under both watches while they are cut off.
func TestCompactedWhileCutOff(t *testing.T) {
	e := kvtest.New(t)
	p := e.Proxy(t)
	far := e.Open(t, p.Addr())
	ctx := kvtest.Context(t)
	a := won(t, campaign(ctx, far, open(t, e.Store), "a"))
	chB := campaign(ctx, far, open(t, e.Store), "b")
	candidates(t, e.Store, 2)

	p.Cut()
	e.Delete(t, a.Key) // seen neither by a nor by b
	for i := range 5 {
		e.Put(t, fmt.Sprintf("/noise/%d", i), "x")
	}
	e.Compact(t)
	p.Heal()
	won(t, chB)
	wantLost(t, a, election.ErrKeyGone)
}

// Losing the session ends a campaign.
func TestSessionLostWhileWaiting(t *testing.T) {
	e := kvtest.New(t)
	ctx := kvtest.Context(t)
	won(t, campaign(ctx, e.Store, open(t, e.Store), "a"))
	s := open(t, e.Store)
	ch := campaign(ctx, e.Store, s, "b")
	candidates(t, e.Store, 2)
	s.Lose(errors.New("test"))
	if o := <-ch; !errors.Is(o.err, session.ErrLost) {
		t.Fatal(o.err)
	}
}

// Silence deposes nobody.
func TestSilence(t *testing.T) {
	e := kvtest.New(t)
	p := e.Proxy(t)
	far := e.Open(t, p.Addr())
	l := won(t, campaign(kvtest.Context(t), far, open(t, e.Store), "a"))
	p.Cut()
	select {
	case <-l.Lost():
		t.Fatal(l.Err())
	case <-time.After(300 * time.Millisecond): // longer than the first retries
	}
	p.Heal()
	if err := write(t, far, l); err != nil {
		t.Fatal(err)
	}
	e.Delete(t, l.Key) // and its watch still works
	wantLost(t, l, election.ErrKeyGone)
}

// Many candidates, each leads once; a counter that only the leader may raise by one from what it
// read proves that there is one at a time.
func TestOneAtATime(t *testing.T) {
	e := kvtest.New(t)
	ctx := kvtest.Context(t)
	const n = 8
	e.Put(t, "/counter", "")
	var wg sync.WaitGroup
	for range n {
		s := open(t, e.Store)
		wg.Go(func() {
			l, err := election.Campaign(ctx, e.Store, s, prefix, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = l.Resign(ctx) }()
			for range 3 {
				got, err := e.Store.Get(ctx, "/counter")
				if err != nil {
					t.Error(err)
					return
				}
				_, err = e.Store.Txn(ctx, kv.Txn{Guards: []kv.Guard{l.Guard(), kv.At(got)}, Ops: []kv.Op{kv.Put("/counter", append(got.Value, 'x'))}})
				if err != nil {
					t.Errorf("a leader met another one: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if got, err := e.Store.Get(ctx, "/counter"); err != nil || len(got.Value) != 3*n {
		t.Fatalf("%q, %v", got.Value, err)
	}
}
