package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"strait/kv/record"
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
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, c.logs())
		}
	}()
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
	profiles := c.profile(2)
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
	err = await(ctx, "every task group to run", func() (bool, error) {
		got, _, err := c.grouped(ctx, "wide")
		return got[state.TaskRunning]+got[state.TaskDrained] == 2*n, err
	})
	if err != nil {
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
	rows := int64(0)
	err = await(ctx, "every row to arrive", func() (bool, error) {
		var err error
		rows, err = c.taken(c.procs["c1"], "wide")
		return rows == wideRows(n, 10), err
	})
	if err != nil {
		return nil, fmt.Errorf("%d rows of %d: %w", rows, wideRows(n, 10), err)
	}
	sum, most := int64(0), int64(0)
	parts := []string{}
	for _, name := range c.order {
		rss, peak, _, err := c.procs[name].memory()
		if err != nil {
			return nil, err
		}
		sum, most = sum+rss, most+peak
		parts = append(parts, fmt.Sprintf("%s %d", name, rss>>20))
	}
	profiles()
	st, _ := c.cl.Get(ctx, "wide")
	return []Figure{
		AtMost(name+"/running", "s", running.Seconds(), 2, fmt.Sprintf("%d task groups, %d slots; from Submit until the status says RUNNING (its own clock: %v); %d revisions", 2*n, 3*slots, since(st.Status), txns-before)),
		Told(name+"/groups", "s", groups.Seconds(), fmt.Sprintf("until every task group said that it runs; all processes together used %v of processor time", spent)),
		AtMost(name+"/memory", "MiB", float64(sum)/(1<<20), 300, fmt.Sprintf("resident in all processes (%s) after %d rows have passed all pairs; the peaks add up to %d", strings.Join(parts, ", "), rows, most>>20)),
	}, nil
}

// since is the time from the submission until the job ran, by the clocks of the two processes.
func since(s *record.JobStatus) time.Duration {
	if s == nil || s.Started == nil {
		return 0
	}
	return s.Started.Sub(s.Submitted).Round(time.Millisecond)
}

// profile takes CPU profiles of all roles while the caller works, into STRAIT_BENCH_PROFILES if that names a folder.
func (c *cluster) profile(seconds int) (wait func()) {
	dir := os.Getenv("STRAIT_BENCH_PROFILES")
	if dir == "" {
		return func() {}
	}
	done := make(chan struct{}, len(c.procs))
	for _, p := range c.procs {
		go func() {
			defer func() { done <- struct{}{} }()
			if body, err := p.get(fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds)); err == nil {
				_ = os.WriteFile(filepath.Join(dir, p.name+".cpu"), []byte(body), 0o644)
			}
			if body, err := p.get("/debug/pprof/heap"); err == nil {
				_ = os.WriteFile(filepath.Join(dir, p.name+".heap"), []byte(body), 0o644)
			}
			if body, err := p.get("/debug/pprof/goroutine?debug=1"); err == nil {
				_ = os.WriteFile(filepath.Join(dir, p.name+".goroutines"), []byte(body), 0o644)
			}
		}()
	}
	return func() {
		for range c.procs {
			<-done
		}
	}
}

