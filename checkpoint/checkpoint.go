package checkpoint

import (
	"fmt"

	"strait/plan"
)

// Kind says why a checkpoint is taken. The text forms stand in etcd.
type Kind string

// The kinds. Savepoint lets the job go on; stop, handover and final are closing: rows behind their barrier
// are held, and the pipeline does not go on from them in this attempt.
const (
	Periodic  Kind = "periodic"
	Savepoint Kind = "savepoint"
	Stop      Kind = "stop"
	Handover  Kind = "handover"
	Final     Kind = "final"
)

// Closing says that tasks prepare to close behind this barrier.
func (k Kind) Closing() bool { return k == Stop || k == Handover || k == Final }

// Barrier separates the rows of two checkpoints in every stream of a pipeline.
type Barrier struct {
	ID   plan.CheckpointID `json:"id"`
	Kind Kind              `json:"kind"`
}

// Handle points to one stored file, or carries it.
type Handle struct {
	Location string `json:"location,omitempty"` // below checkpoint/storage; empty when Inline is set
	Inline   []byte `json:"inline,omitempty"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256,omitempty"` // hex, of the bytes as stored
}

// IsZero says that there is no file.
func (h Handle) IsZero() bool { return h.Location == "" && h.Inline == nil }

// Identity names what a sink subtask prepares: external names are derived from it and never change on
// replay. Job is the job id plus the create revision of its spec key, so that an id used again never meets
// its predecessor.
type Identity struct {
	Cluster  string          `json:"cluster"`
	Job      string          `json:"job"`
	Pipeline plan.PipelineID `json:"pipeline"`
	Vertex   plan.VertexID   `json:"vertex"`
	Attempt  plan.Attempt    `json:"attempt"`
	Subtask  int             `json:"subtask"`
}

// Prepared is one prepared commit of one sink subtask: durable but unseen at the target.
type Prepared struct {
	Identity
	Checkpoint plan.CheckpointID `json:"checkpoint"`
	Sequence   int               `json:"sequence"` // within (subtask, checkpoint), from 0
	Worker     string            `json:"worker"`   // where it was prepared
	Data       []byte            `json:"data"`     // the sink's own, versioned by it
}

// CommitID is the name of a prepared commit at the target.
func (p *Prepared) CommitID() string {
	return fmt.Sprintf("%s_%s_%d_%s_%d_%d_%d_%d", p.Cluster, p.Job, p.Pipeline, p.Vertex, p.Attempt, p.Checkpoint, p.Subtask, p.Sequence)
}

// State is what one worker contributes to one checkpoint of one pipeline: the content of its state file.
type State struct {
	Version  int        `json:"version"`
	Worker   string     `json:"worker"`
	Prepared []Prepared `json:"prepared,omitempty"`
}

// StateVersion is the format that this build writes; newer ones are refused.
const StateVersion = 1
