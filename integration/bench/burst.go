package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"strait/coordinator/api/client"
	"strait/kv/keys"
	"strait/kv/kvtest/history"
	"strait/plan"
	"strait/plan/state"
)

func init() {
	Register("burst", burstFigures)
	Register("row", rowFigures)
}

// short is a job of a few rows in n slots.
func short(n int) string {
	return fmt.Sprintf(`
env { job.mode = BATCH, parallelism = %d }
source { FakeSource { row.num = 5, schema { fields { id = bigint, name = string } } } }
sink { Blackhole { } }
`, n)
}

// burstFigures: 200 jobs at once for 8 slots. What the keys say of slots and tasks is followed from the first
// revision on.
func burstFigures() (out []Figure, err error) {
	n := scaled(200, 10)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c, err := startCluster(ctx, clusterSpec{workers: 2, slots: 4})
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
	before, err := c.procs["c1"].cpu()
	if err != nil {
		return nil, err
	}
	defer c.profile("burst", 4*time.Second)()
	began := time.Now()
	submits, err := c.submitAll(ctx, n, func(i int) (string, string) { return fmt.Sprintf("burst-%d", i), short(1 + i%3) })
	if err != nil {
		return nil, err
	}
	submitted := time.Since(began)
	if err := c.allFinished(ctx, "burst-", n); err != nil {
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
	if err := h.CatchUp(ctx); err != nil {
		return nil, err
	}
	faults, grants, tasks := h.Check(), 0, 0
	for _, r := range h.Revisions() {
		for _, ch := range r.Changes {
			if k, ok := c.tree.Parse(ch.Entry.Key); ok && !ch.Deleted {
				switch k.Kind {
				case keys.KindSlot:
					grants++
				case keys.KindTask:
					tasks++
				}
			}
		}
	}
	slices.Sort(submits)
	f := AtMost("burst/broken-rules", "rules", float64(len(faults)), 0, fmt.Sprintf("%d jobs at once on 8 slots, all finished; %d grants and %d assignments held against the rules of kv/kvtest/history (no slot twice, one owner) at each of %d revisions", n, grants, tasks, rev))
	out = append(out, f,
		Told("burst/jobs-per-second", "jobs/s", float64(n)/took.Seconds(), fmt.Sprintf("from the first Submit until the last is FINISHED: %v", took.Round(time.Millisecond))),
		Told("burst/coordinator-cpu-per-job", "ms", float64(after-before)/1e6/float64(n), "leader and its embedded etcd, user and system time"),
		Told("burst/revisions-per-job", "revs", float64(rev)/float64(n), "all that was written, by anybody"),
		Told("burst/submit-p99", "ms", submits[len(submits)*99/100], fmt.Sprintf("Submit, 16 at a time, while jobs run; median %.1f ms, all in %v", Median(submits), submitted.Round(time.Millisecond))))
	if len(faults) > 0 {
		return out, errors.New(strings.Join(faults[:min(len(faults), 10)], "\n"))
	}
	return out, nil
}

// allFinished waits until n jobs of a prefix are FINISHED.
func (c *cluster) allFinished(ctx context.Context, prefix string, n int) error {
	return await(ctx, fmt.Sprintf("%d jobs to end", n), func() (bool, error) {
		time.Sleep(50 * time.Millisecond) // a list costs the leader's etcd time, too
		jobs, err := c.cl.List(ctx, client.Filter{})
		if err != nil {
			return false, err
		}
		ended := 0
		for i := range jobs {
			if s := jobs[i].Status; s != nil && s.Phase.Terminal() && strings.HasPrefix(string(jobs[i].ID), prefix) {
				if s.Phase != state.JobFinished {
					return false, fmt.Errorf("job %s is %s: %s", jobs[i].ID, s.Phase, s.Message)
				}
				ended++
			}
		}
		return ended == n, nil
	})
}

// sample is what a process holds.
type sample struct {
	rss, heap, goroutines, files float64
}

func (p *proc) sample() (s sample, err error) {
	// A profile of the heap after a collection: what is held, not what lies about.
	body, err := p.get("/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(body) {
		if n, _ := fmt.Sscanf(line, "# HeapAlloc = %f", &s.heap); n == 1 {
			break
		}
	}
	rss, _, files, err := p.memory()
	if err != nil {
		return s, err
	}
	s.rss, s.files = float64(rss), float64(files)
	s.goroutines, err = p.metric("go_goroutines")
	return s, err
}

// rowFigures: 2,000 short jobs in a row, four at a time. What the processes hold must not grow with the jobs that were.
func rowFigures() (out []Figure, err error) {
	n := scaled(2000, 40)
	every := max(n/20, 2)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	// What ended jobs leave is bounded: here early, so that the bounds are met in the first half of the run.
	few := max(n/10, 4)
	c, err := startCluster(ctx, clusterSpec{workers: 2, slots: 4,
		coordinator: []string{"--job-linger", "100ms", "--history-keep", fmt.Sprint(few), "--log-memory", "64KiB"},
		worker:      []string{"--log-memory", "64KiB"}})
	if err != nil {
		return nil, err
	}
	defer c.stop()
	defer c.explain(&err)
	roles := []string{"c1", "w1", "w2"}
	samples := map[string][]sample{}
	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{c.etcd}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer func() { _ = raw.Close() }()
	var used, count []float64 // KiB of the store, and keys
	defer c.profile("row", 10*time.Second)()
	began := time.Now()
	var next atomic.Int64
	for done := 0; done < n; done += every {
		g, gctx := errgroup.WithContext(ctx)
		last := int64(min(done+every, n))
		for range 4 {
			g.Go(func() error {
				for {
					i := next.Add(1)
					if i > last {
						return nil
					}
					id, err := c.submit(gctx, fmt.Sprintf("row-%d", i), short(1))
					if err != nil {
						return err
					}
					if err := c.awaitEnd(gctx, id); err != nil {
						return err
					}
				}
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		next.Store(last)
		for _, name := range roles {
			s, err := c.procs[name].sample()
			if err != nil {
				return nil, err
			}
			samples[name] = append(samples[name], s)
		}
		es, _, err := c.store.List(ctx, c.tree.Prefix(), 0)
		if err != nil {
			return nil, err
		}
		size, err := compacted(ctx, c.store, raw)
		if err != nil {
			return nil, err
		}
		used, count = append(used, float64(size)/(1<<10)), append(count, float64(len(es)))
	}
	took := time.Since(began)
	out = append(out, Told("row/jobs-per-second", "jobs/s", float64(n)/took.Seconds(), fmt.Sprintf("%d jobs of five rows, four at a time, from Submit until FINISHED, in %v with %d samples", n, took.Round(time.Millisecond), len(used))))
	for _, name := range roles {
		grow := func(what, unit string, scale, floor float64, of func(sample) float64) {
			v := make([]float64, len(samples[name]))
			for i, s := range samples[name] {
				v[i] = of(s) / scale
			}
			out = append(out, flat("row/"+name+"-"+what, unit, v, floor))
		}
		grow("rss", "MiB", 1<<20, 4, func(s sample) float64 { return s.rss })
		grow("heap", "MiB", 1<<20, 1, func(s sample) float64 { return s.heap })
		grow("goroutines", "", 1, 4, func(s sample) float64 { return s.goroutines })
		grow("files", "", 1, 2, func(s sample) float64 { return s.files })
	}
	return append(out, flat("row/keys", "", count, 8), flat("row/store", "KiB", used, 256)), nil
}

// awaitEnd waits for the end of a job with one watch on its status.
func (c *cluster) awaitEnd(ctx context.Context, id plan.JobID) error {
	return c.cl.Watch(ctx, id, func(u client.Update) error {
		if u.Ended() && u.Status.Phase != state.JobFinished {
			return fmt.Errorf("job %s is %s: %s", id, u.Status.Phase, u.Status.Message)
		}
		return nil
	})
}

// flat says whether something still grows at the end: how much a straight line through the last half of the samples
// rises over them, against a tenth of what is there, or floor.
func flat(name, unit string, v []float64, floor float64) Figure {
	tail := v[len(v)/2:]
	rise := slope(tail) * float64(len(tail)-1)
	mean := 0.0
	for _, x := range tail {
		mean += x / float64(len(tail))
	}
	limit := math.Max(floor, mean/10)
	return AtMost(name+"-growth", unit, max(rise, 0), limit, fmt.Sprintf("rise over the last half of the run; first %.1f, middle %.1f, last %.1f", v[0], v[len(v)/2], v[len(v)-1]))
}

// slope is that of the straight line of least squares, per sample.
func slope(v []float64) float64 {
	n := float64(len(v))
	var sx, sy, sxx, sxy float64
	for i, y := range v {
		x := float64(i)
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d != 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}
