package kvtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"strait/kv"
	"strait/kv/embed"
)

// Limit bounds every wait of a test; reaching it is a failure, never a measurement.
const Limit = 30 * time.Second

// Etcd is one embedded server and its in-process store.
type Etcd struct {
	Server *embed.Server
	Store  *kv.Store
	Dir    string
	raw    *clientv3.Client
}

// Start returns a store over a fresh etcd.
func Start(t testing.TB) *kv.Store {
	t.Helper()
	return New(t).Store
}

// New starts a fresh etcd with a client port on loopback.
func New(t testing.TB) *Etcd {
	t.Helper()
	return NewAt(t, t.TempDir())
}

// NewAt starts etcd on a directory the caller names, as after a restart.
func NewAt(t testing.TB, dir string) *Etcd {
	t.Helper()
	srv, err := embed.Start(Context(t), embed.Config{DataDir: dir, ListenClient: "127.0.0.1:0", NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	e := &Etcd{Server: srv, Dir: dir, raw: srv.Client()}
	t.Cleanup(func() { _ = e.raw.Close() })
	e.Store, err = kv.Open(Context(t), kv.Config{Client: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Store.Close() })
	return e
}

// Open returns another client over TCP: of the server, or of the addresses given.
func (e *Etcd) Open(t testing.TB, addrs ...string) *kv.Store {
	t.Helper()
	if len(addrs) == 0 {
		addrs = e.Server.Endpoints()
	}
	s, err := kv.Open(Context(t), kv.Config{Endpoints: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Compact drops every revision up to now, as a busy store does behind a slow watcher.
func (e *Etcd) Compact(t testing.TB) {
	t.Helper()
	resp, err := e.raw.Get(Context(t), "\x00")
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.raw.Compact(Context(t), resp.Header.Revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) { // already, when nothing was written since
		t.Fatal(err)
	}
}

// Put writes without a guard, as etcdctl does, and returns the mod revision.
func (e *Etcd) Put(t testing.TB, key, value string) int64 {
	t.Helper()
	resp, err := e.raw.Put(Context(t), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// Delete deletes without a guard, as etcdctl does.
func (e *Etcd) Delete(t testing.TB, key string) {
	t.Helper()
	if _, err := e.raw.Delete(Context(t), key); err != nil {
		t.Fatal(err)
	}
}

// ExpireLease ends a lease at once, as its expiry would.
func (e *Etcd) ExpireLease(t testing.TB, id int64) {
	t.Helper()
	if _, err := e.raw.Revoke(Context(t), clientv3.LeaseID(id)); err != nil {
		t.Fatal(err)
	}
}

// Context ends after Limit, or with the test.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	t.Cleanup(cancel)
	return ctx
}

// Put writes key without knowing its revision (it reads it first) and returns the mod revision.
func Put(t testing.TB, s *kv.Store, key, value string) int64 {
	t.Helper()
	for {
		e, err := s.Get(Context(t), key)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Txn(Context(t), kv.Txn{Guards: []kv.Guard{kv.At(e)}, Ops: []kv.Op{kv.Put(key, []byte(value))}})
		if err == nil {
			return r.Rev
		}
		if !errors.Is(err, kv.ErrConflict) {
			t.Fatal(err)
		}
	}
}

// Delete deletes key whatever its revision.
func Delete(t testing.TB, s *kv.Store, key string) {
	t.Helper()
	for {
		e, err := s.Get(Context(t), key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Txn(Context(t), kv.Txn{Guards: []kv.Guard{kv.At(e)}, Ops: []kv.Op{kv.Delete(key)}})
		if err == nil {
			return
		}
		if !errors.Is(err, kv.ErrConflict) {
			t.Fatal(err)
		}
	}
}

// Lead makes a leadership key without an election and returns its guard.
func Lead(t testing.TB, s *kv.Store, key string) kv.Guard {
	t.Helper()
	Delete(t, s, key)
	return kv.LeaderGuard(key, Put(t, s, key, "leader"))
}

// StealLeader ends the leadership behind guard and gives its key to somebody else, whose guard it
// returns. What the old leader still sends must fail with kv.ErrDeposed.
func StealLeader(t testing.TB, s *kv.Store, guard kv.Guard) kv.Guard {
	t.Helper()
	Delete(t, s, guard.Key)
	return kv.LeaderGuard(guard.Key, Put(t, s, guard.Key, "thief"))
}

// LeaseLeft is how long etcd at an endpoint lets a lease live if it is not renewed, in whole seconds; 0: it has ended.
func LeaseLeft(t testing.TB, endpoint string, id int64) time.Duration {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	resp, err := c.TimeToLive(Context(t), clientv3.LeaseID(id))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(max(resp.TTL, 0)) * time.Second
}
