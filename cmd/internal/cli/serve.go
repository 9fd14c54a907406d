package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"strait/coordinator"
	"strait/kv"
	"strait/plan"
	"strait/worker"
)

func serveCommand() *cli.Command {
	name := &cli.StringFlag{Name: "name", EnvVars: []string{"STRAIT_NAME"}, Usage: "unique `NAME` of this role; the host's otherwise"}
	opsListen := func(def string) cli.Flag {
		return &cli.StringFlag{Name: "ops-listen", EnvVars: []string{"STRAIT_OPS_LISTEN"}, Value: def, Usage: "`HOST:PORT` of /metrics, /healthz, /readyz and pprof"}
	}
	ttl := &cli.DurationFlag{Name: "ttl", Usage: "how long a role that vanished is waited for (10s)"}
	etcdListen := &cli.StringFlag{Name: "etcd-listen", EnvVars: []string{"STRAIT_ETCD_LISTEN"}, Value: defaultEtcd, Usage: "`HOST:PORT` of the embedded etcd"}
	workerFlags := []cli.Flag{
		&cli.IntFlag{Name: "slots", Usage: "task groups it takes at once; the number of processors otherwise"},
		&cli.StringSliceFlag{Name: "label", Usage: "`KEY=VALUE` for env.tag_filter; may be repeated"},
		&cli.StringFlag{Name: "data-listen", EnvVars: []string{"STRAIT_DATA_LISTEN"}, Value: "127.0.0.1:0", Usage: "`HOST:PORT` that other workers send rows to"},
		&cli.StringFlag{Name: "data-address", EnvVars: []string{"STRAIT_DATA_ADDRESS"}, Usage: "`HOST:PORT` that other workers dial, where it differs from --data-listen"},
		&cli.DurationFlag{Name: "call-limit", Usage: "how long one call of a sink may take (30s)"},
		&cli.StringFlag{Name: "codec", Usage: "compression between workers: none, s2 or zstd; s2 between hosts otherwise"},
	}
	dataDir := func(required bool, usage string) cli.Flag {
		return &cli.StringFlag{Name: "data-dir", EnvVars: []string{"STRAIT_DATA_DIR"}, Required: required, Usage: usage}
	}
	strategy := &cli.StringFlag{Name: "strategy", Value: string(coordinator.Wait), Usage: "what becomes of a job that does not fit: wait or reject"}
	storageDir := &cli.StringFlag{Name: "checkpoint-dir", EnvVars: []string{"STRAIT_CHECKPOINT_DIR"}, Usage: "`FOLDER` for checkpoint files, the same on all hosts; below --data-dir otherwise"}
	return &cli.Command{
		Name: "serve", Usage: "run a role of a fleet until it is told to stop", Action: subcommandNeeded,
		Subcommands: []*cli.Command{
			{
				Name: "coordinator", Usage: "elects a leader and drives the jobs",
				Flags: append(storeFlags(), dataDir(false, "`FOLDER` of the embedded etcd; needed unless --etcd-endpoints is given"), etcdListen,
					name, opsListen("127.0.0.1:0"), ttl, strategy, storageDir, logFlag()),
				Action: serveCoordinator,
			},
			{
				Name: "worker", Usage: "runs task groups",
				Flags:  append(append(storeFlags(), dataDir(false, "`FOLDER` for what this worker leaves for its supervisor and for checkpoint files"), name, opsListen("127.0.0.1:0"), ttl, storageDir, logFlag()), workerFlags...),
				Action: serveWorker,
			},
			{
				Name: "standalone", Usage: "a coordinator with its etcd and a worker in one process",
				Flags:  append(append(storeFlags(), dataDir(true, "`FOLDER` of etcd and checkpoints"), etcdListen, name, opsListen("127.0.0.1:0"), ttl, strategy, storageDir, logFlag()), workerFlags...),
				Action: serveStandalone,
			},
		},
	}
}

// server is a role process: what its flags opened, to be closed in reverse order.
type server struct {
	roles
	embedded *embedded
	etcd     string // what others connect to
	name     string
}

// openServer opens the store of a role process: an embedded etcd where embed is set and no endpoints are given.
func openServer(c *cli.Context, ctx context.Context, embed bool) (*server, error) {
	log, err := logger(c, slog.LevelInfo)
	if err != nil {
		return nil, err
	}
	s := &server{name: c.String("name")}
	if s.name == "" {
		s.name = hostName()
	}
	if err := plan.CheckName(c.Command.Name, s.name); err != nil {
		return nil, failf("--name: %v", err)
	}
	s.roles = roles{tree: tree(c), ttl: c.Duration("ttl"), log: log, stdout: c.App.Writer}
	given := false
	for _, at := range c.Lineage() {
		given = given || at.IsSet("etcd-endpoints")
	}
	dir := c.String("data-dir")
	switch {
	case given && c.IsSet("etcd-listen"):
		return nil, failf("--etcd-endpoints and --etcd-listen exclude each other: the etcd is elsewhere or in this process")
	case embed && !given:
		if dir == "" {
			return nil, failf("--data-dir is missing: the embedded etcd keeps the fleet's state there; or name an etcd with --etcd-endpoints")
		}
		if s.embedded, err = startEmbedded(ctx, dir, c.String("etcd-listen")); err != nil {
			return nil, err
		}
		s.store, s.etcd = s.embedded.store, s.embedded.server.Endpoints()[0]
	default:
		if s.store, err = kv.Open(ctx, kv.Config{Endpoints: endpoints(c)}); err != nil {
			return nil, err
		}
		s.etcd = strings.Join(endpoints(c), ",")
	}
	if s.storage, err = openStorage(storageFolder(c, dir, s.name)); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// storageFolder is where this process keeps checkpoint files unless it was told.
func storageFolder(c *cli.Context, dir, name string) string {
	switch {
	case c.String("checkpoint-dir") != "":
		return c.String("checkpoint-dir")
	case dir != "":
		return filepath.Join(dir, "checkpoints")
	}
	return filepath.Join("/tmp/strait", name, "checkpoints")
}

func (s *server) close() {
	if s.embedded != nil {
		s.embedded.close()
		return
	}
	_ = s.store.Close()
}

// run runs the parts until the process is told to stop.
func (s *server) run(ctx context.Context, parts ...func(context.Context) error) error {
	if s.embedded != nil {
		parts = append(parts, s.embedded.watch)
	}
	err := together(ctx, parts...)
	if errors.Is(err, worker.ErrHung) {
		return err // the process exits at once; the hung call goes with it
	}
	return err
}

// announce says on standard output that a role is ready, once it is.
func announce(c *cli.Context, role, name string, p *part, more string, then func() error) func(context.Context) error {
	return func(ctx context.Context) error {
		if p.await(ctx) != nil {
			return nil
		}
		if err := then(); err != nil {
			return err
		}
		fmt.Fprintf(c.App.Writer, "%s %s ready: %sops %s\n", role, name, more, p.ops.Addr())
		<-ctx.Done()
		return nil
	}
}

func nothing() error { return nil }

func serveCoordinator(c *cli.Context) error {
	ctx, stop := interrupts(c.Context)
	defer stop()
	s, err := openServer(c, ctx, true)
	if err != nil {
		return err
	}
	defer s.close()
	p, err := s.coordinator(s.name, c.String("ops-listen"), coordinator.Strategy(c.String("strategy")))
	if err != nil {
		return err
	}
	return s.run(ctx, p.run, announce(c, "coordinator", s.name, p, "etcd "+s.etcd+", ", nothing))
}

func workerConfig(c *cli.Context, name string) (worker.Config, error) {
	cfg := worker.Config{Name: name, DataListen: c.String("data-listen"), DataAddress: c.String("data-address"),
		Slots: c.Int("slots"), CallLimit: c.Duration("call-limit"), Codec: c.String("codec"), Labels: map[string]string{}}
	if c.IsSet("slots") && cfg.Slots < 1 {
		return cfg, failf("--slots %d: write a number from 1 on", cfg.Slots)
	}
	for _, kv := range c.StringSlice("label") {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return cfg, failf("--label %s: write --label KEY=VALUE", kv)
		}
		cfg.Labels[k] = v
	}
	return cfg, nil
}

func serveWorker(c *cli.Context) error {
	ctx, stop := interrupts(c.Context)
	defer stop()
	s, err := openServer(c, ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	cfg, err := workerConfig(c, s.name)
	if err != nil {
		return err
	}
	p, err := s.worker(cfg, c.String("ops-listen"))
	if err != nil {
		return err
	}
	return s.run(ctx, p.run, announce(c, "worker", s.name, p, "", func() error { return writeIncarnation(c.String("data-dir"), p.incarnation()) }))
}

func serveStandalone(c *cli.Context) error {
	ctx, stop := interrupts(c.Context)
	defer stop()
	s, err := openServer(c, ctx, true)
	if err != nil {
		return err
	}
	defer s.close()
	cfg, err := workerConfig(c, s.name)
	if err != nil {
		return err
	}
	coord, err := s.coordinator(s.name, c.String("ops-listen"), coordinator.Strategy(c.String("strategy")))
	if err != nil {
		return err
	}
	work, err := s.worker(cfg, "127.0.0.1:0")
	if err != nil {
		_ = coord.ops.Close()
		return err
	}
	return s.run(ctx, coord.run, work.run,
		announce(c, "coordinator", s.name, coord, "etcd "+s.etcd+", ", nothing), announce(c, "worker", s.name, work, "", nothing))
}
