package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"strait/checkpoint"
	"strait/coordinator/api/client"
	"strait/coordinator/internal/workermodel"
	"strait/coordinator/job"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// hangs stops workers at a stage of the first attempt until release.
func hangs(stage workermodel.Stage) (hooks workermodel.Hooks, release func()) {
	var open atomic.Bool
	return workermodel.Hooks{Hang: func(_ workermodel.Ref, _ plan.Attempt, s workermodel.Stage) bool { return s == stage && !open.Load() }}, func() { open.Store(true) }
}

func breaks(stage workermodel.Stage, upTo plan.Attempt, fatal bool) workermodel.Hooks {
	return workermodel.Hooks{Fail: func(_ workermodel.Ref, a plan.Attempt, s workermodel.Stage) *record.Failure {
		if s != stage || a > upTo {
			return nil
		}
		return &record.Failure{Message: "it broke", Vertex: "sink.Out.0", Group: "1/0/0", Fatal: fatal}
	}}
}

func with(h workermodel.Hooks) func(*fakeWorker) { return func(w *fakeWorker) { w.hooks = h } }

func word(u client.Update, ok func(w *record.Word) bool) bool {
	w := u.Words[1]
	return w != nil && ok(w)
}

// TestCancelInEveryPhase: wherever a cancel comes, the job ends, and nothing is left at the target.
func TestCancelInEveryPhase(t *testing.T) {
	for _, sink := range []string{"Out", "Print"} {
		for _, c := range []struct {
			name  string
			stage workermodel.Stage
			at    func(client.Update) bool
			want  state.Job
		}{
			{"submitted", "", func(u client.Update) bool { return true }, ""},
			{"deploying", workermodel.Build, func(u client.Update) bool {
				return word(u, func(w *record.Word) bool { return w.Phase == state.PipelineDeploying })
			}, state.JobCancelled},
			{"running", workermodel.Drain, func(u client.Update) bool {
				return word(u, func(w *record.Word) bool { return w.Phase == state.PipelineRunning })
			}, state.JobCancelled},
			{"barrier open", workermodel.Prepare, func(u client.Update) bool {
				return word(u, func(w *record.Word) bool { return w.Barrier.State == record.BarrierOpen })
			}, state.JobCancelled},
			{"commit point passed", workermodel.Commit, func(u client.Update) bool { return word(u, func(w *record.Word) bool { return w.Completed == 1 }) }, state.JobFinished},
		} {
			if sink == "Print" && c.stage == workermodel.Commit {
				continue
			}
			t.Run(sink+"/"+c.name, func(t *testing.T) {
				f := newFleet(t)
				h, release := hangs(c.stage)
				w := startWorker(t, f.store, "w1", 4, f.target, with(h))
				id := f.submit(text("In", sink, 2), "")
				f.until(id, c.name, c.at)
				if _, err := f.cl.Wish(kvtest.Context(t), id, record.WishCancelled); err != nil && !errors.Is(err, client.ErrEnded) {
					t.Fatal(err)
				}
				if c.want == state.JobFinished {
					time.Sleep(20 * time.Millisecond) // the wish is seen before the commit goes on
				}
				release()
				w.poke <- struct{}{}
				want := c.want
				if want == "" { // it may have been quicker than the wish
					want = f.until(id, "ended", func(u client.Update) bool { return u.Ended() }).Status.Phase
				}
				st := f.end(id, want)
				f.check(id, 2, st.Phase == state.JobFinished && sink == "Out")
				if want == state.JobCancelled && (st.Reason != job.Cancelled || st.ObservedWish == 0) {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

func TestCancelWhilePending(t *testing.T) {
	f := newFleet(t)
	id := f.submit(text("In", "Out", 2), "")
	u := f.until(id, "PENDING", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobPending })
	if u.Status.Reason != "NoWorkers" || !strings.Contains(u.Status.Message, "needs 2 slots, no worker is there") {
		t.Errorf("%+v", u.Status)
	}
	if _, err := f.cl.Wish(kvtest.Context(t), id, record.WishCancelled); err != nil {
		t.Fatal(err)
	}
	f.end(id, state.JobCancelled)
}

func TestDeletedSpecCancels(t *testing.T) {
	f := newFleet(t)
	h, release := hangs(workermodel.Drain)
	w := startWorker(t, f.store, "w1", 4, f.target, with(h))
	id := f.submit(text("In", "Out", 2), "again")
	f.until(id, "RUNNING", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobRunning })
	f.etcd.Delete(t, tree.Job(id))
	// Another job under the same id waits for the end of the first and begins then.
	f.etcd.Put(t, tree.Job(id), string(record.MustEncode(&record.Spec{Header: record.Head, Text: text("In", "Out", 1)})))
	release()
	w.poke <- struct{}{}
	st := f.end(id, state.JobFinished)
	if st.Slots != 1 {
		t.Errorf("the second life needs %d slots", st.Slots)
	}
	d, _ := f.cl.Describe(kvtest.Context(t), id)
	if d.Pipelines[0].Word.Attempt != 1 || d.History.Phase != state.JobFinished {
		t.Errorf("%s", describe(d))
	}
}

// TestWorkerGone: the key of a worker vanishes; the pipeline is restarted elsewhere without counting, and the result
// is right.
func TestWorkerGone(t *testing.T) {
	for _, sink := range []string{"Out", "Print", "Upsert"} {
		t.Run(sink, func(t *testing.T) {
			f := newFleet(t)
			h, _ := hangs(workermodel.Drain)
			short := func(w *fakeWorker) { w.hooks, w.ttl, w.limit = h, 2*time.Second, 0 }
			w1 := startWorker(t, f.store, "w1", 2, f.target, short)
			id := f.submit(text("In", sink, 2), "")
			f.until(id, "RUNNING", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobRunning })
			w1.kill()
			w1.expire(f.etcd)
			u := f.until(id, "RESTARTING", func(u client.Update) bool {
				return u.Status.Phase == state.JobRestarting && strings.Contains(u.Status.Message, "no worker is there")
			})
			if len(u.Status.Failures) != 1 || !strings.Contains(u.Status.Failures[0].Message, "worker w1 (incarnation ") {
				t.Errorf("%+v", u.Status.Failures)
			}
			startWorker(t, f.store, "w2", 2, f.target)
			st := f.end(id, state.JobFinished)
			f.check(id, 2, sink == "Out")
			d, _ := f.cl.Describe(kvtest.Context(t), id)
			if w := d.Pipelines[0].Word; w.Attempt != 2 || w.RestartsUsed != 0 || !w.FreeRestart || len(st.Failures) != 1 {
				t.Errorf("%s", describe(d))
			}
		})
	}
}

func TestFailure(t *testing.T) {
	f := newFleet(t)
	startWorker(t, f.store, "w1", 4, f.target, with(breaks(workermodel.Prepare, 2, false)))
	id := f.submit(text("In", "Out", 2), "")
	st := f.end(id, state.JobFinished)
	f.check(id, 2, true)
	if len(st.Failures) != 2 || st.Failures[0].Message != "sink.Out.0, task group 1/0/0, worker w1: it broke" {
		t.Errorf("%+v", st.Failures)
	}
}

func TestBudgetUsedUp(t *testing.T) {
	f := newFleet(t)
	startWorker(t, f.store, "w1", 4, f.target, with(breaks(workermodel.Run, 99, false)))
	id := f.submit(text("In", "Out", 2, "job.retry.times = 2"), "")
	st := f.end(id, state.JobFailed)
	want := fmt.Sprintf("job %s, pipeline 1: sink.Out.0, task group 1/0/0, worker w1: it broke; it was restarted as often as job.retry.times allows: 2", id)
	if st.Reason != job.PipelineFailed || st.Message != want || len(st.Failures) != 3 {
		t.Errorf("%+v", st)
	}
	f.check(id, 2, false)
}

func TestFatalFailure(t *testing.T) {
	for _, stage := range []workermodel.Stage{workermodel.Build, workermodel.Drain, workermodel.Commit} {
		t.Run(string(stage), func(t *testing.T) {
			f := newFleet(t)
			startWorker(t, f.store, "w1", 4, f.target, with(breaks(stage, 99, true)))
			id := f.submit(text("In", "Out", 2), "")
			st := f.end(id, state.JobFailed)
			if len(st.Failures) != 1 || !st.Failures[0].Fatal || !strings.HasSuffix(st.Message, "it broke") {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestNotPlaceable(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.Strategy = Reject })
	startWorker(t, f.store, "w1", 1, f.target)
	id := f.submit(text("In", "Out", 2), "")
	st := f.end(id, state.JobFailed)
	want := fmt.Sprintf("job %s is not placeable: needs 2 slots, 1 is free on 1 worker: w1 1/1; no slot for 1/0/1; even with nothing else running there is room for 1: start more workers or lower the parallelism", id)
	if st.Reason != job.NotPlaceable || st.Message != want {
		t.Errorf("%+v", st)
	}
}

// TestWaitsForSlots: jobs that do not fit wait with the reason and go on when slots are freed; none is given twice.
func TestWaitsForSlots(t *testing.T) {
	f := newFleet(t)
	startWorker(t, f.store, "w1", 2, f.target)
	startWorker(t, f.store, "w2", 1, f.target)
	var ids []plan.JobID
	for i := range 12 {
		ids = append(ids, f.submit(text("In", "Out", 1+i%3), plan.JobID(fmt.Sprintf("job-%d", i))))
	}
	for i, id := range ids {
		f.end(id, state.JobFinished)
		f.check(id, 1+i%3, true)
	}
	bad := f.submit(text("In", "Out", 4), "")
	u := f.until(bad, "PENDING", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobPending })
	if u.Status.Reason != "SlotsShort" || u.Status.Message != "needs 4 slots, 3 are free on 2 workers: w1 2/2, w2 1/1; no slot for 1/0/3; even with nothing else running there is room for 3: start more workers or lower the parallelism" {
		t.Errorf("%+v", u.Status)
	}
	startWorker(t, f.store, "w3", 1, f.target)
	f.end(bad, state.JobFinished)
}

func TestBadJobs(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.PlanTimeout = 300 * time.Millisecond })
	startWorker(t, f.store, "w1", 4, f.target)
	for _, c := range []struct{ text, reason, want string }{
		{"env { ", job.BadJob, "test.conf"},
		{"source { Nope { } }\nsink { Out { } }", job.BadJob, "Nope"},
		{"source { In { slow = 1 } }\nsink { Out { } }", job.BadJob, "planning took over 300ms"},
	} {
		id := f.submit(c.text, "")
		if st := f.end(id, state.JobFailed); st.Reason != c.reason || !strings.Contains(st.Message, c.want) {
			t.Errorf("%q: %s: %s", c.text, st.Reason, st.Message)
		}
	}
	f.etcd.Put(t, tree.Job("by-hand"), "this is no spec")
	if st := f.end("by-hand", state.JobFailed); st.Reason != job.BadSpec || !strings.Contains(st.Message, tree.Job("by-hand")) {
		t.Errorf("%+v", st)
	}
}

func TestWishes(t *testing.T) {
	f := newFleet(t)
	h, release := hangs(workermodel.Drain)
	w := startWorker(t, f.store, "w1", 4, f.target, with(h))
	id := f.submit(text("In", "Out", 1), "")
	f.until(id, "RUNNING", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobRunning })
	answered := func(value, reason, part string) {
		t.Helper()
		rev := f.etcd.Put(t, tree.Wish(id), value)
		u := f.until(id, "answered", func(u client.Update) bool { return u.Status.ObservedWish == rev })
		for _, c := range u.Status.Conditions {
			if c.Type == job.WishRefused {
				if c.Reason != reason || !strings.Contains(c.Message, part) {
					t.Errorf("%q: %+v", value, c)
				}
				return
			}
		}
		if reason != "" {
			t.Errorf("%q: no condition in %+v", value, u.Status.Conditions)
		}
	}
	answered("stop it, please", "NotKnown", "stop it, please")
	answered("savepoint", "NotInThisBuild", "comes with periodic checkpoints")
	answered("running", "", "")
	answered(strings.Repeat("x", 10_000), "NotKnown", "xxx")
	f.etcd.Put(t, tree.Job(id), string(record.MustEncode(&record.Spec{Header: record.Head, Text: "changed"})))
	u := f.until(id, "told of the change", func(u client.Update) bool { return len(u.Status.Conditions) == 2 })
	if c := u.Status.Conditions[1]; c.Type != job.SpecChanged || !strings.Contains(c.Message, "submit") {
		t.Errorf("%+v", c)
	}
	release()
	w.poke <- struct{}{}
	f.end(id, state.JobFinished)
	if _, err := f.cl.Wish(kvtest.Context(t), id, record.WishCancelled); !errors.Is(err, client.ErrEnded) {
		t.Errorf("a wish for a job that has ended: %v", err)
	}
	rev := f.etcd.Put(t, tree.Wish(id), "cancelled")
	deadline := time.Now().Add(kvtest.Limit)
	for {
		j, err := f.cl.Get(kvtest.Context(t), id)
		if err != nil {
			t.Fatal(err)
		}
		if j.Status.ObservedWish == rev {
			if j.Status.Phase != state.JobFinished {
				t.Errorf("%+v", j.Status)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not answered")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestForeignKeys: keys that are no business of the coordinator disturb nothing and are left alone.
func TestForeignKeys(t *testing.T) {
	f := newFleet(t)
	foreign := []string{"notes", "jobs/", "jobs/UPPER", "pipelines/nobody/1", "slots/w9/junk", "slots/w9/0001", "acks/nobody/1/w1", "workers/w9", "tasks/w1/nobody/1", "plans/nobody/000000", "fenced/w1/x", "jobstatus/broken"}
	for _, k := range foreign {
		f.etcd.Put(t, tree.Prefix()+k, "{]")
	}
	startWorker(t, f.store, "w1", 2, f.target)
	id := f.submit(text("In", "Out", 2), "")
	f.end(id, state.JobFinished)
	for _, k := range foreign {
		if e, err := f.store.Get(kvtest.Context(t), tree.Prefix()+k); err != nil || string(e.Value) != "{]" {
			t.Errorf("%s: %q, %v", k, e.Value, err)
		}
	}
}

// TestHugePlan: a plan of many chunks takes several transactions, and a job text too.
func TestHugePlan(t *testing.T) {
	f := newFleet(t)
	startWorker(t, f.store, "w1", 2, f.target)
	var b strings.Builder
	b.WriteString("env { parallelism = 2\njob.mode = BATCH }\nsource { In {\n")
	x := uint32(1)
	for i := range 3000 { // does not compress well
		fmt.Fprintf(&b, "option%d = \"", i)
		for range 60 {
			x = x*1664525 + 1013904223
			fmt.Fprintf(&b, "%08x", x^x>>13)
		}
		b.WriteString("\"\n")
	}
	b.WriteString("} }\nsink { Out { } }\n")
	id := f.submit(b.String(), "")
	f.end(id, state.JobFinished)
	f.check(id, 2, true)
	data, err := f.cl.Plan(kvtest.Context(t), id)
	if err != nil || len(data) < 1<<20 {
		t.Errorf("plan of %d bytes, %v", len(data), err)
	}
	j, err := f.cl.Get(kvtest.Context(t), id)
	if err != nil || j.Spec.TextChunks == nil || j.Spec.TextChunks.Number < 8 {
		t.Errorf("%+v, %v", j.Spec, err)
	}
	if got, err := f.cl.Text(kvtest.Context(t), id, j.Spec); err != nil || got != b.String() {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	es, _, err := f.store.List(kvtest.Context(t), tree.PlanChunks(id), 0)
	if err != nil || len(es) < 16 {
		t.Errorf("%d chunks, %v", len(es), err)
	}
}

// TestBigState: state files too large for the ack go through storage, and so does the manifest.
func TestBigState(t *testing.T) {
	f := newFleet(t)
	var n atomic.Int64
	h := workermodel.Hooks{Big: func(data []byte) checkpoint.Handle {
		x, err := f.dir.Put(context.Background(), fmt.Sprintf("j/state-%d", n.Add(1)), data)
		if err != nil {
			t.Error(err)
		}
		return x
	}, Open: func(x checkpoint.Handle) []byte {
		data, err := f.dir.Get(context.Background(), x)
		if err != nil {
			t.Error(err)
		}
		return data
	}}
	startWorker(t, f.store, "w1", 4, f.target, with(h))
	id := f.submit(text("In", "Out", 2), "")
	f.end(id, state.JobFinished)
	f.check(id, 2, true)
	d, _ := f.cl.Describe(kvtest.Context(t), id)
	cp := d.Pipelines[0].Checkpoints[1]
	if cp.Manifest.Location == "" || cp.Prepared != 2 || cp.Kind != checkpoint.Final {
		t.Errorf("%+v", cp)
	}
	if data, err := f.dir.Get(kvtest.Context(t), cp.Manifest); err != nil || !strings.Contains(string(data), `"w1"`) {
		t.Errorf("%s, %v", data, err)
	}
}

// TestBigStateMissing: a state file that the coordinator cannot see aborts the checkpoint, and the message says what
// to do about it.
func TestBigStateMissing(t *testing.T) {
	f := newFleet(t)
	h := workermodel.Hooks{Big: func(data []byte) checkpoint.Handle {
		return checkpoint.Handle{Location: "on/another/host", Size: int64(len(data)), SHA256: "00"}
	}}
	startWorker(t, f.store, "w1", 4, f.target, with(h))
	id := f.submit(text("In", "Out", 1, "job.retry.times = 0"), "")
	st := f.end(id, state.JobFailed)
	if !strings.Contains(st.Message, "need the same checkpoint folder") {
		t.Errorf("%+v", st)
	}
	f.check(id, 1, false)
}
