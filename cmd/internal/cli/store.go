package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"strait/cmd/internal/settings"
	"strait/kv"
	"strait/kv/embed"
	"strait/kv/keys"
)

// endpoints returns etcd.endpoints; the default is the address `serve coordinator` listens on when not told
// otherwise.
func endpoints(set *settings.Values) []string {
	if !set.Has("etcd.endpoints") {
		return []string{settings.DefaultEtcd}
	}
	return set.List("etcd.endpoints")
}

// checkEndpoints refuses what etcd's client would only call unreachable.
func checkEndpoints(set *settings.Values) error {
	all, name := endpoints(set), set.Name("etcd.endpoints")
	if len(all) == 0 {
		return failf("%s names none; write HOST:PORT, several with commas between them", name)
	}
	for _, e := range all {
		u, err := url.Parse(e)
		if err == nil && u.Host != "" {
			e = u.Host
		}
		if _, _, err := net.SplitHostPort(e); err != nil {
			return failf("%s %s: write HOST:PORT, several with commas between them", name, strings.Join(all, ","))
		}
	}
	return nil
}

const loopback = "127.0.0.1"

func tree(set *settings.Values) keys.Tree { return keys.New(set.String("etcd.prefix")) }

// openStore connects to the fleet's etcd.
func openStore(ctx context.Context, set *settings.Values) (*kv.Store, error) {
	if err := checkEndpoints(set); err != nil {
		return nil, err
	}
	conf, err := storeConfig(set)
	if err != nil {
		return nil, err
	}
	conf.Endpoints = endpoints(set)
	if i := slices.IndexFunc(conf.Endpoints, func(e string) bool { return strings.HasPrefix(e, "http://") }); i >= 0 && conf.TLS != nil {
		return nil, failf("%s %s is plain, and %s asks for TLS; write https:// or only HOST:PORT", set.Name("etcd.endpoints"), conf.Endpoints[i], set.Name("etcd.tls.ca"))
	}
	store, err := kv.Open(ctx, conf)
	if errors.Is(err, kv.ErrUnreachable) {
		return nil, fmt.Errorf("%w with --etcd-endpoints; is no coordinator running? `stctl serve coordinator --data-dir DIR` starts one with its etcd", err)
	}
	return store, err
}

// storeConfig is how etcd is spoken to: certificates, user and password.
func storeConfig(set *settings.Values) (kv.Config, error) {
	conf := kv.Config{Username: set.String("etcd.username"), Probe: tree(set).MetaVersion()}
	certs, err := certificatesOf(set, "etcd.tls", false)
	if err != nil {
		return conf, err
	}
	conf.TLS, _ = certs.config()
	if name := set.String("etcd.tls.server-name"); name != "" {
		if conf.TLS == nil {
			return conf, failf("%s is of no use without %s", set.Name("etcd.tls.server-name"), set.Name("etcd.tls.ca"))
		}
		conf.TLS.ServerName = name
	}
	if conf.Password, err = set.Secret("etcd.password"); err != nil {
		return conf, failf("%v", err)
	}
	switch has := set.Has("etcd.password") || set.Has("etcd.password-file"); {
	case has && conf.Username == "":
		return conf, failf("etcd.password is set and %s is not", set.Name("etcd.username"))
	case conf.Password == "" && conf.Username != "":
		return conf, failf("%s is set and there is no password; set etcd.password-file, or etcd.password in the settings file, or STRAIT_ETCD_PASSWORD", set.Name("etcd.username"))
	}
	return conf, nil
}

// embedConfig is what the settings say of the embedded etcd of the coordinator called name. host is this host as
// others see it.
func embedConfig(set *settings.Values, name, host string, log *slog.Logger) (embed.Config, error) {
	c := embed.Config{ListenClient: set.String("etcd.listen"), QuotaBytes: set.Bytes("etcd.quota"), CompactionRetention: set.Duration("etcd.retention")}
	if _, port, _ := net.SplitHostPort(c.ListenClient); port != "0" {
		c.AdvertiseClient = told(c.ListenClient, host)
	}
	c.Notice = func(what string) { log.Warn("embedded etcd", "what", what) }
	certs, err := certificatesOf(set, "etcd.server.tls", false)
	if err != nil {
		return c, err
	}
	if certs.CA != "" && certs.Cert == "" {
		return c, failf("%s is set and %s is not; the port needs a certificate of its own", set.Name("etcd.server.tls.ca"), set.Name("etcd.server.tls.cert"))
	}
	c.ClientTLS = certs.TLS
	if !set.Has("etcd.initial-cluster") {
		for _, path := range []string{"etcd.name", "etcd.peer-listen", "etcd.cluster-name", "etcd.cluster-state", "etcd.peer.tls.cert"} {
			if set.Has(path) {
				return c, failf("%s is of no use without %s, which lists the members", set.Name(path), set.Name("etcd.initial-cluster"))
			}
		}
		return c, nil
	}
	if certs, err = certificatesOf(set, "etcd.peer.tls", true); err != nil {
		return c, err
	}
	c.PeerTLS = certs.TLS
	c.InitialCluster, c.ListenPeer, c.Name = strings.Join(set.List("etcd.initial-cluster"), ","), set.String("etcd.peer-listen"), name
	if set.Has("etcd.name") {
		c.Name = set.String("etcd.name")
	}
	c.ClusterToken, c.Existing = set.String("etcd.cluster-name"), set.String("etcd.cluster-state") == "existing"
	if err := hostPort(set.Name("etcd.peer-listen"), c.ListenPeer); err != nil {
		return c, err
	}
	return c, nil
}

// embedded is an etcd in this process with a client that needs no socket.
type embedded struct {
	server *embed.Server
	store  *kv.Store
	dir    string
	remove bool // dir is a temporary one
}

// startEmbedded starts etcd below dataDir, or in a temporary folder that goes with the process when dataDir is
// empty; such a store does not sync to disk, nobody reads it afterwards. user is who the process itself is to it;
// without a name it needs no socket.
func startEmbedded(ctx context.Context, dataDir string, c embed.Config, user kv.Config) (*embedded, error) {
	e := &embedded{dir: dataDir}
	if dataDir == "" {
		dir, err := os.MkdirTemp("", "strait-run-")
		if err != nil {
			return nil, fmt.Errorf("make a temporary folder for the embedded etcd: %w; set TMPDIR to a folder that can be written", err)
		}
		e.dir, e.remove = dir, true
	}
	c.DataDir, c.NoFsync = filepath.Join(e.dir, "etcd"), e.remove
	server, err := embed.Start(ctx, c)
	if err != nil {
		e.close()
		var told *outcome
		if errors.As(listenError("--etcd-listen", c.ListenClient, err), &told) {
			return nil, told
		}
		if e.remove {
			return nil, err
		}
		return nil, fmt.Errorf("--data-dir %s: %s", dataDir, strings.TrimPrefix(err.Error(), "embed: "))
	}
	e.server = server
	if user.Username == "" {
		user = kv.Config{Client: server.Client()}
	} else { // a client without a socket has no user
		user.Endpoints = server.Endpoints()
	}
	if e.store, err = kv.Open(ctx, user); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// close ends client and server, in that order; everything that uses the store has ended before.
func (e *embedded) close() {
	if e.store != nil {
		_ = e.store.Close()
	}
	if e.server != nil {
		e.server.Close()
	}
	if e.remove {
		_ = os.RemoveAll(e.dir)
	}
}
