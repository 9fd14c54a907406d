package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"strait/kv"
	"strait/kv/keys"
)

func init() { Register("paper", paperFigures) }

// interval is that of the checkpoints whose writes are computed: periodic ones come with a later part.
const interval = 60 * time.Second

// paperFigures: 1,000 simulated workers and 10,000 pipelines over a real etcd and real coordinators.
func paperFigures() (out []Figure, err error) {
	workers, pipelines := scaled(1000, 4), scaled(10_000, 20)
	slots := pipelines/workers + 2
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	etcd, stopEtcd, err := startEtcd(ctx)
	if err != nil {
		return nil, err
	}
	defer stopEtcd()
	spec := clusterSpec{etcd: etcd.Endpoints()[0]}
	c, err := startPair(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer c.stop()
	defer c.explain(&err)
	raw := etcd.Client()
	defer func() { _ = raw.Close() }()

	rate, perWrite, err := rawRate(ctx, c, raw)
	if err != nil {
		return nil, err
	}
	out = append(out, Told("paper/raw-guarded-txns", "txn/s", rate, fmt.Sprintf("32 at a time, two guards and a put of 700 bytes on 1,000 keys, with fsync; the store grows by %.0f bytes a write until it is compacted", perWrite)))

	began := time.Now()
	sim, err := startSim(ctx, c.tree, spec.etcd, workers, slots)
	if err != nil {
		return out, err
	}
	defer func() {
		if serr := sim.close(); err == nil {
			err = serr
		}
	}()
	out = append(out, Told("paper/workers-up", "s", time.Since(began).Seconds(), fmt.Sprintf("%d simulated workers of %d slots: lease, key, watch", workers, slots)))

	empty, err := compacted(ctx, c.store, raw)
	if err != nil {
		return out, err
	}
	figures, err := deployPaper(ctx, c, pipelines)
	out = append(out, figures...)
	if err != nil {
		return out, err
	}
	full, err := compacted(ctx, c.store, raw)
	if err != nil {
		return out, err
	}
	out = append(out, Told("paper/store-per-pipeline", "KiB", float64(full-empty)/1024/float64(pipelines), fmt.Sprintf("used by etcd after compaction: %.1f MiB in all", float64(full)/(1<<20))))
	listed, err := listTime(c)
	if err != nil {
		return out, err
	}
	out = append(out, AtMost("paper/job-list", "s", listed.Seconds(), 1, fmt.Sprintf("the process `stctl job list` with %d jobs, the median of three", pipelines)))
	figures, err = takeoverPaper(ctx, c, pipelines)
	out = append(out, figures...)
	if err != nil {
		return out, err
	}

	// Design, section 4: trigger, one ack a worker, complete, and where sinks commit one mark a worker and committed.
	least, most := float64(pipelines)/interval.Seconds()*3, float64(pipelines)/interval.Seconds()*5
	return append(out,
		AtMost("paper/checkpoint-writes", "txn/s", most, rate, fmt.Sprintf("computed: %d pipelines on one worker each, every %v, at 3 writes a checkpoint %.0f/s, with commits at 5; the limit is the raw rate of this etcd", pipelines, interval, least)),
		Told("paper/checkpoint-growth", "MiB", most*perWrite*300/(1<<20), "computed: what these writes add to the store between two compactions, 5 min apart"),
	), nil
}

// rawRate is how many guarded transactions a second this etcd takes, and what each adds to it.
func rawRate(ctx context.Context, c *cluster, raw *clientv3.Client) (rate, perWrite float64, err error) {
	before, err := compacted(ctx, c.store, raw)
	if err != nil {
		return 0, 0, err
	}
	lead := "/bench/lead"
	r, err := c.store.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent(lead)}, Ops: []kv.Op{kv.Put(lead, []byte("x"))}})
	if err != nil {
		return 0, 0, err
	}
	value := bytes.Repeat([]byte("0123456789"), 70)
	const lanes, keysEach = 32, 32
	counts := make([]int, lanes)
	limit := max(time.Duration(5*float64(time.Second)*min(Scale, 1)), 200*time.Millisecond)
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for lane := range lanes {
		g.Go(func() error {
			revs := make([]int64, keysEach)
			for time.Since(began) < limit {
				n := counts[lane] % keysEach
				key := fmt.Sprintf("/bench/%02d/%03d", lane, n)
				r, err := c.store.Txn(gctx, kv.Txn{Guards: []kv.Guard{kv.LeaderGuard(lead, r.Rev), kv.AtMod(key, revs[n])}, Ops: []kv.Op{kv.Put(key, value)}})
				if err != nil {
					return err
				}
				revs[n] = r.Rev
				counts[lane]++
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, 0, err
	}
	took, n := time.Since(began), 0
	for _, x := range counts {
		n += x
	}
	st, err := c.store.Status(ctx)
	if err != nil {
		return 0, 0, err
	}
	_, err = raw.Delete(ctx, "/bench/", clientv3.WithPrefix())
	return float64(n) / took.Seconds(), float64(st.Used-before) / float64(n), err
}

// compacted is what the store uses once all revisions but the newest are dropped.
func compacted(ctx context.Context, s *kv.Store, raw *clientv3.Client) (int64, error) {
	rev, err := s.Revision(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := raw.Compact(ctx, rev, clientv3.WithCompactPhysical()); err != nil {
		return 0, err
	}
	st, err := s.Status(ctx)
	return st.Used, err
}

const paperJob = `
env { job.mode = STREAMING, parallelism = 1 }
source { FakeSource { row.num = 5, schema { fields { id = bigint, name = string } } } }
sink { Blackhole { } }
`

func deployPaper(ctx context.Context, c *cluster, pipelines int) ([]Figure, error) {
	before, err := c.store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	used, err := c.procs["c1"].cpu()
	if err != nil {
		return nil, err
	}
	defer c.profile("deploy", 10*time.Second)()
	began := time.Now()
	submits, err := c.submitAll(ctx, pipelines, func(i int) (string, string) { return fmt.Sprintf("paper-%05d", i), paperJob })
	if err != nil {
		return nil, err
	}
	submitted := time.Since(began)
	if err := c.allAdopted(ctx, "c1", pipelines); err != nil {
		return nil, err
	}
	took := time.Since(began)
	after, err := c.procs["c1"].cpu()
	if err != nil {
		return nil, err
	}
	rev, err := c.store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	mem, err := c.procs["c1"].sample()
	if err != nil {
		return nil, err
	}
	slices.Sort(submits)
	return []Figure{
		Told("paper/deploy", "s", took.Seconds(), fmt.Sprintf("%d jobs of one pipeline, from the first Submit until all are RUNNING: %.0f jobs/s", pipelines, float64(pipelines)/took.Seconds())),
		Told("paper/deploy-writes", "txn/s", float64(rev-before)/took.Seconds(), fmt.Sprintf("%.1f revisions a job", float64(rev-before)/float64(pipelines))),
		Told("paper/leader-cpu-per-job", "ms", float64(after-used)/1e6/float64(pipelines), "the leading process, without etcd"),
		Told("paper/leader-rss", "MiB", mem.rss/(1<<20), "after the deployment"),
		Told("paper/leader-heap", "MiB", mem.heap/(1<<20), fmt.Sprintf("after a collection: %.1f KiB a pipeline", mem.heap/1024/float64(pipelines))),
		Told("paper/submit-p99", "ms", submits[len(submits)*99/100], fmt.Sprintf("Submit, 16 at a time, while the leader deploys; median %.1f ms, all in %v", Median(submits), submitted.Round(time.Millisecond))),
	}, nil
}

// allAdopted waits until a coordinator leads and counts n jobs as RUNNING.
func (c *cluster) allAdopted(ctx context.Context, name string, n int) error {
	return await(ctx, fmt.Sprintf("%d jobs to run", n), func() (bool, error) {
		time.Sleep(10 * time.Millisecond)
		v, err := c.procs[name].metric(`strait_coordinator_jobs{phase="RUNNING"}`)
		return int(v) >= n, err
	})
}

func listTime(c *cluster) (time.Duration, error) {
	bin, err := binary()
	if err != nil {
		return 0, err
	}
	var all []float64
	for range 3 {
		began := time.Now()
		if out, err := exec.Command(bin, "--etcd-endpoints", c.etcd, "job", "list").CombinedOutput(); err != nil {
			return 0, fmt.Errorf("job list: %w: %s", err, out[:min(len(out), 1000)])
		}
		all = append(all, float64(time.Since(began)))
	}
	return time.Duration(Median(all)), nil
}

// takeoverPaper kills the leader and measures what the next one loads.
func takeoverPaper(ctx context.Context, c *cluster, pipelines int) ([]Figure, error) {
	began := time.Now()
	es, _, err := c.store.List(ctx, c.tree.Prefix(), 0)
	if err != nil {
		return nil, err
	}
	listed, size, words := time.Since(began), 0, map[string]int64{}
	for _, e := range es {
		size += len(e.Key) + len(e.Value)
		if k, ok := c.tree.Parse(e.Key); ok && k.Kind == keys.KindPipeline {
			words[e.Key] = e.ModRev
		}
	}
	out := []Figure{Told("paper/tree", "MiB", float64(size)/(1<<20), fmt.Sprintf("%d entries; one client lists them in %v", len(es), listed.Round(time.Millisecond)))}
	if err := c.kill("c1"); err != nil {
		return out, err
	}
	killed := time.Now()
	defer c.profile("takeover", 15*time.Second)()
	if _, err := c.submit(ctx, "next", paperJob); err != nil {
		return out, err
	}
	if err := c.allAdopted(ctx, "c2", pipelines+1); err != nil {
		return out, err
	}
	acts := time.Since(killed)
	load, err := c.procs["c2"].between("coordinator leads", "coordinator has loaded the tree")
	if err != nil {
		return out, err
	}
	// Taking over writes nothing about jobs that run.
	es, _, err = c.store.List(ctx, c.tree.Prefix(), 0)
	if err != nil {
		return out, err
	}
	changed := 0
	for _, e := range es {
		if rev, ok := words[e.Key]; ok && rev != e.ModRev {
			changed++
		}
	}
	mem, err := c.procs["c2"].sample()
	if err != nil {
		return out, err
	}
	return append(out,
		Told("paper/takeover", "s", acts.Seconds(), fmt.Sprintf("from SIGKILL of the leader until the next one has adopted all jobs and runs a new one; %.0f s of it are the TTL", leaseTTL)),
		Told("paper/takeover-load", "s", load.Seconds(), "of it, from leading to the loaded tree, by the log"),
		AtMost("paper/takeover-words", "words", float64(changed), 0, "control words that the takeover changed"),
		Told("paper/new-leader-rss", "MiB", mem.rss/(1<<20), fmt.Sprintf("heap after a collection: %.1f MiB", mem.heap/(1<<20)))), nil
}

// between is the time between two lines of a role's log.
func (p *proc) between(first, second string) (time.Duration, error) {
	said, err := os.ReadFile(p.out)
	if err != nil {
		return 0, err
	}
	at := func(msg string) (time.Time, error) {
		m := regexp.MustCompile(`(?m)^time=(\S+) .*` + regexp.QuoteMeta(msg)).FindSubmatch(said)
		if m == nil {
			return time.Time{}, fmt.Errorf("the log of %s does not say %q", p.name, msg)
		}
		return time.Parse(time.RFC3339Nano, string(m[1]))
	}
	a, err := at(first)
	if err != nil {
		return 0, err
	}
	b, err := at(second)
	return b.Sub(a), err
}
