package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"strait/coordinator/api/client"
	"strait/kv"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
	"strait/plan/state"
)

func TestExitCodes(t *testing.T) {
	f := func(err error, want int) {
		t.Helper()
		if got := ExitCode(err); got != want {
			t.Errorf("%v: exit %d, want %d", err, got, want)
		}
	}
	f(nil, 0)
	f(errors.New("x"), 1)
	f(failf("x"), 1)
	f(fmt.Errorf("y: %w", &outcome{code: ExitTimedOut}), 124)
	f(context.Canceled, 3)
	f(fmt.Errorf("y: %w", context.Canceled), 3)
	f(context.DeadlineExceeded, 1) // not --timeout
	f(fmt.Errorf("y: %w", kv.ErrUnreachable), 1)
	f(ofPhase(state.JobFinished, ""), 0)
	f(ofPhase(state.JobSavepointDone, ""), 0)
	f(ofPhase(state.JobFailed, "x"), 1)
	f(ofPhase(state.JobFailed, ReasonNotPlaceable), 2)
	f(ofPhase(state.JobFailed, ReasonQueueFull), 2)
	f(ofPhase(state.JobCancelled, ""), 3)
	f(ofPhase(state.JobCancelled, ReasonNotPlaceable), 3)
}

func TestRoleNames(t *testing.T) {
	f := func(host, want string) {
		t.Helper()
		if got := nameOf(host); got != want || plan.CheckName("worker", got) != nil {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
	f("db-7", "db-7")
	f("DB7.example.com", "db7")
	f("-x", "x")
	f("my_host", "myhost")
	f("", "localhost")
	f("...", "localhost")
	f("ü", "localhost")
	f(strings.Repeat("a", 80), strings.Repeat("a", 63))
	if err := plan.CheckName("worker", hostName()); err != nil {
		t.Error(err)
	}
}

func TestAddresses(t *testing.T) {
	f := func(etcd string, local bool) {
		t.Helper()
		if got := reach(etcd); (got == loopback) != local {
			t.Errorf("reach(%s) is %s", etcd, got)
		}
	}
	f("127.0.0.1:2379", true)
	f("http://127.0.0.1:2379", true)
	f("localhost:2379", true)
	f("nonsense", true)
	f("nonsense.invalid:1", true)
	for _, every := range []string{"0.0.0.0:2379", ":2379", "[::]:2379"} {
		if got, want := reach(every), reach(elsewhere); got != want {
			t.Errorf("reach(%s) is %s, want that of the default route, %s", every, got, want)
		}
	}
	for bound, want := range map[string]string{"[::]:99": "h:99", "0.0.0.0:99": "h:99", ":99": "h:99", "127.0.0.1:99": "127.0.0.1:99", "[::1]:99": "[::1]:99", "x": "x"} {
		if got := told(bound, "h"); got != want {
			t.Errorf("told(%s) is %s, want %s", bound, got, want)
		}
	}
}

func TestListenErrors(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		if got := listenError("--ops-listen", "a:1", fmt.Errorf("x: %w", err)).Error(); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	f(syscall.EADDRINUSE, "--ops-listen a:1 is in use by another process; choose another port, or 0 for any free one")
	f(syscall.EADDRNOTAVAIL, "--ops-listen a:1 is not an address of this host; choose one of its own, or 0.0.0.0 for all of them")
	f(syscall.EACCES, "--ops-listen a:1: this user may not listen on that port; choose one from 1024 on")
	f(&net.DNSError{Name: "a"}, "--ops-listen a:1: there is no host a")
	f(errors.New("y"), "x: y")
	if listenError("--ops-listen", "a:1", nil) != nil {
		t.Error("an error out of nothing")
	}
}

func TestTogether(t *testing.T) {
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	boom := errors.New("boom")
	f := func(name string, want error, parts ...func(context.Context) error) {
		t.Helper()
		if err := together(t.Context(), parts...); !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	f("one ends well, the others with it", nil, wait, wait, func(context.Context) error { return nil })
	f("one fails, the others end", boom, wait, func(context.Context) error { return boom })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := together(ctx, wait, wait); err != nil {
		t.Errorf("told to stop: %v", err)
	}
}

func TestIncarnationFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "w1")
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	f, err := newIncarnationFile(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{42, 1 << 40} { // each life of the process
		f.write(n)
		if b, err := os.ReadFile(filepath.Join(dir, "incarnation")); err != nil || string(b) != fmt.Sprintln(n) {
			t.Errorf("%q, %v", b, err)
		}
	}
	f.remove()
	f.remove()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if said.Len() > 0 {
		t.Error(said.String())
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if f.write(1); !strings.Contains(said.String(), "is not left for the supervisor") {
		t.Error("a file that cannot be written is not told: ", said.String())
	}
	none, err := newIncarnationFile("", log)
	if err != nil {
		t.Fatal(err)
	}
	none.write(42)
	none.remove()
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newIncarnationFile(dir, log); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Error(err)
	}
}

var vertices = []record.VertexSummary{
	{Pipeline: 1, Vertex: "orders", Plugin: "LocalFile", Parallelism: 2, Counters: record.Counters{RowsOut: 1234567, BytesOut: 98765432}},
	{Pipeline: 1, Vertex: "sink.Console.0", Plugin: "Console", Parallelism: 12, Counters: record.Counters{RowsIn: 1234567, RowsOut: 3, BytesIn: 98765432, BytesOut: 1000}},
	{Pipeline: 2, Vertex: "source.FakeSource.0", Plugin: "FakeSource", Parallelism: 1},
}

func TestSummary(t *testing.T) {
	var b bytes.Buffer
	if err := summary(&b, vertices, 2500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	golden(t, "summary.txt", b.String())
	b.Reset()
	if err := summary(&b, vertices[:1], 0); err != nil || !strings.HasSuffix(b.String(), " -\n") {
		t.Errorf("without a time there is no rate: %v\n%s", err, b.String())
	}
}

func TestRoundedTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1234567 * time.Nanosecond: "1ms", 12345 * time.Millisecond: "12.35s", 125*time.Second + 400*time.Millisecond: "2m5s",
	} {
		if got := round(d).String(); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// planned is the physical plan of a job text.
func planned(t *testing.T, text string) *physical.Plan {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	body, err := readText(path)
	if err != nil {
		t.Fatal(err)
	}
	j := &jobFile{path: path, text: body, folder: filepath.Dir(path)}
	_, _, p, _, err := j.plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStatusPicture(t *testing.T) {
	p := planned(t, `
env { parallelism = 2 }
source { FakeSource { plugin_output = "numbers", schema { fields { id = bigint } } } }
sink { Console { parallelism = 1 } }`)
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.Local)
	started, ended := at.Add(time.Second), at.Add(3*time.Second)
	d := &client.Description{Job: client.Job{ID: "abc", Spec: &record.Spec{File: "job.conf", Text: "env { }", Variables: map[string]string{"b": "2", "a": "1"}, Labels: map[string]string{"team": "x"}}}}
	d.Status = &record.JobStatus{Name: "nightly", Phase: state.JobRestarting, Message: "pipeline 1: attempt 2 begins at 08:00:09", Submitted: at, Started: &started,
		Failures: []record.Failure{{Pipeline: 1, Attempt: 1, Worker: "w2", Group: "1/0/1", Message: "the disk is full", Time: at}}}
	d.Pipelines = []client.Pipeline{{
		ID:   1,
		Word: &record.Word{Attempt: 2, Phase: state.PipelineDeploying, Completed: 3, Message: "worker w2 is gone"},
		Placement: &record.Placement{Attempt: 2, Chains: []record.PlacedChain{
			{Chain: 0, Worker: "w1", Range: plan.Range{From: 0, To: 1}}, {Chain: 0, Worker: "w3", Range: plan.Range{From: 1, To: 2}}, {Chain: 1, Worker: "w1", Range: plan.Range{From: 0, To: 1}}}},
		Tasks: map[string]*record.TaskStatus{
			"w1": {Attempt: 2, State: state.TaskInit, Groups: []record.GroupState{{Chain: 0, Range: plan.Range{From: 0, To: 1}, State: state.TaskReady}}},
			"w3": {Attempt: 1, State: state.TaskFailed}}, // of the attempt before
		Grants:      []client.Grant{{Worker: "w1", Slot: 4, Grant: record.Grant{Groups: []string{"1/0/0", "1/1/0"}}}, {Worker: "w3", Slot: 0, Grant: record.Grant{Groups: []string{"1/0/1"}}}},
		Checkpoints: map[plan.CheckpointID]record.Checkpoint{3: {Kind: "periodic", Attempt: 1, Prepared: 2, Size: 100, Took: 0.25}, 2: {Kind: "periodic", Attempt: 1}},
	}}
	var b bytes.Buffer
	writeStatus(&b, d, d.Status, groupViews(d, p))
	fmt.Fprintln(&b, "--- placed no more")
	d.Pipelines[0].Placement.Attempt = 1
	writeStatus(&b, d, d.Status, groupViews(d, p))
	fmt.Fprintln(&b, "--- ended")
	d.Status.Phase, d.Status.Message, d.Status.Finished = state.JobFinished, "", &ended
	d.Pipelines[0].Word = &record.Word{Attempt: 2, Phase: state.PipelineStopped, Outcome: record.Finished, Completed: 4}
	d.Pipelines[0].Placement.Attempt, d.Pipelines[0].Tasks = 2, nil
	d.History = &record.History{Vertices: vertices[:1]}
	writeStatus(&b, d, d.Status, groupViews(d, p))
	fmt.Fprintln(&b, "--- described")
	d.Wish = "cancelled"
	d.Status.Slots, d.Status.Priority = 2, 7
	d.Status.Conditions = []record.Condition{{Type: "Placed", Status: false, Reason: "SlotsShort", Message: "needs 2 slots,\n1 is free", Since: at}}
	d.Status.Failures = append(d.Status.Failures, record.Failure{Pipeline: 1, Attempt: 2, Message: "line one\nline two", Vertex: "sink.Console.0", Position: "row 7", Fatal: true, Time: at.Add(90 * time.Minute)})
	d.Status.Events = []record.Event{{Time: at, Reason: record.EventSubmitted, Message: "the job is known"}, {Time: at.Add(110 * time.Minute), Reason: record.EventTaskFailed, Message: "the disk is full", Warn: true, Count: 3}}
	d.Pipelines[0].Word.Holders = []record.Holder{{Worker: "w2", Incarnation: 9, Attempt: 1}, {Worker: "w3", Incarnation: 8, Attempt: 1, Waiting: true}}
	d.Pipelines[0].Word.Phase, d.Pipelines[0].Word.Barrier = state.PipelineRunning, record.Barrier{ID: 4, Kind: "periodic", State: record.BarrierOpen}
	d.Pipelines[0].Placement.Workers = map[string]record.PlacedWorker{"w1": {Incarnation: 10}, "w3": {Incarnation: 11}}
	d.History.Left = []string{"topic orders-tmp"}
	if err := writeDescription(&b, d, d.Status, nil, d.History.Vertices, at.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	golden(t, "status.txt", b.String())
}

func TestAge(t *testing.T) {
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 119 * time.Second: "119s", 125 * time.Second: "2m5s", 59 * time.Minute: "59m", 5*time.Hour + 7*time.Minute: "5h7m", 50 * time.Hour: "2d2h",
	} {
		if got := age(at.Add(d), at); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	if age(at, time.Time{}) != "-" {
		t.Error("no time has an age")
	}
}

func TestEndAsJSON(t *testing.T) {
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	started, ended := at.Add(time.Second), at.Add(3*time.Second)
	e := endOf("abc", "nightly", &record.JobStatus{Phase: state.JobFailed, Message: "x", Submitted: at, Started: &started, Finished: &ended})
	b, err := json.Marshal(e)
	if err != nil || string(b) != `{"id":"abc","name":"nightly","phase":"FAILED","message":"x","seconds":2}` {
		t.Errorf("%s, %v", b, err)
	}
}

// TestMainJobPlans: the two plans of the main job in their three forms are public.
func TestMainJobPlans(t *testing.T) {
	t.Chdir(root)
	for form, file := range map[string]string{"text": "plan.txt", "json": "plan.json", "dot": "plan.dot"} {
		r := stctl(t, "plan", "--output", form, "integration/jobs/orders.conf")
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%s: exit %d\n%s", form, r.code, r.stderr)
		}
		golden(t, file, r.stdout)
	}
}

// TestConnectors: what `connector` prints of the plugins is public.
func TestConnectors(t *testing.T) {
	for file, args := range map[string][]string{
		"connector_list.txt":     {"connector", "list"},
		"connector_console.txt":  {"connector", "show", "console"},
		"connector_console.json": {"connector", "show", "Console", "-o", "json"},
	} {
		r := stctl(t, args...)
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%v: exit %d\n%s", args, r.code, r.stderr)
		}
		golden(t, file, r.stdout)
	}
	for _, p := range plugins() { // every one can be shown in both forms
		if r := stctl(t, "connector", "show", p.Name); r.code != 0 || !strings.Contains(r.stdout, p.Name+" ("+string(p.Section)+")") {
			t.Errorf("%s: exit %d\n%s", p.Name, r.code, r.stdout+r.stderr)
		}
		r := stctl(t, "connector", "show", "--output", "json", p.Name)
		var shown []plugin
		if err := json.Unmarshal([]byte(r.stdout), &shown); err != nil || len(shown) == 0 || shown[0].Options == nil {
			t.Errorf("%s as JSON: %v", p.Name, err)
		}
	}
}

// TestHelp: the texts that explain stctl.
func TestHelp(t *testing.T) {
	for file, args := range map[string][]string{
		"help.txt": {"--help"}, "help_run.txt": {"run", "--help"}, "help_submit.txt": {"help", "job", "submit"},
		"help_serve.txt": {"serve"}, "help_list.txt": {"job", "list", "-h"}, "help_logs.txt": {"job", "logs", "-h"},
		"help_drain.txt": {"worker", "drain", "-h"}, "help_fence.txt": {"worker", "fence", "-h"}, "help_doctor.txt": {"doctor", "-h"},
		"help_coordinator.txt": {"serve", "coordinator", "-h"}, "help_worker.txt": {"serve", "worker", "-h"},
	} {
		r := stctl(t, args...)
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%v: exit %d\n%s", args, r.code, r.stderr)
		}
		golden(t, file, r.stdout)
	}
	a, b := stctl(t), stctl(t, "help")
	if a != b || a.code != 0 {
		t.Errorf("stctl alone and stctl help differ:\n%s\n%s", a.stdout, b.stdout)
	}
	for line := range strings.Lines(a.stdout) {
		if len([]rune(line)) > helpWidth+1 {
			t.Errorf("a line is too long: %s", line)
		}
	}
}

func TestCompletion(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		r := stctl(t, append(args, completionFlag)...)
		if got := strings.Join(strings.Fields(r.stdout), " "); got != want || r.code != 0 || r.stderr != "" {
			t.Errorf("stctl %q: %s, want %s (exit %d, %q)", args, got, want, r.code, r.stderr)
		}
	}
	const all = "run serve job secret worker check plan connector doctor version completion"
	const ofJob = "submit list status describe logs wait cancel"
	f(all)
	f(all, "")
	f("check connector completion", "c")
	f(ofJob, "job", "")
	f(ofJob, "--prefix", "/x", "job", "")
	f("submit status", "job", "s")
	f("coordinator worker standalone", "serve", "")
	f("", "run", "") // a file
	f("--parallelism", "run", "--par")
	f("--parallelism", "run", "job.conf", "--par")
	f("--data-dir", "run", "--d")
	f("text json", "run", "--output", "")
	f("text json dot", "plan", "-o", "")
	f("json", "job", "list", "--output", "j")
	f("zstd", "serve", "worker", "--codec", "z")
	f("", "run", "--name", "")
	f("--strict", "check", "--strict", "--s") // a switch takes no value
	f("Copy Console", "connector", "show", "Co")
	f("bash", "completion", "")
	f(all, "frobnicate", "x", "")
	r := stctl(t, "completion", "bash")
	if r.code != 0 || !strings.Contains(r.stdout, "complete -o") {
		t.Errorf("exit %d\n%s", r.code, r.stdout)
	}
	if bash, err := exec.LookPath("bash"); err == nil { // the words pass through bash itself
		script := r.stdout + `stctl() { printf 'alpha\nbeta\n'; }; COMP_WORDS=(stctl job al); COMP_CWORD=2; _stctl; echo "${COMPREPLY[@]}"`
		out, err := exec.Command(bash, "--norc", "-c", script).CombinedOutput()
		if err != nil || string(out) != "alpha\n" {
			t.Errorf("bash: %v: %s", err, out)
		}
	}
}

func TestIgnoredKeysAreWarnings(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("job.conf", []byte(`env {
  job.mode = BATCH
  checkpoint.intervall = 3
  no_such_key = 1
}
source { FakeSource { schema { fields { id = bigint } } } }
sink { LocalFile { path = "out", file_format_type = csv, save_mode = error } }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = `warning: job.conf:3: env: unknown option "checkpoint.intervall" has no effect; did you mean "checkpoint.interval"?
warning: job.conf:4: env: unknown option "no_such_key" has no effect
warning: job.conf:7: sink[0] (LocalFile): option "save_mode" has no effect; it is an older name without effect; use data_save_mode
`
	for _, args := range [][]string{{"check"}, {"check", "--strict"}, {"plan"}} {
		if r := stctl(t, append(args, "job.conf")...); r.code != 0 || r.stderr != want {
			t.Errorf("%v: exit %d\n%swant\n%s", args, r.code, r.stderr, want)
		}
	}
	r := stctl(t, "check", "--output", "json", "job.conf")
	var said struct {
		OK       bool
		Warnings []string
	}
	if err := json.Unmarshal([]byte(r.stdout), &said); err != nil || !said.OK || len(said.Warnings) != 3 || r.stderr != "" {
		t.Errorf("as JSON: %v\n%s%s", err, r.stdout, r.stderr)
	}
}

func TestCheckAsJSON(t *testing.T) {
	t.Chdir("testdata/bad")
	r := stctl(t, "check", "option_misspelt.conf", "-o", "json")
	var said struct {
		OK    *bool
		Error string
	}
	if err := json.Unmarshal([]byte(r.stdout), &said); err != nil || r.code != 1 || said.OK == nil || *said.OK || !strings.Contains(said.Error, `did you mean "row.num"?`) {
		t.Errorf("exit %d, %v\n%s%s", r.code, err, r.stdout, r.stderr)
	}
}

// TestVariableMistakes: a check judges the file, not the values that its variables happen to have.
func TestVariableMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	f := func(text, warnings, mistakes string) {
		t.Helper()
		if err := os.WriteFile("job.conf", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := stctl(t, "check", "job.conf", "-i", "n=x")
		code := 0
		if mistakes != "" {
			code = 1
		}
		want := warnings
		if mistakes != "" {
			want += mistakes
		}
		if r.code != code || r.stderr != want {
			t.Errorf("%s\nexit %d\n%swant\n%s", text, r.code, r.stderr, want)
		}
		if r := stctl(t, "check", "--strict", "job.conf", "-i", "n=x"); r.code != 1 {
			t.Errorf("check --strict passes:\n%s", text)
		}
	}
	const sink = "\nsink { Console { } }\n"
	f("source { FakeSource { row.num = ${n}, schema { fields { id = bigint } } } }"+sink,
		"warning: job.conf:1: source[0] (FakeSource): row.num: \"x\" is not a whole number; write row.num = 10\n", "")
	f("source { FakeSource { row.nmu = ${n}, schema { fields { id = bigint } } } }"+sink, "",
		"job.conf:1: source[0] (FakeSource): unknown option \"row.nmu\"; did you mean \"row.num\"?\n")
	f("source { FakeSource { row.num = ${n}\n split.num = many, schema { fields { id = bigint } } } }"+sink,
		"warning: job.conf:1: source[0] (FakeSource): row.num: \"x\" is not a whole number; write row.num = 10\n",
		"job.conf:2: source[0] (FakeSource): split.num: \"many\" is not a whole number; write split.num = 10\n")
}

func TestVersion(t *testing.T) {
	r := stctl(t, "version", "-o", "json")
	var v struct{ Version, Go, OS, Arch string }
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil || v.Version != Version || v.Go == "" || v.OS == "" || v.Arch == "" {
		t.Errorf("%v\n%s", err, r.stdout)
	}
	if r := stctl(t, "version"); !strings.HasPrefix(r.stdout, "strait "+Version) {
		t.Errorf("%q", r.stdout)
	}
	if r := stctl(t, "--version"); r.code != 0 || !strings.Contains(r.stdout, Version) {
		t.Errorf("%q", r.stdout)
	}
}
