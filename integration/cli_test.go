package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait/integration/harness"
)

// object decodes what a command printed as JSON and fails unless it is one value.
func object[T any](t *testing.T, r harness.Result) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(r.Stdout))
	if err := d.Decode(&v); err != nil || d.More() {
		t.Fatalf("standard output is not one JSON value: %v\n%s", err, r.Stdout)
	}
	return v
}

const small = `
source { FakeSource { row.num = 3, schema { fields { id = bigint } } } }
sink { Console { } }
`

// TestCommandsOfAFleet: what the commands say and how they exit, before there is a worker and after.
func TestCommandsOfAFleet(t *testing.T) {
	f := harness.Start(t, harness.Options{Slots: 2})
	want := func(code int, stdout, stderr string, args ...string) harness.Result {
		t.Helper()
		r := f.Stctl(args...)
		if r.Code != code || stdout != "*" && r.Stdout != stdout || stderr != "*" && r.Stderr != stderr {
			t.Errorf("stctl %v: exit %d\n%s%swant exit %d\n%s%s", args, r.Code, r.Stdout, r.Stderr, code, stdout, stderr)
		}
		wantPlain(t, r.Stderr)
		return r
	}
	has := func(r harness.Result, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(r.Stdout+r.Stderr, text) {
				t.Errorf("says nothing of %q:\n%s%s", text, r.Stdout, r.Stderr)
			}
		}
	}
	job := writeJob(t, f.Dir, small)

	// An empty fleet.
	want(0, "NAME  STATE  SLOTS  CPU  MEMORY  DATA  OPS  LABELS  PROTOCOL  VERSION  INCARNATION\n", "no workers; `stctl serve worker` starts one\n", "worker", "list")
	want(0, "[]\n", "", "worker", "list", "--output", "json")
	want(0, "ID  NAME  PHASE  SUBMITTED  ENDED  MESSAGE\n", "no jobs; `stctl job submit FILE` submits one\n", "job", "list")
	want(0, "[]\n", "", "job", "list", "-o", "json")
	for _, c := range []string{"status", "describe", "wait", "cancel"} {
		want(1, "", "job nope: no such job; `stctl job list` shows all\n", "job", c, "nope")
		want(1, "", fmt.Sprintf("stctl job %s takes one job id; `stctl job list` shows them\n", c), "job", c)
	}

	// Jobs that wait.
	want(0, "alpha-1\n", "", "job", "submit", "--detach", "--id", "alpha-1", job)
	want(1, "", "job alpha-1: job id is taken; choose another id, or leave it out to get a new one\n", "job", "submit", "--id", "alpha-1", job)
	want(1, "", "job \"Alpha\" is not a valid name; use 1 to 63 of a-z, 0-9 and '-', beginning with a letter or digit\n", "job", "submit", "--id", "Alpha", job)
	r := want(0, "*", "", "job", "submit", "--detach", "--id", "alpha-2", "--name", "second", "--label", "team=x", "--output", "json", job)
	if got := object[struct{ ID string }](t, r); got.ID != "alpha-2" {
		t.Errorf("submit --detach --output json: %s", r.Stdout)
	}
	want(1, "", "job alpha: ambiguous id: 2 jobs begin so: alpha-1, alpha-2; write more of it\n", "job", "status", "alpha")
	const waits = "needs 1 slot, no worker is there; start one with `stctl serve worker`"
	type status struct {
		ID, Name, Phase, Reason, Message string
		Groups                           []struct{ Group, State, Worker string }
	}
	var timed []*harness.Process
	for _, args := range [][]string{
		{"job", "wait", "alpha-2"}, {"job", "wait", "alpha-2", "--output", "json"}, {"job", "submit", "--id", "beta", "-o", "json", job},
	} {
		p := f.Command(append(args, "--timeout", "3s")...)
		if err := p.Cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timed = append(timed, p)
	}
	for i, p := range timed {
		r := p.Wait(t, limit)
		if r.Code != 124 || !strings.Contains(r.Stderr, " PENDING: "+waits) || !strings.Contains(r.Stderr, "timed out; job ") {
			t.Errorf("%v: exit %d\n%s", p.Cmd.Args[1:], r.Code, r.Stderr)
		}
		id := []string{"", "alpha-2", "beta"}[i]
		if id == "" {
			if r.Stdout != "" {
				t.Errorf("standard output: %s", r.Stdout)
			}
		} else if got := object[status](t, r); got.ID != id || got.Phase != "PENDING" || !strings.HasPrefix(got.Message, waits) {
			t.Errorf("%v: %+v", p.Cmd.Args[1:], got)
		}
	}
	if got := object[status](t, want(0, "*", "", "job", "status", "-o", "json", "alpha-2")); got.ID != "alpha-2" || got.Name != "second" || got.Phase != "PENDING" || !strings.HasPrefix(got.Message, waits) {
		t.Errorf("status: %+v", got)
	}
	has(want(0, "*", "", "job", "status", "alpha-1"), "job alpha-1 (job)  PENDING: "+waits)
	has(want(0, "*", "", "job", "describe", "alpha-2"), "spec: file job.conf, ", "labels: team=x")
	has(want(0, "*", "", "job", "list"), "alpha-1", "alpha-2", "second", "PENDING")

	// Cancelled while they wait.
	r = want(0, "*", "", "job", "cancel", "--detach", "-o", "json", "beta")
	if got := object[struct{ ID string }](t, r); got.ID != "beta" {
		t.Errorf("cancel --detach --output json: %s", r.Stdout)
	}
	want(3, "*", "*", "job", "wait", "beta")
	r = want(0, "*", "*", "job", "cancel", "alpha-1", "-o", "json")
	if got := object[status](t, r); got.ID != "alpha-1" || got.Phase != "CANCELLED" {
		t.Errorf("cancel --output json: %+v", got)
	}
	want(1, "", "job alpha-1: job has ended: it is CANCELLED\n", "job", "cancel", "alpha-1")
	r = want(3, "*", "*", "job", "wait", "alpha-1", "--output", "json")
	if got := object[status](t, r); got.Phase != "CANCELLED" {
		t.Errorf("wait of a cancelled job: %+v", got)
	}

	// A worker comes; what waited runs.
	f.StartWorker("w1", "--label", "zone=a")
	f.AwaitReady("w1")
	r = want(0, "", "*", "job", "wait", "alpha-2")
	has(r, "source.FakeSource.0", "sink.Console.0", "job alpha-2 (second) FINISHED in ")
	want(1, "", "job alpha-2: job has ended: it is FINISHED\n", "job", "cancel", "alpha-2")
	r = want(0, "*", "*", "job", "submit", "--output", "json", job)
	end := object[struct {
		ID, Phase string
		Seconds   float64
		Vertices  []struct {
			Vertex            string
			RowsIn, RowsOut   int64
			BytesIn, BytesOut int64
		}
	}](t, r)
	if end.ID == "" || end.Phase != "FINISHED" || len(end.Vertices) != 2 || end.Vertices[1].RowsIn != 3 {
		t.Errorf("submit --output json: %s", r.Stdout)
	}
	if got := object[status](t, want(0, "*", "", "job", "status", "--output", "json", end.ID[:6])); got.Phase != "FINISHED" || len(got.Groups) != 1 || got.Groups[0].Worker != "w1" || got.Groups[0].State != "FINISHED" {
		t.Errorf("status of a prefix: %+v", got)
	}
	has(want(0, "*", "", "job", "status", end.ID), "FINISHED", "pipeline 1  stopped (finished)", "1/0/0", "source.FakeSource.0 → sink.Console.0 @ w1")
	described := object[map[string]any](t, want(0, "*", "", "job", "describe", end.ID, "-o", "json"))
	for _, field := range []string{"id", "spec", "status", "history", "pipelines", "revision"} {
		if described[field] == nil {
			t.Errorf("describe --output json has no %s", field)
		}
	}
	workers := object[[]map[string]any](t, want(0, "*", "", "worker", "list", "-o", "json"))
	if len(workers) != 1 || workers[0]["name"] != "w1" {
		t.Errorf("worker list: %v", workers)
	}
	has(want(0, "*", "", "worker", "list"), "w1", "0/2", "zone=a")
	jobs := object[[]struct{ ID, Name, Phase, Submitted string }](t, want(0, "*", "", "job", "list", "--output", "json"))
	if len(jobs) != 4 || jobs[0].ID != end.ID || jobs[0].Phase != "FINISHED" || jobs[0].Submitted == "" || jobs[3].ID != "alpha-1" {
		t.Errorf("job list: %+v", jobs)
	}

	// Jobs that fail: for their text here, for their data there.
	bad := writeJob(t, t.TempDir(), strings.Replace(small, "row.num", "row.nmu", 1))
	want(1, "", bad+`:2: source[0] (FakeSource): unknown option "row.nmu"; did you mean "row.num"?`+"\n", "job", "submit", bad)
	gone := writeJob(t, t.TempDir(), `
source { LocalFile { path = "/no/such/file.csv", file_format_type = csv, schema { fields { id = bigint } } } }
sink { Console { } }`)
	r = want(1, "*", "*", "job", "submit", "--id", "gone", "-o", "json", gone)
	if got := object[status](t, r); got.ID != "gone" || got.Phase != "FAILED" || !strings.Contains(got.Message, "job.conf:2: source[0] (LocalFile): path: /no/such/file.csv does not exist on this host") {
		t.Errorf("a file that is not there: %s", r.Stdout)
	}
	want(1, "", "*", "job", "wait", "gone")
	// Not placeable by labels: it waits, since the fleet may grow.
	tagged := writeJob(t, t.TempDir(), `env { tag_filter { zone = "b" } }`+small)
	r = want(124, "", "*", "job", "submit", "--id", "tagged", "--timeout", "3s", tagged)
	has(r, "PENDING", "zone=b")
}

// TestRunAsJSON: one object on standard output, rows of the Console elsewhere.
func TestRunAsJSON(t *testing.T) {
	dir := t.TempDir()
	r := harness.Run(t, dir, limit, "run", "--output", "json", writeJob(t, dir, small))
	got := object[struct{ ID, Phase string }](t, r)
	if r.Code != 0 || got.ID == "" || got.Phase != "FINISHED" || strings.Count(r.Stderr, "rowIndex=") != 3 {
		t.Errorf("exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// TestQuietRun: a job of milliseconds says what it did and nothing of the states on the way.
func TestQuietRun(t *testing.T) {
	dir := t.TempDir()
	job := writeJob(t, dir, small)
	begin := time.Now()
	r := harness.Run(t, dir, limit, "run", job)
	lines := strings.Split(strings.TrimSpace(r.Stderr), "\n")
	if took := time.Since(begin); took > time.Second && len(lines) > 4 { // a state may have stood for a second
		t.Skipf("this machine took %v for it", took)
	}
	if r.Code != 0 || len(lines) != 4 || !strings.HasPrefix(lines[0], "PIPELINE ") || !endLine.MatchString(lines[3]) {
		t.Errorf("exit %d\n%s", r.Code, r.Stderr)
	}
	if strings.Count(r.Stdout, "\n") != 4 { // its heading and three rows
		t.Errorf("standard output:\n%s", r.Stdout)
	}
}

// TestRunOnATerminal: live lines come and go, rows and the end stay.
func TestRunOnATerminal(t *testing.T) {
	terminal, name := openTerminal(t)
	side, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := harness.Command(t, dir, "run", writeJob(t, dir, `
source { FakeSource { row.num = 6, split.num = 3, split.read-interval = 700, schema { fields { id = bigint } } } }
sink { Console { } }`))
	p.Cmd.Stdout, p.Cmd.Stderr = side, side
	p.Cmd.Env = append(p.Cmd.Env, "TERM=xterm")
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = side.Close()
	var seen lockedText
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := terminal.Read(buf)
			_, _ = seen.Write(buf[:n])
			if err != nil { // the last of the other side has closed it
				return
			}
		}
	}()
	r := p.Wait(t, limit)
	<-done
	text := seen.String()
	if r.Code != 0 || strings.Count(text, "rowIndex=") != 6 || !strings.Contains(text, "FINISHED in ") {
		t.Errorf("exit %d\n%q", r.Code, text)
	}
	for _, want := range []string{"pipeline 1 running", "\x1b[1A\x1b[J"} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal was not sent %q:\n%q", want, text)
		}
	}
	if i, j := strings.LastIndex(text, "\x1b["), strings.LastIndex(text, "PIPELINE "); i > j {
		t.Errorf("the end is taken away again:\n%q", text)
	}
}

// openTerminal gives the controlling side of a new terminal of 100 columns and the name of the other side.
func openTerminal(t *testing.T) (*os.File, string) {
	t.Helper()
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be had: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	fd := int(f.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no terminal can be had: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skipf("no terminal can be had: %v", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}); err != nil {
		t.Fatal(err)
	}
	return f, filepath.Join("/dev/pts", fmt.Sprint(n))
}
