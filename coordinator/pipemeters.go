package coordinator

import (
	"fmt"
	"io"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"strait/coordinator/job"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// pipeMeters are what an operator sees of the pipelines of a leader: one entry per control word, written when somebody
// looks. A series ends with its pipeline.
type pipeMeters struct {
	mu  sync.Mutex
	all map[pipeKey]pipeState
}

type pipeKey struct {
	job plan.JobID
	id  plan.PipelineID
}

type pipeState struct {
	word  record.Word
	point record.Checkpoint // the newest that is complete; none where its key is not there
}

func newPipeMeters(set *metrics.Set) *pipeMeters {
	m := &pipeMeters{all: map[pipeKey]pipeState{}}
	set.RegisterMetricsWriter(m.write)
	return m
}

func (m *pipeMeters) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.all)
}

// see takes in that a key of a pipeline has changed.
func (m *pipeMeters) see(f *job.Facts, k keys.Parsed) {
	if k.Kind != keys.KindPipeline && k.Kind != keys.KindCheckpoint {
		return
	}
	key := pipeKey{f.ID, k.Pipeline}
	p := f.Pipes[k.Pipeline]
	m.mu.Lock()
	defer m.mu.Unlock()
	if p == nil || p.Word.Value == nil || p.Word.Value.Phase == state.PipelineStopped {
		delete(m.all, key)
		return
	}
	s := pipeState{word: *p.Word.Value}
	if point := p.Points[s.word.Completed].Value; point != nil {
		s.point = *point
	}
	m.all[key] = s
}

func (m *pipeMeters) write(out io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gauge := func(name string, f func(*pipeState) float64) {
		for k, s := range m.all {
			metrics.WriteGaugeFloat64(out, fmt.Sprintf(`%s{job=%q,pipeline="%d"}`, name, k.job, k.id), f(&s))
		}
	}
	for k, s := range m.all {
		metrics.WriteGaugeUint64(out, fmt.Sprintf(`strait_coordinator_pipeline_status{job=%q,pipeline="%d",phase=%q}`, k.job, k.id, s.word.Phase), 1)
	}
	gauge("strait_coordinator_pipeline_attempt", func(s *pipeState) float64 { return float64(s.word.Attempt) })
	gauge("strait_coordinator_pipeline_restarts", func(s *pipeState) float64 { return float64(s.word.RestartsUsed) })
	gauge("strait_coordinator_pipeline_checkpoint_id", func(s *pipeState) float64 { return float64(s.word.Completed) })
	gauge("strait_coordinator_pipeline_checkpoint_committed_id", func(s *pipeState) float64 { return float64(s.word.Committed) })
	gauge("strait_coordinator_pipeline_checkpoint_seconds", func(s *pipeState) float64 { return s.point.Took })
	gauge("strait_coordinator_pipeline_checkpoint_bytes", func(s *pipeState) float64 { return float64(s.point.Size) })
	gauge("strait_coordinator_pipeline_checkpoint_failures", func(s *pipeState) float64 { return float64(s.word.FailedPoints) })
}
