package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"strait/kv/embed"
	"strait/kv/keys"
	"strait/kv/kvtest/history"
	"strait/kv/record"
	"strait/plan/state"
)

func init() {
	Register("takeover", takeoverFigures)
	Register("idle", idleFigures)
}

// leaseTTL is the default of a coordinator's lease, and takeoverWithin what a takeover may take beyond it.
const (
	leaseTTL       = 10.0 // s
	takeoverWithin = 1.5  // s
)

// startEtcd runs an etcd in this process that outlives coordinators.
func startEtcd(ctx context.Context) (*embed.Server, func(), error) {
	dir, err := os.MkdirTemp("", "strait-bench-etcd-")
	if err != nil {
		return nil, nil, err
	}
	s, err := embed.Start(ctx, embed.Config{DataDir: filepath.Join(dir, "etcd"), ListenClient: "127.0.0.1:0", QuotaBytes: 4 << 30})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	return s, func() { s.Close(); _ = os.RemoveAll(dir) }, nil
}

// takeoverFigures: 1,000 task groups run, the leading coordinator is killed, another one stands by.
func takeoverFigures() (out []Figure, err error) {
	n := scaled(500, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	etcd, stopEtcd, err := startEtcd(ctx)
	if err != nil {
		return nil, err
	}
	defer stopEtcd()
	spec := clusterSpec{workers: 3, slots: (n + 3) / 3, etcd: etcd.Endpoints()[0]}
	c, err := startPair(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer c.stop()
	defer c.explain(&err)
	h, err := history.Record(ctx, c.store, c.tree)
	if err != nil {
		return nil, err
	}
	defer h.Stop()

	// Rows flow before, while and after nobody leads: 24 splits a reader, one every second.
	const rows, splits = 240, 24
	if _, err := c.submit(ctx, "wide", wide(n, "BATCH", true, rows, splits, time.Second)); err != nil {
		return nil, err
	}
	if _, err := c.until(ctx, "wide", state.JobRunning); err != nil {
		return nil, err
	}
	if err := c.allRun(ctx, 2*n); err != nil {
		return nil, err
	}
	before, err := c.store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.kill("c1"); err != nil {
		return nil, err
	}
	killed := time.Now()
	// The new leader acts: it does something about a job that nobody has seen.
	if _, err := c.submit(ctx, "next", short(1)); err != nil {
		return nil, err
	}
	var acts, adopted time.Duration
	err = await(ctx, "another leader to act", func() (bool, error) {
		e, err := c.store.Get(ctx, c.tree.JobStatus("next"))
		return e.Exists(), err
	})
	if err != nil {
		return nil, err
	}
	acts = time.Since(killed)
	err = await(ctx, "the wide job to be adopted", func() (bool, error) {
		v, err := c.procs["c2"].metric(`strait_coordinator_jobs{phase="RUNNING"}`)
		return v >= 1, err
	})
	if err != nil {
		return nil, err
	}
	adopted = time.Since(killed)
	got, attempt, err := c.grouped(ctx, "wide")
	if err != nil {
		return nil, err
	}
	ran := got[state.TaskRunning]
	st, err := c.until(ctx, "wide", state.JobFinished)
	if err != nil {
		return nil, err
	}
	sum, err := c.store.Get(ctx, c.tree.History("wide"))
	if err != nil {
		return nil, err
	}
	hist, err := record.Decode[record.History](sum.Value)
	if err != nil {
		return nil, err
	}
	arrived := sinkRows(hist.Vertices)
	if err := h.CatchUp(ctx); err != nil {
		return nil, err
	}
	touched := 0 // keys of the job that changed until it was drained
	for _, r := range h.Revisions() {
		for _, ch := range r.Changes {
			k, ok := c.tree.Parse(ch.Entry.Key)
			if !ok || k.Job != "wide" || r.Rev <= before {
				continue
			}
			switch k.Kind {
			case keys.KindPipeline:
				if w, err := record.Decode[record.Word](ch.Entry.Value); err != nil || w.Attempt != 1 {
					touched++
				}
			case keys.KindTask, keys.KindPlacement:
				if !ch.Deleted {
					touched++
				}
			}
		}
	}
	restarted := AtMost("takeover/restarted", "groups", float64(2*n-ran+touched+int(attempt-1)), 0,
		fmt.Sprintf("%d of %d groups were RUNNING after the takeover, in attempt %d; %d assignments, placements or attempts were written; the job ended %s", ran, 2*n, attempt, touched, st.Phase))
	lost := AtMost("takeover/rows-lost", "rows", float64(wideRows(n, rows)-arrived), 0, fmt.Sprintf("%d rows of %d arrived", arrived, wideRows(n, rows)))
	broken := AtMost("takeover/broken-rules", "rules", float64(len(h.Check())), 0, "kv/kvtest/history at every revision")
	return []Figure{
		AtMost("takeover/acts", "s", acts.Seconds(), leaseTTL+takeoverWithin, fmt.Sprintf("from SIGKILL of the leader, with %d task groups and a TTL of %.0f s, until the other one has written the status of a job that was submitted meanwhile", 2*n, leaseTTL)),
		AtMost("takeover/adopted", "s", adopted.Seconds(), leaseTTL+takeoverWithin, "until its metrics count the wide job as RUNNING"),
		restarted, lost, broken,
	}, nil
}

// allRun waits until n task groups of the job "wide" run.
func (c *cluster) allRun(ctx context.Context, n int) error {
	return await(ctx, "every task group to run", func() (bool, error) {
		got, _, err := c.grouped(ctx, "wide")
		return got[state.TaskRunning]+got[state.TaskDrained] == n, err
	})
}

// idleFigures: jobs run and have nothing to do, and the store hears nothing for a minute.
func idleFigures() (out []Figure, err error) {
	n := scaled(100, 3)
	minute := time.Duration(float64(time.Minute) * min(Scale, 1))
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c, err := startCluster(ctx, clusterSpec{workers: 2, slots: n + 4})
	if err != nil {
		return nil, err
	}
	defer c.stop()
	defer c.explain(&err)
	// One job has no more rows to come, the other one a row a second.
	if _, err := c.submit(ctx, "wide", wide(n, "STREAMING", true, 10, 1, 0)); err != nil {
		return nil, err
	}
	if _, err := c.submit(ctx, "slow", wide(2, "STREAMING", true, 1000, 1000, time.Second)); err != nil {
		return nil, err
	}
	if _, err := c.until(ctx, "slow", state.JobRunning); err != nil {
		return nil, err
	}
	if err := c.allRun(ctx, 2*n); err != nil {
		return nil, err
	}
	before, err := c.settled(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{}
	for name, p := range c.procs {
		if used[name], err = p.cpu(); err != nil {
			return nil, err
		}
	}
	time.Sleep(minute) // what is measured is a minute
	after, err := c.store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	spent := map[string]time.Duration{}
	for name, p := range c.procs {
		now, err := p.cpu()
		if err != nil {
			return nil, err
		}
		spent[name] = now - used[name]
	}
	f := AtMost("idle/writes", "revs", float64(after-before), 0, fmt.Sprintf("revisions of the store in %v, with an idle job of %d task groups and one that moves a row a second in each source", minute, 2*n))
	return []Figure{f,
		Told("idle/coordinator-cpu", "ms/s", 1e3*spent["c1"].Seconds()/minute.Seconds(), "leader and embedded etcd"),
		Told("idle/worker-cpu", "ms/s", 1e3*spent["w1"].Seconds()/minute.Seconds(), "one of the two workers"),
	}, nil
}
