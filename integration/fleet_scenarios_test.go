package integration

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"strait/integration/harness"
	"strait/kv/embed"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan/state"
)

// submitText submits a job text under an id.
func (c *chaos) submitText(id, text string) {
	c.t.Helper()
	path := filepath.Join(c.Dir, id+".conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if r := c.Stctl("job", "submit", "--detach", "--id", id, path); r.Code != 0 {
		c.t.Fatalf("submit %s: exit %d\n%s", id, r.Code, r.Stderr)
	}
}

func (c *chaos) runs(id string) {
	c.t.Helper()
	c.Await(id+" runs", limit, func() bool { return c.status(id).Phase == state.JobRunning })
}

// placement is where a job's only pipeline runs.
func (c *chaos) placement(id string) *record.Placement {
	c.t.Helper()
	key := tree + "placements/" + id + "/1"
	p, err := record.Decode[record.Placement]([]byte(c.Keys(key)[key]))
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// TestScenario05OneWay cuts one direction between a worker and etcd. Without answers the proof of its lease counts from
// when it asked, so what is answered late adds nothing: the sink waits, and the rows are there once.
func TestScenario05OneWay(t *testing.T) {
	for name, d := range map[string]kvtest.Direction{"to etcd": kvtest.ToServer, "from etcd": kvtest.ToClient} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, harness.Options{Workers: 1, Slots: 2})
			c.SetEnv("STRAIT_FAILPOINTS=task.prepare=hold/" + c.held)
			p := kvtest.NewProxy(t, c.Etcd)
			c.StartWorkerAt(p.Addr(), "w2", "--slots", "2")
			c.AwaitReady("w2")
			old := c.incarnation("w2")
			c.submit()
			c.reached()
			p.BlackholeOneWay(d)
			c.free()
			if d == kvtest.ToServer {
				c.Await("its lease ends", limit, func() bool { return c.incarnation("w2") == 0 })
			} else {
				time.Sleep(5 * time.Second) // the outage itself: longer than the lease, which etcd goes on renewing
			}
			p.Heal()
			c.whole()
			if w := c.word("chaos"); c.incarnation("w2") == old && w.Attempt != 1 {
				t.Errorf("the worker kept its session and the job took %d attempts: %s", w.Attempt, w.Message)
			}
		})
	}
}

// TestScenario08LeaderKeyDeleted deletes the key of the leader by hand while a job runs: it steps down, another one
// leads, no task restarts, and the one that was deposed leads again when it is its turn.
func TestScenario08LeaderKeyDeleted(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Etcd: kvtest.New(t).Server.Endpoints()[0], Worker: []string{"--ttl", "60s", "--call-limit", "2s"},
		Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}})
	c.StartStandby("c2")
	c.AwaitReady("c2")
	c.submit()
	c.reached()
	key, rev := c.leader()
	for range 3 {
		kvtest.Delete(t, c.Store(), key)
		c.Await("another one leads", limit, func() bool {
			k, now := c.leader()
			yes := now != 0 && now != rev
			if yes {
				key, rev = k, now
			}
			return yes
		})
	}
	c.free()
	c.whole()
	c.first()
	for _, name := range []string{"c1", "c2"} {
		if c.Process(name).Exited() {
			t.Errorf("%s ended:\n%s", name, c.Process(name).Stderr())
		}
	}
}

// TestScenario09EtcdLeaderDies ends the leader among three etcd members, and starts it again: sessions live on, no job
// restarts.
func TestScenario09EtcdLeaderDies(t *testing.T) {
	etcd := kvtest.NewCluster(t, 3)
	c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Etcd: strings.Join(etcd.Endpoints, ","), Coordinator: []string{"--ttl", "60s"},
		Worker: []string{"--ttl", "60s", "--call-limit", "2s"}, Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}})
	c.submit()
	c.reached()
	old := c.incarnation("w1")
	for range 2 {
		was := -1
		c.Await("a member leads", limit, func() bool { was = etcd.Leader(t); return was >= 0 })
		etcd.Members[was].Close()
		c.Await("another member leads", limit, func() bool { now := etcd.Leader(t); return now >= 0 && now != was })
		etcd.Restart(t, was)
	}
	c.free()
	c.whole()
	c.first()
	if now := c.incarnation("w1"); now != old {
		t.Errorf("incarnation %d became %d", old, now)
	}
}

// TestEtcdChild is no test: it is the etcd of TestEtcdRestarted, in a process of its own, until its input ends.
func TestEtcdChild(t *testing.T) {
	dir, listen := os.Getenv("STRAIT_TEST_ETCD_DIR"), os.Getenv("STRAIT_TEST_ETCD_LISTEN")
	if dir == "" {
		t.Skip("a child process of TestEtcdRestarted")
	}
	srv, err := embed.Start(t.Context(), embed.Config{DataDir: dir, ListenClient: listen})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	fmt.Println("etcd is ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestEtcdRestarted kills etcd, and nothing else, at each step of a job and starts it again on the same data.
func TestEtcdRestarted(t *testing.T) {
	for _, point := range workerPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir, listen := t.TempDir(), freePort(t)
			start := func() *exec.Cmd {
				t.Helper()
				cmd := exec.Command(os.Args[0], "-test.run=^TestEtcdChild$")
				cmd.Env = append(os.Environ(), "STRAIT_TEST_ETCD_DIR="+dir, "STRAIT_TEST_ETCD_LISTEN="+listen)
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				var out lockedText
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					_ = in.Close()
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
				})
				deadline := time.Now().Add(limit)
				for !strings.Contains(out.String(), "etcd is ready") {
					if time.Now().After(deadline) {
						t.Fatalf("etcd does not start:\n%s", out.String())
					}
					time.Sleep(5 * time.Millisecond)
				}
				return cmd
			}
			etcd := start()
			c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Etcd: listen, Worker: []string{"--ttl", "20s", "--call-limit", "2s"}, Coordinator: []string{"--ttl", "20s"},
				Env: []string{"STRAIT_FAILPOINTS=" + point + "=hold/HELD"}})
			c.submit()
			c.reached()
			if err := etcd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = etcd.Wait()
			start()
			c.free()
			c.whole()
			c.first()
		})
	}
}

// expireAll ends the leases of workers at once, as an etcd leader does that could not write for a while.
func (c *chaos) expireAll(workers ...string) {
	c.t.Helper()
	for _, w := range workers {
		e, err := c.Store().Get(c.t.Context(), tree+"workers/"+w)
		if err == nil {
			err = c.Store().Revoke(c.t.Context(), e.Lease)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestScenario11MassExpiry ends the leases of all workers at once: that looks like a sick store, so nothing is placed
// elsewhere until they are back, or twice the TTL is over.
func TestScenario11MassExpiry(t *testing.T) {
	t.Run("they come back", func(t *testing.T) {
		t.Parallel()
		c := startChaos(t, harness.Options{Workers: 4, Slots: 2, Worker: []string{"--ttl", "15s", "--call-limit", "2s"}, Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}})
		c.submit()
		c.reached()
		for _, w := range c.Members {
			c.Signal(w, syscall.SIGSTOP)
		}
		c.expireAll("w1", "w2", "w3")
		c.putSpec("later", strings.Replace(endless, "parallelism = 1", "parallelism = 1, job.name = later", 1))
		c.Await("placement pauses and says why", limit, func() bool {
			s := c.status("later")
			return s.Phase == state.JobPending && s.Reason == "FleetPaused" && strings.Contains(s.Message, "3 of 4 workers vanished at once")
		})
		if w := c.word("chaos"); w.Attempt > 2 {
			t.Errorf("the job took attempt after attempt: %d", w.Attempt)
		}
		for _, w := range c.Members {
			c.Signal(w, syscall.SIGCONT)
		}
		c.free()
		c.runs("later") // long before twice the TTL
		kvtest.Put(t, c.Store(), tree+"wishes/later", "cancelled")
		c.ends("later")
		c.whole()
	})
	t.Run("they stay away", func(t *testing.T) {
		t.Parallel()
		c := startChaos(t, harness.Options{Workers: 4, Slots: 5, Worker: []string{"--ttl", "2s", "--call-limit", "2s"}, Env: []string{"STRAIT_FAILPOINTS=task.read=hold/HELD"}})
		c.submit()
		c.reached()
		var gone []string
		for _, w := range []string{"w1", "w2", "w3"} {
			c.Kill(w)
			gone = append(gone, w)
		}
		c.free()
		c.Await("they are given up", limit, func() bool { return len(c.Keys(tree+"workers/")) == 1 })
		s := c.whole() // on the one that is left, once the pause is over
		for _, at := range c.placement("chaos").Chains {
			if slices.Contains(gone, at.Worker) {
				t.Errorf("%+v runs on a worker that is gone: %s", at, s.Message)
			}
		}
	})
}

// TestScenario12Compacted cuts coordinator, worker and a waiting client off, changes what they watch, and compacts: each
// lists again and acts on everything it missed, once.
func TestScenario12Compacted(t *testing.T) {
	etcd := kvtest.New(t)
	c := startChaos(t, harness.Options{Workers: 1, Slots: 2, Etcd: etcd.Server.Endpoints()[0], Worker: []string{"--ttl", "60s", "--call-limit", "2s"}, Coordinator: []string{"--ttl", "60s"}})
	leader, worker, client := etcd.Proxy(t), etcd.Proxy(t), etcd.Proxy(t)
	c.Terminate("c1")
	c.StartStandbyAt(leader.Addr(), "c1")
	c.SetEnv("STRAIT_FAILPOINTS=task.prepare=hold/" + c.held)
	c.StartWorkerAt(worker.Addr(), "w2", "--slots", "3")
	c.AwaitReady("w2")
	c.putSpec("missed", strings.Replace(endless, "parallelism = 1", "parallelism = 1, job.name = missed", 1))
	c.runs("missed")
	c.submit()
	c.reached()
	wait := harness.Command(t, c.Dir, "--etcd-endpoints", client.Addr(), "job", "wait", "chaos")
	if err := wait.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = wait.Cmd.Process.Kill() })
	old := c.incarnation("w2")
	for range 3 {
		for _, p := range []*kvtest.Proxy{leader, worker, client} {
			p.Cut()
		}
		for i := range 20 {
			etcd.Put(t, tree+"labels/"+fmt.Sprint(i), "x") // nobody knows such a key
		}
		etcd.Put(t, tree+"wishes/missed", "cancelled")
		if err := c.History().CatchUp(kvtest.Context(t)); err != nil {
			t.Fatal(err)
		}
		etcd.Compact(t)
		for _, p := range []*kvtest.Proxy{leader, worker, client} {
			p.Heal()
		}
		c.Await("the wish is answered", limit, func() bool { return c.status("missed").Phase == state.JobCancelled })
	}
	c.free()
	c.whole()
	c.first()
	if r := wait.Wait(t, limit); r.Code != 0 {
		t.Errorf("job wait: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if now := c.incarnation("w2"); now != old {
		t.Errorf("incarnation %d became %d", old, now)
	}
}

// TestScenario13DeployAgain writes assignments again: the same, an older one, one for another incarnation, and one of a
// job that has ended. A worker does nothing twice.
func TestScenario13DeployAgain(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 1, Slots: 5, Hands: true, Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}})
	c.submit()
	c.reached()
	key := tree + "tasks/w1/chaos/1"
	value := c.Keys(key)[key]
	a, err := record.Decode[record.Assignment]([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		kvtest.Put(t, c.Store(), key, value)
	}
	stranger := *a
	stranger.Incarnation++
	kvtest.Put(t, c.Store(), tree+"tasks/w1/chaos/2", string(record.MustEncode(&stranger)))
	kvtest.Put(t, c.Store(), key, value)
	kvtest.Delete(t, c.Store(), tree+"tasks/w1/chaos/2")
	c.free()
	s := c.ends("chaos")
	if s.Phase != state.JobFinished {
		t.Fatalf("%s: %s\n%s", s.Phase, s.Message, c.Logs())
	}
	wantIDs(t, orderIDs(t, c.out), 1, chaosRows)
	c.first()

	kvtest.Put(t, c.Store(), key, value) // late: everything has ended
	c.submitText("next", fmt.Sprintf(`
env { job.mode = "BATCH" }
source { FakeSource { row.num = 10, schema { fields { id = bigint } } } }
sink { LocalFile { path = %q, tmp_path = %q, file_format_type = "parquet" } }
`, filepath.Join(c.Dir, "next"), c.tmp))
	if s := c.ends("next"); s.Phase != state.JobFinished {
		t.Errorf("the next job is %s: %s", s.Phase, s.Message)
	}
	wantIDs(t, orderIDs(t, c.out), 1, chaosRows)
	if left := leftovers(t, c.tmp); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if w := c.word("chaos"); w.Attempt > 1 {
		t.Errorf("a late assignment made attempt %d", w.Attempt)
	}
}

// TestScenario27PoisonSplit: a split that harms whoever reads it uses up the restarts of its job, with growing pauses,
// and the job fails with the split named; what else runs on those workers is not disturbed.
func TestScenario27PoisonSplit(t *testing.T) {
	const name = "part-1.csv"
	start := func(t *testing.T, action string) *chaos {
		t.Helper()
		opt := harness.Options{Workers: 2, Slots: 4, Panics: action == "panic"}
		c := startChaos(t, opt)
		c.rows = 400
		c.text() // the files are there, their sizes known
		st, err := os.Stat(filepath.Join(c.Dir, "in", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range []string{"w1", "w2"} {
			c.Terminate(w)
		}
		c.SetEnv(fmt.Sprintf("STRAIT_FAILPOINTS=task.split.0:%s[0-%d]=%s", filepath.Join(c.Dir, "in", name), st.Size(), action))
		for _, w := range []string{"w1", "w2"} {
			c.StartWorker(w)
			c.AwaitReady(w)
		}
		c.submitText("steady", endless)
		c.runs("steady")
		return c
	}
	for _, action := range []string{"error", "panic"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			c := start(t, action)
			c.submit()
			s := c.ends("chaos")
			if s.Phase != state.JobFailed || !strings.Contains(s.Message, "job.retry.times allows") || len(s.Failures) != 4 {
				t.Errorf("%s with %d failures: %s", s.Phase, len(s.Failures), s.Message)
			}
			for _, f := range s.Failures {
				if !strings.Contains(f.Position+f.Message, name) {
					t.Errorf("attempt %d does not name the split: %q at %q", f.Attempt, f.Message, f.Position)
				}
			}
			for i := 1; i < len(s.Failures); i++ {
				// One second, then two, then four: what lies between two failures is at least the pause.
				if pause := s.Failures[i].Time.Sub(s.Failures[i-1].Time); pause < time.Second<<(i-1) {
					t.Errorf("attempt %d failed only %v after the one before it", s.Failures[i].Attempt, pause)
				}
			}
			if ids := orderIDs(t, c.out); len(ids) > 0 {
				t.Errorf("a failed job shows %d rows", len(ids))
			}
			if w := c.word("steady"); w.Attempt != 1 || c.status("steady").Phase != state.JobRunning {
				t.Errorf("the job beside it is %s in attempt %d: %s", c.status("steady").Phase, w.Attempt, w.Message)
			}
			kvtest.Put(t, c.Store(), tree+"wishes/steady", "cancelled")
			c.ends("steady")
			c.clean()
		})
	}
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		c := start(t, "kill")
		c.submit()
		c.Await("the job ends", 2*limit, func() bool { // the supervisor of the workers
			for _, w := range []string{"w1", "w2"} {
				if c.Process(w).Exited() {
					c.StartWorker(w)
				}
			}
			return c.status("chaos").Phase.Terminal()
		})
		s := c.status("chaos")
		lost := 0
		for _, f := range s.Failures {
			if strings.Contains(f.Message, "is gone") {
				lost++
			}
		}
		// One restart is free in a healthy period, three are allowed; a link that broke first may be one of them.
		if s.Phase != state.JobFailed || !strings.Contains(s.Message, "job.retry.times allows") || len(s.Failures) != 5 || lost < 3 {
			t.Errorf("%s with %d failures, %d of them lost workers: %s", s.Phase, len(s.Failures), lost, s.Message)
		}
		if ids := orderIDs(t, c.out); len(ids) > 0 {
			t.Errorf("a failed job shows %d rows", len(ids))
		}
		for _, w := range []string{"w1", "w2"} {
			if c.Process(w).Exited() {
				c.StartWorker(w)
			}
		}
		c.runs("steady")
		kvtest.Put(t, c.Store(), tree+"wishes/steady", "cancelled")
		c.ends("steady")
		c.clean()
	})
}

// TestScenario28CancelAtEveryStep cancels a job while a worker stands at each step of its life: it ends, with all its
// rows where the commit point came first, else with none.
func TestScenario28CancelAtEveryStep(t *testing.T) {
	for _, point := range append([]string{"task.read"}, workerPoints...) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Env: []string{"STRAIT_FAILPOINTS=" + point + "=hold/HELD"}})
			c.submit()
			c.reached()
			kvtest.Put(t, c.Store(), tree+"wishes/chaos", "cancelled")
			c.free()
			s := c.ends("chaos")
			switch ids := orderIDs(t, c.out); {
			case s.Phase == state.JobFinished && len(c.Keys(tree+"checkpoints/chaos/")) > 0:
				wantIDs(t, ids, 1, chaosRows)
			case s.Phase != state.JobCancelled || len(ids) > 0:
				t.Errorf("%s with %d rows: %s", s.Phase, len(ids), s.Message)
			}
			if left := leftovers(t, c.tmp); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			c.clean()
		})
	}
}

// TestScenario30OtherProtocol: a worker that speaks another protocol gets nothing, and a job that would need it waits
// and says so; the others of a mixed fleet work on.
func TestScenario30OtherProtocol(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 1, Slots: 2})
	kvtest.Put(t, c.Store(), tree+"workers/w9", string(record.MustEncode(&record.Worker{Header: record.Head, Data: "127.0.0.1:1", Ops: "127.0.0.1:1",
		TTL: 10, CallLimit: 2, Slots: 8, CPU: 8, Memory: 1 << 30, Protocol: [2]int{record.Protocol[1] + 6, record.Protocol[1] + 8}, Version: "9.0.0"})))
	job := func(id string, parallelism int) {
		c.submitText(id, fmt.Sprintf(`
env { job.mode = "BATCH", parallelism = %d }
source { FakeSource { row.num = 10, schema { fields { id = bigint } } } }
sink { LocalFile { path = %q, tmp_path = %q, file_format_type = "parquet" } }
`, parallelism, filepath.Join(c.Dir, id), c.tmp))
	}
	job("small", 2)
	if s := c.ends("small"); s.Phase != state.JobFinished {
		t.Errorf("small: %s: %s", s.Phase, s.Message)
	}
	if pl := c.placement("small"); len(pl.Workers) != 1 || pl.Workers["w1"].Incarnation == 0 {
		t.Errorf("placed on %v", pl.Workers)
	}
	job("large", 4)
	c.Await("the job says why it waits", limit, func() bool {
		s := c.status("large")
		return s.Phase == state.JobPending && strings.Contains(s.Message, fmt.Sprintf("speaks protocol %d to %d", record.Protocol[1]+6, record.Protocol[1]+8))
	})
	c.StartWorker("w2")
	if s := c.ends("large"); s.Phase != state.JobFinished {
		t.Errorf("large: %s: %s", s.Phase, s.Message)
	}
}

// TestScenario31AddAndDrain drains a worker and adds another one under load: what runs goes on where it is, nothing new
// comes to the one that is drained, and the new one is used.
func TestScenario31AddAndDrain(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 1, Slots: 3, Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}})
	c.submit()
	c.reached()
	kvtest.Put(t, c.Store(), tree+"workerwishes/w1", "drain")
	small := func(id string) {
		c.submitText(id, strings.Replace(endless, "parallelism = 1", "parallelism = 1, job.name = "+id, 1))
	}
	small("after-1")
	c.Await("nothing fits", limit, func() bool {
		s := c.status("after-1")
		return s.Phase == state.JobPending && strings.Contains(s.Message, "draining")
	})
	c.StartWorker("w2")
	c.runs("after-1")
	small("after-2")
	c.runs("after-2")
	for _, id := range []string{"after-1", "after-2"} {
		if pl := c.placement(id); pl.Workers["w1"].Incarnation != 0 || pl.Workers["w2"].Incarnation == 0 {
			t.Errorf("%s is placed on %v", id, pl.Workers)
		}
	}
	c.free()
	s := c.ends("chaos")
	if s.Phase != state.JobFinished {
		t.Errorf("what ran on the drained worker is %s: %s", s.Phase, s.Message)
	}
	wantIDs(t, orderIDs(t, c.out), 1, chaosRows)
	c.first()
	kvtest.Put(t, c.Store(), tree+"workerwishes/w1", "active")
	for _, id := range []string{"after-3", "after-4", "after-5", "after-6"} { // more than w2 has left
		small(id)
	}
	c.Await("the worker is used again", limit, func() bool { return len(c.Keys(tree+"slots/w1/")) > 0 })
	for i := range 6 {
		id := fmt.Sprintf("after-%d", i+1)
		kvtest.Put(t, c.Store(), tree+"wishes/"+id, "cancelled")
		c.ends(id)
		if w := c.word(id); w.Attempt > 1 {
			t.Errorf("%s took %d attempts: %s", id, w.Attempt, w.Message)
		}
	}
	c.clean()
}
