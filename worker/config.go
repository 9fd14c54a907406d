package worker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"strait/checkpoint"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/session"
	"strait/plan"
	"strait/plan/secret"
	"strait/worker/memory"
)

// Storage keeps state files and manifests that are too large for a key (checkpoint/storage).
type Storage interface {
	Put(ctx context.Context, name string, data []byte) (checkpoint.Handle, error)
	Get(ctx context.Context, h checkpoint.Handle) ([]byte, error)
}

// Config says who the worker is. Store, Name and DataListen are needed, the rest has defaults.
type Config struct {
	Store      *kv.Store
	Tree       keys.Tree
	Name       string // [a-z0-9][a-z0-9-]{0,62}, unique in the fleet
	DataListen string // host:port of the data plane; port 0 takes a free one
	// DataAddress is what peers dial; empty: the address that DataListen took.
	DataAddress string
	OpsAddress  string // host:port of /metrics and /counters, published for others; the listener is the caller's
	Slots       int    // fixed ones; 0: one for each CPU, or none where they are dynamic
	Dynamic     bool   // slots are cut from CPU and Memory as jobs ask for them
	CPU         int    // published; 0: of this process
	Memory      int64  // bytes that tasks may reserve, published; 0: memory.Default of this host
	Labels      map[string]string
	Version     string
	Host        string // published; empty: the host name

	TTL         time.Duration // of the lease; 0: session.DefaultTTL
	CallLimit   time.Duration // of an external call; 0: session.DefaultCallLimit
	CommitLimit time.Duration // of a prepare, a commit, an abandonment; 0: 5 min
	BuildLimit  time.Duration // to build an attempt and reach its peers; 0: 1 min
	StopGrace   time.Duration // for a call to return once its context has ended; 0: 5 s
	StopTimeout time.Duration // to end tasks, tell so and give the name free, once Run's context has ended; 0: 10 s
	// HandOver is how much of StopTimeout the leader has to take what runs elsewhere before it is ended here: the
	// process says that it leaves, and goes on with its tasks. 0: half of StopTimeout; below 0: nobody is asked, as where
	// the leader ends together with this process.
	HandOver time.Duration

	Codec   string          // between workers: none, s2, zstd; empty: s2 between hosts, none on loopback
	TLS     *tls.Config     // between workers, both ends of it; nil: plain TCP
	Storage Storage         // nil: only what fits into keys
	Keys    *secret.Keyring // of the fleet, to open sealed options; nil: none
	// Registered is told each incarnation before it takes work; nil: nobody is told.
	Registered func(incarnation int64)
	Stdout     io.Writer
	Log        *slog.Logger
	Metrics    *metrics.Set // nil: no metrics
}

func (c *Config) withDefaults() {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&c.TTL, session.DefaultTTL)
	set(&c.CallLimit, session.DefaultCallLimit)
	set(&c.CommitLimit, 5*time.Minute)
	set(&c.BuildLimit, time.Minute)
	set(&c.StopGrace, 5*time.Second)
	set(&c.StopTimeout, 10*time.Second)
	if c.HandOver == 0 {
		c.HandOver = c.StopTimeout / 2
	}
	c.HandOver = min(c.HandOver, c.StopTimeout)
	if c.Memory <= 0 {
		c.Memory = memory.Default(memory.Host(os.DirFS("/")))
	}
	if c.Storage == nil {
		c.Storage = inlineOnly{}
	}
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = metrics.NewSet()
	}
}

func (c *Config) validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("worker: BUG: no store"))
	}
	if err := plan.CheckName("worker", c.Name); err != nil {
		errs = append(errs, err)
	}
	if c.DataListen == "" {
		errs = append(errs, errors.New("worker: no address for the data plane; name one as host:port, port 0 takes a free one"))
	}
	if c.Slots < 0 {
		errs = append(errs, fmt.Errorf("worker: %d slots; give 1 or more", c.Slots))
	}
	if c.Dynamic && c.Slots > 0 {
		errs = append(errs, fmt.Errorf("worker: %d slots and dynamic ones; give one of them", c.Slots))
	}
	return errors.Join(errs...)
}
