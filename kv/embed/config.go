package embed

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// Defaults of Config.
const (
	// DefaultQuota bounds the database file in bytes.
	DefaultQuota = 2 << 30
	// DefaultRetention is how far back a watch may resume without listing again.
	DefaultRetention = 5 * time.Minute
	// DefaultName is the member's name when none is given.
	DefaultName = "strait"
)

// Config says how to run the server. Only DataDir is required.
type Config struct {
	// DataDir holds the database and the log. It is created (0700) when missing.
	DataDir string
	// ListenClient is the "host:port" clients connect to; port 0 picks a free one, read it back
	// from Endpoints. Empty means no client port at all: only Client of the same process.
	ListenClient string
	// AdvertiseClient is the "host:port" that etcd's member list tells of the client port; empty: ListenClient.
	AdvertiseClient string
	// ClientTLS and PeerTLS are the certificates of the two ports; without Cert they are plain. With a CA the
	// client port wants a certificate of each client; members always know one another.
	ClientTLS, PeerTLS TLS
	// ListenPeer is the "host:port" other members connect to. Empty for a single member.
	ListenPeer string
	// Name is the member's name, unique in InitialCluster.
	Name string
	// InitialCluster lists all members as "name=http://host:port,name=http://host:port", https with PeerTLS; the
	// scheme may be left away. Empty for a single member. Used the first time a data directory is opened.
	InitialCluster string
	// Existing says that this member was added to a running cluster: its directory is empty, its data come from
	// the others.
	Existing bool
	// ClusterToken must be equal on all members of InitialCluster and differ between clusters.
	// A single member draws a random one.
	ClusterToken string
	// Logger receives etcd's warnings and errors; nil is silence.
	Logger *slog.Logger
	// QuotaBytes bounds the database file; 0 means DefaultQuota.
	QuotaBytes int64
	// CompactionRetention is the age at which old revisions are dropped; 0 means DefaultRetention.
	CompactionRetention time.Duration
	// ShortTicks sets 10/100 ms ticks. A single member has them anyway; for a cluster they are
	// only right when all members run in one process (tests).
	ShortTicks bool
	// NoFsync skips fsync. Only for stores that nobody reads after this process: after a crash of
	// the machine the directory may be unreadable.
	NoFsync bool
	// Notice is told what an operator wants to know and etcd does not say: while Start waits for a quorum, every few
	// seconds, how the other members are; when a full database was emptied.
	Notice func(what string)
	// StartTimeout bounds Start; 0 means 10 s for a single member. A cluster waits for its quorum
	// as long as ctx allows.
	StartTimeout time.Duration
}

// Validate reports every fault of c at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("embed: "+format, args...)) }
	if c.DataDir == "" {
		bad("DataDir is empty; name a directory for the etcd data")
	}
	if c.ListenClient != "" {
		if _, _, err := net.SplitHostPort(c.ListenClient); err != nil {
			bad("ListenClient %q is not host:port: %v", c.ListenClient, err)
		}
	}
	if (c.ListenPeer == "") != (c.InitialCluster == "") {
		bad("ListenPeer and InitialCluster belong together: give both for a cluster, none for a single member")
	}
	if c.ListenPeer != "" {
		_, port, err := net.SplitHostPort(c.ListenPeer)
		switch {
		case err != nil:
			bad("ListenPeer %q is not host:port: %v", c.ListenPeer, err)
		case port == "0":
			bad("ListenPeer %q: members of a cluster need fixed ports", c.ListenPeer)
		}
		if c.Name == "" {
			bad("Name is empty; a member of a cluster needs the name it has in InitialCluster")
		}
		if c.ListenClient == "" {
			bad("ListenClient is empty; a member of a cluster needs a client port")
		}
		if c.NoFsync {
			bad("NoFsync is only for a single throw-away member")
		}
	}
	if c.InitialCluster != "" {
		members, err := c.members()
		if err != nil {
			errs = append(errs, err)
		}
		if members[c.Name] == "" {
			bad("InitialCluster %q does not name this member %q", c.InitialCluster, c.Name)
		}
	}
	c.ClientTLS.validate("ClientTLS", bad)
	c.PeerTLS.validate("PeerTLS", bad)
	if c.PeerTLS.Cert != "" && c.PeerTLS.CA == "" {
		bad("PeerTLS has no CA: members know one another by it")
	}
	if c.QuotaBytes < 0 || c.CompactionRetention < 0 || c.StartTimeout < 0 {
		bad("QuotaBytes, CompactionRetention and StartTimeout must not be negative")
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = DefaultName
	}
	if c.QuotaBytes == 0 {
		c.QuotaBytes = DefaultQuota
	}
	if c.CompactionRetention == 0 {
		c.CompactionRetention = DefaultRetention
	}
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	if c.StartTimeout == 0 && c.single() {
		c.StartTimeout = 10 * time.Second
	}
	return c
}

func (c Config) single() bool { return c.InitialCluster == "" }

// TLS names the PEM files of a port.
type TLS struct{ CA, Cert, Key string }

func (t TLS) validate(name string, bad func(string, ...any)) {
	if (t.Cert == "") != (t.Key == "") || t.CA != "" && t.Cert == "" {
		bad("%s needs a certificate and its key together, a CA only beside them", name)
	}
}

// info is t as etcd takes it.
func (t TLS) info() transport.TLSInfo {
	return transport.TLSInfo{CertFile: t.Cert, KeyFile: t.Key, TrustedCAFile: t.CA, ClientCertAuth: t.CA != ""}
}

// url is a listener's address as etcd takes it.
func (t TLS) url(hostport string) url.URL {
	u := url.URL{Scheme: "http", Host: hostport}
	if t.Cert != "" {
		u.Scheme = "https"
	}
	return u
}

// members takes InitialCluster apart: name to host:port.
func (c Config) members() (map[string]string, error) {
	out, seen := map[string]string{}, map[string]bool{}
	want := c.PeerTLS.url("").Scheme
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("embed: InitialCluster: "+format, args...))
	}
	for _, m := range strings.Split(c.InitialCluster, ",") {
		name, addr, ok := strings.Cut(strings.TrimSpace(m), "=")
		scheme, host, has := strings.Cut(addr, "://")
		if !has {
			scheme, host = want, addr
		}
		_, port, err := net.SplitHostPort(strings.TrimSuffix(host, "/"))
		switch host = strings.TrimSuffix(host, "/"); {
		case !ok || name == "":
			bad("%q is not name=http://host:port", m)
		case err != nil || port == "" || port == "0":
			bad("%q names no host:port", m)
		case scheme != want && want == "http":
			bad("%q: members without PeerTLS speak http", m)
		case scheme != want:
			bad("%q: members with PeerTLS speak https", m)
		case out[name] != "" || seen[host]:
			bad("%q: its name or its address stands there twice", m)
		default:
			out[name], seen[host] = host, true
		}
	}
	return out, errors.Join(errs...)
}
