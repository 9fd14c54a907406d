package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"strait/integration/harness"
)

// endlessJob is a job that runs until it is cancelled and costs little.
func endlessJob(t *testing.T, dir string, parallelism int) string {
	t.Helper()
	return writeJob(t, dir, fmt.Sprintf(`env { job.name = "ticks", job.mode = "STREAMING", parallelism = %d }
source { FakeSource { row.num = 10000000, split.num = 10000, split.read-interval = 100, schema { fields { id = bigint } } } }
sink { Blackhole { } }
`, parallelism))
}

// phaseOf is the phase and attempt of the first pipeline of a job, and its workers.
func phaseOf(t *testing.T, f *harness.Fleet, id string) (phase string, attempt int, workers map[string]int) {
	t.Helper()
	r := f.Stctl("job", "status", id, "-o", "json")
	var st struct {
		Phase     string
		Pipelines map[string]struct{ Attempt int }
		Groups    []struct{ Worker string }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &st); err != nil {
		t.Fatalf("%v\n%s%s", err, r.Stdout, r.Stderr)
	}
	workers = map[string]int{}
	for _, g := range st.Groups {
		workers[g.Worker]++
	}
	return st.Phase, st.Pipelines["1"].Attempt, workers
}

func submitEndless(t *testing.T, f *harness.Fleet, id string, parallelism int) {
	t.Helper()
	if r := f.Stctl("job", "submit", "-d", "--id", id, endlessJob(t, t.TempDir(), parallelism)); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	f.Await(id+" runs", time.Minute, func() bool { phase, _, _ := phaseOf(t, f, id); return phase == "RUNNING" })
}

// TestJobLogs: the log of a job is read from all processes, followed while workers die and join, and still there
// after the end.
func TestJobLogs(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 2, Slots: 2, Worker: []string{"--ttl", "3s"}})
	submitEndless(t, f, "t1", 4)
	follow := f.Command("job", "logs", "t1", "-f")
	if err := follow.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await := func(what string) {
		t.Helper()
		f.Await("the log says "+what, 90*time.Second, func() bool {
			if follow.Exited() && !strings.Contains(follow.Stdout()+follow.Stderr(), what) {
				t.Fatalf("it ended\n%s%s", follow.Stdout(), follow.Stderr())
			}
			return strings.Contains(follow.Stdout()+follow.Stderr(), what)
		})
	}
	await(" w1 attempt starts pipeline=1 attempt=1")
	await(" w2 attempt starts pipeline=1 attempt=1")
	f.StartWorker("w3")
	f.AwaitReady("w3")
	f.Kill("w2")
	await("worker w2 has left")
	await(" c1 pipeline gets another attempt pipeline=1 attempt=2")
	await(" w3 attempt starts pipeline=1 attempt=2") // it joined while the log was followed
	if r := f.Stctl("job", "cancel", "t1"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	r := follow.Wait(t, time.Minute)
	if r.Code != 0 || strings.Count(r.Stdout, " c1 job has ended ") != 1 || strings.Count(r.Stdout, " c1 job is placed ") < 1 {
		t.Errorf("exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	after := f.Stctl("job", "logs", "t1")
	for _, want := range []string{" c1 job is placed ", " w1 attempt starts pipeline=1 attempt=1", " w3 attempt starts pipeline=1 attempt=2", " c1 job has ended "} {
		if after.Code != 0 || strings.Count(after.Stdout, want) != 1 {
			t.Errorf("%q is there %d times\n%s%s", want, strings.Count(after.Stdout, want), after.Stdout, after.Stderr)
		}
	}
	last := ""
	for line := range strings.Lines(after.Stdout) {
		at, _, _ := strings.Cut(line, " ")
		if at < last {
			t.Errorf("%s stands behind %s", at, last)
		}
		last = at
	}
	only := f.Stctl("job", "logs", "t1", "--worker", "w3", "--level", "info", "--since", "1h", "-o", "json")
	n := 0
	for line := range strings.Lines(only.Stdout) {
		var rec struct {
			Source, Role, Level, Msg, Job, Worker string
			Seq, Pipeline                         int
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil || rec.Source != "w3" || rec.Role != "worker" || rec.Job != "t1" || rec.Worker != "w3" || rec.Seq < 1 || rec.Msg == "" {
			t.Errorf("%v: %s", err, line)
		}
		n++
	}
	if n == 0 {
		t.Error("nothing of w3", only.Stderr)
	}
	if r := f.Stctl("job", "logs", "t1", "--worker", "w9"); r.Code != 1 || !strings.Contains(r.Stderr, "no worker and no coordinator w9") {
		t.Errorf("exit %d: %s", r.Code, r.Stderr)
	}
}

// TestDrain: a drained worker gets nothing new; what still runs at the deadline goes on elsewhere.
func TestDrain(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 2, Slots: 2})
	if r := f.Stctl("worker", "drain", "w1", "--wait"); r.Code != 0 || !strings.Contains(r.Stderr, "nothing runs there") {
		t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	submitEndless(t, f, "t1", 2)
	if _, _, at := phaseOf(t, f, "t1"); at["w1"] != 0 || at["w2"] != 2 {
		t.Errorf("a drained worker got work: %v", at)
	}
	if r := f.Stctl("job", "cancel", "t1"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	if r := f.Stctl("worker", "undrain", "w1"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	submitEndless(t, f, "t2", 2)
	_, _, at := phaseOf(t, f, "t2")
	from, to := "w1", "w2"
	if at["w1"] == 0 {
		from, to = to, from
	}
	r := f.Stctl("worker", "drain", from, "--deadline", "2s", "--wait", "--timeout", "90s")
	if r.Code != 0 || !strings.Contains(r.Stderr, "pipeline 1 of job t2 (ticks)") || !strings.Contains(r.Stderr, "worker "+from+" is drained") {
		t.Fatalf("exit %d: %s\n%s", r.Code, r.Stderr, f.Logs())
	}
	f.Await("t2 runs elsewhere", time.Minute, func() bool {
		phase, attempt, at := phaseOf(t, f, "t2")
		return phase == "RUNNING" && attempt > 1 && at[from] == 0 && at[to] == 2
	})
	if r := f.Stctl("worker", "list"); !strings.Contains(r.Stdout, from+"    draining until ") {
		t.Error(r.Stdout)
	}
	if r := f.Stctl("job", "cancel", "t2"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
}

// TestFence: the TTL is far longer than the test waits, so only fencing can bring the work elsewhere. A process that
// lives after all does nothing more under its old incarnation.
func TestFence(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 2, Slots: 2, Worker: []string{"--ttl", "10m"}})
	file := func(w string) string { return filepath.Join(f.Dir, w, "incarnation") }
	read := func(w string) string {
		t.Helper()
		b, err := os.ReadFile(file(w))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	submitEndless(t, f, "t1", 3)
	elsewhere := func(gone string, attempt int) {
		t.Helper()
		f.Await("t1 runs without "+gone, time.Minute, func() bool {
			phase, a, at := phaseOf(t, f, "t1")
			return phase == "RUNNING" && a >= attempt && at[gone] == 0
		})
	}
	f.StartWorker("w3")
	f.AwaitReady("w3")
	first := read("w1")
	if r := f.Stctl("worker", "fence", "w1", "--incarnation", read("w2")); r.Code != 1 || !strings.Contains(r.Stderr, "another incarnation: the key is of incarnation "+first) {
		t.Errorf("exit %d: %s", r.Code, r.Stderr)
	}
	// Dead, as a supervisor knows.
	f.Kill("w1")
	if r := f.Stctl("worker", "fence", "w1", "--incarnation-file", file("w1")); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	elsewhere("w1", 2)
	// Alive: it hangs while it is fenced, and wakes up.
	_, attempt, at := phaseOf(t, f, "t1")
	victim := "w2"
	if at["w2"] == 0 {
		victim = "w3"
	}
	f.StartWorker("w1")
	f.AwaitReady("w1")
	if again := read("w1"); again == first {
		t.Error("a new process has the incarnation of the old one")
	}
	old := read(victim)
	f.Signal(victim, syscall.SIGSTOP)
	if r := f.Stctl("worker", "fence", victim, "--incarnation", old); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	elsewhere(victim, attempt+1)
	f.Signal(victim, syscall.SIGCONT)
	f.Await(victim+" comes back as another", time.Minute, func() bool { return read(victim) != old })
	f.Await(victim+" works for nobody", time.Minute, func() bool {
		log := f.Process(victim).Stderr()
		_, behind, fenced := strings.Cut(log, "worker comes back as a new incarnation")
		return fenced && strings.Contains(log, "attempt stops\" worker="+victim+" incarnation="+old+" ") && !strings.Contains(behind, "incarnation="+old+" ") &&
			strings.Contains(f.Stctl("worker", "describe", victim).Stdout, "nothing runs there")
	})
	if r := f.Stctl("job", "cancel", "t1"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	f.Terminate(victim)
	if _, err := os.Stat(file(victim)); !os.IsNotExist(err) {
		t.Error("a worker that ended in order leaves something to fence:", err)
	}
}

// TestDoctor: against real processes.
func TestDoctor(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 1, Slots: 1})
	f.StartWorker("w2", "--checkpoint-dir", filepath.Join(f.Dir, "elsewhere"))
	f.AwaitReady("w2")
	see := func(code int, want ...string) {
		t.Helper()
		r := f.Stctl("doctor")
		for _, w := range want {
			if !strings.Contains(r.Stdout, w) {
				t.Errorf("no %q in\n%s", w, r.Stdout)
			}
		}
		if r.Code != code || r.Stderr != "" {
			t.Errorf("exit %d, want %d\n%s%s", r.Code, code, r.Stdout, r.Stderr)
		}
	}
	see(0, "ok    leader c1", "2 answer and are ready: w1, w2", "warn  storage worker w2", "0 failing")
	f.Signal("w1", syscall.SIGSTOP)
	see(1, "fail  worker w1", "does not answer: not in time", "1 answer and are ready: w2")
	f.Signal("w1", syscall.SIGCONT)
	f.Kill("c1")
	see(1, "fail  etcd "+f.Etcd, "refused", "cannot be looked at without etcd")
}

// supervisor hears what a child says by the notify protocol.
type supervisor struct {
	t    *testing.T
	conn *net.UnixConn
}

func newSupervisor(t *testing.T) (*supervisor, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); _ = os.RemoveAll(dir) })
	return &supervisor{t, conn}, path
}

// next is the next datagram, "" when none comes.
func (s *supervisor) next(within time.Duration) string {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := s.conn.Read(buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// hear waits for a datagram with a line that begins so.
func (s *supervisor) hear(line string) string {
	s.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		got := s.next(time.Until(deadline))
		for l := range strings.Lines(got) {
			if strings.HasPrefix(l, line) {
				return got
			}
		}
	}
	s.t.Fatalf("the supervisor does not hear %s", line)
	return ""
}

// TestSupervised: what systemd is told of a worker and of a coordinator.
func TestSupervised(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 1, Slots: 1})
	s, path := newSupervisor(t)
	f.SetEnv("NOTIFY_SOCKET="+path, "WATCHDOG_USEC=400000")
	first := f.Process("w1")
	f.StartWorker("w1") // the name is taken: it is not ready
	second := f.Process("w1")
	f.Await("the second w1 waits", time.Minute, func() bool { return strings.Contains(second.Stderr(), "worker name is taken") })
	if got := s.next(500 * time.Millisecond); got != "" {
		t.Errorf("before it is ready it says %q", got)
	}
	if err := first.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	first.Wait(t, time.Minute)
	if got := s.hear("READY=1"); !strings.Contains(got, "STATUS=worker w1 works, incarnation ") {
		t.Errorf("%q", got)
	}
	f.AwaitReady("w1")
	s.hear("WATCHDOG=1")
	s.hear("WATCHDOG=1")
	// Its etcd is away: it lives, it is not ready.
	f.Signal("c1", syscall.SIGSTOP)
	s.hear("WATCHDOG=1")
	s.hear("WATCHDOG=1")
	f.Signal("c1", syscall.SIGCONT)
	// It hangs: nothing comes.
	f.Signal("w1", syscall.SIGSTOP)
	for s.next(time.Second) != "" { // what was on its way
	}
	if got := s.next(time.Second); got != "" {
		t.Errorf("a process that hangs says %q", got)
	}
	f.Signal("w1", syscall.SIGCONT)
	s.hear("WATCHDOG=1")
	f.Terminate("w1")
	s.hear("STOPPING=1")

	s, path = newSupervisor(t)
	f.SetEnv("NOTIFY_SOCKET="+path, "WATCHDOG_USEC=400000")
	f.Terminate("c1")
	f.RestartCoordinator()
	s.hear("READY=1")
	s.hear("STATUS=coordinator c1 leads")
	s.hear("WATCHDOG=1")
	f.Terminate("c1")
	s.hear("STOPPING=1")
}
