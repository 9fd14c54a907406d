package plan

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// JobID names one submitted job: [a-z0-9][a-z0-9-]{0,62}.
type JobID string

// PipelineID numbers the pipelines of a job. 0 is the pipeline that prepares tables; data pipelines count from 1.
type PipelineID int

// VertexID names a source, transform or sink: its plugin_output, else section.Plugin.ordinal such as
// sink.Jdbc.0. State and commit ids use it, so an edited job is matched by it.
type VertexID string

// Attempt numbers the deployments of one pipeline. It only grows; 0 means none yet.
type Attempt int64

// CheckpointID numbers the checkpoints of one pipeline. It only grows; 0 means none yet.
type CheckpointID int64

// ChainID numbers the chains (fused vertices) of one pipeline, from 0 in plan order.
type ChainID int

// TaskGroup is a chain at one subtask index, counted from 0.
type TaskGroup struct {
	Pipeline PipelineID `json:"pipeline"`
	Chain    ChainID    `json:"chain"`
	Index    int        `json:"index"`
}

// String gives pipeline/chain/index, the form of statuses and logs.
func (g TaskGroup) String() string { return fmt.Sprintf("%d/%d/%d", g.Pipeline, g.Chain, g.Index) }

// ParseTaskGroup is the inverse of TaskGroup.String.
func ParseTaskGroup(s string) (TaskGroup, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return TaskGroup{}, fmt.Errorf("task group %q: want pipeline/chain/index", s)
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 {
			return TaskGroup{}, fmt.Errorf("task group %q: %q is not a number from 0", s, p)
		}
		n[i] = v
	}
	return TaskGroup{PipelineID(n[0]), ChainID(n[1]), n[2]}, nil
}

// Range is a half-open range of subtask indexes [From, To).
type Range struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Len is the number of subtasks in the range.
func (r Range) Len() int { return r.To - r.From }

var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// CheckName returns an error unless s may name a job or a worker.
func CheckName(kind, s string) error {
	if idForm.MatchString(s) {
		return nil
	}
	return fmt.Errorf("%s %q is not a valid name; use 1 to 63 of a-z, 0-9 and '-', beginning with a letter or digit", kind, s)
}
