package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

func init() { Register("deploy", deployFigures) }

// wide is a job of n+1 sources hashed to n-1 sinks: where parallelism stays the same the two would be fused. A
// literal row makes the stream a changelog, so that rows go by key. Each source makes rows rows in splits splits, one
// every pause (0: at once), and in STREAMING stays open.
func wide(n int, mode string, sharing bool, rows, splits int, pause time.Duration) string {
	every := ""
	if pause > 0 {
		every = fmt.Sprintf("split.read-interval = %d", pause.Milliseconds())
	}
	const schema = `columns = [ { name = id, type = bigint }, { name = name, type = string } ], primaryKey { name = pk, columnNames = [id] }`
	return fmt.Sprintf(`
env { job.mode = %s, slot_sharing = %t }
source { FakeSource { parallelism = %d, plugin_output = in, tables_configs = [
  { row.num = %d, split.num = %d, %s
    schema { table = "bench.made", %s } }
  { rows = [ { kind = UPDATE_AFTER, fields = [1, "one"] } ]
    schema { table = "bench.written", %s } } ] } }
sink { Blackhole { plugin_input = in, parallelism = %d } }
`, mode, sharing, n+1, rows, splits, every, schema, schema, n-1)
}

// wideRows is how many rows a wide job has.
func wideRows(n, rows int) int64 { return int64(n+1) * int64(rows+1) }

// deployFigures: 500 sources hashed to 500 sinks on three workers, from submit until the job is RUNNING.
func deployFigures() ([]Figure, error) {
	n := scaled(500, 3)
	var out []Figure
	for _, sharing := range []bool{true, false} {
		name := map[bool]string{true: "deploy/shared", false: "deploy/unshared"}[sharing]
		slots := (n + 3) / 3
		if !sharing {
			slots = (2*n + 2) / 3
		}
		fs, err := deployOnce(name, n, slots, sharing)
		out = append(out, fs...)
		if err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

func deployOnce(name string, n, slots int, sharing bool) (out []Figure, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c, err := startCluster(ctx, clusterSpec{workers: 3, slots: slots})
	if err != nil {
		return nil, err
	}
	defer c.stop()
	defer c.explain(&err)
	// A small job first: the processes have met, as in a fleet that is up.
	if _, err := c.submit(ctx, "first", wide(3, "BATCH", true, 1, 1, 0)); err != nil {
		return nil, err
	}
	if _, err := c.until(ctx, "first", state.JobFinished); err != nil {
		return nil, err
	}
	before, err := c.store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{}
	for _, p := range c.procs {
		if used[p.name], err = p.cpu(); err != nil {
			return nil, err
		}
	}
	profiles := c.profile("deploy", 2*time.Second)
	began := time.Now()
	if _, err := c.submit(ctx, "wide", wide(n, "STREAMING", sharing, 10, 1, 0)); err != nil {
		return nil, err
	}
	if _, err := c.until(ctx, "wide", state.JobRunning); err != nil {
		return nil, err
	}
	running := time.Since(began)
	txns, err := c.store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.allRun(ctx, 2*n); err != nil {
		return nil, err
	}
	groups := time.Since(began)
	spent := time.Duration(0)
	for _, p := range c.procs {
		now, err := p.cpu()
		if err != nil {
			return nil, err
		}
		spent += now - used[p.name]
	}
	if err := c.arrived(ctx, "wide", wideRows(n, 10)); err != nil {
		return nil, err
	}
	sum, most, parts, err := c.memory()
	if err != nil {
		return nil, err
	}
	profiles()
	st, err := c.cl.Get(ctx, "wide")
	if err != nil {
		return nil, err
	}
	out = []Figure{
		AtMost(name+"/running", "s", running.Seconds(), 2, fmt.Sprintf("%d task groups, %d slots; from Submit until the status says RUNNING (its own clock: %v); %d revisions", 2*n, 3*slots, since(st.Status), txns-before)),
		Told(name+"/groups", "s", groups.Seconds(), fmt.Sprintf("until every task group said that it runs; all processes together used %v of processor time", spent)),
		AtMost(name+"/memory", "MiB", float64(sum)/(1<<20), 300, fmt.Sprintf("resident in all processes (%s) after %d rows have passed; the peaks add up to %d", parts, wideRows(n, 10), most>>20)),
	}
	if !sharing {
		return out, nil
	}
	// Again with rows between all pairs of a source and a sink.
	if _, err := c.cl.Wish(ctx, "wide", record.WishCancelled); err != nil {
		return out, err
	}
	if _, err := c.until(ctx, "wide", state.JobCancelled); err != nil {
		return out, err
	}
	if _, err := c.submit(ctx, "pairs", wide(n, "STREAMING", sharing, 6*n, 1, 0)); err != nil {
		return out, err
	}
	if err := c.arrived(ctx, "pairs", wideRows(n, 6*n)); err != nil {
		return out, err
	}
	time.Sleep(time.Second) // what is idle has been given back
	if sum, most, parts, err = c.memory(); err != nil {
		return out, err
	}
	return append(out, Told(name+"/memory-all-pairs", "MiB", float64(sum)/(1<<20), fmt.Sprintf("the same (%s) after %d rows have passed between %d pairs of task groups; the peaks add up to %d", parts, wideRows(n, 6*n), (n+1)*(n-1), most>>20))), nil
}

// arrived waits until that many rows of a live job have reached its sinks.
func (c *cluster) arrived(ctx context.Context, id plan.JobID, want int64) error {
	rows := int64(0)
	err := await(ctx, "every row to arrive", func() (bool, error) {
		var err error
		rows, err = c.taken(c.procs["c1"], id)
		return rows == want, err
	})
	if err != nil {
		err = fmt.Errorf("job %s: %d rows of %d: %w", id, rows, want, err)
	}
	return err
}

// memory adds up what is resident in all processes now, and the most there was in each.
func (c *cluster) memory() (now, most int64, parts string, err error) {
	var each []string
	for _, name := range c.order {
		rss, peak, _, err := c.procs[name].memory()
		if err != nil {
			return 0, 0, "", err
		}
		now, most = now+rss, most+peak
		each = append(each, fmt.Sprintf("%s %d", name, rss>>20))
	}
	return now, most, strings.Join(each, ", "), nil
}

// since is the time from the submission until the job ran, by the clocks of the two processes.
func since(s *record.JobStatus) time.Duration {
	if s == nil || s.Started == nil {
		return 0
	}
	return s.Started.Sub(s.Submitted).Round(time.Millisecond)
}

// profile takes profiles of all roles while the caller works, into the folder that STRAIT_BENCH_PROFILES names: of the
// processor for so long, then of the heap and of goroutines. wait returns when they are written.
func (c *cluster) profile(what string, d time.Duration) (wait func()) {
	dir := os.Getenv("STRAIT_BENCH_PROFILES")
	if dir == "" {
		return func() {}
	}
	var all sync.WaitGroup
	for _, p := range c.procs {
		all.Go(func() {
			for _, x := range [][2]string{{"cpu", fmt.Sprintf("profile?seconds=%d", int(d.Seconds()))}, {"heap", "heap"}, {"goroutines", "goroutine?debug=1"}} {
				if body, err := p.get("/debug/pprof/" + x[1]); err == nil {
					_ = os.WriteFile(filepath.Join(dir, what+"-"+p.name+"."+x[0]), []byte(body), 0o644)
				}
			}
		})
	}
	return all.Wait
}
