package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/integration/bench/yardstick"
)

// Figures of whole processes: the real binary runs a job file, the time of a job of five rows is taken off where
// a rate is meant.
func init() {
	Register("fake", fakeFigures)
	Register("csv", csvFigures)
	Register("memory", memoryFigures)
	Register("small", smallFigures)
}

// folder is where the figures keep their binary and their data between runs; git ignores it.
const folder = ".bench"

// stctl is the binary to measure, where it is not to be built.
var stctl string

func binary() (string, error) {
	if stctl != "" {
		return stctl, nil
	}
	return build()
}

var build = sync.OnceValues(func() (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	path, err := filepath.Abs(filepath.Join(folder, "stctl"))
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", path, "./cmd/stctl").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build stctl: %w\n%s", err, out)
	}
	return path, nil
})

// ran is a process that has ended well.
type ran struct {
	wall, cpu time.Duration
	rss       int64 // peak, bytes
	rows      int64 // out of the first vertex
}

// run runs a job text with stctl run.
func run(name, text string) (ran, error) {
	bin, err := binary()
	if err != nil {
		return ran{}, err
	}
	path := filepath.Join(folder, name+".conf")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return ran{}, err
	}
	cmd := exec.Command(bin, "run", "--output", "json", path)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return ran{}, fmt.Errorf("stctl run %s: %w", path, err)
	}
	rss := watchPeak(cmd.Process.Pid)
	err = cmd.Wait()
	r := ran{wall: time.Since(began), rss: rss()}
	if err != nil {
		return ran{}, fmt.Errorf("stctl run %s: %w\n%s", path, err, said.String())
	}
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	var end struct {
		Vertices []struct{ RowsOut int64 }
	}
	if err := json.Unmarshal([]byte(out.String()), &end); err != nil {
		return r, fmt.Errorf("stctl run --output json: %w", err)
	}
	if len(end.Vertices) > 0 {
		r.rows = end.Vertices[0].RowsOut
	}
	return r, nil
}

// watchPeak follows the peak of what a process has resident, in bytes, until the answer is asked for. The peak in a
// child's resource usage would do only for a small parent: exec carries the parent's own peak over into it.
func watchPeak(pid int) func() int64 {
	stop, peak := make(chan struct{}), make(chan int64)
	go func() {
		most := int64(0)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			_, now := resident(pid)
			most = max(most, now)
			select {
			case <-tick.C:
			case <-stop:
				tick.Stop()
				peak <- most
				return
			}
		}
	}()
	return func() int64 { close(stop); return <-peak }
}

func fakeJob(rows, splits int) string {
	return fmt.Sprintf(`
env { job.mode = "BATCH", parallelism = 1 }
source { FakeSource { row.num = %d, split.num = %d, seed = 7, string.length = 12
  schema { fields { id = bigint, amount = double, name = string, at = timestamp } } } }
sink { Blackhole { } }
`, rows, splits)
}

// baseline is the median wall time of a job of five rows.
func baseline() (time.Duration, error) {
	var all []float64
	for range Rounds {
		r, err := run("five", fakeJob(5, 1))
		if err != nil {
			return 0, err
		}
		all = append(all, float64(r.wall))
	}
	return time.Duration(Median(all)), nil
}

// rateOf is rows a second of a job, the time of a job of five rows taken off.
func rateOf(name, text string, wantRows int64, base time.Duration) (float64, error) {
	r, err := run(name, text)
	if err != nil {
		return 0, err
	}
	if r.rows != wantRows {
		return 0, fmt.Errorf("job %s read %d rows, want %d", name, r.rows, wantRows)
	}
	return float64(r.rows) / (r.wall - base).Seconds(), nil
}

// fakeFigures: FakeSource to Blackhole against a bare loop that fills the same builders.
func fakeFigures() ([]Figure, error) {
	const rows = 20_000_000
	base, err := baseline()
	if err != nil {
		return nil, err
	}
	engine := func() (float64, error) { return rateOf("fake", fakeJob(rows, 4), rows, base) }
	bare := func() (float64, error) {
		began := time.Now()
		yardstick.Fill(rows)
		return rows / time.Since(began).Seconds(), nil
	}
	a, b, ratio, err := Alternate(engine, bare)
	return []Figure{{Name: "fake/blackhole", Unit: "rows/s", Value: a, Yardstick: b, Ratio: ratio, Wanted: 0.5}}, err
}

const csvSchema = `schema { fields { id = bigint, customer = int, price = "decimal(12, 2)", weight = double, born = date,
  changed = timestamp, city = string, note = string } }`

func csvJob(path string, parallelism int) string {
	return fmt.Sprintf(`
env { job.mode = "BATCH", parallelism = %d }
source { LocalFile { path = %q, file_format_type = "csv", field_delimiter = ",", %s } }
sink { Blackhole { } }
`, parallelism, path, csvSchema)
}

func csvFile(name string, size int64) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	path, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		return "", err
	}
	return path, yardstick.WriteCSV(path, size)
}

// csvFigures: a CSV file of 1 GB with typed columns to Blackhole against encoding/csv that merely reads it.
func csvFigures() ([]Figure, error) {
	path, err := csvFile("1g.csv", 1<<30)
	if err != nil {
		return nil, err
	}
	rows, err := yardstick.ReadCSV(path, 0, 0)
	if err != nil {
		return nil, err
	}
	half, err := yardstick.RecordAfter(path, 1<<29)
	if err != nil {
		return nil, err
	}
	base, err := baseline()
	if err != nil {
		return nil, err
	}
	bare := func(parts ...[2]int64) func() (float64, error) {
		return func() (float64, error) {
			began := time.Now()
			var g errgroup.Group
			for _, p := range parts {
				g.Go(func() error {
					_, err := yardstick.ReadCSV(path, p[0], p[1])
					return err
				})
			}
			err := g.Wait()
			return float64(rows) / time.Since(began).Seconds(), err
		}
	}
	var out []Figure
	for _, c := range []struct {
		parallelism int
		bare        func() (float64, error)
		wanted      float64
	}{{1, bare([2]int64{0, 0}), 1}, {2, bare([2]int64{0, half}, [2]int64{half, 0}), 0.9}} {
		engine := func() (float64, error) {
			return rateOf(fmt.Sprintf("csv%d", c.parallelism), csvJob(path, c.parallelism), rows, base)
		}
		a, b, ratio, err := Alternate(engine, c.bare)
		if err != nil {
			return out, err
		}
		out = append(out, Figure{Name: fmt.Sprintf("csv/parallelism-%d", c.parallelism), Unit: "rows/s", Value: a, Yardstick: b, Ratio: ratio, Wanted: c.wanted})
	}
	return out, nil
}

// memoryFigures: peak memory of the CSV job on 500 MB and on 4 GB, and of a worker without work.
func memoryFigures() ([]Figure, error) {
	small, err := csvFile("500m.csv", 500e6)
	if err != nil {
		return nil, err
	}
	big := filepath.Join(filepath.Dir(small), "4g")
	if err := os.MkdirAll(big, 0o755); err != nil {
		return nil, err
	}
	for i := range 8 { // one file under eight names: the reader sees 4 GB
		if err := os.Link(small, filepath.Join(big, fmt.Sprintf("part-%d.csv", i))); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	peak := func(name, path string) func() (float64, error) {
		return func() (float64, error) {
			r, err := run(name, csvJob(path, 1))
			return float64(r.rss) / (1 << 20), err
		}
	}
	rounds := Rounds
	Rounds = 3 // a peak varies little
	a, b, ratio, err := Alternate(peak("csv4g", big), peak("csv500m", small))
	Rounds = rounds
	if err != nil {
		return nil, err
	}
	idle, err := idleWorker()
	return []Figure{
		{Name: "memory/csv-4g-peak", Unit: "MiB", Value: a, Yardstick: 200, Ratio: a / 200, Wanted: 1, AtMost: true},
		{Name: "memory/csv-4g-to-500m", Unit: "MiB", Value: a, Yardstick: b, Ratio: ratio, Wanted: 1.15, AtMost: true},
		{Name: "memory/idle-worker", Unit: "MiB", Value: idle, Yardstick: 60, Ratio: idle / 60, Wanted: 1, AtMost: true},
	}, err
}

// smallFigures: a job of five rows from start to exit, and a submitted job until its first row.
func smallFigures() ([]Figure, error) {
	base, err := baseline()
	if err != nil {
		return nil, err
	}
	first, err := submitToFirstRow()
	return []Figure{
		{Name: "small/five-rows", Unit: "s", Value: base.Seconds(), Yardstick: 0.4, Ratio: base.Seconds() / 0.4, Wanted: 1, AtMost: true},
		{Name: "small/submit-to-first-row", Unit: "s", Value: first.Seconds(), Yardstick: 0.3, Ratio: first.Seconds() / 0.3, Wanted: 1, AtMost: true},
	}, err
}

// role is a role of a fleet on loopback.
type role struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	ready string // the line in which it said so
}

func startRole(ctx context.Context, args ...string) (*role, error) {
	bin, err := binary()
	if err != nil {
		return nil, err
	}
	r := &role{cmd: exec.CommandContext(ctx, bin, append([]string{"serve"}, args...)...)}
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(syscall.SIGTERM) }
	r.cmd.WaitDelay = 10 * time.Second
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	r.lines = bufio.NewScanner(out)
	for r.lines.Scan() {
		if strings.Contains(r.lines.Text(), " ready: ") {
			r.ready = r.lines.Text()
			return r, nil
		}
	}
	return nil, fmt.Errorf("serve %s ended while it started: %w", args[0], r.cmd.Wait())
}

// fleet starts a coordinator and a worker and returns the etcd of the fleet.
func fleet(ctx context.Context) (etcd string, worker *role, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	dir, err := os.MkdirTemp("", "strait-bench-")
	if err != nil {
		cancel()
		return "", nil, nil, err
	}
	var all []*role
	stop = func() {
		cancel()
		for _, r := range all {
			_ = r.cmd.Wait()
		}
		_ = os.RemoveAll(dir)
	}
	c, err := startRole(ctx, "coordinator", "--name", "c1", "--data-dir", dir, "--etcd-listen", "127.0.0.1:0")
	if err != nil {
		stop()
		return "", nil, nil, err
	}
	all = append(all, c)
	_, rest, _ := strings.Cut(c.ready, "etcd ")
	etcd, _, _ = strings.Cut(rest, ",")
	if worker, err = startRole(ctx, "worker", "--name", "w1", "--etcd-endpoints", etcd); err != nil {
		stop()
		return "", nil, nil, err
	}
	all = append(all, worker)
	return etcd, worker, stop, nil
}

// submitToFirstRow is the median time from the start of `job submit` until the worker prints the first row.
func submitToFirstRow() (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	etcd, worker, stop, err := fleet(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	path := filepath.Join(folder, "first.conf")
	text := strings.Replace(fakeJob(5, 1), "Blackhole", "Console", 1)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return 0, err
	}
	bin, err := binary()
	if err != nil {
		return 0, err
	}
	var all []float64
	for range Rounds {
		cmd := exec.CommandContext(ctx, bin, "--etcd-endpoints", etcd, "job", "submit", path)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		for worker.lines.Scan() {
			if strings.Contains(worker.lines.Text(), "rowIndex=1") {
				all = append(all, float64(time.Since(began)))
				break
			}
		}
		if err := cmd.Wait(); err != nil {
			return 0, fmt.Errorf("job submit: %w", err)
		}
	}
	return time.Duration(Median(all)), nil
}

// idleWorker is the resident memory, in MiB, of a worker that waits for work.
func idleWorker() (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_, worker, stop, err := fleet(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	time.Sleep(2 * time.Second) // idle is what is measured
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", worker.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var kb float64
	for line := range strings.Lines(string(status)) {
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kb); n == 1 {
			return kb / 1024, nil
		}
	}
	return 0, errors.New("no VmRSS in /proc status")
}
