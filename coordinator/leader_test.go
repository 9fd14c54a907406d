package coordinator

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"strait/coordinator/api/client"
	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan/state"
)

// TestTakeover: leaders come and go while a job runs; nothing restarts.
func TestTakeover(t *testing.T) {
	f := newFleet(t)
	h, release := hangs(workermodel.Drain)
	w := startWorker(t, f.store, "w1", 2, f.target, with(h))
	id := f.submit(text("In", "Out", 2), "")
	f.until(id, "RUNNING", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobRunning })
	for range 2 {
		f.stop()
		f.lead()
	}
	// Deposed by hand: the leader notices and campaigns again.
	f.etcd.Delete(t, f.leaderKey().Key)
	release()
	w.poke <- struct{}{}
	st := f.end(id, state.JobFinished)
	f.check(id, 2, true)
	d, _ := f.cl.Describe(kvtest.Context(t), id)
	if d.Pipelines[0].Word.Attempt != 1 || len(st.Failures) > 0 {
		t.Errorf("%s", describe(d))
	}
	f.leaderKey()
	if l, err := f.cl.Leader(kvtest.Context(t)); err != nil || l.Name != "c1" {
		t.Error(l, err)
	}
}

// TestStolenLeadership: what a leader sends after it lost its key is refused, and it writes nothing more.
func TestStolenLeadership(t *testing.T) {
	f := newFleet(t)
	id := f.submit(text("In", "Out", 2), "")
	f.until(id, "PENDING", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobPending })
	e := f.leaderKey()
	guard := kv.LeaderGuard(e.Key, e.CreateRev)
	thief := kvtest.StealLeader(t, f.store, guard)
	startWorker(t, f.store, "w1", 2, f.target) // makes the old leader want to place
	time.Sleep(100 * time.Millisecond)
	j, err := f.cl.Get(kvtest.Context(t), id)
	if err != nil || j.Status.Phase != state.JobPending {
		t.Fatalf("%+v, %v: a deposed leader wrote", j.Status, err)
	}
	f.etcd.Delete(t, thief.Key) // the thief goes; the coordinator leads again
	f.end(id, state.JobFinished)
}

func TestNewerFormatIsRefused(t *testing.T) {
	e := kvtest.New(t)
	e.Put(t, tree.MetaVersion(), `{"apiVersion":"strait/v2","cluster":"x"}`)
	err := Run(kvtest.Context(t), Config{Store: e.Store, Tree: tree, Name: "c1", Catalog: catalogFor, Storage: nowhere{}, SessionTTL: 5 * time.Second})
	if !errors.Is(err, record.ErrNewer) || !strings.Contains(err.Error(), tree.MetaVersion()) {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	_, err := New(Config{Name: "Not A Name", Strategy: "maybe"})
	for _, part := range []string{"no store", "no catalog", "no checkpoint storage", "Not A Name", "maybe"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}

func TestCounters(t *testing.T) {
	f := &fleetTest{t: t, etcd: kvtest.New(t), target: workermodel.NewTarget()}
	f.store, f.cl = f.etcd.Store, client.New(f.etcd.Store, tree).WithSecrets(client.Secrets{AllowPlain: true})
	var asked atomic.Int64
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_ = json.NewEncoder(w).Encode([]record.VertexCount{{Vertex: "source.In.0", Counters: record.Counters{RowsOut: 21}}, {Vertex: "sink.Print.0", Counters: record.Counters{RowsIn: 20}}})
	}))
	defer ops.Close()
	x := f.lead(func(c *Config) { c.Storage = nowhere{} })
	h, release := hangs(workermodel.Drain)
	addr := strings.TrimPrefix(ops.URL, "http://")
	w1 := startWorker(t, f.store, "w1", 1, f.target, with(h), func(w *fakeWorker) { w.ops = addr })
	w2 := startWorker(t, f.store, "w2", 1, f.target, with(h), func(w *fakeWorker) { w.ops = addr })
	w3 := startWorker(t, f.store, "w3", 1, f.target, with(h), func(w *fakeWorker) { w.ops = "127.0.0.1:1" }) // does not answer
	id := f.submit(text("In", "Print", 3), "")
	f.until(id, "RUNNING", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobRunning })
	srv := httptest.NewServer(x.Handler())
	defer srv.Close()
	get := func(path string, code int) (out []record.VertexSummary) {
		t.Helper()
		resp, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != code {
			t.Fatalf("%s: %s", path, resp.Status)
		}
		_ = json.NewDecoder(resp.Body).Decode(&out)
		return out
	}
	for range 3 {
		got := get("/counters/"+string(id), 200)
		if len(got) != 2 || got[0].RowsOut != 42 || got[1].RowsIn != 40 || got[1].Plugin != "Print" || got[0].Parallelism != 3 {
			t.Fatalf("%+v", got)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("workers were asked %d times within a second", n)
	}
	get("/counters/nobody", 404)
	release()
	for _, w := range []*fakeWorker{w1, w2, w3} {
		w.poke <- struct{}{}
	}
	f.end(id, state.JobFinished)
	f.stop()
	get("/counters/"+string(id), 503)
	http.DefaultClient.CloseIdleConnections()
	x.ops.http.CloseIdleConnections()
}
