package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/sync/errgroup"

	"strait/checkpoint/storage"
	"strait/cmd/internal/ops"
	"strait/coordinator"
	"strait/coordinator/api/client"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan/logical"
	"strait/plan/secret"
	"strait/worker"
	"strait/worker/memory"
)

// roles is what the roles of one process have in common.
type roles struct {
	store   *kv.Store
	tree    keys.Tree
	keys    *secret.Keyring // for the secrets of jobs; nil: none
	storage *storage.Local  // nil for a worker that was not told a folder
	dir     string          // of storage
	ttl     time.Duration   // 0: the default
	log     *slog.Logger
	logs    *ops.Logs // what log has said of jobs
	stdout  io.Writer
}

// part is a role that is ready to run.
type part struct {
	run   func(context.Context) error
	ready func() error
	ops   *ops.Server
	addr  string // of ops, as others dial it

	alive func(context.Context) error // whether its loops answer
	state func() string               // for people, in a few words
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

// catalog is that of a job whose relative paths begin in folder.
func (r *roles) catalog(folder string) logical.Catalog { return catalog{folder: folder, keys: r.keys} }

// coordinator makes the coordinator of this process. opsListen is its HTTP port, host is told to others where that
// names none.
func (r *roles) coordinator(cfg coordinator.Config, opsListen, host string) (*part, error) {
	p := &part{}
	s, err := ops.Listen(opsListen, func() error { return p.ready() })
	if err != nil {
		return nil, listenError("--ops-listen", opsListen, err)
	}
	p.addr = told(s.Addr(), host)
	if _, err := r.storage.Mark(); err != nil { // workers compare it with what they see
		_ = s.Close()
		return nil, err
	}
	cfg.Store, cfg.Tree, cfg.OpsAddr, cfg.Catalog, cfg.Storage, cfg.CheckpointDir = r.store, r.tree, p.addr, r.catalog, r.storage, r.dir
	cfg.SessionTTL, cfg.Log, cfg.Metrics, cfg.Keys = r.ttl, r.log, metrics.GetDefaultSet(), r.keys
	c, err := coordinator.New(cfg)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	s.Handle("/counters/", c.Handler())
	s.HandleLogs(r.logs)
	s.HandleAbout(func(ctx context.Context) ops.About {
		a := r.about(ctx, "coordinator", cfg.Name)
		a.Leads = c.Leads()
		return a
	})
	p.run, p.ready, p.ops, p.alive = serving(s, c.Run), r.reachable, s, c.Alive
	p.state = func() string {
		if c.Leads() {
			return "coordinator " + cfg.Name + " leads"
		}
		return "coordinator " + cfg.Name + " stands by"
	}
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
	allowed := memory.Host(os.DirFS("/"))
	if cfg.Memory == 0 {
		cfg.Memory = memory.Default(allowed)
	}
	memory.LimitHeap(cfg.Memory, allowed)
	cfg.Keys = r.keys
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
	s.Handle("/load", w.Handler())
	s.HandleLogs(r.logs)
	s.HandleAbout(func(ctx context.Context) ops.About {
		a := r.about(ctx, "worker", cfg.Name)
		a.Incarnation = w.Incarnation()
		return a
	})
	p.run, p.ready, p.ops, p.alive = serving(s, w.Run), w.Ready, s, w.Alive
	p.state = func() string {
		if err := w.Ready(); err != nil {
			return "worker " + cfg.Name + ": " + err.Error()
		}
		return fmt.Sprintf("worker %s works, incarnation %d", cfg.Name, w.Incarnation())
	}
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

// about is what a role of this process says of itself. The clock of the answer is that of package ops.
func (r *roles) about(ctx context.Context, role, name string) ops.About {
	host, _ := os.Hostname()
	return ops.About{Process: r.logs.Process(), Role: role, Name: name, Version: Version, Protocol: record.Protocol, Host: host, PID: os.Getpid(),
		Started: began, Storage: r.folder(ctx)}
}

// began is when this process did.
var began = time.Now().UTC().Truncate(time.Second)

// folder is the folder of checkpoint files as this process sees it: its own, else the leader's by the same path. It
// is looked at, never made.
func (r *roles) folder(ctx context.Context) *ops.Folder {
	f := &ops.Folder{Path: r.dir}
	if f.Path == "" {
		l, err := client.New(r.store, r.tree).Leader(ctx)
		if err != nil {
			f.Problem = err.Error()
			return f
		}
		f.Path = l.Checkpoints
	}
	mark, err := storage.ReadMark(f.Path)
	if f.Mark = mark; err != nil {
		f.Problem = err.Error()
	}
	return f
}

// incarnationFile is the file below the data folder of a worker that names its incarnation, as long as its process
// may act under it: a supervisor that knows the process to be dead fences it with that.
type incarnationFile struct {
	path string // empty: there is no data folder
	log  *slog.Logger
}

func newIncarnationFile(dir string, log *slog.Logger) (*incarnationFile, error) {
	if dir == "" {
		return &incarnationFile{log: log}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir %s: %w", dir, err)
	}
	return &incarnationFile{filepath.Join(dir, "incarnation"), log}, nil
}

// write replaces the file. Without it a death is waited out, so an error is told and the worker works.
func (f *incarnationFile) write(incarnation int64) {
	if f.path == "" {
		return
	}
	temp := f.path + ".new"
	err := os.WriteFile(temp, fmt.Appendf(nil, "%d\n", incarnation), 0o600)
	if err == nil {
		err = os.Rename(temp, f.path)
	}
	if err != nil {
		f.log.Warn("incarnation is not left for the supervisor; should this process die, the fleet waits its time out", "file", f.path, "err", err)
	}
}

// remove is for a worker that has ended in order: nothing is left to fence.
func (f *incarnationFile) remove() {
	if f.path == "" {
		return
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Warn("incarnation file stays", "file", f.path, "err", err)
	}
}
