package coordinator

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"strait/coordinator/api/client"
	"strait/coordinator/internal/workermodel"
	"strait/plan/state"
)

// TestPipelineMetrics: a leader shows its pipelines while they are there, and nothing of them afterwards.
func TestPipelineMetrics(t *testing.T) {
	set := metrics.NewSet()
	f := newFleet(t, func(c *Config) { c.Metrics = set })
	h, release := hangs(workermodel.Drain)
	w := startWorker(t, f.store, "w1", 2, f.target, with(h))
	id := f.submit(text("In", "Out", 2), "")
	f.until(id, "RUNNING", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobRunning })
	shown := func() string {
		var out bytes.Buffer
		set.WritePrometheus(&out)
		return out.String()
	}
	await := func(what string, ok func(string) bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !ok(shown()); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s:\n%s", what, shown())
			}
		}
	}
	labels := `{job="` + string(id) + `",pipeline="1"`
	await("a running pipeline", func(s string) bool {
		return strings.Contains(s, "strait_coordinator_pipeline_status"+labels+`,phase="running"} 1`) && strings.Contains(s, "strait_coordinator_pipeline_attempt"+labels+"} 1")
	})
	release()
	w.poke <- struct{}{}
	f.until(id, "FINISHED", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobFinished })
	await("nothing of a job that has ended", func(s string) bool { return !strings.Contains(s, string(id)) })
}
