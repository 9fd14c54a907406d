package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"strait/integration/harness"
	"strait/plan/units"
)

// peak is the most memory that a process has had resident, in bytes (VmHWM).
func peak(t *testing.T, p *harness.Process) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(data)
	if m == nil {
		t.Fatalf("no peak in %s", data)
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// wideJob has rows of so many megabytes at parallelism 8, hashed to seven subtasks of a sink that takes its time. A
// table with a deletion makes the source one whose rows are hashed by key.
func wideJob(t *testing.T, dir string, rows, megabytes int) string {
	columns, values := "", ""
	for i := range megabytes {
		columns += fmt.Sprintf(", c%d = string", i)
		values += ", x"
	}
	return writeJob(t, dir, fmt.Sprintf(`
env { job.mode = "BATCH", parallelism = 8, job.retry.times = 3 }
source { FakeSource { parallelism = 8, tables_configs = [
  { row.num = %d, string.length = 1000000
    schema { table = "wide", fields { id = bigint%s }, primaryKey { name = pk, columnNames = [id] } } }
  { schema { table = "tiny", fields { id = bigint%s }, primaryKey { name = pk, columnNames = [id] } }
    rows = [ { kind = DELETE, fields = [1%s] } ] } ] } }
sink { Console { parallelism = 7, log.print.data = false, log.print.delay.ms = 3 } }
`, rows, columns, columns, values))
}

// TestWideRowsInLittleMemory: a job of wide rows, a slow sink and a full exchange does not cost a small worker its
// process; a job beside it is not hurt either.
func TestWideRowsInLittleMemory(t *testing.T) {
	const budget, rows = 96 << 20, 15
	f := harness.Start(t, harness.Options{Workers: 2, Slots: 6, Worker: []string{"--memory", fmt.Sprint(budget)}})
	wide := f.Command("job", "submit", "--id", "wide", wideJob(t, f.Dir, rows, 6))
	if err := wide.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Await("the wide job runs", limit, func() bool {
		return strings.Contains(f.Keys("/strait/v1/jobstatus/wide")["/strait/v1/jobstatus/wide"], `"RUNNING"`)
	})
	out := filepath.Join(f.Dir, "out")
	if r := f.Stctl("job", "submit", "-i", "out="+out, ordersJob(t, f.Dir)); r.Code != 0 {
		t.Fatalf("the job beside it: exit %d\n%s\n%s\n%s", r.Code, r.Stdout, r.Stderr, f.Logs())
	}
	wantIDs(t, orderIDs(t, out), 1, 200)
	if r := wide.Wait(t, limit); r.Code != 0 {
		t.Fatalf("exit %d\n%s\n%s\n%s", r.Code, r.Stdout, r.Stderr, f.Logs())
	}
	var st struct {
		Vertices []struct {
			Vertex  string
			RowsIn  int64
			RowsOut int64
		}
	}
	r := f.Stctl("--output", "json", "job", "status", "wide")
	if err := json.Unmarshal([]byte(r.Stdout), &st); err != nil || len(st.Vertices) != 2 {
		t.Fatalf("%v: %s%s", err, r.Stdout, r.Stderr)
	}
	if n := st.Vertices[1].RowsOut; n != 8*(rows+1) {
		t.Errorf("the sink has %d rows, want %d", n, 8*(rows+1))
	}
	// A worker's process stays below twice its budget and what it needs for itself. (With plenty of memory this job
	// takes half as much again.)
	const most = 2*budget + 32<<20
	for _, w := range f.Members {
		got := peak(t, f.Process(w))
		t.Logf("%s: at most %s resident, bound %s", w, units.FormatBytes(got), units.FormatBytes(most))
		if got > most && !harness.RaceEnabled { // the detector takes several times what it watches
			t.Errorf("%s: too much", w)
		}
	}
}

// TestRowTooLarge: a row that its worker's memory cannot take fails its job with vertex and sizes, at once and without
// a restart. The worker goes on as it was.
func TestRowTooLarge(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 1, Slots: 8, Worker: []string{"--memory", "96MiB"}})
	worker := "/strait/v1/workers/w1"
	before := f.Keys(worker)[worker]
	r := f.Stctl("job", "submit", "--id", "huge", wideJob(t, f.Dir, 2, 40))
	if r.Code != 1 {
		t.Errorf("exit %d, want 1", r.Code)
	}
	for _, want := range []string{"source[0] (FakeSource)", "a row of 38.1 MiB is too large", "of the 96.0 MiB", "may take 24.0 MiB", "env.slot.memory"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("%q is not said:\n%s", want, r.Stderr)
		}
	}
	if now := f.Keys(worker)[worker]; now != before {
		t.Errorf("the worker is another one:\n%s\nbefore\n%s", now, before)
	}
	out := filepath.Join(f.Dir, "out")
	if r := f.Stctl("job", "submit", "-i", "out="+out, ordersJob(t, f.Dir)); r.Code != 0 {
		t.Fatalf("the job after it: exit %d\n%s\n%s\n%s", r.Code, r.Stdout, r.Stderr, f.Logs())
	}
	wantIDs(t, orderIDs(t, out), 1, 200)
}

// TestNotAdmitted: a worker refuses what cannot work with its memory, and says what is missing.
func TestNotAdmitted(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 1, Slots: 400, Worker: []string{"--memory", "16MiB"}})
	job := writeJob(t, f.Dir, `
env { parallelism = 300, job.retry.times = 0 }
source { FakeSource { row.num = 1, schema { fields { id = bigint } } } }
sink { Console { parallelism = 200, log.print.data = false } }
`)
	r := f.Stctl("job", "submit", job)
	if r.Code != 1 {
		t.Errorf("exit %d, want 1", r.Code)
	}
	for _, want := range []string{"worker w1: not admitted: 300 source subtasks, 200 sink subtasks, 200 ends of exchanges need", "of the 16.0 MiB of this worker (worker.memory)", "lower the parallelism"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("%q is not said:\n%s", want, r.Stderr)
		}
	}
}
