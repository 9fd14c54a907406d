package integration

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"strait/integration/harness"
	"strait/kv/kvtest"
)

// startGuarded starts an etcd as careful operators run it: it talks TLS, with clients it knows, and has users, of whom
// "strait" may read and write below /strait/ and nothing else.
func startGuarded(t *testing.T, certs kvtest.Certs, password string) (addr string) {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.Logger, c.LogLevel, c.UnsafeNoFsync, c.TickMs, c.ElectionMs = t.TempDir(), "zap", "fatal", true, 10, 100
	c.BcryptCost = 4 // the least: the race detector makes the usual one take seconds
	at := func(scheme string) []url.URL { return []url.URL{{Scheme: scheme, Host: "127.0.0.1:0"}} }
	c.ListenClientUrls, c.AdvertiseClientUrls, c.ListenPeerUrls, c.AdvertisePeerUrls = at("https"), at("https"), at("http"), at("http")
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ClientTLSInfo = transport.TLSInfo{CertFile: certs.Cert, KeyFile: certs.Key, TrustedCAFile: certs.CA, ClientCertAuth: true}
	srv, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	<-srv.Server.ReadyNotify()
	addr = srv.Clients[0].Addr().String()
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, TLS: certs.TLS(t), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := kvtest.Context(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(cl.UserAdd(ctx, "root", password))
	must(cl.UserGrantRole(ctx, "root", "root"))
	must(cl.RoleAdd(ctx, "strait"))
	must(cl.RoleGrantPermission(ctx, "strait", "/strait/", clientv3.GetPrefixRangeEnd("/strait/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(cl.UserAdd(ctx, "strait", password))
	must(cl.UserGrantRole(ctx, "strait", "strait"))
	must(cl.AuthEnable(ctx))
	return addr
}

// TestEtcdWithUsers: a fleet at an etcd with certificates and users, all of it in one settings file. Who has no
// password, or a wrong one, is told which setting to look at, and never sees the password.
func TestEtcdWithUsers(t *testing.T) {
	const password = "s3cret-of-the-test"
	certs := kvtest.NewCerts(t)
	addr := startGuarded(t, certs, password)
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const tls = "etcd.tls { ca = %q, cert = %q, key = %q }\n"
	settings := settingsFile(t, tls+"etcd { username = strait, password-file = %q }\n", certs.CA, certs.Cert, certs.Key, secret)
	f := harness.Start(t, harness.Options{Etcd: addr, Workers: 2, Slots: 2, Settings: settings, TLS: certs.TLS(t), Username: "strait", Password: password})
	if r := f.Stctl("job", "submit", "-i", "out="+filepath.Join(f.Dir, "out"), ordersJob(t, f.Dir)); r.Code != 0 {
		t.Fatalf("submit: exit %d\n%s\n%s", r.Code, r.Stderr, f.Logs())
	}
	wantIDs(t, orderIDs(t, filepath.Join(f.Dir, "out")), 1, 200)
	refused := func(what, settings string, want ...string) {
		t.Helper()
		r := harness.Run(t, f.Dir, limit, "--settings", settings, "--etcd-endpoints", addr, "job", "list")
		for _, w := range want {
			if r.Code == 0 || !strings.Contains(r.Stderr, w) {
				t.Errorf("%s: exit %d, want %q in\n%s", what, r.Code, w, r.Stderr)
			}
		}
		if strings.Contains(r.Stderr+r.Stdout, password) || strings.Contains(r.Stderr+r.Stdout, "wr0ng-password") {
			t.Errorf("%s: the password is shown:\n%s", what, r.Stderr)
		}
	}
	refused("nobody", settingsFile(t, tls, certs.CA, certs.Cert, certs.Key), "etcd.username")
	refused("a wrong password", settingsFile(t, tls+"etcd { username = strait, password = \"wr0ng-password\" }\n", certs.CA, certs.Cert, certs.Key), "etcd.password")
	if strings.Contains(f.Logs(), password) {
		t.Error("a log shows the password")
	}
}
