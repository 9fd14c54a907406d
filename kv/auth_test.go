package kv_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"strait/kv"
	"strait/kv/election"
	"strait/kv/kvtest"
	"strait/kv/mirror"
	"strait/kv/session"
)

const password = "s3cret-of-the-test"

// guarded is an etcd as careful operators run it: TLS that knows its clients, users, tokens that end.
type guarded struct {
	addr  string
	certs kvtest.Certs
	root  *clientv3.Client
}

// startGuarded starts an etcd that forgets a token after a second without use. User strait may touch /strait/.
func startGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{certs: kvtest.NewCerts(t)}
	ec := embed.NewConfig()
	ec.Dir, ec.Logger, ec.LogLevel, ec.UnsafeNoFsync, ec.TickMs, ec.ElectionMs = t.TempDir(), "zap", "fatal", true, 10, 100
	ec.AuthTokenTTL = 1
	ec.BcryptCost = 4 // the least: under the race detector the usual one takes seconds a login, longer than a token lives
	at := func(scheme string) []url.URL { return []url.URL{{Scheme: scheme, Host: "127.0.0.1:0"}} }
	ec.ListenClientUrls, ec.AdvertiseClientUrls, ec.ListenPeerUrls, ec.AdvertisePeerUrls = at("https"), at("https"), at("http"), at("http")
	ec.InitialCluster = ec.InitialClusterFromName(ec.Name)
	ec.ClientTLSInfo = transport.TLSInfo{CertFile: g.certs.Cert, KeyFile: g.certs.Key, TrustedCAFile: g.certs.CA, ClientCertAuth: true}
	srv, err := embed.StartEtcd(ec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	<-srv.Server.ReadyNotify()
	g.addr = srv.Clients[0].Addr().String()
	ctx := kvtest.Context(t)
	open := func(user string) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{g.addr}, TLS: g.certs.TLS(t), Username: user, Password: password, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	first := open("")
	must(first.UserAdd(ctx, "root", password))
	must(first.UserGrantRole(ctx, "root", "root"))
	must(first.RoleAdd(ctx, "strait"))
	must(first.RoleGrantPermission(ctx, "strait", "/strait/", clientv3.GetPrefixRangeEnd("/strait/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(first.UserAdd(ctx, "strait", password))
	must(first.UserGrantRole(ctx, "strait", "strait"))
	must(first.AuthEnable(ctx))
	_ = first.Close()
	g.root = open("root")
	t.Cleanup(func() { _ = g.root.Close() })
	return g
}

func (g *guarded) config(t *testing.T) kv.Config {
	return kv.Config{Endpoints: []string{g.addr}, TLS: g.certs.TLS(t), Username: "strait", Password: password, Probe: "/strait/v1/x"}
}

// TestGuardedEtcd: lease keeper, election, mirror and writes go on when the token they began with is long gone.
func TestGuardedEtcd(t *testing.T) {
	g := startGuarded(t)
	ctx := kvtest.Context(t)
	store, err := kv.Open(ctx, g.config(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	// What a role has open: a lease that is renewed, a leadership, a mirror.
	s, err := session.Open(ctx, store, session.Options{TTL: 4 * time.Second, CallLimit: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	rctx, end := context.WithCancel(ctx)
	var owned sync.WaitGroup
	t.Cleanup(owned.Wait)
	t.Cleanup(end)
	owned.Go(func() { _ = s.Run(rctx) })
	lead, err := election.Campaign(ctx, store, s, "/strait/leader/", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	owned.Go(func() { <-rctx.Done(); _ = lead.Resign(context.WithoutCancel(rctx)) })
	m := mirror.Follow(store, []string{"/strait/x/"}, mirror.Options{})
	owned.Go(func() { _ = m.Run(rctx) })
	<-m.Ready()

	g.forget(t, ctx) // nothing but renewals and the mirror's own looks kept a token alive
	rev := kvtest.Put(t, store, "/strait/x/a", "1")
	if err := m.Wait(ctx, rev); err != nil || string(m.Get("/strait/x/a").Value) != "1" {
		t.Fatal(err)
	}
	// A token that etcd knows no more: as after its restart, or when users change.
	if _, err := g.root.UserAdd(ctx, "another", password); err != nil {
		t.Fatal(err)
	}
	before := s.Proof()
	rev = kvtest.Put(t, store, "/strait/x/a", "2")
	if err := m.Wait(ctx, rev); err != nil || string(m.Get("/strait/x/a").Value) != "2" {
		t.Fatal(err)
	}
	for s.Proof() == before { // a renewal of the time after
		if ctx.Err() != nil || s.Err() != nil {
			t.Fatal(s.Err())
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := store.Txn(ctx, kv.Txn{Guards: []kv.Guard{lead.Guard()}, Ops: []kv.Op{kv.Put("/strait/x/b", nil)}}); err != nil {
		t.Fatal(err)
	}
	if st, err := store.Status(ctx); err != nil || st.Size == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	// Rights end where the role does.
	_, err = store.Get(ctx, "/elsewhere")
	if !errors.Is(err, kv.ErrAuth) || !errors.Is(err, kv.ErrRefused) || !strings.Contains(err.Error(), "below etcd.prefix") {
		t.Error(err)
	}
	// The password is changed under a running process: refused, with the setting; and back.
	if _, err := g.root.UserChangePassword(ctx, "strait", "other"); err != nil {
		t.Fatal(err)
	}
	for {
		_, err = store.Get(ctx, "/strait/x/a")
		if err != nil || ctx.Err() != nil {
			break
		}
	}
	if !errors.Is(err, kv.ErrAuth) || !strings.Contains(err.Error(), "etcd.password") || strings.Contains(err.Error(), password) {
		t.Error(err)
	}
	if _, err := g.root.UserChangePassword(ctx, "strait", password); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(ctx, "/strait/x/a"); err != nil {
		t.Error(err)
	}
}

// forget waits until etcd has forgotten a token that was made now and not used.
func (g *guarded) forget(t *testing.T, ctx context.Context) {
	t.Helper()
	for wait := 2 * time.Second; ; wait *= 2 {
		resp, err := g.root.Authenticate(ctx, "strait", password)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait)
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{g.addr}, TLS: g.certs.TLS(t), Token: resp.Token, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Get(ctx, "/strait/x")
		_ = c.Close()
		if errors.Is(err, rpctypes.ErrInvalidAuthToken) {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(ctx.Err(), err)
		}
	}
}

func TestGuardedEtcdRefuses(t *testing.T) {
	g := startGuarded(t)
	f := func(name string, change func(*kv.Config), is error, want string) {
		t.Helper()
		c := g.config(t)
		c.DialTimeout = kvtest.Limit // an answer is waited for
		if is == kv.ErrUnreachable {
			c.DialTimeout = time.Second
		}
		change(&c)
		s, err := kv.Open(context.Background(), c)
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: let in", name)
			return
		}
		if !errors.Is(err, is) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	other := kvtest.NewCerts(t)
	f("wrong password", func(c *kv.Config) { c.Password = "x" }, kv.ErrAuth, "check etcd.username and etcd.password")
	f("no such user", func(c *kv.Config) { c.Username = "nobody" }, kv.ErrAuth, "check etcd.username and etcd.password")
	f("no user", func(c *kv.Config) { c.Username, c.Password = "", "" }, kv.ErrAuth, "etcd.username")
	f("no TLS", func(c *kv.Config) { c.TLS = nil }, kv.ErrUnreachable, "it speaks TLS; set etcd.tls.ca")
	f("no certificate", func(c *kv.Config) { c.TLS.Certificates = nil }, kv.ErrUnreachable, "etcd.tls.cert")
	f("certificate of another authority", func(c *kv.Config) { c.TLS.Certificates = other.TLS(t).Certificates }, kv.ErrUnreachable, "etcd.tls.cert")
	f("another authority", func(c *kv.Config) { c.TLS.RootCAs = other.TLS(t).RootCAs }, kv.ErrUnreachable, "check etcd.tls.ca")
	c := g.config(t)
	c.TLS.ServerName = "node.test" // is in the certificate, though nobody dials it
	s, err := kv.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	f("no right to the keys", func(c *kv.Config) { c.Probe = "/elsewhere/" }, kv.ErrAuth, "below etcd.prefix")
	f("another name", func(c *kv.Config) { c.TLS.ServerName = "elsewhere.test" }, kv.ErrUnreachable, "etcd.tls.server-name")

	plain := kvtest.New(t)
	c = g.config(t)
	c.Endpoints, c.DialTimeout = plain.Server.Endpoints(), 2*time.Second
	if _, err := kv.Open(context.Background(), c); !errors.Is(err, kv.ErrUnreachable) || !strings.Contains(err.Error(), "it does not speak TLS") {
		t.Error(err)
	}
	c.TLS = nil
	s, err = kv.Open(context.Background(), c) // an etcd without users lets everybody in
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}
