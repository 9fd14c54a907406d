package record

import (
	"time"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/state"
)

// Outcome is how a stopped pipeline ended, or in closing how it will.
type Outcome string

// The outcomes.
const (
	Finished      Outcome = "finished"
	Cancelled     Outcome = "cancelled"
	Failed        Outcome = "failed"
	SavepointDone Outcome = "savepoint_done"
)

// Scope says which tasks an attempt has.
type Scope string

// The scopes. A committers-only attempt replays commits and abandons leftovers, nothing else.
const (
	ScopeAll        Scope = "all"
	ScopeCommitters Scope = "committers"
)

// BarrierState is what became of a barrier.
type BarrierState string

// The barrier states.
const (
	BarrierOpen     BarrierState = "open"
	BarrierAborted  BarrierState = "aborted"
	BarrierComplete BarrierState = "complete"
)

// Barrier is the newest barrier of a control word.
type Barrier struct {
	ID        plan.CheckpointID `json:"id"`
	Kind      checkpoint.Kind   `json:"kind,omitempty"`
	State     BarrierState      `json:"state,omitempty"`
	Triggered time.Time         `json:"triggered,omitzero"`
}

// Holder is an incarnation of an older attempt that may still act.
type Holder struct {
	Worker      string `json:"worker"`
	Incarnation int64  `json:"incarnation"`
	// Attempt is the newest attempt it was part of: it leaves once it has stopped up to there.
	Attempt plan.Attempt `json:"attempt"`
	// Wait is TTL + call limit of that incarnation, seconds: how long it is waited out once its key is gone.
	Wait int `json:"wait"`
	// Waiting: it is gone without having stopped, and the wait of design section 8 is not over; or its peers lost it
	// and it does not answer, and the wait begins when its key is gone. A pipeline without keyed-upsert sinks may run
	// meanwhile, but neither abandons nor ends.
	Waiting bool `json:"waiting,omitempty"`
}

// Word is pipelines/<job>/<pipeline>: the control word, the only point of serialisation of a pipeline.
type Word struct {
	Header
	Attempt   plan.Attempt      `json:"attempt"`
	Scope     Scope             `json:"scope"`
	Phase     state.Pipeline    `json:"phase"`
	Outcome   Outcome           `json:"outcome,omitempty"` // closing: the aim; stopped: what came of it
	Barrier   Barrier           `json:"barrier"`
	Completed plan.CheckpointID `json:"completed"`
	Committed plan.CheckpointID `json:"committed"`
	Restore   plan.CheckpointID `json:"restore"` // what this attempt starts from; 0: the beginning
	// Skip are sinks whose commit of the completed checkpoint failed for good: closing does not replay it.
	Skip    []plan.VertexID `json:"skip,omitempty"`
	Holders []Holder        `json:"holders,omitempty"`
	// Abandoned: what older attempts left open has been abandoned by this attempt, or there was nothing.
	Abandoned bool `json:"abandoned,omitempty"`

	// NotBefore, RunningSince and Deadline are what the wall clock of the leader showed that wrote them; another leader
	// takes them for hints.
	RestartsUsed int        `json:"restartsUsed,omitempty"`
	FreeRestart  bool       `json:"freeRestart,omitempty"` // the uncounted restart of this healthy period is used
	NotBefore    *time.Time `json:"notBefore,omitempty"`   // the back-off: no deployment before
	RunningSince *time.Time `json:"runningSince,omitempty"`
	Deadline     *time.Time `json:"deadline,omitempty"` // closing: past it what is left is listed
	FailedPoints int        `json:"failedPoints,omitempty"`
	Message      string     `json:"message,omitempty"` // why this attempt or this end
	Left         []string   `json:"left,omitempty"`
}

// Placement is placements/<job>/<pipeline>: where an attempt runs. It is written once an attempt.
type Placement struct {
	Header
	Attempt     plan.Attempt             `json:"attempt"`
	Scope       Scope                    `json:"scope"`
	Protocol    int                      `json:"protocol,omitempty"` // the newest that the leader and all workers of the attempt speak; 0: 1
	Token       string                   `json:"token"`              // shuffle connections of this attempt show it
	Workers     map[string]PlacedWorker  `json:"workers"`
	Chains      []PlacedChain            `json:"chains,omitempty"`
	Enumerators map[plan.VertexID]string `json:"enumerators,omitempty"` // source → worker
	// Committers name the worker that acts for a sink: aggregated commits, replay and abandonment.
	Committers map[plan.VertexID]string `json:"committers,omitempty"`
}

// PlacedWorker is how a worker of an attempt is reached.
type PlacedWorker struct {
	Incarnation int64  `json:"incarnation"`
	Data        string `json:"data"` // host:port of its shuffle
	Wait        int    `json:"wait"` // its TTL + call limit, seconds
}

// PlacedChain puts a range of subtasks of a chain on a worker.
type PlacedChain struct {
	Chain  plan.ChainID `json:"chain"`
	Worker string       `json:"worker"`
	plan.Range
}

// Assignment is tasks/<worker>/<job>/<pipeline>: derived from the placement.
type Assignment struct {
	Header
	Incarnation int64           `json:"incarnation"`
	Attempt     plan.Attempt    `json:"attempt"`
	Scope       Scope           `json:"scope"`
	Protocol    int             `json:"protocol,omitempty"` // of the placement
	Chains      []PlacedChain   `json:"chains,omitempty"`
	Enumerators []plan.VertexID `json:"enumerators,omitempty"`
	Committers  []plan.VertexID `json:"committers,omitempty"`
	Slots       []int           `json:"slots,omitempty"`  // numbers of the grants it uses
	Memory      int64           `json:"memory,omitempty"` // bytes it may reserve here: the profiles of its grants together; 0: no bound but the worker's
}

// Profile is what a slot takes of its worker.
type Profile struct {
	MilliCPU int   `json:"milliCPU,omitempty"` // thousandths of a core
	Memory   int64 `json:"memory,omitempty"`   // bytes
}

// Grant is slots/<worker>/<n>.
type Grant struct {
	Header
	Incarnation int64           `json:"incarnation"`
	Job         plan.JobID      `json:"job"`
	Pipeline    plan.PipelineID `json:"pipeline"`
	Attempt     plan.Attempt    `json:"attempt"`
	Groups      []string        `json:"groups"` // task groups that share the slot, as pipeline/chain/index
	Profile     Profile         `json:"profile,omitzero"`
	Endless     bool            `json:"endless,omitempty"` // its pipeline has an unbounded source: it is held until somebody ends the job
}
