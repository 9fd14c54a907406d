package record

import (
	"fmt"
	"strings"
	"time"

	"strait/plan"
	"strait/plan/state"
)

// Header opens every record.
type Header struct {
	APIVersion string `json:"apiVersion"`
}

// Head is the header this build writes.
var Head = Header{APIVersion: APIVersion}

// Leader is the value of a key of the election: who leads, and where it answers.
type Leader struct {
	Header
	Name string `json:"name"`
	Ops  string `json:"ops,omitempty"` // host:port of /metrics, /counters/<job>, …
	Host string `json:"host,omitempty"`
	// Checkpoints is the leader's folder of checkpoint files; workers that were not told one use the same path.
	Checkpoints string    `json:"checkpoints,omitempty"`
	PID         int       `json:"pid,omitempty"`
	Since       time.Time `json:"since"`
}

// Meta is meta/version.
type Meta struct {
	Header
	Cluster string    `json:"cluster"` // random, made by the first leader
	Created time.Time `json:"created"`
}

// Spec is jobs/<job>: what was submitted.
type Spec struct {
	Header
	Name        string            `json:"name,omitempty"` // overrides env.job.name
	File        string            `json:"file,omitempty"` // base name of the job file, for messages
	Text        string            `json:"text,omitempty"` // as submitted
	TextChunks  *Chunks           `json:"textChunks,omitempty"`
	Variables   map[string]string `json:"variables,omitempty"`   // -i
	Environment map[string]string `json:"environment,omitempty"` // environment variables the text asked for where it was submitted
	Parallelism int               `json:"parallelism,omitempty"` // overrides env.parallelism
	Labels      map[string]string `json:"labels,omitempty"`
	Folder      string            `json:"folder,omitempty"` // relative paths of the job file start here
	// PlainSecrets: whoever submitted it wants its secrets stored in clear; without it the leader refuses to plan them so.
	PlainSecrets bool      `json:"plainSecrets,omitempty"`
	Submitted    time.Time `json:"submitted"`
}

// The wishes: the whole value of wishes/<job> is one of these words.
const (
	WishRunning   = "running"
	WishCancelled = "cancelled"
	WishSavepoint = "savepoint"
	WishStopped   = "stopped"
)

// ParseWish reads the value of a wish key. White space around the word is allowed, as shells leave it.
func ParseWish(value []byte) (string, error) {
	word := strings.TrimSpace(string(value[:min(len(value), 64)]))
	switch word {
	case WishRunning, WishCancelled, WishSavepoint, WishStopped:
		return word, nil
	}
	return "", fmt.Errorf("wish %q is not known; write one word: %s, %s, %s or %s", word, WishRunning, WishCancelled, WishSavepoint, WishStopped)
}

// PlanHead is plans/<job>: it names the chunks of the physical plan, which are written before it.
type PlanHead struct {
	Header
	Chunks
	Spec int64 `json:"spec"` // create revision of the spec it was made from: names this life of the id
}

// Condition is something a reader of a status should know, with since when.
type Condition struct {
	Type    string    `json:"type"`
	Status  bool      `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
}

// JobStatus is jobstatus/<job>.
type JobStatus struct {
	Header
	Name         string                             `json:"name"`
	Phase        state.Job                          `json:"phase"`
	Reason       string                             `json:"reason,omitempty"`  // one word
	Message      string                             `json:"message,omitempty"` // for people
	Conditions   []Condition                        `json:"conditions,omitempty"`
	Pipelines    map[plan.PipelineID]PipelineStatus `json:"pipelines,omitempty"`
	Slots        int                                `json:"slots,omitempty"` // needed
	ObservedSpec int64                              `json:"observedSpec"`    // mod revision of the spec that was planned
	SpecCreated  int64                              `json:"specCreated"`     // create revision of the spec: names this life of the id
	ObservedWish int64                              `json:"observedWish,omitempty"`
	Priority     int                                `json:"priority,omitempty"`        // of env.job.priority; the higher is placed first
	Failures     []Failure                          `json:"failures,omitempty"`        // the newest last, at most MaxFailures; the first of all stays
	Earlier      int                                `json:"earlierFailures,omitempty"` // failures behind the first that are not listed any more
	Events       []Event                            `json:"events,omitempty"`          // the newest last, at most MaxEvents
	Submitted    time.Time                          `json:"submitted"`
	Started      *time.Time                         `json:"started,omitempty"`
	Finished     *time.Time                         `json:"finished,omitempty"`
}

// PipelineStatus is the short form of a control word in a status.
type PipelineStatus struct {
	Phase   state.Pipeline `json:"phase"`
	Attempt plan.Attempt   `json:"attempt"`
	Outcome Outcome        `json:"outcome,omitempty"`
	Message string         `json:"message,omitempty"` // why this attempt, this wait or this end
}

// Failure is one incident of a pipeline.
type Failure struct {
	Pipeline plan.PipelineID `json:"pipeline"`
	Attempt  plan.Attempt    `json:"attempt"`
	Worker   string          `json:"worker,omitempty"`
	Group    string          `json:"group,omitempty"`    // task group
	Vertex   plan.VertexID   `json:"vertex,omitempty"`   // which vertex of it
	Position string          `json:"position,omitempty"` // where in its input, as the vertex says it
	Message  string          `json:"message"`
	Fatal    bool            `json:"fatal,omitempty"`
	Time     time.Time       `json:"time"`
}

// MaxFailures bounds the failures of a status. Of all but the newest few only the beginning of the text is kept.
const MaxFailures = 50

// MaxEvents bounds the events of a status; the oldest go first.
const MaxEvents = 32

// Event is something that happened to a job. It is written with the change it tells of, never by itself.
type Event struct {
	Time    time.Time `json:"time"`            // of the last time
	Reason  string    `json:"reason"`          // one word for programs: Submitted, Placed, Restarted, WorkerLost, …
	Message string    `json:"message"`         // for people
	Warn    bool      `json:"warn,omitempty"`  // somebody may have to do something
	Count   int       `json:"count,omitempty"` // how often, where the same came again in a row; 0: once
}

// History is history/<job>: what is left of a terminal job.
type History struct {
	Header
	Name      string          `json:"name"`
	Phase     state.Job       `json:"phase"`
	Reason    string          `json:"reason,omitempty"`
	Message   string          `json:"message,omitempty"`
	Submitted time.Time       `json:"submitted"`
	Started   *time.Time      `json:"started,omitempty"`
	Finished  time.Time       `json:"finished"`
	Vertices  []VertexSummary `json:"vertices,omitempty"`
	Failures  []Failure       `json:"failures,omitempty"`
	Earlier   int             `json:"earlierFailures,omitempty"` // as in JobStatus
	Events    []Event         `json:"events,omitempty"`
	Left      []string        `json:"left,omitempty"` // external names that could not be cleaned
	// SpecCreated names the life of the id that this is about; 0: written before lives were named here.
	SpecCreated int64 `json:"specCreated,omitempty"`
}

// Status is what a status said at the end of the job, as far as its history knows.
func (h *History) Status() *JobStatus {
	finished := h.Finished
	return &JobStatus{Header: h.Header, Name: h.Name, Phase: h.Phase, Reason: h.Reason, Message: h.Message, SpecCreated: h.SpecCreated,
		Failures: h.Failures, Earlier: h.Earlier, Events: h.Events, Submitted: h.Submitted, Started: h.Started, Finished: &finished}
}

// VertexSummary adds up the counters of a vertex over its subtasks.
type VertexSummary struct {
	Pipeline    plan.PipelineID `json:"pipeline"`
	Vertex      plan.VertexID   `json:"vertex"`
	Plugin      string          `json:"plugin"`
	Parallelism int             `json:"parallelism"`
	Counters
}

// Counters count rows and bytes. Within a status they are final: of a subtask that has ended.
type Counters struct {
	RowsIn   int64 `json:"rowsIn"`
	RowsOut  int64 `json:"rowsOut"`
	BytesIn  int64 `json:"bytesIn"`
	BytesOut int64 `json:"bytesOut"`
}

// Add adds o.
func (c *Counters) Add(o Counters) {
	c.RowsIn += o.RowsIn
	c.RowsOut += o.RowsOut
	c.BytesIn += o.BytesIn
	c.BytesOut += o.BytesOut
}
