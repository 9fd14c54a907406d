package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"

	"github.com/VictoriaMetrics/metrics"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
	"strait/transport/shuffle"
	"strait/worker/task"
)

// Live is what a vertex of a running attempt has done so far on this worker: a record.VertexCount with its pipeline
// and, where there are several, its tables.
type Live struct {
	Pipeline plan.PipelineID `json:"pipeline"`
	record.VertexCount
	Tables map[string]record.Counters `json:"tables,omitempty"`
	// Throttled is how long the readers of a source waited for env.read_limit, in seconds, summed over its subtasks.
	Throttled float64 `json:"throttledSeconds,omitempty"`
}

// Handler serves GET /counters/<job>: the live counters of a job on this worker, a JSON list of Live. A job that is
// not here has an empty list. And GET /load: how busy this host is, a record.Load.
func (w *Worker) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /counters/{job}", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(w.Counters(plan.JobID(r.PathValue("job"))))
	})
	mux.HandleFunc("GET /load", w.serveLoad)
	return mux
}

// Counters are the live counters of a job on this worker, by pipeline and vertex.
func (w *Worker) Counters(job plan.JobID) []Live {
	out := []Live{}
	for _, x := range w.running() {
		if x.job != job {
			continue
		}
		for _, c := range x.tasks.Counts() {
			n := Live{Pipeline: x.id, VertexCount: record.VertexCount{Vertex: c.Vertex, Counters: c.Counters}, Throttled: c.Throttled.Seconds()}
			if len(c.Tables) > 1 {
				n.Tables = c.Tables
			}
			out = append(out, n)
		}
	}
	return out
}

// attempt is one that has tasks here.
type attempt struct {
	pipeline
	tasks *task.Attempt
}

// running lists the attempts of the current life, by job and pipeline.
func (w *Worker) running() []attempt {
	l := w.current()
	if l == nil {
		return nil
	}
	var out []attempt
	l.mu.Lock()
	for p, h := range l.hosts {
		h.mu.Lock()
		if tasks := h.live.running(); tasks != nil {
			out = append(out, attempt{p, tasks})
		}
		h.mu.Unlock()
	}
	l.mu.Unlock()
	sort.Slice(out, func(i, j int) bool {
		if out[i].job != out[j].job {
			return out[i].job < out[j].job
		}
		return out[i].id < out[j].id
	})
	return out
}

// registerMetrics adds the worker's metrics to the set of the process. What belongs to jobs is written as it is at
// the time of the look, so nothing of a job is left behind when it ends.
func (w *Worker) registerMetrics() {
	s := w.cfg.Metrics
	s.NewGauge("strait_worker_ready", func() float64 { return boolean(w.Ready() == nil) })
	s.NewGauge("strait_worker_incarnation", func() float64 { return float64(w.Incarnation()) })
	s.NewGauge("strait_worker_slots", func() float64 { return float64(w.cfg.Slots) })
	s.NewGauge("strait_worker_memory_limit_bytes", func() float64 { return float64(w.cfg.Memory) })
	s.RegisterMetricsWriter(w.writeMetrics)
	w.lost = s.GetOrCreateCounter("strait_worker_sessions_lost_total")
	w.failures = s.GetOrCreateCounter("strait_worker_attempts_failed_total")
	w.statuses = s.GetOrCreateCounter("strait_worker_status_writes_total")
	w.acks = s.GetOrCreateCounter("strait_worker_ack_writes_total")
}

// unregisterMetrics takes them off again.
func (w *Worker) unregisterMetrics() {
	for _, n := range []string{"strait_worker_ready", "strait_worker_incarnation", "strait_worker_slots", "strait_worker_memory_limit_bytes"} {
		w.cfg.Metrics.UnregisterMetric(n)
	}
}

func (w *Worker) writeMetrics(out io.Writer) {
	type row struct {
		labels string
		c      task.Count
	}
	var rows []row
	tasks := map[string]int{}
	var taskNames []string
	for _, a := range w.running() {
		for _, c := range a.tasks.Counts() {
			rows = append(rows, row{fmt.Sprintf(`{job=%q,pipeline="%d",vertex=%q,worker=%q}`, a.job, a.id, c.Vertex, w.cfg.Name), c})
		}
		for _, g := range a.tasks.States() {
			if g.State == state.TaskReady {
				continue
			}
			k := fmt.Sprintf(`strait_worker_tasks{job=%q,pipeline="%d",state=%q,worker=%q}`, a.job, a.id, g.State, w.cfg.Name)
			if _, ok := tasks[k]; !ok {
				taskNames = append(taskNames, k)
			}
			tasks[k] += g.Len()
		}
	}
	counter := func(name string, f func(task.Count) int64) {
		for _, r := range rows {
			metrics.WriteCounterUint64(out, name+r.labels, uint64(f(r.c)))
		}
	}
	counter("strait_worker_rows_in_total", func(c task.Count) int64 { return c.RowsIn })
	counter("strait_worker_rows_out_total", func(c task.Count) int64 { return c.RowsOut })
	counter("strait_worker_bytes_in_total", func(c task.Count) int64 { return c.BytesIn })
	counter("strait_worker_bytes_out_total", func(c task.Count) int64 { return c.BytesOut })
	seconds := func(name string, f func(task.Count) float64) {
		for _, r := range rows {
			metrics.WriteCounterFloat64(out, name+r.labels, f(r.c))
		}
	}
	seconds("strait_worker_busy_seconds_total", func(c task.Count) float64 { return c.Busy.Seconds() })
	seconds("strait_worker_backpressured_seconds_total", func(c task.Count) float64 { return c.Blocked.Seconds() })
	seconds("strait_worker_idle_seconds_total", func(c task.Count) float64 { return c.Idle.Seconds() })
	seconds("strait_worker_throttled_seconds_total", func(c task.Count) float64 { return c.Throttled.Seconds() })
	w.writeLinks(out)
	for _, n := range taskNames {
		metrics.WriteGaugeUint64(out, n, uint64(tasks[n]))
	}
}

// writeLinks writes what the data plane of the current life does. The series of a link end with its attempt.
func (w *Worker) writeLinks(out io.Writer) {
	var reserved int64
	var all shuffle.Stats
	var links []shuffle.LinkStats
	if l := w.current(); l != nil {
		reserved, all, links = l.memory.Used(), l.net.Stats(), l.net.Links()
	}
	metrics.WriteGaugeUint64(out, "strait_worker_memory_reserved_bytes", uint64(reserved))
	metrics.WriteGaugeUint64(out, "strait_shuffle_attempts", uint64(all.Attempts))
	metrics.WriteGaugeUint64(out, "strait_shuffle_reserved_bytes", uint64(all.Reserved))
	metrics.WriteCounterUint64(out, "strait_shuffle_bytes_in_total", uint64(all.BytesIn))
	metrics.WriteCounterUint64(out, "strait_shuffle_bytes_out_total", uint64(all.BytesOut))
	link := func(write func(l *shuffle.LinkStats, labels string)) {
		for i := range links {
			l := &links[i]
			write(l, fmt.Sprintf(`{job=%q,pipeline="%d",worker=%q,peer=%q}`, l.Key.Job, l.Key.Pipeline, w.cfg.Name, l.Peer))
		}
	}
	count := func(name string, f func(*shuffle.LinkStats) int64) {
		link(func(l *shuffle.LinkStats, labels string) { metrics.WriteCounterUint64(out, name+labels, uint64(f(l))) })
	}
	count("strait_shuffle_link_bytes_in_total", func(l *shuffle.LinkStats) int64 { return l.BytesIn })
	count("strait_shuffle_link_bytes_out_total", func(l *shuffle.LinkStats) int64 { return l.BytesOut })
	count("strait_shuffle_link_frames_in_total", func(l *shuffle.LinkStats) int64 { return l.FramesIn })
	count("strait_shuffle_link_frames_out_total", func(l *shuffle.LinkStats) int64 { return l.FramesOut })
	link(func(l *shuffle.LinkStats, labels string) {
		metrics.WriteCounterFloat64(out, "strait_shuffle_link_credit_wait_seconds_total"+labels, l.CreditWait.Seconds())
	})
	link(func(l *shuffle.LinkStats, labels string) {
		metrics.WriteGaugeUint64(out, "strait_shuffle_link_queued_bytes"+labels, uint64(l.Queued))
	})
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
