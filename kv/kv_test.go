package kv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"strait/kv"
	"strait/kv/embed"
	"strait/kv/kvtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTxnGuards(t *testing.T) {
	s := kvtest.Start(t)
	ctx := kvtest.Context(t)
	lead := kvtest.Lead(t, s, "/leader/1")
	a := kvtest.Put(t, s, "/a", "1")
	created, err := s.Get(ctx, "/a")
	if err != nil {
		t.Fatal(err)
	}
	f := func(name string, want error, current string, guards ...kv.Guard) {
		t.Helper()
		_, err := s.Txn(ctx, kv.Txn{Guards: guards, Ops: []kv.Op{kv.Put("/probe/"+name, nil)}})
		if !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", name, err, want)
		}
		var c *kv.Conflict
		if errors.As(err, &c) && string(c.Current.Value) != current {
			t.Fatalf("%s: current %q, want %q", name, c.Current.Value, current)
		}
		e, err := s.Get(ctx, "/probe/"+name)
		if err != nil || e.Exists() != (want == nil) {
			t.Fatalf("%s: written %v, %v", name, e.Exists(), err)
		}
	}
	f("leader", nil, "", lead)
	f("mod", nil, "", lead, kv.AtMod("/a", a))
	f("entry", nil, "", lead, kv.At(created))
	f("create", nil, "", kv.AtCreate("/a", created.CreateRev))
	f("absent", nil, "", kv.Absent("/none"), kv.AtCreate("/none", 0))
	f("mod-old", kv.ErrConflict, "1", lead, kv.AtMod("/a", a-1))
	f("not-absent", kv.ErrConflict, "1", lead, kv.Absent("/a"))
	f("gone", kv.ErrConflict, "", lead, kv.AtMod("/none", 3))
	f("two-on-one-key", kv.ErrConflict, "1", kv.AtCreate("/a", created.CreateRev), kv.AtMod("/a", a-1))

	kvtest.StealLeader(t, s, lead)
	f("deposed", kv.ErrDeposed, "", lead)
	f("deposed-before-conflict", kv.ErrDeposed, "", kv.AtMod("/a", 1), lead)
	kvtest.Delete(t, s, "/leader/1")
	f("nobody-leads", kv.ErrDeposed, "", lead)
}

// Every kind of guarded write, with leadership lost between the read and the write.
func TestEveryWriteIsFenced(t *testing.T) {
	s := kvtest.Start(t)
	ctx := kvtest.Context(t)
	lease, err := s.Grant(ctx, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for name, op := range map[string]kv.Op{
		"put":           kv.Put("/x/1", []byte("new")),
		"put-leased":    kv.PutLeased("/x/1", []byte("new"), lease.ID),
		"delete":        kv.Delete("/x/1"),
		"delete-prefix": kv.DeletePrefix("/x/"),
	} {
		t.Run(name, func(t *testing.T) {
			rev := kvtest.Put(t, s, "/x/1", "old")
			lead := kvtest.Lead(t, s, "/leader/1")
			kvtest.StealLeader(t, s, lead)
			_, err := s.Txn(ctx, kv.Txn{Guards: []kv.Guard{lead, kv.AtMod("/x/1", rev)}, Ops: []kv.Op{op}})
			var d *kv.Deposed
			if !errors.As(err, &d) || string(d.Current.Value) != "thief" {
				t.Fatalf("%v, want deposed by the thief", err)
			}
			e, err := s.Get(ctx, "/x/1")
			if err != nil || string(e.Value) != "old" || e.ModRev != rev {
				t.Fatalf("changed although deposed: %+v, %v", e, err)
			}
		})
	}
}

func TestTxnResult(t *testing.T) {
	s := kvtest.Start(t)
	ctx := kvtest.Context(t)
	r, err := s.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent("/p/1")}, Ops: []kv.Op{kv.Put("/p/1", []byte("a")), kv.Put("/p/2", []byte("b"))}})
	if err != nil {
		t.Fatal(err)
	}
	es, rev, err := s.Read(ctx, "/p/1", "/p/none", "/p/2")
	if err != nil || es[0].ModRev != r.Rev || es[2].CreateRev != r.Rev || es[1].Exists() || rev != r.Rev {
		t.Fatalf("%+v at %d, %v", es, rev, err)
	}
	r, err = s.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.At(es[0])}, Ops: []kv.Op{kv.DeletePrefix("/p/"), kv.Put("/q", nil)}})
	if err != nil || r.Deleted != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	_, err = s.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent("/p/1")}, Ops: []kv.Op{kv.PutLeased("/p/1", nil, 4711)}})
	if !errors.Is(err, kv.ErrLeaseNotFound) {
		t.Fatalf("put on no lease: %v", err)
	}
}

func TestTxnLimits(t *testing.T) {
	s := kvtest.Start(t)
	ctx := kvtest.Context(t)
	guard := kv.Absent("/none")
	many := func(n int) (ops []kv.Op) {
		for i := range n {
			ops = append(ops, kv.Put(fmt.Sprintf("/k/%d", i), nil))
		}
		return ops
	}
	guards := func(n int) (gs []kv.Guard) {
		for i := range n {
			gs = append(gs, kv.Absent(fmt.Sprintf("/g/%d", i)))
		}
		return gs
	}
	big := bytes.Repeat([]byte("x"), kv.MaxValue-1)
	var full []kv.Op
	for i := range 15 {
		full = append(full, kv.Put(fmt.Sprintf("/big/%d", i), big))
	}
	f := func(name, key, what string, txn kv.Txn) {
		t.Helper()
		_, err := s.Txn(ctx, txn)
		if what == "" {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return
		}
		var l *kv.Limit
		if !errors.As(err, &l) || !errors.Is(err, kv.ErrRefused) || l.Key != key || !strings.Contains(err.Error(), what) {
			t.Fatalf("%s: %v, want %q on key %q", name, err, what, key)
		}
	}
	f("ops", "", "", kv.Txn{Guards: []kv.Guard{guard}, Ops: many(kv.MaxOps)})
	f("ops+1", "/k/128", "129 operations", kv.Txn{Guards: []kv.Guard{guard}, Ops: many(kv.MaxOps + 1)})
	f("guards", "", "", kv.Txn{Guards: guards(kv.MaxOps), Ops: many(kv.MaxOps)})
	f("guards+1", "/g/128", "129 guards", kv.Txn{Guards: guards(kv.MaxOps + 1)})
	f("bytes", "", "", kv.Txn{Guards: []kv.Guard{guard}, Ops: full})
	f("bytes+1", "/big/15", "1048576 bytes", kv.Txn{Guards: []kv.Guard{guard}, Ops: append(full, kv.Put("/big/15", big))})
	f("value", "/v", "65536 bytes", kv.Txn{Guards: []kv.Guard{guard}, Ops: []kv.Op{kv.Put("/v", append(big, 'x'))}})
	f("no guard", "", "without a guard", kv.Txn{Ops: many(1)})
	f("twice", "/a", "put twice", kv.Txn{Guards: []kv.Guard{guard}, Ops: []kv.Op{kv.Put("/a", nil), kv.Put("/b", nil), kv.Put("/a", nil)}})
	f("put+delete", "/a", "put and deleted", kv.Txn{Guards: []kv.Guard{guard}, Ops: []kv.Op{kv.Put("/a", nil), kv.Delete("/a")}})
	f("put+prefix", "/a/1", "put and deleted", kv.Txn{Guards: []kv.Guard{guard}, Ops: []kv.Op{kv.Put("/a/1", nil), kv.DeletePrefix("/a/")}})
	f("no key", "", "without a key", kv.Txn{Guards: []kv.Guard{guard}, Ops: []kv.Op{kv.DeletePrefix("")}})
}

func TestListPages(t *testing.T) {
	e := kvtest.New(t)
	s, ctx := e.Store, kvtest.Context(t)
	const n = 1300 // three pages
	for i := 0; i < n; i += 100 {
		var ops []kv.Op
		for j := i; j < min(i+100, n); j++ {
			ops = append(ops, kv.Put(fmt.Sprintf("/l/%05d", j), []byte(strconv.Itoa(j))))
		}
		if _, err := s.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent("/none")}, Ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
	kvtest.Put(t, s, "/m", "outside")
	es, rev, err := s.List(ctx, "/l/", 0)
	if err != nil || len(es) != n {
		t.Fatalf("%d keys, %v", len(es), err)
	}
	for i, x := range es {
		if x.Key != fmt.Sprintf("/l/%05d", i) || string(x.Value) != strconv.Itoa(i) {
			t.Fatalf("key %d is %s=%s", i, x.Key, x.Value)
		}
	}
	kvtest.Delete(t, s, "/l/00007")
	if es, at, err := s.List(ctx, "/l/", rev); err != nil || len(es) != n || at != rev {
		t.Fatalf("at the old revision: %d keys at %d, %v", len(es), at, err)
	}
	e.Compact(t)
	if _, _, err := s.List(ctx, "/l/", rev); !errors.Is(err, kv.ErrCompacted) {
		t.Fatalf("compacted: %v", err)
	}
	if es, _, err := s.List(ctx, "", 0); err != nil || len(es) != n {
		t.Fatalf("everything: %d keys, %v", len(es), err)
	}
}

// Many writers move amounts between accounts; at every moment the sum is zero, and each writer
// goes on through lost leadership and conflicts.
func TestBank(t *testing.T) {
	s := kvtest.Start(t)
	ctx := kvtest.Context(t)
	const accounts, writers, moves = 5, 6, 40
	key := func(i int) string { return fmt.Sprintf("/bank/%d", i) }
	for i := range accounts {
		kvtest.Put(t, s, key(i), "0")
	}
	value := func(e kv.Entry) int { n, _ := strconv.Atoi(string(e.Value)); return n }
	var g errgroup.Group
	for w := range writers {
		rng := rand.New(rand.NewPCG(uint64(w), 1))
		g.Go(func() error {
			for done := 0; done < moves; {
				a, b := rng.IntN(accounts), rng.IntN(accounts)
				if a == b {
					continue
				}
				es, _, err := s.Read(ctx, key(a), key(b))
				if err != nil {
					return err
				}
				_, err = s.Txn(ctx, kv.Txn{
					Guards: []kv.Guard{kv.At(es[0]), kv.At(es[1])},
					Ops: []kv.Op{
						kv.Put(key(a), strconv.AppendInt(nil, int64(value(es[0])-w-1), 10)),
						kv.Put(key(b), strconv.AppendInt(nil, int64(value(es[1])+w+1), 10)),
					},
				})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, kv.ErrConflict):
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		for range 50 {
			es, rev, err := s.List(ctx, "/bank/", 0)
			if err != nil {
				return err
			}
			sum := 0
			for _, e := range es {
				sum += value(e)
			}
			if sum != 0 || len(es) != accounts {
				return fmt.Errorf("sum %d over %d accounts at revision %d", sum, len(es), rev)
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := ln.Addr().String() // accepts and never answers
	defer ln.Close()
	for _, addr := range []string{"127.0.0.1:1", silent} {
		_, err = kv.Open(context.Background(), kv.Config{Endpoints: []string{addr}, DialTimeout: 300 * time.Millisecond})
		if !errors.Is(err, kv.ErrUnreachable) || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "start etcd there") {
			t.Fatalf("%v", err)
		}
		t.Log(err)
	}
	if _, err := kv.Open(context.Background(), kv.Config{}); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Fatalf("no endpoint: %v", err)
	}
}

func TestUnknownOutcome(t *testing.T) {
	e := kvtest.New(t)
	p := e.Proxy(t)
	s, err := kv.Open(kvtest.Context(t), kv.Config{Endpoints: []string{p.Addr()}, CallTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p.Blackhole()
	put := kv.Txn{Guards: []kv.Guard{kv.Absent("/u")}, Ops: []kv.Op{kv.Put("/u", []byte("1"))}}
	_, err = s.Txn(context.Background(), put) // a deadline although ctx has none
	if !errors.Is(err, kv.ErrUnknownOutcome) || errors.Is(err, kv.ErrConflict) || !strings.Contains(err.Error(), "/u") {
		t.Fatalf("write: %v", err)
	}
	if _, err := s.Get(context.Background(), "/u"); err == nil || errors.Is(err, kv.ErrUnknownOutcome) {
		t.Fatalf("read: %v", err)
	}
	p.Heal()
	// What was swallowed arrives late: the same write again finds either nothing or itself.
	_, err = s.Txn(kvtest.Context(t), put)
	for errors.Is(err, kv.ErrUnknownOutcome) {
		_, err = s.Txn(kvtest.Context(t), put)
	}
	if err != nil && !errors.Is(err, kv.ErrConflict) {
		t.Fatal(err)
	}
	if got, err := e.Store.Get(kvtest.Context(t), "/u"); err != nil || string(got.Value) != "1" {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestReconnectAfterOutage(t *testing.T) {
	e := kvtest.New(t)
	p := e.Proxy(t)
	s := e.Open(t, p.Addr())
	kvtest.Put(t, s, "/r", "1")
	p.Cut()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, "/r"); err == nil {
		t.Fatal("answered through a cut")
	}
	p.Heal()
	if got, err := s.Get(kvtest.Context(t), "/r"); err != nil || string(got.Value) != "1" {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestLease(t *testing.T) {
	e := kvtest.New(t)
	for name, s := range map[string]*kv.Store{"in-process": e.Store, "tcp": e.Open(t)} {
		t.Run(name, func(t *testing.T) {
			ctx := kvtest.Context(t)
			l, err := s.Grant(ctx, 10*time.Second)
			if err != nil || l.TTL < 10*time.Second {
				t.Fatalf("%+v, %v", l, err)
			}
			if _, err := s.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent("/w")}, Ops: []kv.Op{kv.PutLeased("/w", nil, l.ID)}}); err != nil {
				t.Fatal(err)
			}
			if ttl, err := s.Renew(ctx, l.ID); err != nil || ttl != l.TTL {
				t.Fatalf("%v, %v", ttl, err)
			}
			for range 2 {
				if err := s.Revoke(ctx, l.ID); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := s.Get(ctx, "/w"); err != nil || got.Exists() {
				t.Fatalf("key outlived its lease: %+v, %v", got, err)
			}
			if _, err := s.Renew(ctx, l.ID); !errors.Is(err, kv.ErrLeaseNotFound) {
				t.Fatalf("renew: %v", err)
			}
		})
	}
}

// Another cluster, or the same one put back, behind the address that this process knows.
func TestWentBack(t *testing.T) {
	t.Run("another cluster", func(t *testing.T) {
		one, two := kvtest.New(t), kvtest.New(t)
		p := one.Proxy(t)
		s := one.Open(t, p.Addr())
		p.Retarget(two.Server.Endpoints()[0])
		wantWentBack(t, s, "cluster id was")
	})
	t.Run("older revision", func(t *testing.T) {
		dir := t.TempDir()
		srv := startAt(t, dir)
		p := kvtest.NewProxy(t, srv.Endpoints()[0])
		s, err := kv.Open(kvtest.Context(t), kv.Config{Endpoints: []string{p.Addr()}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		kvtest.Put(t, s, "/a", "1")
		p.Cut()
		srv.Close()
		backup := t.TempDir()
		copyDir(t, dir, backup)
		srv = startAt(t, dir)
		p.Retarget(srv.Endpoints()[0])
		p.Heal()
		kvtest.Put(t, s, "/a", "2")
		p.Cut()
		srv.Close()
		srv = startAt(t, backup)
		defer srv.Close()
		p.Retarget(srv.Endpoints()[0])
		p.Heal()
		wantWentBack(t, s, "revision was")
		p.Cut()
	})
}

func wantWentBack(t *testing.T, s *kv.Store, what string) {
	t.Helper()
	ctx := kvtest.Context(t)
	var err error
	for err == nil || !errors.Is(err, kv.ErrWentBack) && ctx.Err() == nil {
		_, err = s.Get(ctx, "/a")
	}
	if !errors.Is(err, kv.ErrWentBack) || !strings.Contains(err.Error(), what) {
		t.Fatal(err)
	}
	if _, err := s.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent("/z")}, Ops: []kv.Op{kv.Put("/z", nil)}}); !errors.Is(err, kv.ErrWentBack) {
		t.Fatalf("the store stays refused: %v", err)
	}
}

func TestStatus(t *testing.T) {
	e := kvtest.New(t)
	for name, s := range map[string]*kv.Store{"in-process": e.Store, "tcp": e.Open(t)} {
		st, err := s.Status(kvtest.Context(t))
		if err != nil || st.Size <= 0 || st.Used <= 0 || st.Used > st.Size || st.Quota != embed.DefaultQuota || !strings.HasPrefix(st.Version, "3.") {
			t.Fatalf("%s: %+v, %v", name, st, err)
		}
	}
}

// A full store refuses; nothing is unknown about it.
func TestQuota(t *testing.T) {
	srv, err := embed.Start(kvtest.Context(t), embed.Config{DataDir: t.TempDir(), NoFsync: true, QuotaBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	s, err := kv.Open(kvtest.Context(t), kv.Config{Client: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	big := make([]byte, kv.MaxValue-1)
	for err == nil {
		_, err = s.Txn(kvtest.Context(t), kv.Txn{Guards: []kv.Guard{kv.Absent("/none")}, Ops: []kv.Op{kv.Put("/big", big)}})
	}
	if !errors.Is(err, kv.ErrNoSpace) || errors.Is(err, kv.ErrUnknownOutcome) || !strings.Contains(err.Error(), "raise the quota") {
		t.Fatal(err)
	}
}

func TestPassword(t *testing.T) {
	e := kvtest.New(t)
	ctx := kvtest.Context(t)
	admin := e.Server.Client()
	defer admin.Close()
	_, err1 := admin.UserAdd(ctx, "root", "secret")
	_, err2 := admin.UserGrantRole(ctx, "root", "root")
	_, err3 := admin.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	c := kv.Config{Endpoints: e.Server.Endpoints(), Username: "root", Password: "wrong"}
	for _, bad := range []kv.Config{c, {Endpoints: c.Endpoints, Probe: "/a"}} {
		if _, err := kv.Open(ctx, bad); !errors.Is(err, kv.ErrRefused) || !strings.Contains(err.Error(), "etcd.username") {
			t.Fatal(err)
		}
	}
	c.Password = "secret"
	s, err := kv.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kvtest.Put(t, s, "/a", "1")
	l, err := s.Grant(ctx, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(ctx, l.ID); err != nil {
		t.Fatal(err)
	}
}

func startAt(t *testing.T, dir string) *embed.Server {
	t.Helper()
	srv, err := embed.Start(kvtest.Context(t), embed.Config{DataDir: dir, ListenClient: "127.0.0.1:0", NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return srv
}
