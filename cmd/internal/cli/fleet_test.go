package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"strait/cmd/internal/ops"
	"strait/coordinator/api/client"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

var morning = time.Date(2026, 3, 1, 8, 0, 0, 0, time.Local)

func fleetWorkers() []client.Worker {
	return []client.Worker{
		{Name: "w1", Incarnation: 12, Used: 2, Worker: record.Worker{Slots: 4, CPU: 8, Memory: 8 << 30, Data: "h1:1", Ops: "h1:2", Protocol: [2]int{1, 1}, Version: "0.1.0",
			Host: "h1", PID: 7, TTL: 10, CallLimit: 30, Started: morning, Labels: map[string]string{"zone": "a"}}},
		{Name: "w2", Incarnation: 13, Used: 3, Taken: record.Profile{MilliCPU: 1500, Memory: 3 << 29}, Wish: "drain until=2026-03-01T12:00:00Z",
			Worker: record.Worker{Dynamic: true, CPU: 4, Memory: 4 << 30, Data: "h2:1", Ops: "h2:2", Protocol: [2]int{1, 2}, Version: "0.2.0"}},
		{Name: "w3", Incarnation: 14, Wish: "rest", Worker: record.Worker{Slots: 1, Leaving: true, Protocol: [2]int{1, 1}, Version: "0.1.0"}},
	}
}

func TestWorkerPictures(t *testing.T) {
	var b bytes.Buffer
	if err := table(&b, workerRows(fleetWorkers())); err != nil {
		t.Fatal(err)
	}
	ws := fleetWorkers()
	groups := []string{"1/0/3", "1/0/0", "1/0/1", "1/1/0", "1/0/2"}
	for _, d := range []*client.WorkerDescription{
		{Name: "w1", Worker: &ws[0], Parts: []client.Part{
			{Job: "j1", Name: "orders", Pipeline: 1, Incarnation: 12, Attempt: 2, Slots: []int{0, 3}, Groups: groups, Status: &record.TaskStatus{Incarnation: 12, Attempt: 2, State: state.TaskRunning}},
			{Job: "j1", Name: "orders", Pipeline: 2, Incarnation: 12, Attempt: 2, Assignment: &record.Assignment{Scope: record.ScopeCommitters},
				Status: &record.TaskStatus{Incarnation: 12, Attempt: 1, State: state.TaskFailed, Failure: &record.Failure{Message: "the disk is full\nsecond line"}}},
			{Job: "j2", Pipeline: 1, Incarnation: 5, Attempt: 1, Slots: []int{1}, Groups: groups[:1], Status: &record.TaskStatus{Incarnation: 4, State: state.TaskRunning}},
		}},
		{Name: "w2", Worker: &ws[1], Wish: ws[1].Wish},
		{Name: "w9", Wish: "rest"},
	} {
		fmt.Fprintln(&b, "---")
		if err := writeWorker(&b, d); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "workers.txt", b.String())
	groups[0] = "" // the row sorts a copy
	if d := (drained{Worker: "w1"}); d.text() != "worker w1 is drained; nothing runs there" {
		t.Error(d.text())
	}
	d := drained{Worker: "w1", Until: &morning}
	for i := range 7 {
		d.Parts = append(d.Parts, stays{plan.JobID(fmt.Sprint("j", i)), "orders", 1})
	}
	if got := d.text(); got != "worker w1 drains until 2026-03-01 08:00:00; still there: pipeline 1 of job j0 (orders), pipeline 1 of job j1 (orders), pipeline 1 of job j2 (orders), pipeline 1 of job j3 (orders), pipeline 1 of job j4 (orders) and 2 more" {
		t.Error(got)
	}
}

// TestDoctorPicture: a fleet with everything wrong, and one with nothing.
func TestDoctorPicture(t *testing.T) {
	var b bytes.Buffer
	show := func(title string, f *findings) {
		t.Helper()
		fmt.Fprintln(&b, "---", title)
		if err := writeFindings(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	folder := func(mark string) *ops.Folder { return &ops.Folder{Path: "/ckpt", Mark: mark} }
	members := func() []*member {
		ws := fleetWorkers()
		out := []*member{{role: "coordinator", name: "c1", addr: "h0:1", leads: true, about: &ops.About{Role: "coordinator", Name: "c1", Version: "0.1.0", Protocol: [2]int{1, 1}, Leads: true, Storage: folder("m1")}}}
		for i := range ws {
			w := &ws[i]
			out = append(out, &member{role: "worker", name: w.Name, addr: w.Worker.Ops, worker: w,
				about: &ops.About{Role: "worker", Name: w.Name, Version: "0.1.0", Protocol: [2]int{1, 1}, Incarnation: w.Incarnation, Storage: folder("m1")}})
		}
		return out
	}
	candidates := []client.Candidate{{Leader: record.Leader{Name: "c1", Since: morning}, Leads: true}, {Leader: record.Leader{Name: "c2"}}}

	f := &findings{}
	checkEtcd(f, []kv.Health{{Endpoint: "e1:2379", Latency: time.Millisecond, Cluster: 1, Member: 0xa, Leader: 0xa, Status: kv.Status{Version: "3.6.0", Size: 1 << 20, Used: 1 << 19, Quota: 1 << 30}},
		{Endpoint: "e2:2379", Latency: time.Millisecond, Cluster: 1, Member: 0xb, Leader: 0xa, Status: kv.Status{Version: "3.6.0", Size: 1 << 20, Used: 1 << 19}}})
	all := members()
	checkLeader(f, candidates)
	checkAnswers(f, all)
	checkClocks(f, all)
	checkVersions(f, all)
	checkStorage(f, all)
	checkDrains(f, nil, map[string]string{"w1": "active"}, morning)
	checkJobs(f, []client.Job{{ID: "j1", Status: &record.JobStatus{Phase: state.JobRunning}}, {ID: "j0", Status: &record.JobStatus{Phase: state.JobFailed}}}, morning)
	show("all is well", f)
	if f.count(isOdd)+f.count(isBad) != 0 {
		t.Error("a fleet in order has findings")
	}

	f = &findings{}
	checkEtcd(f, []kv.Health{
		{Endpoint: "e1:2379", Err: errors.New("connection refused")},
		{Endpoint: "e2:2379", Err: errors.New("not in time"), Cluster: 1, Member: 0xb, Status: kv.Status{Version: "3.6.0", Size: 98, Used: 97, Quota: 100, Alarms: []string{"NOSPACE"}}},
		{Endpoint: "e3:2379", Err: errors.New("not in time"), Cluster: 1, Member: 0xc, Leader: 0xa},
		{Endpoint: "e4:2379", Latency: 2 * time.Second, Cluster: 2, Member: 0xd, Leader: 0xd, Status: kv.Status{Size: 85, Used: 10, Quota: 100}},
		{Endpoint: "e5:2379", Learner: true, Cluster: 2, Member: 0xe, Leader: 0xd}})
	all = members()
	all[0].about.Leads = false
	all[1].about, all[1].err = nil, errors.New("h1:2 does not answer: connection refused")
	all[2].about.NotReady, all[2].about.Version, all[2].about.Protocol = "etcd has not renewed the lease", "0.2.0", [2]int{2, 2}
	all[2].about.Storage, all[2].skew = folder("m2"), ops.Skew{Ahead: -3 * time.Second, Within: time.Millisecond}
	all[3].about.Name, all[3].about.Storage, all[3].skew = "w4", &ops.Folder{Path: "/ckpt", Problem: "folder /ckpt: missing"}, ops.Skew{Ahead: 2 * time.Hour}
	all = append(all, &member{role: "worker", name: "w5", worker: &client.Worker{Incarnation: 3}, about: &ops.About{Role: "worker", Name: "w5", Incarnation: 2, Version: "0.1.0", Protocol: [2]int{1, 1}}})
	checkLeader(f, nil)
	checkAnswers(f, all)
	checkClocks(f, all)
	checkVersions(f, all)
	checkStorage(f, all)
	checkDrains(f, fleetWorkers(), map[string]string{"w1": "rest", "w2": "drain until=2026-03-01T12:00:00Z", "w9": "drain"}, morning.UTC())
	jobs := []client.Job{
		{ID: "j1", Status: &record.JobStatus{Name: "a", Phase: state.JobRestarting, Message: "attempt 2\nmore"}},
		{ID: "j2", Spec: &record.Spec{Submitted: morning.Add(-time.Hour)}},
		{ID: "j3", Status: &record.JobStatus{Name: "c", Phase: state.JobPending, Message: "needs 6 slots", Submitted: morning.Add(-time.Hour)}},
		{ID: "j4", Status: &record.JobStatus{Name: "d", Phase: state.JobRunning, Conditions: []record.Condition{{Type: "WishRefused", Status: true, Message: "what?"}, {Type: "Old"}}}},
		{ID: "j5", Status: &record.JobStatus{Name: "e", Phase: state.JobFailing, Message: "the disk is full"}},
		{ID: "j6", Problem: "key x cannot be read"},
	}
	for i := range 30 {
		jobs = append(jobs, client.Job{ID: plan.JobID(fmt.Sprint("k", i)), Status: &record.JobStatus{Name: "k", Phase: state.JobRestarting}})
	}
	checkJobs(f, jobs, morning)
	show("nothing is", f)

	f = &findings{}
	all = members()[:1]
	all[0].about.Storage = &ops.Folder{Path: "/ckpt", Problem: "the file system is read only"}
	checkAnswers(f, all)
	checkStorage(f, all)
	show("no worker", f)
	golden(t, "doctor.txt", b.String())
}

// TestDoctorWithoutEtcd says what is wrong all the same.
func TestDoctorWithoutEtcd(t *testing.T) {
	r := stctl(t, "doctor", "--etcd-endpoints", "127.0.0.1:1")
	if r.code != 1 || !strings.Contains(r.stdout, "fail  etcd 127.0.0.1:1") || !strings.Contains(r.stdout, "refused") || !strings.Contains(r.stdout, "0 ok, 0 to look at, 2 failing") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	r = stctl(t, "doctor", "--etcd-endpoints", "127.0.0.1:1", "-o", "json")
	if r.code != 1 || !strings.Contains(r.stdout, `"ok": false`) || !strings.Contains(r.stdout, `"verdict": "fail"`) {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// TestFleetCommands: what is read and written needs no process but etcd.
func TestFleetCommands(t *testing.T) {
	e := kvtest.New(t)
	tree := keys.New("")
	t.Setenv("STRAIT_ETCD_ENDPOINTS", e.Server.Endpoints()[0])
	cl := client.New(e.Store, tree).WithSecrets(client.Secrets{AllowPlain: true}) // the texts here are no jobs
	says := func(code int, want string, args ...string) {
		t.Helper()
		if r := stctl(t, args...); r.code != code || !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("%v: exit %d, want %d and %q\n%s%s", args, r.code, code, want, r.stdout, r.stderr)
		}
	}
	says(1, "no such worker; `stctl worker list`", "worker", "drain", "w1")
	says(1, "takes the name of one worker", "worker", "drain")
	w := record.MustEncode(&record.Worker{Header: record.Head, Slots: 2, Started: morning})
	e.Put(t, tree.Worker("w1"), string(w))
	at, err := e.Store.Get(t.Context(), tree.Worker("w1"))
	if err != nil {
		t.Fatal(err)
	}
	e.Put(t, tree.Slot("w1", 0), string(record.MustEncode(&record.Grant{Header: record.Head, Incarnation: at.CreateRev, Job: "j1", Pipeline: 1})))
	says(0, "still there: pipeline 1 of job j1", "worker", "drain", "w1")
	says(124, "timed out after 700ms: worker w1 still drains", "worker", "drain", "w1", "--wait", "--timeout", "700ms")
	says(0, "draining until ", "worker", "list")
	e.Delete(t, tree.Slot("w1", 0))
	says(0, `"worker": "w1"`, "worker", "drain", "w1", "--wait", "--deadline", "0", "-o", "json")
	says(0, "draining  0/2", "worker", "list")
	says(0, "nothing runs there", "worker", "describe", "w1")
	says(0, "takes work again", "worker", "undrain", "w1")
	says(0, "active", "worker", "list")

	file := filepath.Join(t.TempDir(), "incarnation")
	says(0, "nothing is fenced", "worker", "fence", "w1", "--incarnation-file", file)
	if err := os.WriteFile(file, []byte("none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says(1, "does not hold the number of an incarnation", "worker", "fence", "w1", "--incarnation-file", file)
	says(1, "name the dead process", "worker", "fence", "w1")
	says(1, "name the dead process", "worker", "fence", "w1", "--incarnation", "3", "--incarnation-file", file)
	says(1, "nothing was done", "worker", "fence", "w1", "--incarnation", "1")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d\n", at.CreateRev), 0o600); err != nil {
		t.Fatal(err)
	}
	says(0, "is fenced: its key is deleted", "worker", "fence", "w1", "--incarnation-file", file)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file of a fenced process stays:", err)
	}
	says(0, `"gone": true`, "worker", "fence", "w1", "--incarnation", fmt.Sprint(at.CreateRev), "-o", "json")
	says(1, "no process of the fleet is there", "job", "logs", "j1")

	for i, id := range []plan.JobID{"a1", "a2", "b1"} {
		if _, err := cl.Submit(t.Context(), record.Spec{Name: "orders", Submitted: time.Now().Add(time.Duration(-i) * time.Hour), Labels: map[string]string{"n": fmt.Sprint(i)}}, id); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-100 * time.Hour)
	e.Put(t, tree.History("old"), string(record.MustEncode(&record.History{Header: record.Head, Name: "bills", Phase: state.JobFailed, Message: "disk\nfull", Submitted: long, Finished: long})))
	list := func(want string, args ...string) {
		t.Helper()
		r := stctl(t, append([]string{"job", "list"}, args...)...)
		var ids []string
		for line := range strings.Lines(r.stdout) {
			ids = append(ids, strings.Fields(line)[0])
		}
		if got := strings.Join(ids[1:], " "); r.code != 0 || got != want {
			t.Errorf("list %v: %s, want %s\n%s%s", args, got, want, r.stdout, r.stderr)
		}
	}
	list("a1 a2 b1")
	list("a1 a2 b1 old", "--all")
	list("a1", "-n", "1")
	list("old", "--phase", "failed,CANCELLED")
	list("a1 a2 b1", "--phase", "submitted")
	list("old", "--finished", "200h")
	list("", "--finished", "1h")
	list("a1 a2", "--name", "a*")
	list("a2", "--label", "n=1")
	list("a1", "--since", "30m")
	says(0, `"archived": true`, "job", "list", "--name", "bills", "--all", "-o", "json")
	says(1, "--phase runing is not known; did you mean running?", "job", "list", "--phase", "runing")
	says(1, "--name [: not a pattern", "job", "list", "--name", "[")
	says(1, "--since x: write how long ago", "job", "list", "--since", "x")
	says(1, "--limit 0", "job", "list", "--limit", "0")

	e.Put(t, tree.Worker("w2"), string(w))
	words := func(want string, args ...string) {
		t.Helper()
		r := stctl(t, append(args, completionFlag)...)
		if got := strings.Join(strings.Fields(r.stdout), " "); got != want || r.code != 0 || r.stderr != "" {
			t.Errorf("%q: %s, want %s (%q)", args, got, want, r.stderr)
		}
	}
	words("a1 a2", "job", "status", "a")
	words("a1 a2 b1 old", "job", "logs", "")
	words("", "job", "status", "a1", "")
	words("w2", "worker", "fence", "w")
	words("w2", "job", "logs", "a1", "--worker", "")
	words("failing finished failed", "job", "list", "--phase", "f")
	words("", "job", "status", "--etcd-endpoints", "127.0.0.1:1", "")
}

func TestPointInTime(t *testing.T) {
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Time{"": {}, "30m": now.Add(-30 * time.Minute), "0s": now, "2026-02-01T00:00:00Z": time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
		"2026-02-01": time.Date(2026, 2, 1, 0, 0, 0, 0, time.Local), "2026-02-01 07:00:00": time.Date(2026, 2, 1, 7, 0, 0, 0, time.Local)} {
		if got, err := pointInTime("--since", v, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", v, got, err)
		}
	}
	for _, v := range []string{"-5m", "yesterday", "5"} {
		if _, err := pointInTime("--since", v, now); err == nil {
			t.Errorf("%q was taken", v)
		}
	}
}
