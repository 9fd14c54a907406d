package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/checkpoint/storage"
	"strait/cmd/internal/ops"
	"strait/cmd/internal/settings"
	"strait/coordinator"
	"strait/coordinator/schedule"
	"strait/kv/session"
	"strait/plan"
	"strait/worker"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name: "serve", Usage: "run a role of a fleet until it is told to stop",
		Subcommands: []*cli.Command{
			{
				Name: "coordinator", Usage: "elect a leader and drive the jobs",
				Description: `The fleet's etcd is in this process, with its data below --data-dir; or it is elsewhere, at --etcd-endpoints,
and any number of coordinators stand by. SIGTERM ends it; the jobs go on.`,
				Flags:  settings.Flags(settings.Coordinator),
				Action: asServer(settings.Coordinator, serveCoordinator),
			},
			{
				Name: "worker", Usage: "run the task groups that the coordinator places here",
				Description: "SIGTERM ends it; what it ran is placed elsewhere.",
				Flags:       settings.Flags(settings.Worker),
				Action:      asServer(settings.Worker, serveWorker),
			},
			{
				Name: "standalone", Usage: "a coordinator with its etcd and a worker in one process",
				Flags:  settings.Flags(settings.Coordinator | settings.Worker),
				Action: asServer(settings.Coordinator|settings.Worker, serveStandalone),
			},
		},
	}
}

// asServer runs a role with what its settings open, until it is told to stop.
func asServer(as settings.Role, role func(c *cli.Context, ctx context.Context, s *server) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		ctx, stop := interrupts(c.Context)
		defer stop()
		s, err := openServer(c, ctx, as)
		if err != nil {
			return err
		}
		defer s.close()
		return role(c, ctx, s)
	}
}

// server is a role process: what its settings opened, to be closed in reverse order.
type server struct {
	roles
	set      *settings.Values
	embedded *embedded
	etcd     string // what others connect to
	dataTLS  *tls.Config
	host     string // this host as others of the fleet see it
	name     string
}

// openServer opens the store of a role process: of a coordinator an embedded etcd where no endpoints are given.
func openServer(c *cli.Context, ctx context.Context, as settings.Role) (*server, error) {
	set, err := load(c, as)
	if err != nil {
		return nil, err
	}
	s := &server{set: set, name: set.String("name")}
	if s.name == "" {
		s.name = hostName()
	}
	if err := plan.CheckName(c.Command.Name, s.name); err != nil {
		return nil, failf("%s: %v", set.Name("name"), err)
	}
	s.roles = roles{tree: tree(set), ttl: set.Duration("ttl"), stdout: c.App.Writer}
	if s.keys, err = keyring(c.App.ErrWriter, set); err != nil {
		return nil, err
	}
	s.keepLogs(logger(set, slog.LevelInfo, c.App.ErrWriter), int(set.Bytes("log.memory")))
	if as&settings.Worker != 0 {
		data, err := certificatesOf(set, "worker.data.tls", true)
		if err != nil {
			return nil, err
		}
		s.dataTLS, _ = data.config()
	}
	given, dir, listen := set.Has("etcd.endpoints"), set.String("data-dir"), set.String("etcd.listen")
	for _, path := range []string{"etcd.listen", "ops.listen", "worker.data.listen", "worker.data.address"} {
		if v := set.String(path); v != "" {
			if err := hostPort(set.Name(path), v); err != nil {
				return nil, err
			}
		}
	}
	if !everyAddress(listen) {
		host, _, _ := net.SplitHostPort(listen)
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
			return nil, failf("%s %s: etcd listens on an address, not on a name; write one of this host, or 0.0.0.0 for all of them", set.Name("etcd.listen"), listen)
		}
	}
	if err := checkLease(set.Duration("ttl"), set.Duration("worker.call-limit")); err != nil {
		return nil, err
	}
	switch {
	case given && (set.Has("etcd.listen") || set.Has("etcd.initial-cluster")):
		here := "etcd.listen"
		if set.Has("etcd.initial-cluster") {
			here = "etcd.initial-cluster"
		}
		return nil, failf("%s and %s exclude each other: the etcd is elsewhere or in this process", set.Name("etcd.endpoints"), set.Name(here))
	case as&settings.Coordinator != 0 && !given:
		if dir == "" {
			return nil, failf("--data-dir is missing: the embedded etcd keeps the fleet's state there; or name an etcd with --etcd-endpoints")
		}
		s.host = reach(listen)
		if err := s.embed(ctx); err != nil {
			return nil, err
		}
		s.store, s.etcd = s.embedded.store, told(s.embedded.server.Endpoints()[0], s.host)
	default:
		if s.store, err = openStore(ctx, set); err != nil {
			return nil, err
		}
		s.host = reach(endpoints(set)[0])
		s.etcd = strings.Join(endpoints(set), ",")
	}
	if s.dir, err = storageFolder(set, as); err == nil && s.dir != "" {
		s.storage, err = storage.Open(s.dir)
	} else if err == nil && as != settings.Worker {
		err = failf("--checkpoint-dir is missing: without --data-dir there is no folder for checkpoint files; name one that every worker sees")
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// embed starts the etcd in this process, and waits for its other members.
func (s *server) embed(ctx context.Context) error {
	set := s.set
	user, err := storeConfig(set)
	if err != nil {
		return err
	}
	conf, err := embedConfig(set, s.name, s.host, s.log)
	if err != nil {
		return err
	}
	if set.Has("etcd.initial-cluster") {
		if s.ttl < clusterTTL {
			return failf("%s %s is shorter than three elections of the members; write --ttl %s or more", set.Name("ttl"), s.ttl, clusterTTL)
		}
		if set.String("checkpoint.dir") == "" {
			return failf("--checkpoint-dir is missing: coordinators that stand in for each other need one folder that all of them and the workers see")
		}
	}
	s.embedded, err = startEmbedded(ctx, set.String("data-dir"), conf, user)
	return err
}

// clusterTTL is three elections of an etcd of several members.
const clusterTTL = 3 * time.Second

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

// keepLogs makes log that of the roles, with what it says of jobs kept in up to size bytes (0: the default).
func (r *roles) keepLogs(log *slog.Logger, size int) {
	least := slog.LevelInfo
	if log.Enabled(context.Background(), slog.LevelDebug) {
		least = slog.LevelDebug
	}
	r.logs = ops.NewLogs(size)
	r.log = slog.New(r.logs.Handler(log.Handler(), least))
}

func (s *server) close() {
	if s.embedded != nil {
		s.embedded.close()
		return
	}
	_ = s.store.Close()
}

// run runs the roles until the process is told to stop, and says when they are ready: on standard output (announced)
// and to a supervisor.
func (s *server) run(ctx context.Context, roles []*part, announced ...func(context.Context) error) error {
	n, err := ops.NewNotifier(s.log)
	if err != nil {
		for _, p := range roles {
			_ = p.ops.Close()
		}
		return failf("%v", err)
	}
	parts := announced
	for _, p := range roles {
		parts = append(parts, p.run)
	}
	if s.embedded != nil {
		parts = append(parts, s.embedded.watch)
	}
	parts = append(parts, func(ctx context.Context) error {
		n.Run(ctx, each(roles, (*part).await), states(roles), each(roles, func(p *part, ctx context.Context) error { return p.alive(ctx) }))
		<-ctx.Done()
		return nil
	})
	return together(ctx, parts...)
}

// each asks one role after the other.
func each(roles []*part, f func(*part, context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, p := range roles {
			if err := f(p, ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// states says how the roles are.
func states(roles []*part) func() string {
	return func() string {
		all := make([]string, len(roles))
		for i, p := range roles {
			all[i] = p.state()
		}
		return strings.Join(all, "; ")
	}
}

// announce says on standard output that a role is ready, once it is.
func announce(c *cli.Context, role, name string, p *part, more string) func(context.Context) error {
	return func(ctx context.Context) error {
		if p.await(ctx) != nil {
			return nil
		}
		fmt.Fprintf(c.App.Writer, "%s %s ready: %sops %s\n", role, name, more, p.addr)
		<-ctx.Done()
		return nil
	}
}

func serveCoordinator(c *cli.Context, ctx context.Context, s *server) error {
	p, err := s.coordinator(s.coordinatorConfig(), s.opsListen(), s.host)
	if err != nil {
		return err
	}
	return s.run(ctx, []*part{p}, announce(c, "coordinator", s.name, p, "etcd "+s.etcd+", "))
}

// opsListen is the HTTP address of the role: a free port where others of the fleet can reach it, unless told.
func (s *server) opsListen() string {
	if v := s.set.String("ops.listen"); v != "" {
		return v
	}
	return net.JoinHostPort(s.host, "0")
}

func (s *server) coordinatorConfig() coordinator.Config {
	return coordinator.Config{Name: s.name, Strategy: coordinator.Strategy(s.set.String("coordinator.strategy")), Placement: schedule.Strategy(s.set.String("coordinator.placement")),
		Queue: s.set.Int("coordinator.queue"), Patience: s.set.Duration("coordinator.patience"),
		Linger: s.set.Duration("coordinator.linger"), HistoryKeep: s.set.Int("coordinator.history.keep"), HistoryExpire: s.set.Duration("coordinator.history.expire")}
}

func (s *server) workerConfig() (worker.Config, error) {
	set := s.set
	cfg := worker.Config{Name: s.name, DataListen: set.String("worker.data.listen"), DataAddress: set.String("worker.data.address"),
		TLS: s.dataTLS, Slots: set.Int("worker.slots"), CallLimit: set.Duration("worker.call-limit"), Codec: set.String("worker.data.codec"),
		Labels: set.Pairs("worker.labels"), Memory: set.Bytes("worker.memory")}
	if cfg.Dynamic = cfg.Slots == settings.WordValue; cfg.Dynamic {
		cfg.Slots = 0
	}
	switch _, port, _ := net.SplitHostPort(cfg.DataListen); {
	case cfg.DataListen == "":
		cfg.DataListen = net.JoinHostPort(s.host, "0")
	case cfg.DataAddress != "" || !everyAddress(cfg.DataListen):
	case port == "0":
		return cfg, failf("%s %s: other workers must be told where to dial; name the port, or write --data-listen %s", set.Name("worker.data.listen"), cfg.DataListen, net.JoinHostPort(s.host, "0"))
	default:
		cfg.DataAddress = net.JoinHostPort(s.host, port)
	}
	return cfg, nil
}

func serveWorker(c *cli.Context, ctx context.Context, s *server) error {
	cfg, err := s.workerConfig()
	if err != nil {
		return err
	}
	file, err := newIncarnationFile(s.set.String("data-dir"), s.log)
	if err != nil {
		return err
	}
	cfg.Registered = file.write
	p, err := s.worker(cfg, s.opsListen(), s.host)
	if err != nil {
		return err
	}
	err = s.run(ctx, []*part{p}, announce(c, "worker", s.name, p, ""))
	if err == nil { // its name was given free, in order
		file.remove()
	}
	return listenError(s.set.Name("worker.data.listen"), cfg.DataListen, err)
}

func serveStandalone(c *cli.Context, ctx context.Context, s *server) error {
	cfg, err := s.workerConfig()
	if err != nil {
		return err
	}
	cfg.HandOver = -1 // the coordinator ends with it
	coord, err := s.coordinator(s.coordinatorConfig(), s.opsListen(), s.host)
	if err != nil {
		return err
	}
	work, err := s.worker(cfg, net.JoinHostPort(s.host, "0"), s.host)
	if err != nil {
		_ = coord.ops.Close()
		return err
	}
	return listenError(s.set.Name("worker.data.listen"), cfg.DataListen, s.run(ctx, []*part{coord, work},
		announce(c, "coordinator", s.name, coord, "etcd "+s.etcd+", "), announce(c, "worker", s.name, work, "")))
}
