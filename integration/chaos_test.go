package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"strait/coordinator/schedule"
	"strait/integration/harness"
	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan/state"
)

const (
	chaosRows = 40_000
	tree      = "/strait/v1/"
)

// chaos is a fleet with one job whose output is known.
type chaos struct {
	*harness.Fleet
	t        *testing.T
	out, tmp string
	held     string // file of the failpoint with action hold
	rows     int
}

var quick = []string{"--ttl", "2s", "--call-limit", "2s"}

func startChaos(t *testing.T, opt harness.Options) *chaos {
	t.Helper()
	if opt.Worker == nil {
		opt.Worker = quick
	}
	opt.Coordinator = append(opt.Coordinator, "--ttl", "2s")
	held := filepath.Join(t.TempDir(), "held")
	for i, e := range opt.Env {
		opt.Env[i] = strings.ReplaceAll(e, "HELD", held)
	}
	f := harness.Start(t, opt)
	return &chaos{Fleet: f, t: t, held: held, rows: chaosRows, out: filepath.Join(f.Dir, "out"), tmp: filepath.Join(f.Dir, "tmp")}
}

// text is a job that reads unique ids at parallelism 2 and, over an exchange, writes them at parallelism 3.
func (c *chaos) text() string {
	c.t.Helper()
	in := filepath.Join(c.Dir, "in")
	if err := os.MkdirAll(in, 0o700); err != nil {
		c.t.Fatal(err)
	}
	const files = 4
	for n := range files {
		var b strings.Builder
		for id := n*c.rows/files + 1; id <= (n+1)*c.rows/files; id++ {
			fmt.Fprintf(&b, "%d,name-%d\n", id, id%977)
		}
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("part-%d.csv", n)), []byte(b.String()), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return fmt.Sprintf(`
env { job.mode = "BATCH", job.retry.times = 3, job.retry.interval.seconds = 1 }
source { LocalFile { parallelism = 2, path = %q, file_format_type = "csv", field_delimiter = ","
  schema { fields { id = bigint, name = string } } } }
sink { LocalFile { parallelism = 3, path = %q, tmp_path = %q, file_format_type = "parquet", batch_size = 5000 } }
`, in, c.out, c.tmp)
}

// submit submits the job as "chaos".
func (c *chaos) submit() {
	c.t.Helper()
	c.submitAs("chaos")
}

func (c *chaos) submitAs(id string) {
	c.t.Helper()
	if r := c.Stctl("job", "submit", "--detach", "--id", id, writeJob(c.t, c.Dir, c.text())); r.Code != 0 {
		c.t.Fatalf("submit: exit %d\n%s", r.Code, r.Stderr)
	}
}

// reached waits until a process stands at the failpoint with action hold.
func (c *chaos) reached() {
	c.t.Helper()
	c.Await("the failpoint is reached", limit, func() bool { _, err := os.Stat(c.held); return err == nil })
}

// free lets the process at the failpoint go on.
func (c *chaos) free() {
	c.t.Helper()
	if err := os.WriteFile(c.held, []byte("go on"), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chaos) status(job string) *record.JobStatus {
	c.t.Helper()
	key := tree + "jobstatus/" + job
	v, ok := c.Keys(key)[key]
	if !ok {
		return &record.JobStatus{}
	}
	s, err := record.Decode[record.JobStatus]([]byte(v))
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (c *chaos) word(job string) *record.Word {
	c.t.Helper()
	key := tree + "pipelines/" + job + "/1"
	v, ok := c.Keys(key)[key]
	if !ok {
		return &record.Word{}
	}
	w, err := record.Decode[record.Word]([]byte(v))
	if err != nil {
		c.t.Fatal(err)
	}
	return w
}

// ends waits until a job has ended.
func (c *chaos) ends(job string) *record.JobStatus {
	c.t.Helper()
	var s *record.JobStatus
	c.Await("job "+job+" ends", limit, func() bool { s = c.status(job); return s.Phase.Terminal() })
	return s
}

// whole: the job finished, its output has every row once, and nothing else is left of it anywhere.
func (c *chaos) whole() *record.JobStatus {
	c.t.Helper()
	return c.wholeJob("chaos")
}

func (c *chaos) wholeJob(id string) *record.JobStatus {
	c.t.Helper()
	s := c.ends(id)
	if s.Phase != state.JobFinished {
		c.t.Fatalf("the job is %s: %s\n%s", s.Phase, s.Message, c.Logs())
	}
	wantIDs(c.t, orderIDs(c.t, c.out), 1, int64(c.rows))
	left := leftovers(c.t, c.tmp)
	for _, path := range leftovers(c.t, c.out) {
		if !strings.HasSuffix(path, ".parquet") || strings.HasPrefix(filepath.Base(path), ".") {
			left = append(left, path)
		}
	}
	if len(left) > 0 {
		c.t.Errorf("files of attempts that did not commit are left: %v", left)
	}
	c.clean()
	return s
}

// clean: no key of a worker, a slot or a checkpoint under way is left once all jobs have ended.
func (c *chaos) clean() {
	c.t.Helper()
	for _, kind := range []string{"tasks/", "slots/", "taskstatus/", "acks/"} {
		c.Await("no key is left below "+kind, limit, func() bool { return len(c.Keys(tree+kind)) == 0 })
	}
}

// first: the job ran in one attempt.
func (c *chaos) first() {
	c.t.Helper()
	if w := c.word("chaos"); w.Attempt != 1 {
		c.t.Errorf("the job took %d attempts, want 1: %s\n%s", w.Attempt, w.Message, c.Logs())
	}
}

func (c *chaos) incarnation(worker string) int64 {
	c.t.Helper()
	e, err := c.Store().Get(c.t.Context(), tree+"workers/"+worker)
	if err != nil {
		c.t.Fatal(err)
	}
	return e.CreateRev
}

// workerPoints are the failpoints that a job with a two-phase sink passes on its workers.
var workerPoints = []string{"worker.build", "task.start", "task.prepare", "task.prepared", "worker.ack", "worker.acked", "task.commit", "worker.mark"}

// TestScenario06CoordinatorKilled kills the coordinator while a worker stands at each of its failpoints, and starts it again
// before or after the workers went on: Invariant 9, no task restarts.
func TestScenario06CoordinatorKilled(t *testing.T) {
	for _, point := range workerPoints {
		t.Run("without etcd/"+point, func(t *testing.T) {
			// A lease is longer than a coordinator needs to start under the race detector.
			c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Worker: []string{"--ttl", "10s", "--call-limit", "2s"},
				Env: []string{"STRAIT_FAILPOINTS=" + point + "=hold/HELD"}})
			c.submit()
			c.reached()
			c.Kill("c1")
			c.RestartCoordinator()
			c.free()
			c.whole()
			c.first()
		})
		t.Run("with etcd/"+point, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Etcd: kvtest.New(t).Server.Endpoints()[0],
				Worker: []string{"--ttl", "10s", "--call-limit", "2s"}, Env: []string{"STRAIT_FAILPOINTS=" + point + "=hold/HELD"}})
			c.submit()
			c.reached()
			before := c.revision("chaos")
			c.Kill("c1")
			c.free()
			// What the workers do without a leader: READY, acks, marks.
			c.settles(point, before)
			c.RestartCoordinator()
			c.whole()
			c.first()
		})
	}
}

// revision is the newest revision that workers wrote of a job.
func (c *chaos) revision(job string) int64 {
	c.t.Helper()
	rev := int64(0)
	for _, prefix := range []string{"taskstatus/", "acks/" + job + "/"} {
		es, _, err := c.Store().List(c.t.Context(), tree+prefix, 0)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, e := range es {
			rev = max(rev, e.ModRev)
		}
	}
	return rev
}

// settles waits until the workers have written what they write behind a failpoint.
func (c *chaos) settles(point string, before int64) {
	c.t.Helper()
	switch point {
	case "worker.build", "worker.ack", "worker.mark", "task.prepare", "task.prepared", "task.commit", "task.start":
		c.Await("the workers go on without a leader", limit, func() bool { return c.revision("chaos") > before })
	}
}

// TestScenario06CoordinatorKilledWhileRowsFlow: data flows on, and the job ends, over two deaths of the coordinator.
func TestScenario06CoordinatorKilledWhileRowsFlow(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Worker: []string{"--ttl", "10s", "--call-limit", "2s"}})
	job, out, tmp := killJob(t, c.Fleet)
	if r := c.Stctl("job", "submit", "--detach", "--id", "kill", job); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	c.Await("the job runs", limit, func() bool { return c.status("kill").Phase == state.JobRunning })
	for range 2 {
		c.Kill("c1")
		c.RestartCoordinator()
	}
	if s := c.ends("kill"); s.Phase != state.JobFinished {
		t.Fatalf("the job is %s: %s\n%s", s.Phase, s.Message, c.Logs())
	}
	wantIDs(t, orderIDs(t, out), 1, killRows)
	if left := leftovers(t, tmp); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if w := c.word("kill"); w.Attempt != 1 {
		t.Errorf("%d attempts: %s\n%s", w.Attempt, w.Message, c.Logs())
	}
	c.clean()
}

// TestWorkerFailpoints lets one worker die, fail or panic once at every failpoint: the job finishes all the same.
func TestWorkerFailpoints(t *testing.T) {
	for _, action := range []string{"kill", "error", "panic"} {
		for _, point := range workerPoints {
			t.Run(action+"/"+point, func(t *testing.T) {
				t.Parallel()
				c := startChaos(t, harness.Options{Workers: 3, Slots: 2, Panics: action == "panic",
					Env: []string{"STRAIT_FAILPOINTS=" + point + "=" + action + "/HELD"}})
				c.submit()
				c.whole()
				if _, err := os.Stat(c.held); err != nil {
					t.Errorf("the failpoint was not reached: %v", err)
				}
				for _, w := range c.Members {
					if c.Process(w).Exited() && action != "kill" {
						t.Errorf("%s of one job ended worker %s:\n%s", action, w, c.Process(w).Stderr())
					}
				}
			})
		}
	}
}

// TestWorkerFailsForGood: a worker that fails every time fails the job with the cause, and the job leaves nothing.
func TestWorkerFailsForGood(t *testing.T) {
	for _, point := range []string{"worker.build", "task.start", "task.prepare", "worker.ack"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Env: []string{"STRAIT_FAILPOINTS=" + point + "=error"}})
			path := writeJob(t, c.Dir, strings.Replace(c.text(), "job.retry.times = 3", "job.retry.times = 1", 1))
			if r := c.Stctl("job", "submit", "--detach", "--id", "chaos", path); r.Code != 0 {
				t.Fatal(r.Stderr)
			}
			s := c.ends("chaos")
			if s.Phase != state.JobFailed || !strings.Contains(s.Message, "failpoint "+point) || !strings.Contains(s.Message, "job.retry.times allows") {
				t.Errorf("the job is %s: %q", s.Phase, s.Message)
			}
			if ids, left := orderIDs(t, c.out), leftovers(t, c.tmp); len(ids) > 0 || len(left) > 0 {
				t.Errorf("a failed job shows %d rows and leaves %v", len(ids), left)
			}
			c.clean()
		})
	}
}

// TestWorkerStopped stops a worker that writes (SIGSTOP) until a replacement has finished its job, then lets it go
// on: it comes back as a new incarnation and changes nothing.
func TestWorkerStopped(t *testing.T) {
	for _, point := range []string{"rows", "task.prepare", "task.prepared", "worker.ack"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, harness.Options{Workers: 2, Slots: 2})
			// Only the victim has the failpoint: it is stopped there and goes on from there.
			c.SetEnv("STRAIT_FAILPOINTS=" + point + "=hold/" + c.held)
			c.StartWorker("w3", "--slots", "2")
			c.AwaitReady("w3")
			c.Terminate("w1")
			old := c.incarnation("w3")
			if point == "rows" {
				c.rows = 1_000_000
			}
			c.submit()
			if point == "rows" {
				c.Await("rows are written", limit, func() bool { return len(leftovers(t, c.tmp)) > 0 })
			} else {
				c.reached()
			}
			c.Signal("w3", syscall.SIGSTOP)
			if point != "rows" {
				c.free()
			}
			c.SetEnv()
			c.StartWorker("w4")
			c.Await("the stopped worker is given up", limit, func() bool { return c.incarnation("w3") == 0 })
			c.whole()
			if w := c.word("chaos"); w.Attempt == 1 {
				t.Error("the job did not need a replacement")
			}
			c.Signal("w3", syscall.SIGCONT)
			c.Await("the stopped worker comes back", limit, func() bool { n := c.incarnation("w3"); return n != 0 && n != old })
			c.whole()
			if c.Process("w3").Exited() {
				t.Errorf("the stopped worker ended:\n%s", c.Process("w3").Stderr())
			}
		})
	}
}

// TestScenario03WorkerLosesEtcd: a worker that cannot reach etcd goes on when that ends in time, and else comes back as a new
// incarnation.
func TestScenario03WorkerLosesEtcd(t *testing.T) {
	start := func(t *testing.T, ttl string) (*chaos, *kvtest.Proxy) {
		c := startChaos(t, harness.Options{Workers: 1, Slots: 2, Worker: []string{"--ttl", ttl, "--call-limit", "2s"}})
		c.SetEnv("STRAIT_FAILPOINTS=task.prepare=hold/" + c.held)
		p := kvtest.NewProxy(t, c.Etcd)
		c.StartWorkerAt(p.Addr(), "w2")
		c.AwaitReady("w2")
		return c, p
	}
	for name, cut := range map[string]func(*kvtest.Proxy){"silence": (*kvtest.Proxy).Blackhole, "reset": (*kvtest.Proxy).Cut} {
		t.Run("in time/"+name, func(t *testing.T) {
			t.Parallel()
			c, p := start(t, "10s")
			old := c.incarnation("w2")
			c.submit()
			c.reached()
			cut(p)
			c.free()
			time.Sleep(3 * time.Second) // the outage itself: shorter than TTL - margin
			p.Heal()
			c.whole()
			c.first()
			if now := c.incarnation("w2"); now != old {
				t.Errorf("incarnation %d became %d", old, now)
			}
		})
		t.Run("too long/"+name, func(t *testing.T) {
			t.Parallel()
			c, p := start(t, "2s")
			old := c.incarnation("w2")
			c.submit()
			c.reached()
			cut(p)
			c.free()
			c.Await("its lease ends", limit, func() bool { return c.incarnation("w2") == 0 })
			p.Heal()
			c.Await("it comes back", limit, func() bool { n := c.incarnation("w2"); return n != 0 && n != old })
			c.whole()
			if w := c.word("chaos"); w.Attempt == 1 {
				t.Error("the job went on in an attempt that lost a worker")
			}
		})
	}
}

// freePort is a port of loopback that nobody listened on just now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestScenario04WorkersLosePeers: a link that breaks or falls silent fails the attempt, with the link named, and the job
// finishes when it is whole again.
func TestScenario04WorkersLosePeers(t *testing.T) {
	for name, cut := range map[string]func(*kvtest.Proxy){"silence": (*kvtest.Proxy).Blackhole, "reset": (*kvtest.Proxy).Cut} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, harness.Options{})
			c.SetEnv("STRAIT_FAILPOINTS=task.read=hold/" + c.held) // nothing of this source is on the link yet
			var proxies []*kvtest.Proxy                            // whoever dials whom
			for _, w := range []string{"w1", "w2"} {
				data := freePort(t)
				p := kvtest.NewProxy(t, data)
				proxies = append(proxies, p)
				c.StartWorker(w, "--slots", "2", "--data-listen", data, "--data-address", p.Addr())
				c.AwaitReady(w)
			}
			c.submit()
			c.reached()
			for _, p := range proxies {
				cut(p)
			}
			c.free()
			c.Await("the attempt fails", limit, func() bool { return c.word("chaos").Attempt > 1 })
			w := c.word("chaos")
			if !strings.Contains(w.Message, "link to worker w") || !w.FreeRestart || w.RestartsUsed > 0 {
				t.Errorf("the link is not named, or its failure counts: %d restarts used: %q", w.RestartsUsed, w.Message)
			}
			for _, p := range proxies {
				p.Heal()
			}
			c.whole()
		})
	}
}

// TestFailingSinks: a fatal failure ends a job in its attempt, a retryable one after its restarts, with the last
// cause; what else runs on the workers is not disturbed.
func TestFailingSinks(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 2, Slots: 4})
	put := func(id, text string) {
		t.Helper()
		path := filepath.Join(c.Dir, id+".conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := c.Stctl("job", "submit", "--detach", "--id", id, path); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
	}
	put("endless", endless)
	c.Await("the other job runs", limit, func() bool { return c.status("endless").Phase == state.JobRunning })
	put("fatal", mustRead(t, filepath.Join(harness.Root(t), "integration/jobs/assert_fails.conf")))
	const failing = `
env { job.mode = "BATCH", job.retry.times = 2, job.retry.interval.seconds = 1 }
source { FakeSource { row.num = 10, schema { fields { id = bigint } } } }
sink { InMemory { %s } }
`
	put("prepare", fmt.Sprintf(failing, "throw_exception = true"))
	put("write", fmt.Sprintf(failing, `throw_runtime_exception_list = ["first", "second", "third", "fourth"]`))
	c.submit()

	s := c.ends("fatal")
	if w := c.word("fatal"); s.Phase != state.JobFailed || w.Attempt > 2 || w.RestartsUsed > 0 || !strings.Contains(s.Message, "NOT_NULL") {
		t.Errorf("fatal: %s in attempt %d with %d restarts: %s", s.Phase, w.Attempt, w.RestartsUsed, s.Message)
	}
	for id, cause := range map[string]string{"prepare": "throw_exception is set", "write": "third"} {
		s := c.ends(id)
		if s.Phase != state.JobFailed || !strings.Contains(s.Message, cause) || !strings.Contains(s.Message, "job.retry.times allows") || len(s.Failures) != 3 {
			t.Errorf("%s: %s with %d failures: %s", id, s.Phase, len(s.Failures), s.Message)
		}
	}
	if s := c.ends("chaos"); s.Phase != state.JobFinished {
		t.Errorf("the job beside them is %s: %s", s.Phase, s.Message)
	}
	wantIDs(t, orderIDs(t, c.out), 1, chaosRows)
	c.first()
	if s, w := c.status("endless"), c.word("endless"); s.Phase != state.JobRunning || w.Attempt != 1 {
		t.Errorf("the job that ran all the time is %s in attempt %d: %s", s.Phase, w.Attempt, s.Message)
	}
	if r := c.Stctl("job", "cancel", "endless"); r.Code != 0 {
		t.Errorf("cancel: exit %d: %s", r.Code, r.Stderr)
	}
	c.clean()
}

// putSpec puts jobs/<id> as a tool that knows only etcd does.
func (c *chaos) putSpec(id, text string) {
	c.t.Helper()
	v := record.MustEncode(&record.Spec{Header: record.Head, Text: text, Folder: c.Dir, Submitted: time.Now().UTC()})
	kvtest.Put(c.t, c.Store(), tree+"jobs/"+id, string(v))
}

// TestScenario32ManyJobsAtOnce submits a hundred jobs to four slots that another job has: each says why it waits and at
// which place. Then all finish, and at no revision of etcd is a slot granted that is not there, or one that another job has.
func TestScenario32ManyJobsAtOnce(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 2, Slots: 2})
	prefix := tree + "slots/"
	_, rev, err := c.Store().List(t.Context(), prefix, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var faults []string
	grants, seen := 0, make(chan struct{})
	w := c.Store().Watch(ctx, prefix, kv.PrefixEnd(prefix), rev+1)
	go func() {
		defer close(seen)
		held := map[string]*record.Grant{}
		for {
			changes, _, err := w.Next()
			if err != nil {
				if ctx.Err() == nil {
					faults = append(faults, err.Error())
				}
				return
			}
			for i, ch := range changes {
				key := strings.TrimPrefix(ch.Entry.Key, prefix)
				if ch.Deleted {
					delete(held, key)
				} else {
					g, err := record.Decode[record.Grant](ch.Entry.Value)
					if err != nil {
						faults = append(faults, err.Error())
						continue
					}
					if old := held[key]; old != nil && old.Job != g.Job {
						faults = append(faults, fmt.Sprintf("revision %d: slot %s of job %s is given to %s", ch.Entry.ModRev, key, old.Job, g.Job))
					}
					held[key] = g
					grants++
				}
				if i+1 < len(changes) && changes[i+1].Entry.ModRev == ch.Entry.ModRev {
					continue
				}
				for key := range held {
					if worker, n, _ := strings.Cut(key, "/"); !slices.Contains(c.Members, worker) || n != "0000" && n != "0001" {
						faults = append(faults, fmt.Sprintf("revision %d: slot %s is granted and is not there", ch.Entry.ModRev, key))
					}
				}
			}
		}
	}()
	c.putSpec("first", strings.Replace(endless, "parallelism = 1", "parallelism = 4", 1))
	c.runs("first")
	const jobs = 100
	id := func(i int) string { return fmt.Sprintf("many-%03d", i) }
	for i := range jobs {
		c.putSpec(id(i), fmt.Sprintf(`
env { job.mode = "BATCH", parallelism = %d }
source { FakeSource { row.num = 10, schema { fields { id = bigint } } } }
sink { LocalFile { path = "out/%s", tmp_path = "tmp", file_format_type = "parquet" } }
`, 1+i%3, id(i)))
	}
	for i := range jobs { // the oldest is the first in the queue
		why := fmt.Sprintf("needs %d slot", 1+i%3)
		place := fmt.Sprintf("; place %d of %d in the queue", i+1, jobs)
		c.Await(id(i)+" says why it waits", limit, func() bool {
			s := c.status(id(i))
			return s.Phase == state.JobPending && s.Reason == schedule.SlotsShort && strings.Contains(s.Message, why) &&
				strings.Contains(s.Message, "held by first (4)") && strings.Contains(s.Message, place)
		})
	}
	kvtest.Put(t, c.Store(), tree+"wishes/first", "cancelled")
	for i := range jobs {
		if s := c.ends(id(i)); s.Phase != state.JobFinished {
			t.Fatalf("%s is %s: %s", id(i), s.Phase, s.Message)
		}
		if n := len(orderIDs(t, filepath.Join(c.Dir, "out", id(i)))); n != 10*(1+i%3) {
			t.Errorf("%s wrote %d rows, want %d", id(i), n, 10*(1+i%3))
		}
	}
	c.clean()
	cancel()
	w.Close()
	<-seen
	if len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
	if grants < jobs {
		t.Errorf("%d grants were seen for %d jobs", grants, jobs)
	}
	if left := leftovers(t, filepath.Join(c.Dir, "tmp")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestWorkerTerminated ends a worker as systemd does: it leaves at once and what it ran restarts elsewhere without
// waiting for its lease, which is longer than the test.
func TestWorkerTerminated(t *testing.T) {
	for _, point := range []string{"task.start", "task.prepare", "worker.ack", "task.commit"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Worker: []string{"--ttl", "10m", "--call-limit", "1m"}})
			c.SetEnv("STRAIT_FAILPOINTS=" + point + "=hold/" + c.held)
			c.StartWorker("w3")
			c.AwaitReady("w3")
			c.Terminate("w1")
			c.submit()
			c.reached()
			c.Signal("w3", syscall.SIGTERM)
			c.free()
			c.SetEnv()
			c.StartWorker("w4")
			if r := c.Process("w3").Wait(t, limit); r.Code != 0 {
				t.Errorf("exit %d\n%s", r.Code, r.Stderr)
			}
			if n := c.incarnation("w3"); n != 0 {
				t.Errorf("the key of the worker is left behind: %d", n)
			}
			c.whole()
		})
	}
}

// TestHands: what people and other tools do to the keys.
func TestHands(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 2, Slots: 3, Hands: true})
	store := c.Store()
	put := func(key, value string) { t.Helper(); kvtest.Put(t, store, tree+key, value) }
	runs := func(job string) {
		t.Helper()
		c.Await(job+" runs", limit, func() bool { return c.status(job).Phase == state.JobRunning })
	}
	c.putSpec("steady", endless)
	runs("steady")

	t.Run("spec deleted", func(t *testing.T) {
		c.putSpec("gone", endless)
		runs("gone")
		kvtest.Delete(t, store, tree+"jobs/gone")
		if s := c.ends("gone"); s.Phase != state.JobCancelled || !strings.Contains(s.Message, "deleted") {
			t.Errorf("%s: %s", s.Phase, s.Message)
		}
	})
	t.Run("leader key deleted", func(t *testing.T) {
		key, old := c.leader()
		kvtest.Delete(t, store, key)
		c.Await("there is a leader again", limit, func() bool { _, now := c.leader(); return now > old })
		c.putSpec("after", endless)
		runs("after")
		kvtest.Delete(t, store, tree+"jobs/after")
		c.ends("after")
	})
	t.Run("garbage", func(t *testing.T) {
		put("wishes/steady", "{\xff\x00")
		c.Await("a condition answers", limit, func() bool {
			return slices.ContainsFunc(c.status("steady").Conditions, func(x record.Condition) bool { return x.Type == "WishRefused" })
		})
		for key, value := range map[string]string{
			"wishes/nobody": "cancelled", "wishes/steady/deeper": "x", "jobs/BadName": "{}", "jobs/": "{}", "jobs/a/b/c": "{}",
			"taskstatus/stranger/steady/1": `{"apiVersion":"strait/v1","incarnation":7,"attempt":1,"state":"FAILED","failure":{"message":"not me"}}`,
			"taskstatus/stranger/nojob/1":  "null", "taskstatus/w1/steady/99999999999999999999": "[]", "acks/steady/1/stranger": `{"attempt":1,"checkpoint":1}`,
			"acks/steady/1/w1": "\x00", "slots/w1/0002": "nonsense", "slots/nobody/0000": "{}", "workers/ghost": "nonsense", "workers/BAD NAME": "{}",
			"workerwishes/w1": "dance", "plans/nojob": "x", "plans/nojob/000000": "x", "pipelines/nojob/1": "x", "pipelines/nojob/x": "x",
			"tasks/w1/nojob/1": "x", "tasks/w1/steady/7": `{"apiVersion":"strait/v1"}`, "fenced/w1/x": "", "checkpoints/steady/1/000000000009": "x",
			"jobtexts/nojob/000000": "x", "history/nojob": "x", "unknown/key": "x", "meta/other": "x",
		} {
			put(key, value)
		}
		put("jobs/garbage", "this is no JSON")
		if s := c.ends("garbage"); s.Phase != state.JobFailed || s.Reason != "BadSpec" || s.Message == "" {
			t.Errorf("garbage: %s %s: %s", s.Phase, s.Reason, s.Message)
		}
		put("jobs/emptyspec", "{}")
		if s := c.ends("emptyspec"); s.Phase != state.JobFailed || s.Message == "" {
			t.Errorf("emptyspec: %s %s: %s", s.Phase, s.Reason, s.Message)
		}
		put("jobs/version", `{"apiVersion":"strait/v9","text":"env {}"}`)
		c.Await("a newer spec is left alone, with a condition", limit, func() bool {
			s := c.status("version")
			return s != nil && s.Phase == state.JobSubmitted && slices.ContainsFunc(s.Conditions, func(x record.Condition) bool { return x.Type == "Unreadable" })
		})
		kvtest.Delete(t, store, tree+"jobs/version")
		c.ends("version")
		c.putSpec("behind", endless)
		runs("behind")
		kvtest.Delete(t, store, tree+"jobs/behind")
		c.ends("behind")
	})
	t.Run("worker key deleted", func(t *testing.T) {
		old := c.incarnation("w2")
		kvtest.Delete(t, store, tree+"workers/w2")
		c.Await("the worker comes back", limit, func() bool { n := c.incarnation("w2"); return n != 0 && n != old })
	})
	for name, p := range map[string]*harness.Process{"c1": c.Process("c1"), "w1": c.Process("w1"), "w2": c.Process("w2")} {
		if p.Exited() {
			t.Errorf("%s ended:\n%s", name, p.Stderr())
		}
	}
	if s := c.status("steady"); s.Phase.Terminal() {
		t.Errorf("steady is %s: %s", s.Phase, s.Message)
	}
	put("wishes/steady", "cancelled")
	if s := c.ends("steady"); s.Phase != state.JobCancelled {
		t.Errorf("steady: %s", s.Phase)
	}
}

// TestSameIDAgain: an id is used once.
func TestSameIDAgain(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 2, Slots: 2})
	c.submit()
	c.whole()
	before := c.Keys(tree + "jobs/")
	r := c.Stctl("job", "submit", "--id", "chaos", filepath.Join(c.Dir, "job.conf"))
	if r.Code != 1 || !strings.Contains(r.Stderr, "chaos") || strings.Contains(r.Stderr, "conflict") {
		t.Errorf("exit %d: %s", r.Code, r.Stderr)
	}
	t.Log(r.Stderr)
	if after := c.Keys(tree + "jobs/"); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the spec was changed: %v", after)
	}
	c.whole()
}

// TestScenario07CoordinatorStopped stops the leader (SIGSTOP) for longer than its lease: a second one leads, the first one
// steps down when it goes on, and both leave the job alone.
func TestScenario07CoordinatorStopped(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Etcd: kvtest.New(t).Server.Endpoints()[0],
		Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}})
	c.StartStandby("c2")
	c.AwaitReady("c2")
	c.submit()
	c.reached()
	_, first := c.leader()
	c.Signal("c1", syscall.SIGSTOP)
	c.Await("the second coordinator leads", limit, func() bool { _, now := c.leader(); return now != first && now != 0 })
	c.free()
	c.Signal("c1", syscall.SIGCONT)
	c.whole()
	c.first()
	c.Kill("c2")
	c.putSpec("after", endless)
	c.Await("the first one leads again", limit, func() bool { return c.status("after").Phase == state.JobRunning })
	if c.Process("c1").Exited() {
		t.Errorf("the first coordinator ended:\n%s", c.Process("c1").Stderr())
	}
}

// leader is the key of the leader with its create revision; 0: there is none.
func (c *chaos) leader() (key string, rev int64) {
	c.t.Helper()
	es, _, err := c.Store().List(c.t.Context(), tree+"leader/", 0)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range es {
		if rev == 0 || e.CreateRev < rev {
			key, rev = e.Key, e.CreateRev
		}
	}
	return key, rev
}

// TestScenario10EtcdAwayForLong: with etcd gone for longer than the leases, sinks wait; when it is back, leases are extended
// and the tasks go on in place.
func TestScenario10EtcdAwayForLong(t *testing.T) {
	for _, point := range []string{"task.start", "task.prepare", "task.commit"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Env: []string{"STRAIT_FAILPOINTS=" + point + "=hold/HELD"}})
			c.submit()
			c.reached()
			c.Kill("c1")
			c.free()
			time.Sleep(5 * time.Second) // the outage itself: longer than the lease
			c.RestartCoordinator()
			c.whole()
		})
	}
}

// TestPowerLoss kills everything at once and starts it again.
func TestPowerLoss(t *testing.T) {
	for _, point := range workerPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Env: []string{"STRAIT_FAILPOINTS=" + point + "=hold/HELD"}})
			c.submit()
			c.reached()
			for _, name := range []string{"w1", "c1", "w2"} {
				c.Kill(name)
			}
			c.SetEnv()
			c.RestartCoordinator()
			for _, name := range []string{"w1", "w2"} {
				c.StartWorker(name)
			}
			c.whole()
		})
	}
}

// TestAllWorkersStopped: a fleet that vanishes at once comes back and goes on.
func TestAllWorkersStopped(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 3, Slots: 1, Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}})
	c.submit()
	c.reached()
	for _, w := range c.Members {
		c.Signal(w, syscall.SIGSTOP)
	}
	c.Await("all are given up", limit, func() bool { return len(c.Keys(tree+"workers/")) == 0 })
	c.free()
	for _, w := range c.Members {
		c.Signal(w, syscall.SIGCONT)
	}
	c.whole()
}

// TestNameTaken: a second process of a worker's name waits until the first is gone.
func TestNameTaken(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}})
	c.submit()
	c.reached()
	old, first := c.incarnation("w1"), c.Process("w1")
	c.StartWorker("w1")
	c.Await("the second one waits", limit, func() bool { return strings.Contains(c.Process("w1").Stderr(), "is taken") })
	if err := first.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.free()
	c.Await("the second one registers", limit, func() bool { n := c.incarnation("w1"); return n != 0 && n != old })
	c.whole()
}

// TestScenario28CancelWithoutLeader: what is wished while nobody leads is done by the next leader.
func TestScenario28CancelWithoutLeader(t *testing.T) {
	for _, point := range []string{"worker.build", "task.start", "task.prepare", "worker.acked", "task.commit"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Etcd: kvtest.New(t).Server.Endpoints()[0],
				Env: []string{"STRAIT_FAILPOINTS=" + point + "=hold/HELD"}})
			c.submit()
			c.reached()
			c.Kill("c1")
			kvtest.Put(t, c.Store(), tree+"wishes/chaos", "cancelled")
			c.putSpec("second", endless)
			c.free()
			c.RestartCoordinator()
			s := c.ends("chaos")
			switch ids := orderIDs(t, c.out); {
			case s.Phase == state.JobFinished && (point == "task.commit" || point == "worker.acked"): // the commit point came first
				wantIDs(t, ids, 1, chaosRows)
			case s.Phase != state.JobCancelled || len(ids) > 0:
				t.Errorf("%s with %d rows: %s", s.Phase, len(ids), s.Message)
			}
			if left := leftovers(t, c.tmp); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			c.Await("the other job runs", limit, func() bool { return c.status("second").Phase == state.JobRunning })
			kvtest.Put(t, c.Store(), tree+"wishes/second", "cancelled")
			c.ends("second")
			c.clean()
		})
	}
}

// TestDamagedKeys deletes and spoils each key of a running job: it goes on, or fails and says why, or can be
// cancelled; nothing of it is left, and the fleet takes the next job.
func TestDamagedKeys(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 1, Slots: 2, Hands: true})
	n := 0
	for _, kind := range []string{"jobstatus/ID", "plans/ID", "plans/ID/000000", "pipelines/ID/1", "placements/ID/1", "tasks/w1/ID/1", "taskstatus/w1/ID/1", "slots/w1/0000"} {
		for how, value := range map[string]string{"deleted": "", "garbage": "nonsense", "empty": "{}", "newer": `{"apiVersion":"strait/v9"}`} {
			t.Run(how+"/"+kind, func(t *testing.T) {
				n++
				id := fmt.Sprintf("damaged-%d", n)
				key := tree + strings.ReplaceAll(kind, "ID", id)
				c.putSpec(id, endless)
				c.Await("the job runs", limit, func() bool { return c.status(id).Phase == state.JobRunning && c.Keys(key)[key] != "" })
				if how == "deleted" {
					kvtest.Delete(t, c.Store(), key)
				} else {
					kvtest.Put(t, c.Store(), key, value)
				}
				kvtest.Put(t, c.Store(), tree+"wishes/"+id, "cancelled")
				ended := func() bool {
					v := c.Keys(tree + "jobstatus/" + id)[tree+"jobstatus/"+id]
					s, err := record.Decode[record.JobStatus]([]byte(v))
					return err == nil && s.Phase.Terminal()
				}
				leaders := strings.HasPrefix(kind, "placements") || strings.HasPrefix(kind, "tasks/") || kind == "plans/ID"
				if how != "deleted" && (strings.HasPrefix(kind, "jobstatus") || strings.HasPrefix(kind, "pipelines")) || how == "newer" && leaders {
					// The leader touches nothing until somebody corrects or deletes the key, and says so, also to who asks.
					c.Await("the coordinator says so", limit, func() bool {
						log := c.Process("c1").Stderr()
						return ended() || strings.Contains(log, id+": its status") || strings.Contains(log, id+": nothing is done about it") || strings.Contains(log, id+": status has phase")
					})
					if r := c.Stctl("job", "describe", id); !ended() && (r.Code != 0 || !strings.Contains(r.Stdout, "cannot be read") && !strings.Contains(r.Stdout, "nothing is done about it") && value != "{}") {
						t.Errorf("describe does not say so: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
					}
					if !ended() {
						kvtest.Delete(t, c.Store(), key)
					}
				}
				c.Await("the job ends", limit, ended)
				if how != "deleted" && strings.HasPrefix(kind, "slots") && c.Keys(key)[key] == value {
					// Nobody knows whose it is: the slot is not given away before somebody looks.
					c.Await("the coordinator says that the slot is taken", limit, func() bool {
						return strings.Contains(c.Process("c1").Stderr(), "counts as taken until the key is deleted") || c.Keys(key)[key] != value || value == "{}"
					})
					kvtest.Delete(t, c.Store(), key)
				}
				c.clean()
			})
		}
	}
	if c.Process("c1").Exited() || c.Process("w1").Exited() {
		t.Error("a process ended")
	}
}
