package embed

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"
)

// Defaults of Config.
const (
	// DefaultQuota bounds the database file in bytes.
	DefaultQuota = 1 << 30
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
	// ListenPeer is the "host:port" other members connect to. Empty for a single member.
	ListenPeer string
	// Name is the member's name, unique in InitialCluster.
	Name string
	// InitialCluster lists all members as "name=host:port,name=host:port". Empty for a single
	// member. Used the first time a data directory is opened.
	InitialCluster string
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
		found := false
		for _, m := range strings.Split(c.InitialCluster, ",") {
			name, addr, ok := strings.Cut(m, "=")
			if !ok {
				bad("InitialCluster: %q is not name=host:port", m)
				continue
			}
			if _, _, err := net.SplitHostPort(addr); err != nil {
				bad("InitialCluster: %q: %v", m, err)
			}
			found = found || name == c.Name
		}
		if !found {
			bad("InitialCluster %q does not name this member %q", c.InitialCluster, c.Name)
		}
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
	if c.StartTimeout == 0 && c.single() {
		c.StartTimeout = 10 * time.Second
	}
	return c
}

func (c Config) single() bool { return c.InitialCluster == "" }

func httpURL(hostport string) url.URL { return url.URL{Scheme: "http", Host: hostport} }
