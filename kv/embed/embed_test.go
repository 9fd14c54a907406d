package embed_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"strait/kv"
	"strait/kv/embed"
	"strait/kv/kvtest"
)

const limit = 30 * time.Second

func TestMain(m *testing.M) {
	if code, ok := runOther(); ok {
		os.Exit(code)
	}
	// Members of a cluster probe each other over kept-alive connections, which etcd leaves to their
	// own read deadline (5 s) when it closes. A single member has none of these.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
		goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"),
	)
}

func start(t testing.TB, c embed.Config) *embed.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := embed.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func open(t testing.TB, c kv.Config) *kv.Store {
	t.Helper()
	s, err := kv.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(s *kv.Store, key, value string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	e, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	_, err = s.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.At(e)}, Ops: []kv.Op{kv.Put(key, []byte(value))}})
	return err
}

func TestRestartKeepsData(t *testing.T) {
	dir := t.TempDir()
	var cluster uint64
	for i := range 3 {
		srv := start(t, embed.Config{DataDir: dir, ListenClient: "127.0.0.1:0"})
		in, out := open(t, kv.Config{Client: srv.Client()}), open(t, kv.Config{Endpoints: srv.Endpoints()})
		e, err := out.Get(context.Background(), "/n")
		if err != nil || i > 0 && string(e.Value) != fmt.Sprint(i-1) {
			t.Fatalf("start %d: %+v, %v", i, e, err)
		}
		if err := put(in, "/n", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		if cluster != 0 && cluster != in.ClusterID() {
			t.Fatal("a restart changed the cluster id")
		}
		cluster = in.ClusterID()
		_, _ = in.Close(), out.Close()
		srv.Close()
		srv.Close() // idempotent
	}
	other := start(t, embed.Config{DataDir: t.TempDir(), NoFsync: true})
	if open(t, kv.Config{Client: other.Client()}).ClusterID() == cluster {
		t.Fatal("two data directories share a cluster id")
	}
	if other.Endpoints() != nil {
		t.Fatalf("no client port was asked for: %v", other.Endpoints())
	}
}

func TestSmallFiles(t *testing.T) {
	dir := t.TempDir()
	start(t, embed.Config{DataDir: dir, NoFsync: true}).Close()
	var st syscall.Stat_t
	wals, _ := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if len(wals) == 0 {
		t.Fatal("no WAL")
	}
	for _, w := range wals {
		if err := syscall.Stat(w, &st); err != nil || st.Size > 8<<20 {
			t.Fatalf("%s: %d bytes, %v", w, st.Size, err)
		}
	}
}

func wantLocked(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err := embed.Start(ctx, embed.Config{DataDir: dir})
	if !errors.Is(err, embed.ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "another directory") {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatal("waited for the lock")
	}
}

func TestLockedByProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := otherProcess("hold", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	wantLocked(t, dir)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	start(t, embed.Config{DataDir: dir}) // a killed process leaves no lock behind
}

// A plain etcd server knows nothing of our lock file; it holds its database.
func TestLockedByPlainEtcd(t *testing.T) {
	dir := t.TempDir()
	start(t, embed.Config{DataDir: dir, NoFsync: true}).Close()
	db, err := os.Open(filepath.Join(dir, "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := syscall.Flock(int(db.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	wantLocked(t, dir)
	_ = db.Close()
	start(t, embed.Config{DataDir: dir, NoFsync: true}) // and the refusal left nothing locked
}

func TestPortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	addr := ln.Addr().String()
	dir := t.TempDir()
	_, err = embed.Start(context.Background(), embed.Config{DataDir: dir, ListenClient: addr})
	if !errors.Is(err, embed.ErrPortInUse) || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "another port") {
		t.Fatal(err)
	}
	start(t, embed.Config{DataDir: dir, NoFsync: true})
}

// Workers on other hosts still watch when a coordinator with an embedded etcd leaves.
func TestCloseUnderWatch(t *testing.T) {
	srv := start(t, embed.Config{DataDir: t.TempDir(), ListenClient: "127.0.0.1:0", NoFsync: true})
	s := open(t, kv.Config{Endpoints: srv.Endpoints()})
	if err := put(s, "/a", "1"); err != nil {
		t.Fatal(err)
	}
	w := s.Watch(context.Background(), "/a", "", 1)
	if _, _, err := w.Next(); err != nil {
		t.Fatal(err)
	}
	srv.Close()
	select {
	case <-srv.Done():
	default:
		t.Fatal("still runs")
	}
	w.Close()
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embed.Start(context.Background(), embed.Config{DataDir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Fatal(err)
	}
}

func TestThreeMembers(t *testing.T) {
	addrs := freePorts(t, 3)
	var members []string
	for i, a := range addrs {
		members = append(members, fmt.Sprintf("m%d=%s", i, a))
	}
	servers := make([]*embed.Server, 3)
	var g errgroup.Group
	for i, a := range addrs {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			var err error
			servers[i], err = embed.Start(ctx, embed.Config{
				DataDir: t.TempDir(), ListenClient: "127.0.0.1:0", ListenPeer: a, Name: fmt.Sprintf("m%d", i),
				InitialCluster: strings.Join(members, ","), ShortTicks: true,
			})
			return err
		})
	}
	err := g.Wait()
	for _, s := range servers {
		if s != nil {
			t.Cleanup(s.Close)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var eps []string
	for _, s := range servers {
		eps = append(eps, s.Endpoints()...)
	}
	s := open(t, kv.Config{Endpoints: eps})
	if err := put(s, "/a", "1"); err != nil {
		t.Fatal(err)
	}
	servers[0].Close()
	for ctx, cancel := context.WithTimeout(context.Background(), limit); ; {
		err := put(s, "/a", "2")
		if err == nil {
			cancel()
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestNoQuorum(t *testing.T) {
	addrs := freePorts(t, 2)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := embed.Start(ctx, embed.Config{
		DataDir: t.TempDir(), ListenClient: "127.0.0.1:0", ListenPeer: addrs[0], Name: "a",
		InitialCluster: "a=" + addrs[0] + ",b=" + addrs[1], ShortTicks: true,
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "other members") {
		t.Fatal(err)
	}
}

func TestValidate(t *testing.T) {
	f := func(c embed.Config, want ...string) {
		t.Helper()
		err := c.Validate()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Fatalf("%v, want %q", err, w)
			}
		}
		if len(want) == 0 && err != nil {
			t.Fatal(err)
		}
	}
	f(embed.Config{DataDir: "d"})
	f(embed.Config{DataDir: "d", ListenClient: ":2379", ListenPeer: ":2380", Name: "a", InitialCluster: "a=h:2380,b=i:2380"})
	f(embed.Config{ListenClient: "nonsense", QuotaBytes: -1}, "DataDir is empty", "nonsense", "negative") // all at once
	f(embed.Config{DataDir: "d", ListenPeer: "h:0"}, "belong together", "fixed ports", "Name is empty", "needs a client port")
	f(embed.Config{DataDir: "d", ListenClient: ":1", ListenPeer: ":2", Name: "c", InitialCluster: "a=h:1,b", NoFsync: true}, "does not name this member", `"b" is not name=http://host:port`, "throw-away")
}

func TestValidateCluster(t *testing.T) {
	f := func(list string, tls embed.TLS, want string) {
		t.Helper()
		c := embed.Config{DataDir: "d", ListenClient: ":2379", ListenPeer: ":2380", Name: "a", InitialCluster: list, PeerTLS: tls}
		if err := c.Validate(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", list, err, want)
		}
	}
	secure := embed.TLS{CA: "ca", Cert: "c", Key: "k"}
	f("a=http://h:2380,b=http://i:2380", embed.TLS{}, "")
	f("a=h:2380, b=i:2380/", embed.TLS{}, "")
	f("a=https://h:2380,b=i:2380", secure, "")
	f("a=https://h:2380,b=i:2380", embed.TLS{}, "speak http")
	f("a=http://h:2380,b=i:2380", secure, "speak https")
	f("a=h:1,a=i:1", embed.TLS{}, "twice")
	f("a=h:1,b=h:1", embed.TLS{}, "twice")
	f("a=h,b=h:1", embed.TLS{}, "names no host:port")
	f("a=h:1", embed.TLS{Cert: "c", Key: "k"}, "PeerTLS has no CA")
	f("a=h:1", embed.TLS{Cert: "c"}, "its key together")
}

// member starts one member of a list; err says how it went.
func member(t *testing.T, ctx context.Context, c embed.Config) (*embed.Server, error) {
	s, err := embed.Start(ctx, c)
	if s != nil {
		t.Cleanup(s.Close)
	}
	return s, err
}

// TestClusterWithTLS: members and clients know one another by certificates.
func TestClusterWithTLS(t *testing.T) {
	certs := kvtest.NewCerts(t)
	files := embed.TLS{CA: certs.CA, Cert: certs.Cert, Key: certs.Key}
	addrs := freePorts(t, 3)
	list := fmt.Sprintf("m0=https://%s,m1=https://%s,m2=https://%s", addrs[0], addrs[1], addrs[2])
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	servers := make([]*embed.Server, 3)
	var g errgroup.Group
	for i, a := range addrs {
		g.Go(func() (err error) {
			servers[i], err = member(t, ctx, embed.Config{DataDir: t.TempDir(), ListenClient: "127.0.0.1:0", ListenPeer: a,
				Name: fmt.Sprintf("m%d", i), InitialCluster: list, ShortTicks: true, PeerTLS: files, ClientTLS: files})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	s := open(t, kv.Config{Endpoints: servers[0].Endpoints(), TLS: certs.TLS(t)})
	if err := put(s, "/a", "1"); err != nil {
		t.Fatal(err)
	}
	other := kvtest.NewCerts(t)
	for name, conf := range map[string]*tls.Config{"plain": nil, "another authority's": other.TLS(t)} {
		if _, err := kv.Open(ctx, kv.Config{Endpoints: servers[0].Endpoints(), TLS: conf, DialTimeout: time.Second}); !errors.Is(err, kv.ErrUnreachable) {
			t.Errorf("%s client: %v", name, err)
		}
	}
}

// TestForeignMember: a member that can never join is told so at once; the others are not disturbed by it.
func TestForeignMember(t *testing.T) {
	addrs := freePorts(t, 4)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	list := "a=" + addrs[0] + ",b=" + addrs[1] + ",c=" + addrs[2]
	of := func(name, at string, change func(*embed.Config)) embed.Config {
		c := embed.Config{DataDir: t.TempDir(), ListenClient: "127.0.0.1:0", ListenPeer: at, Name: name, InitialCluster: list, ShortTicks: true}
		change(&c)
		return c
	}
	waits := make(chan string, 1)
	var g errgroup.Group
	g.Go(func() error {
		_, err := member(t, ctx, of("a", addrs[0], func(c *embed.Config) {
			c.Notice = func(s string) {
				select {
				case waits <- s:
				default:
				}
			}
		}))
		return err
	})
	if s := <-waits; !strings.Contains(s, "b ("+addrs[1]+"): dial tcp") || !strings.Contains(s, "connection refused") {
		t.Error(s)
	}
	g.Go(func() error {
		_, err := member(t, ctx, of("b", addrs[1], func(*embed.Config) {}))
		return err
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	f := func(what string, change func(*embed.Config)) {
		t.Helper()
		_, err := member(t, ctx, of("c", addrs[2], change))
		if !errors.Is(err, embed.ErrForeign) || !strings.Contains(err.Error(), "a ("+addrs[0]+"), b ("+addrs[1]+"): belong to another cluster") {
			t.Errorf("%s: %v", what, err)
		}
	}
	f("another token", func(c *embed.Config) { c.ClusterToken = "another" })
	f("another list", func(c *embed.Config) { c.InitialCluster = list + ",d=" + addrs[3] })
	if _, err := member(t, ctx, of("c", addrs[2], func(*embed.Config) {})); err != nil {
		t.Error(err)
	}
}

// TestDirectoryOfAnother: a directory of one member does not become a cluster's, nor the other way round.
func TestDirectoryOfAnother(t *testing.T) {
	addrs := freePorts(t, 2)
	dir := t.TempDir()
	start(t, embed.Config{DataDir: dir, NoFsync: true}).Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := embed.Config{DataDir: dir, ListenClient: "127.0.0.1:0", ListenPeer: addrs[0], Name: "a", InitialCluster: "a=" + addrs[0] + ",b=" + addrs[1], ShortTicks: true}
	if _, err := member(t, ctx, c); err == nil || !strings.Contains(err.Error(), "an etcd of one member") {
		t.Error(err)
	}
	c.DataDir = t.TempDir()
	short, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if _, err := member(t, short, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := member(t, ctx, embed.Config{DataDir: c.DataDir}); err == nil || !strings.Contains(err.Error(), "a member of a cluster of 2") {
		t.Error(err)
	}
}

func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		out = append(out, ln.Addr().String())
	}
	return out
}

// BenchmarkFirstPut is what `stctl run` pays before its first key, and at its end.
func BenchmarkFirstPut(b *testing.B) {
	for name, c := range map[string]embed.Config{
		"throw-away":    {NoFsync: true},
		"fsync":         {},
		"fsync+network": {ListenClient: "127.0.0.1:0"},
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				c.DataDir = b.TempDir()
				srv, err := embed.Start(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				cfg := kv.Config{Client: srv.Client()}
				if eps := srv.Endpoints(); eps != nil {
					cfg = kv.Config{Endpoints: eps}
				}
				s, err := kv.Open(context.Background(), cfg)
				if err != nil {
					b.Fatal(err)
				}
				if err := put(s, "/a", "1"); err != nil {
					b.Fatal(err)
				}
				_ = s.Close()
				srv.Close()
			}
		})
	}
}
