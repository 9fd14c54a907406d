package record

import (
	"fmt"
	"strings"
	"time"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/state"
)

// Worker is workers/<worker>, on the worker's lease.
type Worker struct {
	Header
	Data      string            `json:"data"`              // host:port of the shuffle
	Ops       string            `json:"ops"`               // host:port of /metrics, /healthz, …
	TTL       int               `json:"ttl"`               // granted, seconds
	CallLimit int               `json:"callLimit"`         // seconds; with TTL: how long a lost worker is waited out
	Slots     int               `json:"slots"`             // fixed; 0 with Dynamic
	Dynamic   bool              `json:"dynamic,omitempty"` // slots are cut from CPU and Memory on demand
	CPU       int               `json:"cpu"`               // cores
	Memory    int64             `json:"memory"`            // bytes that tasks may reserve
	Labels    map[string]string `json:"labels,omitempty"`
	Protocol  [2]int            `json:"protocol"` // oldest and newest it speaks
	Version   string            `json:"version"`
	Host      string            `json:"host"`
	PID       int               `json:"pid"`
	Leaving   bool              `json:"leaving,omitempty"`
	Started   time.Time         `json:"started"`
}

// FirstProtocol is the protocol of placements and assignments that name none.
const FirstProtocol = 1

// Speaks says that a version lies within what a build speaks; 0 is the first one.
func Speaks(protocol [2]int, version int) bool {
	if version == 0 {
		version = FirstProtocol
	}
	return protocol[0] <= version && version <= protocol[1]
}

// Protocol is the oldest and newest protocol between coordinator and worker that this build speaks.
var Protocol = [2]int{1, 1}

// CommonProtocol is the newest protocol that both speak; ok is false where there is none.
func CommonProtocol(a, b [2]int) (version int, ok bool) {
	n := min(a[1], b[1])
	return n, n >= max(a[0], b[0])
}

// The first word of workerwishes/<worker>; no key means active.
const (
	WorkerActive = "active"
	WorkerDrain  = "drain" // nothing new is placed there; what runs goes on until it ends or the deadline comes
)

// untilPrefix begins the only word that may follow drain: the deadline.
const untilPrefix = "until="

// DrainWish is the value of workerwishes/<worker> that drains it. Work that still runs there at until is moved as
// if the worker had failed; the zero time is no deadline.
func DrainWish(until time.Time) []byte {
	if until.IsZero() {
		return []byte(WorkerDrain)
	}
	return []byte(WorkerDrain + " " + untilPrefix + until.UTC().Format(time.RFC3339))
}

// ParseWorkerWish reads the value of a worker's wish: `active`, `drain` or `drain until=<RFC 3339>`, with any white
// space around the words, as shells leave it. until is zero where a drain has no deadline. An empty value, which is
// also that of a key that is not there, means active. What does not parse is no wish: whoever reads it goes on as
// if it said active, and says so.
func ParseWorkerWish(value []byte) (word string, until time.Time, err error) {
	const most = 128
	words := strings.Fields(string(value[:min(len(value), most)]))
	switch {
	case len(words) == 0 && len(value) <= most, len(words) == 1 && words[0] == WorkerActive:
		return WorkerActive, time.Time{}, nil
	case len(words) == 1 && words[0] == WorkerDrain:
		return WorkerDrain, time.Time{}, nil
	case len(words) == 2 && words[0] == WorkerDrain && strings.HasPrefix(words[1], untilPrefix):
		at := strings.TrimPrefix(words[1], untilPrefix)
		if until, err = time.Parse(time.RFC3339, at); err != nil {
			return "", time.Time{}, fmt.Errorf("worker wish %q: %q is not a time; write for example %s", strings.Join(words, " "), at,
				DrainWish(time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)))
		}
		return WorkerDrain, until.UTC(), nil
	}
	return "", time.Time{}, fmt.Errorf("worker wish %q is not known; write %s, %s or %s %s<RFC 3339>", strings.Join(words, " "), WorkerActive, WorkerDrain, WorkerDrain, untilPrefix)
}

// Fenced is fenced/<worker>/<incarnation>: this process is known to be dead.
type Fenced struct {
	Header
	Time time.Time `json:"time"`
	By   string    `json:"by,omitempty"` // who said so: user@host
}

// TaskStatus is taskstatus/<worker>/<job>/<pipeline>: coalesced, written on change only.
type TaskStatus struct {
	Header
	Incarnation int64        `json:"incarnation"`
	Attempt     plan.Attempt `json:"attempt"` // the attempt the following speaks of
	State       state.Task   `json:"state"`   // the least advanced of its groups; FAILED when one failed
	Stopped     plan.Attempt `json:"stopped"` // every attempt up to this one has stopped here, no call is in flight
	Groups      []GroupState `json:"groups,omitempty"`
	// Drained: every source subtask here has no further input, and so have the enumerators here.
	Drained bool     `json:"drained,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
	Links   []string `json:"links,omitempty"` // workers whose link broke
	// Abandoned: the committers here have removed what attempts before this one left open.
	Abandoned bool          `json:"abandoned,omitempty"`
	Left      []string      `json:"left,omitempty"`  // external names the abandonment could not remove
	Final     []VertexCount `json:"final,omitempty"` // counters at the end
}

// GroupState is the state of a range of subtasks of one chain.
type GroupState struct {
	Chain plan.ChainID `json:"chain"`
	plan.Range
	State state.Task `json:"state"`
}

// VertexCount is the counters of one vertex on one worker.
type VertexCount struct {
	Vertex plan.VertexID `json:"vertex"`
	Counters
}

// Ack is acks/<job>/<pipeline>/<worker>.
type Ack struct {
	Header
	Incarnation int64             `json:"incarnation"`
	Attempt     plan.Attempt      `json:"attempt"`
	Checkpoint  plan.CheckpointID `json:"checkpoint"`
	State       checkpoint.Handle `json:"state"`
	Prepared    int               `json:"prepared"`  // commits listed in the state
	Committed   plan.CheckpointID `json:"committed"` // every commit up to this checkpoint that is this worker's to do is done
}

// Checkpoint is checkpoints/<job>/<pipeline>/<checkpoint>: the commit point.
type Checkpoint struct {
	Header
	Kind     checkpoint.Kind   `json:"kind"`
	Attempt  plan.Attempt      `json:"attempt"`
	Manifest checkpoint.Handle `json:"manifest"` // of a Manifest
	Size     int64             `json:"size"`     // of all state files
	Prepared int               `json:"prepared"`
	Started  time.Time         `json:"started"`
	Took     float64           `json:"tookSeconds"`
	State    string            `json:"state"` // live, deleting
	PinnedBy []string          `json:"pinnedBy,omitempty"`
}

// Manifest lists the state files of a checkpoint.
type Manifest struct {
	Version    int               `json:"version"`
	Job        string            `json:"job"` // id and create revision of the spec
	Pipeline   plan.PipelineID   `json:"pipeline"`
	Checkpoint plan.CheckpointID `json:"checkpoint"`
	Attempt    plan.Attempt      `json:"attempt"`
	Files      []ManifestFile    `json:"files"`
}

// ManifestFile is the state file of one worker.
type ManifestFile struct {
	Worker      string            `json:"worker"`
	Incarnation int64             `json:"incarnation"`
	State       checkpoint.Handle `json:"state"`
	Prepared    int               `json:"prepared"`
}

// Load is what a worker answers to GET /load: how busy its host is. It is no key: the leader asks for it, and only
// where it places by it.
type Load struct {
	CPU         float64 `json:"cpu"`    // share of the cores in use since the last second or more, 0 to 1
	Memory      float64 `json:"memory"` // share of the memory in use, 0 to 1
	Incarnation int64   `json:"incarnation"`
}
