package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"strait/checkpoint/storage"
	"strait/cmd/internal/ops"
	"strait/coordinator"
	"strait/coordinator/api/client"
	"strait/kv"
	"strait/kv/keys"
	"strait/plan/logical"
	"strait/worker"
)

// roles is what the roles of one process have in common.
type roles struct {
	store   *kv.Store
	tree    keys.Tree
	storage *storage.Local // nil for a worker that was not told a folder
	dir     string         // of storage
	ttl     time.Duration  // 0: the default
	log     *slog.Logger
	stdout  io.Writer
}

// part is a role that is ready to run.
type part struct {
	run   func(context.Context) error
	ready func() error
	ops   *ops.Server
	addr  string // of ops, as others dial it

	incarnation func() int64 // of a worker
}

// await waits until the role is ready.
func (p *part) await(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for p.ready() != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// catalogFor is the catalog of a job whose relative paths begin in folder.
func catalogFor(folder string) logical.Catalog { return catalog{folder: folder} }

// coordinator makes the coordinator of this process. opsListen is its HTTP port, host is told to others where that
// names none.
func (r *roles) coordinator(name, opsListen, host string, strategy coordinator.Strategy) (*part, error) {
	p := &part{}
	s, err := ops.Listen(opsListen, func() error { return p.ready() })
	if err != nil {
		return nil, listenError("--ops-listen", opsListen, err)
	}
	p.addr = told(s.Addr(), host)
	c, err := coordinator.New(coordinator.Config{
		Store: r.store, Tree: r.tree, Name: name, OpsAddr: p.addr, Catalog: catalogFor, Storage: r.storage, CheckpointDir: r.dir,
		SessionTTL: r.ttl, Strategy: strategy, Log: r.log, Metrics: metrics.GetDefaultSet(),
	})
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	s.Handle("/counters/", c.Handler())
	p.run, p.ready, p.ops = serving(s, c.Run), r.reachable, s
	return p, nil
}

// reachable says whether the store answers, within a second.
func (r *roles) reachable() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := r.store.Revision(ctx); err != nil {
		return fmt.Errorf("etcd does not answer: %w", err)
	}
	return nil
}

// worker makes the worker of this process.
func (r *roles) worker(cfg worker.Config, opsListen, host string) (*part, error) {
	p := &part{}
	s, err := ops.Listen(opsListen, func() error { return p.ready() })
	if err != nil {
		return nil, listenError("--ops-listen", opsListen, err)
	}
	cfg.Store, cfg.Tree, cfg.TTL, cfg.Log, cfg.Stdout = r.store, r.tree, r.ttl, r.log, r.stdout
	cfg.Memory = hostMemory()
	cfg.Storage = &leaderStorage{cl: client.New(r.store, r.tree)}
	if r.storage != nil {
		cfg.Storage = r.storage
	}
	p.addr = told(s.Addr(), host)
	cfg.OpsAddress, cfg.Version, cfg.Metrics = p.addr, Version, metrics.GetDefaultSet()
	w, err := worker.New(cfg)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	s.Handle("/counters/", w.Handler())
	p.run, p.ready, p.ops, p.incarnation = serving(s, w.Run), w.Ready, s, w.Incarnation
	return p, nil
}

// serving runs a role beside its HTTP port, which closes after the role has ended.
func serving(s *ops.Server, role func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		serve, stop := context.WithCancel(context.WithoutCancel(ctx))
		g, gctx := errgroup.WithContext(serve)
		g.Go(func() error { return s.Run(gctx) })
		g.Go(func() error {
			defer stop()
			rctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(gctx, cancel)() // the port failing ends the role
			return role(rctx)
		})
		return g.Wait()
	}
}

// watch fails when the embedded etcd has ended by itself (a full disk, a damaged file).
func (e *embedded) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-e.server.Done():
	}
	if err := e.server.Err(); err != nil {
		return err
	}
	return errors.New("the embedded etcd has ended")
}

// together runs parts until ctx ends or one of them does, and returns when all have. A part that ends by itself
// without an error ends the others.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, gctx := errgroup.WithContext(ctx)
	for _, p := range parts {
		g.Go(func() error {
			defer stop()
			return p(gctx)
		})
	}
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// hostName is the default name of a role.
func hostName() string {
	h, _ := os.Hostname()
	return nameOf(h)
}

// nameOf is the first label of a host's name, as far as a role may be called so.
func nameOf(h string) string {
	var name []byte
	for i := 0; i < len(h) && len(name) < 63; i++ {
		c := h[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-' && len(name) > 0:
			name = append(name, c)
		case c >= 'A' && c <= 'Z':
			name = append(name, c+'a'-'A')
		case c == '.':
			i = len(h)
		}
	}
	if len(name) == 0 {
		return "localhost"
	}
	return string(name)
}

// writeIncarnation leaves the incarnation of a worker in its data folder, for supervisors that fence it.
func writeIncarnation(dir string, incarnation int64) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "incarnation"), fmt.Appendf(nil, "%d\n", incarnation), 0o600)
}

// hostMemory is the memory of this host in bytes, 0 where the system does not say.
func hostMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
