package worker

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"strait/kv"
	"strait/kv/record"
	"strait/plan/state"
	"strait/worker/task/tasktest"
)

func TestCountersAndMetrics(t *testing.T) {
	tasktest.New(t, 2, 50)
	set := metrics.NewSet()
	f := newFleet(t, tasktest.Plan(t, chain(2, "TestSource", "TestEven", "TestSink")))
	w := f.start("w1", func(c *Config) { c.Metrics = set })
	f.run(1, w)
	f.status("w1", "drained", func(s *record.TaskStatus) bool { return s.Drained })

	get := func(job string) (out []record.VertexCount) {
		r := httptest.NewRecorder()
		w.Handler().ServeHTTP(r, httptest.NewRequest("GET", "/counters/"+job, nil))
		if err := json.Unmarshal(r.Body.Bytes(), &out); err != nil {
			t.Fatalf("%v in %s", err, r.Body)
		}
		return out
	}
	c := get("job")
	if len(c) != 3 || c[0].RowsOut != 100 || c[1].RowsIn != 100 || c[1].RowsOut != 50 || c[2].RowsIn != 50 || c[2].BytesIn != 400 {
		t.Errorf("counters %+v", c)
	}
	if c := get("other"); len(c) != 0 {
		t.Errorf("counters of a job that is not here: %+v", c)
	}
	page := func() string {
		var b bytes.Buffer
		set.WritePrometheus(&b)
		return b.String()
	}
	for _, want := range []string{
		"strait_worker_ready 1\n", "strait_worker_slots 4\n",
		`strait_worker_rows_out_total{job="job",pipeline="1",vertex="v1",worker="w1"} 50`,
		`strait_worker_bytes_in_total{job="job",pipeline="1",vertex="v2",worker="w1"} 400`,
		`strait_worker_tasks{job="job",pipeline="1",state="DRAINED",worker="w1"} 2`,
		`strait_worker_busy_seconds_total{job="job",pipeline="1",vertex="v0",worker="w1"} `,
	} {
		if !strings.Contains(page(), want) {
			t.Errorf("no %s in\n%s", want, page())
		}
	}
	f.finish(record.Cancelled)
	f.status("w1", "cancelled", isState(state.TaskCancelled, 1))
	// Nothing of a job is left once its assignment is gone.
	f.forgetJob("w1")
	f.await("the metrics to be gone", f.tree.Worker("w1"), func(kv.Entry) bool { return !strings.Contains(page(), "job=") })
	if err := w.end(t); err != nil {
		t.Fatal(err)
	}
	if p := page(); strings.Contains(p, "strait_worker_ready") || strings.Contains(p, "job=") {
		t.Errorf("left behind:\n%s", p)
	}
}

// TestQuietStore: Invariant 8, a job that runs and changes nothing costs no writes, and many rows and splits cost as
// few as one.
func TestQuietStore(t *testing.T) {
	world := tasktest.New(t, 200, 500)
	world.Batch = 7
	set := metrics.NewSet()
	f := newFleet(t, tasktest.Plan(t, chain(4, "TestSource", "TestSink")))
	w := f.start("w1", func(c *Config) { c.Metrics = set })
	f.run(1, w)
	f.status("w1", "drained", func(s *record.TaskStatus) bool { return s.Drained })
	time.Sleep(2 * statusPause) // what may wait is written
	rev := func() int64 {
		r, err := f.etcd.Store.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := rev()
	if n := w.statuses.Get(); n > 6 {
		t.Errorf("%d status writes for 200 splits and 15,000 batches", n)
	}
	time.Sleep(300 * time.Millisecond)
	if after := rev(); after != before {
		t.Errorf("%d writes by a job in which nothing happens", after-before)
	}
	allOnce(t, "written", world.Written(), 100_000)
}

func TestLivesAreLimited(t *testing.T) {
	var l lives
	now := time.Now()
	pauses := []time.Duration{}
	for {
		p, ok := l.lose(now)
		if !ok {
			break
		}
		pauses = append(pauses, p)
		now = now.Add(time.Second)
	}
	if len(pauses) != maxLives-1 || pauses[0] != firstPause || pauses[1] != 2*firstPause || pauses[8] != mostPause {
		t.Errorf("pauses %v", pauses)
	}
	if p, ok := l.lose(now.Add(2 * livesSpan)); !ok || p != firstPause {
		t.Errorf("after a healthy time: %v, %v", p, ok)
	}
}
