package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"strait/integration/harness"
)

const limit = 2 * time.Minute

// orderIDs reads the id column of every parquet file below dir, sorted.
func orderIDs(t *testing.T, dir string) []int64 {
	t.Helper()
	var ids []int64
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		r, err := file.OpenParquetFile(path, false)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer r.Close()
		pr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		tbl, err := pr.ReadTable(t.Context())
		if err != nil {
			return err
		}
		for _, chunk := range tbl.Column(tbl.Schema().FieldIndices("id")[0]).Data().Chunks() {
			ids = append(ids, chunk.(*array.Int64).Int64Values()...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	return ids
}

// wantIDs fails unless ids are from to to, each once.
func wantIDs(t *testing.T, ids []int64, from, to int64) {
	t.Helper()
	if int64(len(ids)) != to-from+1 {
		t.Fatalf("%d rows, want %d", len(ids), to-from+1)
	}
	for i, id := range ids {
		if id != from+int64(i) {
			t.Fatalf("row %d has id %d, want %d: a row is missing or there twice", i, id, from+int64(i))
		}
	}
}

// leftovers lists the files below dir, a folder for temporary files.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var left []string
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return nil
	})
	return left
}

// ordersJob writes a copy of the main job whose output goes below dir and returns its path.
func ordersJob(t *testing.T, dir string) string {
	t.Helper()
	root := harness.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "integration/jobs/orders.conf"))
	if err != nil {
		t.Fatal(err)
	}
	s := strings.ReplaceAll(string(text), `"/tmp/strait/.tmp"`, `"`+dir+`/tmp"`)
	s = strings.ReplaceAll(s, `"integration/jobs/orders.csv"`, `"`+root+`/integration/jobs/orders.csv"`)
	path := filepath.Join(dir, "orders.conf")
	if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMainJobInOneProcess(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	r := harness.Run(t, harness.Root(t), limit, "run", "-i", "out="+out, "integration/jobs/orders.conf")
	if r.Code != 0 {
		t.Fatalf("exit %d\n%s\n%s", r.Code, r.Stdout, r.Stderr)
	}
	wantIDs(t, orderIDs(t, out), 1, 200)
	if n := strings.Count(r.Stdout, "rowIndex="); n != 200 {
		t.Errorf("Console printed %d rows, want 200", n)
	}
	for _, want := range []string{"orders", "sink.LocalFile.0", "ROWS/S", "FINISHED"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("the end says nothing of %s:\n%s", want, r.Stderr)
		}
	}
}

func TestMainJobOnThreeWorkers(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 3, Slots: 2})
	out := filepath.Join(f.Dir, "out")
	r := f.Stctl("job", "submit", "-i", "out="+out, "--output", "json", ordersJob(t, f.Dir))
	if r.Code != 0 {
		t.Fatalf("exit %d\n%s\n%s\n%s", r.Code, r.Stdout, r.Stderr, f.Logs())
	}
	wantIDs(t, orderIDs(t, out), 1, 200)
	if left := leftovers(t, filepath.Join(f.Dir, "tmp")); len(left) > 0 {
		t.Errorf("left below the temporary folder: %v", left)
	}
	var end struct{ ID, Phase string }
	if err := json.Unmarshal([]byte(r.Stdout), &end); err != nil || end.Phase != "FINISHED" {
		t.Fatalf("submit --output json: %v: %s", err, r.Stdout)
	}
	status := f.Stctl("job", "status", "--output", "json", end.ID[:5])
	var st struct{ Phase string }
	if err := json.Unmarshal([]byte(status.Stdout), &st); err != nil || st.Phase != "FINISHED" {
		t.Fatalf("status by a prefix of the id: %v: %s%s", err, status.Stdout, status.Stderr)
	}
	rows := 0
	for _, w := range f.Members {
		rows += strings.Count(f.Process(w).Stdout(), "rowIndex=")
	}
	if rows != 200 {
		t.Errorf("Console printed %d rows on the workers, want 200", rows)
	}
}

// shape replaces what differs between two runs of one job in a key.
var shape = []struct {
	re  *regexp.Regexp
	put string
}{
	{regexp.MustCompile(`^(/strait/v1/[a-z]+)/[a-z0-9]{10}(/|$)`), "$1/JOB$2"},
	{regexp.MustCompile(`^(/strait/v1/workers)/.*`), "$1/WORKER"},
	{regexp.MustCompile(`^(/strait/v1/leader)/.*`), "$1/LEADER"},
}

func shapes(keys map[string]string) []string {
	seen := map[string]bool{}
	for k := range keys {
		for _, s := range shape {
			k = s.re.ReplaceAllString(k, s.put)
		}
		seen[k] = true
	}
	out := make([]string, 0, len(seen))
	for k := range seen {
		if !strings.Contains(k, "/workers/") && !strings.Contains(k, "/leader/") { // they go with their processes
			out = append(out, k)
		}
	}
	sort.Strings(out)
	return out
}

// restingShapes waits until the leader has taken away what workers held of ended jobs, and gives the shapes of the rest.
func restingShapes(f *harness.Fleet) []string {
	var out []string
	f.Await("workers' keys to be gone", limit, func() bool {
		out = shapes(f.Keys("/strait/v1/"))
		return !slices.ContainsFunc(out, func(k string) bool {
			return strings.Contains(k, "/acks/") || strings.Contains(k, "/taskstatus/") || strings.Contains(k, "/tasks/") || strings.Contains(k, "/slots/")
		})
	})
	return out
}

// TestRunLeavesTheKeysOfAFleet compares what `stctl run --data-dir` leaves in etcd with what a fleet leaves.
func TestRunLeavesTheKeysOfAFleet(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 1, Slots: 2})
	if r := f.Stctl("job", "submit", "-i", "out="+filepath.Join(f.Dir, "out"), ordersJob(t, f.Dir)); r.Code != 0 {
		t.Fatalf("submit: exit %d\n%s\n%s", r.Code, r.Stderr, f.Logs())
	}
	fleet := restingShapes(f)

	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	r := harness.Run(t, dir, limit, "run", "--data-dir", data, "-i", "out="+filepath.Join(dir, "out"), ordersJob(t, dir))
	if r.Code != 0 {
		t.Fatalf("run: exit %d\n%s", r.Code, r.Stderr)
	}
	// The same folder opened by a coordinator shows what run left.
	g := harness.StartOn(t, data)
	alone := restingShapes(g)
	if strings.Join(fleet, "\n") != strings.Join(alone, "\n") {
		t.Errorf("keys of a fleet:\n%s\nkeys of run:\n%s", strings.Join(fleet, "\n"), strings.Join(alone, "\n"))
	}
	for _, want := range []string{"jobs/JOB", "jobstatus/JOB", "plans/JOB", "plans/JOB/000000", "pipelines/JOB/1", "checkpoints/JOB/1/000000000001", "history/JOB"} {
		if !contains(alone, "/strait/v1/"+want) {
			t.Errorf("run left no %s:\n%s", want, strings.Join(alone, "\n"))
		}
	}
}

func contains(all []string, s string) bool {
	i := sort.SearchStrings(all, s)
	return i < len(all) && all[i] == s
}

func TestTwoRunsAtOnceDoNotMeet(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	var ps []*harness.Process
	for _, d := range dirs {
		p := harness.Command(t, d, "run", "-i", "out="+filepath.Join(d, "out"), ordersJob(t, d))
		if err := p.Cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	for i, p := range ps {
		if r := p.Wait(t, limit); r.Code != 0 {
			t.Fatalf("run %d: exit %d\n%s", i, r.Code, r.Stderr)
		}
		wantIDs(t, orderIDs(t, filepath.Join(dirs[i], "out")), 1, 200)
	}
}

const endless = `
env { job.mode = "STREAMING", parallelism = 1 }
source { FakeSource { row.num = 10, schema { fields { id = bigint } } } }
sink { Console { } }
`

func writeJob(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "job.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startRun starts stctl run and waits until it has printed something.
func startRun(t *testing.T, dir, marker string, args ...string) *harness.Process {
	t.Helper()
	p := harness.Command(t, dir, append([]string{"run"}, args...)...)
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Cmd.Process.Kill() })
	deadline := time.Now().Add(limit)
	for !strings.Contains(p.Stdout()+p.Stderr(), marker) {
		if p.Exited() || time.Now().After(deadline) {
			t.Fatalf("run never said %q\n%s\n%s", marker, p.Stdout(), p.Stderr())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return p
}

func TestInterruptCancels(t *testing.T) {
	dir := t.TempDir()
	p := startRun(t, dir, "SeaTunnelRow#", writeJob(t, dir, endless))
	if err := p.Cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r := p.Wait(t, limit)
	if r.Code != 3 || !strings.Contains(r.Stderr, "CANCELLED") {
		t.Errorf("exit %d, want 3 and CANCELLED\n%s", r.Code, r.Stderr)
	}
}

func TestSecondInterruptLeavesAtOnce(t *testing.T) {
	dir := t.TempDir()
	p := harness.Command(t, dir, "run", writeJob(t, dir, endless))
	p.Cmd.Env = append(p.Cmd.Env, "STRAIT_FAILPOINTS=cli.cancel=sleep:1h")
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Cmd.Process.Kill() })
	deadline := time.Now().Add(limit)
	wait := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			if p.Exited() || time.Now().After(deadline) {
				t.Fatalf("%s: not so\n%s\n%s", what, p.Stdout(), p.Stderr())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	wait("rows", func() bool { return strings.Contains(p.Stdout(), "SeaTunnelRow#") })
	_ = p.Cmd.Process.Signal(syscall.SIGINT)
	wait("first interrupt is told", func() bool { return strings.Contains(p.Stderr(), "cancelling") })
	_ = p.Cmd.Process.Signal(syscall.SIGINT)
	if r := p.Wait(t, limit); r.Code != 3 {
		t.Errorf("exit %d, want 3", r.Code)
	}
}

func TestWishByHandCancels(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 1, Slots: 1})
	if r := f.Stctl("job", "submit", "--detach", "--id", "endless", writeJob(t, f.Dir, endless)); r.Code != 0 {
		t.Fatalf("submit: exit %d\n%s", r.Code, r.Stderr)
	}
	f.Await("job runs", limit, func() bool {
		return strings.Contains(f.Keys("/strait/v1/jobstatus/")["/strait/v1/jobstatus/endless"], `"RUNNING"`)
	})
	etcdctl(t, f, "put", "/strait/v1/wishes/endless", "cancelled")
	r := f.Stctl("job", "wait", "endless")
	if r.Code != 3 {
		t.Errorf("wait: exit %d, want 3\n%s\n%s", r.Code, r.Stderr, f.Logs())
	}
	if held := f.Keys("/strait/v1/slots/"); len(held) > 0 {
		t.Errorf("slots are still held: %v", held)
	}
}
