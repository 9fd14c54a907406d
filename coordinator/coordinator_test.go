package coordinator

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"strait/checkpoint/storage"
	"strait/coordinator/api/client"
	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleetTest is an etcd, a coordinator and a client.
type fleetTest struct {
	t      *testing.T
	etcd   *kvtest.Etcd
	store  *kv.Store
	cl     *client.Client
	target *workermodel.Target
	dir    *storage.Local
	stop   func()

	coordinator *Coordinator // the newest
}

func newFleet(t *testing.T, change ...func(*Config)) *fleetTest {
	t.Helper()
	f := &fleetTest{t: t, etcd: kvtest.New(t), target: workermodel.NewTarget()}
	f.store = f.etcd.Store
	f.cl = client.New(f.store, tree).WithSecrets(client.Secrets{AllowPlain: true}) // some texts are no jobs
	var err error
	if f.dir, err = storage.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	f.lead(change...)
	return f
}

// testLog is where coordinators log: errors, or everything with STRAIT_TEST_LOG.
func testLog() *slog.Logger {
	level := slog.LevelError
	if os.Getenv("STRAIT_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// lead starts a coordinator; it ends with the test or with stop.
func (f *fleetTest) lead(change ...func(*Config)) *Coordinator {
	f.t.Helper()
	c := Config{Store: f.store, Tree: tree, Name: "c1", Catalog: catalogFor, Storage: f.dir,
		SessionTTL: 5 * time.Second, Log: testLog()}
	for _, x := range change {
		x(&c)
	}
	x, err := New(c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.coordinator = x
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("coordinator: %v", err)
		}
	}
	f.t.Cleanup(f.stop)
	return x
}

func (f *fleetTest) submit(text string, id plan.JobID) plan.JobID {
	f.t.Helper()
	id, err := f.cl.Submit(kvtest.Context(f.t), record.Spec{File: "test.conf", Text: text}, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// until waits for a state of a job.
func (f *fleetTest) until(id plan.JobID, what string, ok func(client.Update) bool) client.Update {
	f.t.Helper()
	var last client.Update
	err := f.cl.Watch(kvtest.Context(f.t), id, func(u client.Update) error {
		last = u
		if ok(u) {
			return client.ErrStop
		}
		return nil
	})
	if err != nil || !ok(last) {
		d, _ := f.cl.Describe(context.Background(), id)
		f.t.Fatalf("job %s did not become %s: %v; %s", id, what, err, describe(d))
	}
	return last
}

func describe(d *client.Description) string {
	var b strings.Builder
	if d == nil {
		return "nothing"
	}
	if d.Status != nil {
		b.Write(record.MustEncode(d.Status))
	}
	for _, p := range d.Pipelines {
		if p.Word != nil {
			b.WriteString("\n word " + string(record.MustEncode(p.Word)))
		}
		if p.Placement != nil {
			b.WriteString("\n placement " + string(record.MustEncode(p.Placement)))
		}
		for w, s := range p.Tasks {
			b.WriteString("\n " + w + " " + string(record.MustEncode(s)))
		}
		for w, s := range p.Acks {
			b.WriteString("\n ack " + w + " " + string(record.MustEncode(s)))
		}
	}
	return b.String()
}

func (f *fleetTest) end(id plan.JobID, want state.Job) *record.JobStatus {
	f.t.Helper()
	u := f.until(id, string(want), func(u client.Update) bool { return u.Ended() })
	if u.Status.Phase != want {
		d, _ := f.cl.Describe(context.Background(), id)
		f.t.Fatalf("job %s ended %s (%s), want %s; %s", id, u.Status.Phase, u.Status.Message, want, describe(d))
	}
	f.clean(id)
	return u.Status
}

// clean waits until nothing of the workers' keys is left of a job.
func (f *fleetTest) clean(id plan.JobID) {
	f.t.Helper()
	deadline := time.Now().Add(kvtest.Limit)
	for {
		left := ""
		es, _, err := f.store.List(kvtest.Context(f.t), tree.Prefix(), 0)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, e := range es {
			k, _ := tree.Parse(e.Key)
			switch k.Kind {
			case "tasks", "taskstatus", "acks":
				if k.Job == id {
					left += " " + e.Key
				}
			case "slots":
				if g, err := record.Decode[record.Grant](e.Value); err == nil && g.Job == id {
					left += " " + e.Key
				}
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("left of job %s:%s", id, left)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leaderKey waits until somebody leads.
func (f *fleetTest) leaderKey() kv.Entry {
	f.t.Helper()
	ctx := kvtest.Context(f.t)
	for {
		es, _, err := f.store.List(ctx, tree.Leader(), 0)
		if err != nil {
			f.t.Fatal(err)
		}
		if len(es) == 1 {
			return es[0]
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (f *fleetTest) check(id plan.JobID, subtasks int, finished bool) {
	f.t.Helper()
	for _, bad := range f.target.Check(string(id), subtasks, finished) {
		f.t.Error(bad)
	}
}

func TestFinish(t *testing.T) {
	for _, sink := range []string{"Print", "Out", "Sum", "Upsert"} {
		t.Run(sink, func(t *testing.T) {
			f := newFleet(t)
			startWorker(t, f.store, "w1", 4, f.target)
			startWorker(t, f.store, "w2", 4, f.target)
			began := time.Now()
			id := f.submit(text("In", sink, 4), "")
			st := f.end(id, state.JobFinished)
			t.Logf("%v", time.Since(began))
			if st.Slots != 4 || st.Started == nil || st.Finished == nil || len(st.Failures) > 0 || st.Message != "" {
				t.Errorf("%+v", st)
			}
			d, err := f.cl.Describe(kvtest.Context(t), id)
			if err != nil {
				t.Fatal(err)
			}
			if d.History == nil || d.History.Phase != state.JobFinished || len(d.History.Vertices) != 2 || d.History.Vertices[0].RowsOut != 10 {
				t.Errorf("%+v", d.History)
			}
			w := d.Pipelines[0].Word
			if w.Attempt != 1 || w.Phase != state.PipelineStopped || w.Completed != 1 || w.Committed != 1 || len(d.Pipelines[0].Checkpoints) != 1 {
				t.Errorf("%+v", w)
			}
			if sink == "Out" {
				f.check(id, 4, true)
			}
		})
	}
}
