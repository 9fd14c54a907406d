package harness

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/keys"
	"strait/kv/kvtest/history"
)

// startWithin bounds the start of one role; it is a failure bound, not a measure.
const startWithin = 60 * time.Second

// Options say what a fleet is made of.
type Options struct {
	Workers     int      // named w1, w2, …
	Slots       int      // per worker; 0: the default of stctl
	Coordinator []string // further flags of serve coordinator
	Worker      []string // further flags of serve worker
	Etcd        string   // host:port, several with commas, of an etcd that outlives the coordinator; "": embedded in the coordinator
	Env         []string // environment of all roles, NAME=VALUE
	Panics      bool     // a panic is part of the test
	// Hands: the test writes keys that no role would write, so that its history says nothing of the roles.
	Hands bool

	Members  int         // coordinators whose embedded servers form one etcd; 0: one coordinator, c1
	Settings string      // settings file of every process; "": none
	TLS      *tls.Config // the fleet's etcd wants it; the processes have theirs from Settings
	Username string      // likewise
	Password string
}

// Fleet is one coordinator with its embedded etcd and some workers.
type Fleet struct {
	t       testing.TB
	Dir     string // working folder of all roles
	Etcd    string // host:port
	opt     Options
	procs   map[string]*Process
	store   *kv.Store
	hist    *history.Recorder
	histDB  *kv.Store
	env     []string
	Members []string // names of the workers started so far

	members []member
	taken   []net.Listener
}

var readyLine = regexp.MustCompile(`(?m)^(?:coordinator|worker) (\S+) ready(?:: |$)(.*)$`)

// Start starts a fleet and stops it when the test ends.
func Start(t testing.TB, opt Options) *Fleet {
	t.Helper()
	f := &Fleet{t: t, Dir: t.TempDir(), opt: opt, procs: map[string]*Process{}, env: opt.Env}
	t.Cleanup(f.stop)
	if opt.Members > 0 {
		f.startMembers()
	} else {
		f.StartCoordinator("127.0.0.1:0")
	}
	f.record()
	for i := range opt.Workers {
		f.StartWorker(fmt.Sprintf("w%d", i+1))
	}
	for i := range opt.Workers {
		f.AwaitReady(fmt.Sprintf("w%d", i+1))
	}
	return f
}

// StartOn starts a coordinator without workers on a data folder that is there already.
func StartOn(t testing.TB, data string) *Fleet {
	t.Helper()
	f := &Fleet{t: t, Dir: t.TempDir(), procs: map[string]*Process{}}
	t.Cleanup(f.stop)
	f.startCoordinator("127.0.0.1:0", data)
	return f
}

// StartCoordinator starts the coordinator (again) with its etcd on listen.
func (f *Fleet) StartCoordinator(listen string) {
	f.t.Helper()
	f.startCoordinator(listen, filepath.Join(f.Dir, "c1"))
}

func (f *Fleet) startCoordinator(listen, data string) {
	f.t.Helper()
	args := []string{"serve", "coordinator", "--name", "c1", "--data-dir", data, "--ops-listen", "127.0.0.1:0"}
	if f.opt.Etcd != "" {
		args = append(args, "--etcd-endpoints", f.opt.Etcd)
	} else {
		args = append(args, "--etcd-listen", listen)
	}
	f.start("c1", append(args, f.opt.Coordinator...))
	told := f.AwaitReady("c1")
	if f.opt.Etcd != "" {
		f.Etcd = f.opt.Etcd
		return
	}
	m := regexp.MustCompile(`etcd (\S+?),`).FindStringSubmatch(told + ",")
	if m == nil {
		f.t.Fatalf("the coordinator does not say where its etcd is: %q", told)
	}
	f.Etcd = m[1]
}

// StartStandby starts another coordinator at the etcd that outlives them, without waiting for it.
func (f *Fleet) StartStandby(name string) {
	f.t.Helper()
	f.StartStandbyAt(f.opt.Etcd, name)
}

// StartStandbyAt starts it at another address of that etcd, as through a tap.
func (f *Fleet) StartStandbyAt(etcd, name string) {
	f.t.Helper()
	f.start(name, append([]string{"serve", "coordinator", "--name", name, "--data-dir", filepath.Join(f.Dir, "c1"),
		"--etcd-endpoints", etcd, "--ops-listen", "127.0.0.1:0"}, f.opt.Coordinator...))
}

// RestartCoordinator starts the coordinator on the data folder and the etcd port that it had.
func (f *Fleet) RestartCoordinator() {
	f.t.Helper()
	f.StartCoordinator(f.Etcd)
}

// StartWorker starts a worker without waiting for it.
func (f *Fleet) StartWorker(name string, more ...string) {
	f.t.Helper()
	f.StartWorkerAt(f.Etcd, name, more...)
}

// StartWorkerAt starts a worker that reaches etcd at another address, as through a proxy.
func (f *Fleet) StartWorkerAt(etcd, name string, more ...string) {
	f.t.Helper()
	args := []string{"serve", "worker", "--etcd-endpoints", etcd, "--name", name,
		"--data-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data-dir", filepath.Join(f.Dir, name)}
	if f.opt.Slots > 0 {
		args = append(args, "--slots", fmt.Sprint(f.opt.Slots))
	}
	f.start(name, append(append(args, f.opt.Worker...), more...))
	if !slices.Contains(f.Members, name) {
		f.Members = append(f.Members, name)
	}
}

func (f *Fleet) start(name string, args []string) {
	f.t.Helper()
	p := Command(f.t, f.Dir, f.settings(args)...)
	p.Cmd.Env = append(p.Cmd.Env, f.env...)
	if err := p.Cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	p.reap()
	f.procs[name] = p
}

// SetEnv adds environment variables, NAME=VALUE, to the roles started from now on.
func (f *Fleet) SetEnv(env ...string) { f.env = env }

// Command prepares stctl against the fleet without starting it.
func (f *Fleet) Command(args ...string) *Process {
	f.t.Helper()
	return Command(f.t, f.Dir, f.Args(args...)...)
}

// AwaitReady waits until a role says that it is ready and returns what it says of its addresses.
func (f *Fleet) AwaitReady(name string) string {
	f.t.Helper()
	p := f.procs[name]
	var told string
	f.Await(name+" ready", startWithin, func() bool {
		for _, m := range readyLine.FindAllStringSubmatch(p.Stdout(), -1) {
			if m[1] == name {
				told = m[2]
				return true
			}
		}
		if p.Exited() {
			f.t.Fatalf("%s ended while it started\n%s%s", name, p.Stdout(), p.Stderr())
		}
		return false
	})
	return told
}

// Await polls cond until it holds and fails the test after limit.
func (f *Fleet) Await(what string, limit time.Duration, cond func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not so after %s\n%s", what, limit, f.Logs())
		}
		<-tick.C
	}
}

// Process is a role by name.
func (f *Fleet) Process(name string) *Process { return f.procs[name] }

// Kill ends a role with SIGKILL and waits until it is gone.
func (f *Fleet) Kill(name string) { f.signal(name, syscall.SIGKILL, true) }

// Terminate asks a role to end and waits until it has.
func (f *Fleet) Terminate(name string) { f.signal(name, syscall.SIGTERM, true) }

// Signal sends a signal without waiting.
func (f *Fleet) Signal(name string, s syscall.Signal) { f.signal(name, s, false) }

func (f *Fleet) signal(name string, s syscall.Signal, wait bool) {
	f.t.Helper()
	p := f.procs[name]
	if err := p.Cmd.Process.Signal(s); err != nil {
		f.t.Fatalf("signal %s: %v", name, err)
	}
	if !wait {
		return
	}
	select {
	case <-p.exited:
	case <-time.After(startWithin):
		f.t.Fatalf("%s is still there %s after %v\n%s", name, startWithin, s, f.Logs())
	}
}

// Args puts the fleet's etcd in front of the words of a command.
func (f *Fleet) Args(args ...string) []string {
	return append([]string{"--etcd-endpoints", f.Etcd}, f.settings(args)...)
}

// settings puts the fleet's settings file in front of the words of a command.
func (f *Fleet) settings(args []string) []string {
	if f.opt.Settings == "" {
		return args
	}
	return append([]string{"--settings", f.opt.Settings}, args...)
}

// Stctl runs a command against the fleet.
func (f *Fleet) Stctl(args ...string) Result {
	f.t.Helper()
	return Run(f.t, f.Dir, 2*time.Minute, f.Args(args...)...)
}

// Store is a connection to the fleet's etcd, closed with the fleet.
func (f *Fleet) Store() *kv.Store {
	f.t.Helper()
	if f.store == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startWithin)
		defer cancel()
		s, err := kv.Open(ctx, f.etcd())
		if err != nil {
			f.t.Fatal(err)
		}
		f.store = s
	}
	return f.store
}

// Keys lists the keys below a prefix with their values.
func (f *Fleet) Keys(prefix string) map[string]string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	entries, _, err := f.Store().List(ctx, prefix, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		out[e.Key] = string(e.Value)
	}
	return out
}

// Logs are the outputs of all roles, for the message of a failed test.
func (f *Fleet) Logs() string {
	var b strings.Builder
	for name, p := range f.procs {
		fmt.Fprintf(&b, "--- %s\n%s%s", name, p.Stdout(), p.Stderr())
	}
	return b.String()
}

// record follows every revision of the fleet's keys until it is stopped.
func (f *Fleet) record() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	var err error
	if f.histDB, err = kv.Open(ctx, f.etcd()); err != nil {
		f.t.Fatal(err)
	}
	if f.hist, err = history.Record(ctx, f.histDB, keys.New("")); err != nil {
		f.t.Fatal(err)
	}
}

// etcd is how this test reaches the fleet's etcd.
func (f *Fleet) etcd() kv.Config {
	return kv.Config{Endpoints: strings.Split(f.Etcd, ","), TLS: f.opt.TLS, Username: f.opt.Username, Password: f.opt.Password}
}

// History is the recording of the fleet's keys. It is checked when the fleet stops.
func (f *Fleet) History() *history.Recorder { return f.hist }

// judge holds the history of the keys against what must be so at each revision.
func (f *Fleet) judge() {
	if f.hist == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = f.hist.CatchUp(ctx) // an etcd that the test has ended tells no more; a gap is a fault of Check
	f.hist.Stop()
	_ = f.histDB.Close()
	if f.opt.Hands {
		return
	}
	for _, fault := range f.hist.Check() {
		f.t.Errorf("history of the keys: %s", fault)
	}
}

func (f *Fleet) stop() {
	f.judge()
	if f.store != nil {
		_ = f.store.Close()
	}
	for _, p := range f.procs {
		if !p.Exited() {
			_ = p.Cmd.Process.Kill()
			<-p.exited
		}
	}
	for name, p := range f.procs {
		out := p.Stderr()
		if strings.Contains(out, "DATA RACE") || !f.opt.Panics && (strings.Contains(out, "panic:") || strings.Contains(out, "BUG:")) {
			f.t.Errorf("%s:\n%s", name, out)
		}
	}
	_ = os.RemoveAll(f.Dir)
}

// Options are what the fleet was started with.
func (f *Fleet) Options() Options { return f.opt }
