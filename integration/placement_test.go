package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"strait/integration/harness"
	"strait/kv/record"
	"strait/plan/state"
)

// slowJob is a job file that ends by itself, but not before the test: a row a second of very many.
func slowJob(t *testing.T, f *harness.Fleet, parallelism int, env ...string) string {
	return writeJob(t, f.Dir, fmt.Sprintf(`
env { job.mode = "BATCH", parallelism = %d, read_limit.rows_per_second = 1, %s }
source { FakeSource { row.num = 100000, schema { fields { id = bigint } } } }
sink { Console { log.print.data = false } }
`, parallelism, strings.Join(env, ", ")))
}

func submit(t *testing.T, f *harness.Fleet, id, file string) {
	t.Helper()
	if r := f.Stctl("job", "submit", "--detach", "--id", id, file); r.Code != 0 {
		t.Fatalf("submit %s: exit %d\n%s", id, r.Code, r.Stderr)
	}
}

func jobStatus(f *harness.Fleet, id string) *record.JobStatus {
	key := "/strait/v1/jobstatus/" + id
	s := &record.JobStatus{}
	_ = json.Unmarshal([]byte(f.Keys(key)[key]), s)
	return s
}

func awaitPhase(f *harness.Fleet, id string, want state.Job) *record.JobStatus {
	var s *record.JobStatus
	f.Await(id+" is "+string(want), limit, func() bool { s = jobStatus(f, id); return s.Phase == want })
	return s
}

func cancel(t *testing.T, f *harness.Fleet, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if r := f.Stctl("job", "cancel", id); r.Code != 0 {
			t.Errorf("cancel %s: exit %d\n%s", id, r.Code, r.Stderr)
		}
	}
}

// TestDynamicSlots: a worker cuts slots from its memory and never more than it has; who does not fit is told what
// lacks, what is free and who holds it, and fits when that has ended.
func TestDynamicSlots(t *testing.T) {
	f := harness.Start(t, harness.Options{})
	f.StartWorker("w1", "--slots", "dynamic", "--memory", "256MiB")
	f.AwaitReady("w1")
	submit(t, f, "first", slowJob(t, f, 1, `slot.memory = "150MiB"`, "slot.cpu = 0.1"))
	awaitPhase(f, "first", state.JobRunning)
	submit(t, f, "second", slowJob(t, f, 1, `slot.memory = "150MiB"`, "slot.cpu = 0.1"))
	s := awaitPhase(f, "second", state.JobPending)
	for _, want := range []string{"needs 1 slot of 0.1 cores and 150.0 MiB, 0 are free on 1 worker: w1 0 (", "106.0 MiB of 256.0 MiB free)", "; held by first (1)"} {
		if s.Reason != "MemoryShort" || !strings.Contains(s.Message, want) {
			t.Errorf("%s: %s\nwant %s", s.Reason, s.Message, want)
		}
	}
	if r := f.Stctl("job", "status", "second"); !strings.Contains(r.Stdout+r.Stderr, "held by first (1)") {
		t.Errorf("job status does not say who holds it:\n%s%s", r.Stdout, r.Stderr)
	}
	submit(t, f, "small", slowJob(t, f, 1, "slot.cpu = 0.1")) // 64 MiB
	awaitPhase(f, "small", state.JobRunning)
	sum := int64(0)
	for key, value := range f.Keys("/strait/v1/slots/") {
		var g record.Grant
		if err := json.Unmarshal([]byte(value), &g); err != nil || g.Profile.MilliCPU != 100 || g.Endless {
			t.Errorf("%s: %s", key, value)
		}
		sum += g.Profile.Memory
	}
	if sum != 214<<20 {
		t.Errorf("%d bytes are granted", sum)
	}
	cancel(t, f, "first")
	awaitPhase(f, "second", state.JobRunning)
	cancel(t, f, "second", "small")
}

// TestQueueOfJobs: priority, then age; one big job among many small ones begins although small ones keep coming.
func TestQueueOfJobs(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 2, Slots: 2, Coordinator: []string{"--patience", "2s"}})
	for _, id := range []string{"a", "b", "c"} {
		submit(t, f, id, slowJob(t, f, 1))
		awaitPhase(f, id, state.JobRunning)
	}
	submit(t, f, "big", slowJob(t, f, 4))
	awaitPhase(f, "big", state.JobPending)
	f.Await("room is kept for the big job", limit, func() bool {
		return strings.Contains(jobStatus(f, "big").Message, "what gets free on w1, w2 is kept for it")
	})
	for _, id := range []string{"s1", "s2"} {
		submit(t, f, id, slowJob(t, f, 1))
		s := awaitPhase(f, id, state.JobPending)
		if s.Reason != "RoomKept" || !strings.Contains(s.Message, "kept for job big") {
			t.Errorf("%s: %s: %s", id, s.Reason, s.Message)
		}
	}
	submit(t, f, "urgent", slowJob(t, f, 1, "job.priority = 5"))
	if s := awaitPhase(f, "urgent", state.JobRunning); s.Priority != 5 {
		t.Errorf("priority %d", s.Priority)
	}
	cancel(t, f, "a", "b", "c", "urgent")
	awaitPhase(f, "big", state.JobRunning)
	for _, id := range []string{"s1", "s2"} {
		if s := jobStatus(f, id); s.Phase != state.JobPending {
			t.Errorf("%s is %s beside the big job", id, s.Phase)
		}
	}
	submit(t, f, "high", slowJob(t, f, 1, "job.priority = 9"))
	awaitPhase(f, "high", state.JobPending)
	cancel(t, f, "big")
	for _, id := range []string{"high", "s1", "s2"} {
		awaitPhase(f, id, state.JobRunning)
	}
	cancel(t, f, "high", "s1", "s2")
}

// TestRefusedJobs: with reject what does not fit has failed with exit 2 and the reason; with a full queue likewise.
func TestRefusedJobs(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 1, Slots: 1, Coordinator: []string{"--strategy", "reject"}})
	r := f.Stctl("job", "submit", "--id", "two", slowJob(t, f, 2))
	if r.Code != 2 || !strings.Contains(r.Stderr, "job two is not placeable: needs 2 slots, 1 is free on 1 worker: w1 1/1; no slot for 1/0/1; even with nothing else running there is room for 1") {
		t.Errorf("exit %d\n%s", r.Code, r.Stderr)
	}
	f = harness.Start(t, harness.Options{Workers: 1, Slots: 1, Coordinator: []string{"--queue", "1"}})
	submit(t, f, "two", slowJob(t, f, 2))
	awaitPhase(f, "two", state.JobPending)
	r = f.Stctl("job", "submit", "--id", "three", slowJob(t, f, 3))
	if r.Code != 2 || !strings.Contains(r.Stderr, "the queue is full, 1 jobs wait already") {
		t.Errorf("exit %d\n%s", r.Code, r.Stderr)
	}
}

// TestDeadWorkerIsReplaced: a worker is killed while another has room. Its peers tell that the link broke, and the
// next attempt runs on the others while the key of the dead one is still there: its lease is far from its end.
func TestDeadWorkerIsReplaced(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 4, Slots: 1, Worker: []string{"--ttl", "5m"}})
	submit(t, f, "linked", writeJob(t, f.Dir, `
env { job.mode = "STREAMING", parallelism = 3 }
source { FakeSource { row.num = 100000, split.num = 1000, split.read-interval = 20, schema { fields { id = bigint } } } }
sink { Console { parallelism = 2, log.print.data = false } }
`))
	awaitPhase(f, "linked", state.JobRunning)
	placement := func() *record.Placement {
		key := "/strait/v1/placements/linked/1"
		p := &record.Placement{}
		_ = json.Unmarshal([]byte(f.Keys(key)[key]), p)
		return p
	}
	dead := ""
	for _, c := range placement().Chains {
		if c.Chain == 0 {
			dead = max(dead, c.Worker)
		}
	}
	f.Kill(dead)
	var w record.Word
	f.Await("attempt 2 runs", limit, func() bool {
		key := "/strait/v1/pipelines/linked/1"
		w = record.Word{}
		return json.Unmarshal([]byte(f.Keys(key)[key]), &w) == nil && w.Attempt >= 2 && w.Phase == state.PipelineRunning
	})
	if len(f.Keys("/strait/v1/workers/"+dead)) != 1 {
		t.Fatalf("the key of %s is gone: nothing is shown", dead)
	}
	p := placement()
	if _, again := p.Workers[dead]; again || w.Attempt != 2 || w.RestartsUsed != 0 {
		t.Errorf("attempt %d, %d restarts counted, on %v after %s died", w.Attempt, w.RestartsUsed, p.Workers, dead)
	}
	if len(w.Holders) != 1 || w.Holders[0].Worker != dead || !w.Holders[0].Waiting {
		t.Errorf("holders: %+v", w.Holders)
	}
	cancel(t, f, "linked")
}

// TestSystemLoadIsAsked: with placement by load a leader asks the workers, and jobs are placed.
func TestSystemLoadIsAsked(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 2, Slots: 2, Coordinator: []string{"--placement", "system-load"}})
	for _, value := range f.Keys("/strait/v1/workers/") {
		var w record.Worker
		if err := json.Unmarshal([]byte(value), &w); err != nil {
			t.Fatal(err)
		}
		var l record.Load
		code, body := ask(w.Ops, "/load")
		if err := json.Unmarshal([]byte(body), &l); code != http.StatusOK || err != nil || l.Memory <= 0 || l.Memory > 1 || l.CPU < 0 || l.CPU > 1 || l.Incarnation == 0 {
			t.Errorf("%+v, %v", l, err)
		}
	}
	submit(t, f, "four", slowJob(t, f, 4))
	awaitPhase(f, "four", state.JobRunning)
	cancel(t, f, "four")
}
