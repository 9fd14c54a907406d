package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/checkpoint/storage"
	"strait/coordinator"
	"strait/kv/session"
	"strait/plan"
	"strait/worker"
)

func serveCommand() *cli.Command {
	fleet := append(storeFlags(),
		&cli.StringFlag{Name: "name", EnvVars: []string{"STRAIT_NAME"}, Usage: "unique `NAME` of this role; the host's otherwise"},
		&cli.StringFlag{Name: "ops-listen", EnvVars: []string{"STRAIT_OPS_LISTEN"},
			Usage: "`HOST:PORT` of /metrics, /healthz, /readyz, live counters and pprof; a free port of the address that this host reaches etcd from otherwise"},
		&cli.DurationFlag{Name: "ttl", EnvVars: []string{"STRAIT_TTL"}, Usage: "`DURATION` that a vanished role is waited for; 10s otherwise"},
		&cli.StringFlag{Name: "checkpoint-dir", EnvVars: []string{"STRAIT_CHECKPOINT_DIR"},
			Usage: "`FOLDER` of checkpoint files, the same on all hosts; otherwise below the --data-dir of the coordinator"},
		logFlag())
	dataDir := func(usage string) cli.Flag {
		return &cli.StringFlag{Name: "data-dir", EnvVars: []string{"STRAIT_DATA_DIR"}, Usage: usage}
	}
	lead := []cli.Flag{
		&cli.StringFlag{Name: "etcd-listen", EnvVars: []string{"STRAIT_ETCD_LISTEN"}, Value: defaultEtcd, Usage: "`HOST:PORT` of the embedded etcd; 0.0.0.0:2379 for workers on other hosts"},
		&cli.StringFlag{Name: "strategy", EnvVars: []string{"STRAIT_STRATEGY"}, Value: string(coordinator.Wait), Usage: "`WHAT` becomes of a job that does not fit: wait or reject"},
	}
	work := []cli.Flag{
		&cli.IntFlag{Name: "slots", EnvVars: []string{"STRAIT_SLOTS"}, Usage: "`N` task groups at once; the number of processors otherwise"},
		&cli.StringSliceFlag{Name: "label", EnvVars: []string{"STRAIT_LABELS"}, Usage: "`KEY=VALUE` for env.tag_filter of jobs; may be repeated"},
		&cli.StringFlag{Name: "data-listen", EnvVars: []string{"STRAIT_DATA_LISTEN"},
			Usage: "`HOST:PORT` that other workers send rows to; a free port of the address that this host reaches etcd from otherwise"},
		&cli.StringFlag{Name: "data-address", EnvVars: []string{"STRAIT_DATA_ADDRESS"}, Usage: "`HOST:PORT` that other workers dial, where it differs from --data-listen"},
		&cli.DurationFlag{Name: "call-limit", EnvVars: []string{"STRAIT_CALL_LIMIT"}, Usage: "`DURATION` that one call of a sink may take; 30s otherwise"},
		&cli.StringFlag{Name: "codec", EnvVars: []string{"STRAIT_CODEC"}, Usage: "`NAME` of the compression between workers: none, s2 or zstd; s2 between hosts otherwise"},
	}
	return &cli.Command{
		Name: "serve", Usage: "run a role of a fleet until it is told to stop",
		Subcommands: []*cli.Command{
			{
				Name: "coordinator", Usage: "elect a leader and drive the jobs",
				Description: `The fleet's etcd is in this process, with its data below --data-dir; or it is elsewhere, at --etcd-endpoints,
and any number of coordinators stand by. SIGTERM ends it; the jobs go on.`,
				Flags:  concat([]cli.Flag{dataDir("`FOLDER` of the embedded etcd; needed unless --etcd-endpoints is given")}, lead, fleet),
				Action: asServer(true, serveCoordinator),
			},
			{
				Name: "worker", Usage: "run the task groups that the coordinator places here",
				Description: "SIGTERM ends it; what it ran is placed elsewhere.",
				Flags:       concat([]cli.Flag{dataDir("`FOLDER` of what this worker leaves for its supervisor")}, work, fleet),
				Action:      asServer(false, serveWorker),
			},
			{
				Name: "standalone", Usage: "a coordinator with its etcd and a worker in one process",
				Flags:  concat([]cli.Flag{dataDir("`FOLDER` of etcd and of checkpoint files; needed unless --etcd-endpoints is given")}, lead, work, fleet),
				Action: asServer(true, serveStandalone),
			},
		},
	}
}

func concat(parts ...[]cli.Flag) []cli.Flag {
	var all []cli.Flag
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// asServer runs a role with what its flags open, until it is told to stop. embed: its etcd may be in this process.
func asServer(embed bool, role func(c *cli.Context, ctx context.Context, s *server) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		ctx, stop := interrupts(c.Context)
		defer stop()
		s, err := openServer(c, ctx, embed)
		if err != nil {
			return err
		}
		defer s.close()
		return role(c, ctx, s)
	}
}

// server is a role process: what its flags opened, to be closed in reverse order.
type server struct {
	roles
	embedded *embedded
	etcd     string // what others connect to
	host     string // this host as others of the fleet see it
	name     string
}

// openServer opens the store of a role process: an embedded etcd where embed is set and no endpoints are given.
func openServer(c *cli.Context, ctx context.Context, embed bool) (*server, error) {
	log, err := logger(c, slog.LevelInfo, c.App.ErrWriter)
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
	_, given := setting(c, "etcd-endpoints")
	dir := c.String("data-dir")
	for _, f := range []string{"etcd-listen", "ops-listen", "data-listen", "data-address"} {
		if v := c.String(f); v != "" {
			if err := hostPort("--"+f, v); err != nil {
				return nil, err
			}
		}
	}
	if v := c.String("etcd-listen"); v != "" && !everyAddress(v) {
		host, _, _ := net.SplitHostPort(v)
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
			return nil, failf("--etcd-listen %s: etcd listens on an address, not on a name; write one of this host, or 0.0.0.0 for all of them", v)
		}
	}
	for _, f := range []string{"codec", "strategy"} {
		if v := c.String(f); v != "" && !slices.Contains(values[f], v) {
			return nil, failf("--%s %s is not known; write %s", f, v, strings.Join(values[f], " or "))
		}
	}
	if err := checkLease(c.Duration("ttl"), c.Duration("call-limit")); err != nil {
		return nil, err
	}
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
		s.host = reach(c.String("etcd-listen"))
		s.store, s.etcd = s.embedded.store, told(s.embedded.server.Endpoints()[0], s.host)
	default:
		if s.store, err = openStore(ctx, c); err != nil {
			return nil, err
		}
		s.host = reach(endpoints(c)[0])
		s.etcd = strings.Join(endpoints(c), ",")
	}
	if s.dir, err = storageFolder(c); err == nil && s.dir != "" {
		s.storage, err = storage.Open(s.dir)
	} else if err == nil && c.Command.Name != "worker" {
		err = failf("--checkpoint-dir is missing: without --data-dir there is no folder for checkpoint files; name one that every worker sees")
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// checkLease refuses a lease that leaves no time between two renewals once clocks and the longest call are paid
// for; the role would come up and never hold one.
func checkLease(ttl, limit time.Duration) error {
	if ttl == 0 {
		ttl = session.DefaultTTL
	}
	if limit == 0 {
		limit = session.DefaultCallLimit
	}
	enough := func(ttl time.Duration) bool { return ttl-session.Margin(ttl, limit) > ttl/3 }
	if enough(ttl) {
		return nil
	}
	least := ttl.Truncate(time.Second) + time.Second
	for !enough(least) {
		least += time.Second
	}
	return failf("--ttl %s is too short for calls of up to %s (--call-limit); write --ttl %s, or shorten the calls", ttl, limit, least)
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
	return together(ctx, parts...)
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
		fmt.Fprintf(c.App.Writer, "%s %s ready: %sops %s\n", role, name, more, p.addr)
		<-ctx.Done()
		return nil
	}
}

func nothing() error { return nil }

func serveCoordinator(c *cli.Context, ctx context.Context, s *server) error {
	p, err := s.coordinator(s.name, s.opsListen(c), s.host, coordinator.Strategy(c.String("strategy")))
	if err != nil {
		return err
	}
	return s.run(ctx, p.run, announce(c, "coordinator", s.name, p, "etcd "+s.etcd+", ", nothing))
}

// opsListen is the HTTP address of the role: a free port where others of the fleet can reach it, unless told.
func (s *server) opsListen(c *cli.Context) string {
	if v := c.String("ops-listen"); v != "" {
		return v
	}
	return net.JoinHostPort(s.host, "0")
}

func (s *server) workerConfig(c *cli.Context) (worker.Config, error) {
	cfg := worker.Config{Name: s.name, DataListen: c.String("data-listen"), DataAddress: c.String("data-address"),
		Slots: c.Int("slots"), CallLimit: c.Duration("call-limit"), Codec: c.String("codec")}
	if c.IsSet("slots") && cfg.Slots < 1 {
		return cfg, failf("--slots %d: write a number from 1 on", cfg.Slots)
	}
	switch _, port, _ := net.SplitHostPort(cfg.DataListen); {
	case cfg.DataListen == "":
		cfg.DataListen = net.JoinHostPort(s.host, "0")
	case cfg.DataAddress != "" || !everyAddress(cfg.DataListen):
	case port == "0":
		return cfg, failf("--data-listen %s: other workers must be told where to dial; name the port, or write --data-listen %s", cfg.DataListen, net.JoinHostPort(s.host, "0"))
	default:
		cfg.DataAddress = net.JoinHostPort(s.host, port)
	}
	var err error
	cfg.Labels, err = pairs("--label", "KEY=VALUE", c.StringSlice("label"), nil)
	return cfg, err
}

func serveWorker(c *cli.Context, ctx context.Context, s *server) error {
	cfg, err := s.workerConfig(c)
	if err != nil {
		return err
	}
	p, err := s.worker(cfg, s.opsListen(c), s.host)
	if err != nil {
		return err
	}
	return listenError("--data-listen", cfg.DataListen, s.run(ctx, p.run, announce(c, "worker", s.name, p, "", func() error { return writeIncarnation(c.String("data-dir"), p.incarnation()) })))
}

func serveStandalone(c *cli.Context, ctx context.Context, s *server) error {
	cfg, err := s.workerConfig(c)
	if err != nil {
		return err
	}
	coord, err := s.coordinator(s.name, s.opsListen(c), s.host, coordinator.Strategy(c.String("strategy")))
	if err != nil {
		return err
	}
	work, err := s.worker(cfg, net.JoinHostPort(s.host, "0"), s.host)
	if err != nil {
		_ = coord.ops.Close()
		return err
	}
	return listenError("--data-listen", cfg.DataListen, s.run(ctx, coord.run, work.run,
		announce(c, "coordinator", s.name, coord, "etcd "+s.etcd+", ", nothing), announce(c, "worker", s.name, work, "", nothing)))
}
