package worker

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"strait/checkpoint"
	"strait/checkpoint/storage"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
	"strait/plan/state"
	"strait/worker/task/tasktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is an etcd with workers; the test is the coordinator, by hand.
type fleet struct {
	t    *testing.T
	etcd *kvtest.Etcd
	tree keys.Tree
	job  plan.JobID
	spec int64
	plan *physical.Plan
	word record.Word
}

func newFleet(t *testing.T, p *physical.Plan) *fleet {
	f := &fleet{t: t, etcd: kvtest.New(t), tree: keys.New(""), job: "job", plan: p}
	f.put(f.tree.MetaVersion(), &record.Meta{Header: record.Head, Cluster: "c"})
	f.spec = f.put(f.tree.Job(f.job), &record.Spec{Header: record.Head})
	data, err := physical.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	head, parts := record.Pack(data)
	for i, c := range parts {
		kvtest.Put(t, f.etcd.Store, f.tree.PlanChunk(f.job, i), string(c))
	}
	f.put(f.tree.Plan(f.job), &record.PlanHead{Header: record.Head, Chunks: head, Spec: f.spec})
	return f
}

func (f *fleet) put(key string, v any) int64 {
	f.t.Helper()
	return kvtest.Put(f.t, f.etcd.Store, key, string(record.MustEncode(v)))
}

// running is a worker under test.
type running struct {
	*Worker
	stop context.CancelFunc
	done chan error
}

func (f *fleet) start(name string, change func(*Config)) *running {
	f.t.Helper()
	var out io.Writer = io.Discard
	if testing.Verbose() {
		out = os.Stderr
	}
	cfg := Config{
		Store: f.etcd.Store, Tree: f.tree, Name: name, DataListen: "127.0.0.1:0", Slots: 4, TTL: 3 * time.Second, CallLimit: 2 * time.Second,
		Log: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Worker: w, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- w.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		<-r.done
	})
	f.await("worker "+name, f.tree.Worker(name), func(e kv.Entry) bool { return e.Exists() && w.Incarnation() == e.CreateRev })
	return r
}

// end stops the worker and returns what Run returned.
func (r *running) end(t *testing.T) error {
	t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(kvtest.Limit):
		t.Fatal("Run does not return")
		return nil
	}
}

// await polls a key: the tests look at the store only.
func (f *fleet) await(what, key string, ok func(kv.Entry) bool) kv.Entry {
	f.t.Helper()
	limit := time.Now().Add(20 * time.Second)
	for {
		e, err := f.etcd.Store.Get(kvtest.Context(f.t), key)
		if err != nil {
			f.t.Fatal(err)
		}
		if ok(e) {
			return e
		}
		if time.Now().After(limit) {
			f.t.Fatalf("waited 20 s for %s; %s = %s", what, key, e.Value)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// status waits for a status of a worker.
func (f *fleet) status(worker, what string, ok func(*record.TaskStatus) bool) *record.TaskStatus {
	f.t.Helper()
	var s *record.TaskStatus
	f.await(worker+" "+what, f.tree.TaskStatus(worker, f.job, 1), func(e kv.Entry) bool {
		if !e.Exists() {
			return false
		}
		var err error
		if s, err = record.Decode[record.TaskStatus](e.Value); err != nil {
			f.t.Fatal(err)
		}
		return ok(s)
	})
	return s
}

func (f *fleet) ack(worker, what string, ok func(*record.Ack) bool) *record.Ack {
	f.t.Helper()
	var a *record.Ack
	f.await(worker+" ack "+what, f.tree.Ack(f.job, 1, worker), func(e kv.Entry) bool {
		if !e.Exists() {
			return false
		}
		var err error
		if a, err = record.Decode[record.Ack](e.Value); err != nil {
			f.t.Fatal(err)
		}
		return ok(a)
	})
	return a
}

// put the control word as it is changed.
func (f *fleet) change(g func(w *record.Word)) int64 {
	f.t.Helper()
	g(&f.word)
	f.word.Header = record.Head
	return f.put(f.tree.Pipeline(f.job, 1), &f.word)
}

// deploy writes an attempt for the workers named.
func (f *fleet) deploy(attempt plan.Attempt, scope record.Scope, workers ...*running) {
	f.t.Helper()
	f.change(func(w *record.Word) {
		w.Attempt, w.Scope, w.Phase = attempt, scope, state.PipelineDeploying
		if scope == record.ScopeCommitters {
			w.Phase = state.PipelineClosing
		}
		w.Restore, w.Abandoned = w.Completed, attempt == 1
		if w.Barrier.State == record.BarrierOpen {
			w.Barrier.State = record.BarrierAborted
		}
	})
	f.place(attempt, scope, workers...)
}

func (f *fleet) place(attempt plan.Attempt, scope record.Scope, workers ...*running) {
	f.t.Helper()
	var names []string
	for _, w := range workers {
		names = append(names, w.cfg.Name)
	}
	pl := tasktest.Place(f.plan, attempt, names...)
	pl.Scope = scope
	if scope == record.ScopeCommitters {
		pl.Chains, pl.Enumerators = nil, nil
	}
	for _, w := range workers {
		e, err := f.etcd.Store.Get(kvtest.Context(f.t), f.tree.Worker(w.cfg.Name))
		if err != nil {
			f.t.Fatal(err)
		}
		rec, err := record.Decode[record.Worker](e.Value)
		if err != nil {
			f.t.Fatal(err)
		}
		pl.Workers[w.cfg.Name] = record.PlacedWorker{Incarnation: e.CreateRev, Data: rec.Data}
	}
	f.put(f.tree.Placement(f.job, 1), pl)
	for _, w := range workers {
		f.put(f.tree.Task(w.cfg.Name, f.job, 1), tasktest.Assign(pl, w.cfg.Name, pl.Workers[w.cfg.Name].Incarnation))
	}
}

func isState(s state.Task, a plan.Attempt) func(*record.TaskStatus) bool {
	return func(r *record.TaskStatus) bool { return r.State == s && r.Attempt == a }
}

// run deploys attempt a and lets it run.
func (f *fleet) run(a plan.Attempt, workers ...*running) {
	f.t.Helper()
	f.deploy(a, record.ScopeAll, workers...)
	for _, w := range workers {
		f.status(w.cfg.Name, "ready", isState(state.TaskReady, a))
	}
	f.change(func(w *record.Word) { w.Phase = state.PipelineRunning })
}

// trigger opens the next barrier, waits for the acks and completes it.
func (f *fleet) trigger(workers ...*running) plan.CheckpointID {
	f.t.Helper()
	n := f.word.Barrier.ID + 1
	f.change(func(w *record.Word) {
		w.Barrier = record.Barrier{ID: n, Kind: checkpoint.Final, State: record.BarrierOpen}
	})
	return n
}

func (f *fleet) complete(n plan.CheckpointID, workers ...*running) int {
	f.t.Helper()
	m := record.Manifest{Version: 1, Job: record.JobLife(f.job, f.spec), Pipeline: 1, Checkpoint: n, Attempt: f.word.Attempt}
	prepared := 0
	for _, w := range workers {
		a := f.ack(w.cfg.Name, "of the barrier", func(a *record.Ack) bool { return a.Checkpoint == n && a.Attempt == f.word.Attempt })
		m.Files = append(m.Files, record.ManifestFile{Worker: w.cfg.Name, Incarnation: a.Incarnation, State: a.State, Prepared: a.Prepared})
		prepared += a.Prepared
	}
	data, err := json.Marshal(m)
	if err != nil {
		f.t.Fatal(err)
	}
	f.put(f.tree.Checkpoint(f.job, 1, n), &record.Checkpoint{Header: record.Head, Kind: checkpoint.Final, Attempt: f.word.Attempt,
		Manifest: storage.Inline(data), Prepared: prepared, State: "live"})
	f.change(func(w *record.Word) { w.Barrier.State, w.Completed = record.BarrierComplete, n })
	return prepared
}

// finish records the commit and stops the pipeline.
func (f *fleet) finish(outcome record.Outcome) {
	f.t.Helper()
	f.change(func(w *record.Word) {
		w.Committed, w.Phase, w.Outcome = w.Completed, state.PipelineStopped, outcome
	})
}

func allOnce(t *testing.T, what string, got map[int64]int, n int64) {
	t.Helper()
	if int64(len(got)) != n {
		t.Errorf("%s: %d rows, want %d", what, len(got), n)
	}
	for v, k := range got {
		if k != 1 || v < 0 || v >= n {
			t.Fatalf("%s: row %d is there %d times", what, v, k)
		}
	}
}

func chain(parallelism int, plugins ...string) tasktest.Chain {
	return tasktest.Chain{Plugins: plugins, Parallelism: parallelism}
}

// forgetJob deletes the assignment, as the coordinator does at the end.
func (f *fleet) forgetJob(worker string) {
	f.t.Helper()
	kvtest.Delete(f.t, f.etcd.Store, f.tree.Task(worker, f.job, 1))
}
