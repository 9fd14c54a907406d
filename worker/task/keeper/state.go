package keeper

import (
	"time"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
)

// State is all that is known of one pipeline on one incarnation of a worker. The zero value, with Worker,
// Incarnation and Pipeline set, knows nothing.
type State struct {
	Worker      string
	Incarnation int64
	Pipeline    plan.PipelineID

	Assigned *record.Assignment // names this incarnation; nil: none
	Word     *record.Word       // nil: never seen, or gone
	WordRev  int64              // mod revision of Word
	WordGone bool               // it was deleted
	Leaving  bool               // the process ends

	// Unread: what an earlier host of this incarnation has reported is not known yet. Nothing is built or reported.
	Unread bool
	Before plan.Attempt // the highest attempt that one reported as stopped

	Part *Part // the newest attempt obeyed, also when it has stopped
}

// Life is how far a part has come.
type Life uint8

// The lives of a part.
const (
	Building Life = iota + 1
	Ready
	Running
	Stopping
	Stopped
)

// live says that the tasks of the part exist and were not told to stop.
func (l Life) live() bool { return l == Building || l == Ready || l == Running }

// Doing is where a step that is done once stands.
type Doing uint8

// The steps of a Doing.
const (
	NotAsked Doing = iota
	Asked
	Done
)

// Part is one attempt of the pipeline on this worker.
type Part struct {
	Attempt    plan.Attempt
	Scope      record.Scope
	Committers bool // this worker acts for a sink
	Aggregated bool // and commits for all its subtasks
	Life       Life
	Released   bool // its connections are closed

	Groups  []record.GroupState
	Drained bool
	Failure *record.Failure
	Links   []string
	Left    []string
	Final   []record.VertexCount

	Replay  Doing
	Abandon Doing

	Barrier  plan.CheckpointID // the newest handed to the tasks
	Aborted  plan.CheckpointID // barriers up to here that are not complete are known to be aborted
	Snapped  plan.CheckpointID // every task here handled it
	AckAsked plan.CheckpointID
	Prepared int // commits in the newest ack

	CommitAsked plan.CheckpointID
	Committed   plan.CheckpointID
	MarkAsked   plan.CheckpointID
	Upstream    plan.CheckpointID
}

// Event is something that happened.
type Event interface{ apply(s *State) }

// Assignment: the key tasks/<me>/<job>/<pipeline> has this value; nil: it is gone.
type Assignment struct {
	Value *record.Assignment
	Now   time.Time
}

// Word: the control word has this value at mod revision Rev; nil: it was deleted.
type Word struct {
	Value *record.Word
	Rev   int64
}

// Found is what an earlier host of this incarnation reported last; nil: there was none.
type Found struct{ Status *record.TaskStatus }

// Leave: the process is about to end.
type Leave struct{}

// Built: the tasks of an attempt exist and are connected, or could not be made.
type Built struct {
	Attempt    plan.Attempt
	Aggregated bool // an aggregated committer is here
	Failure    *record.Failure
}

// Failed: a task or a link of an attempt failed.
type Failed struct {
	Attempt plan.Attempt
	Failure record.Failure
	Link    string // the peer whose link broke
}

// Groups: the states of the task groups have changed.
type Groups struct {
	Attempt plan.Attempt
	Groups  []record.GroupState
	Drained bool
}

// Snapped: every task here has handled a barrier.
type Snapped struct {
	Attempt plan.Attempt
	N       plan.CheckpointID
}

// Acked: the ack of a barrier was written, listing so many prepared commits.
type Acked struct {
	Attempt  plan.Attempt
	N        plan.CheckpointID
	Prepared int
}

// Committed: everything complete up to N that is this worker's to commit is visible.
type Committed struct {
	Attempt plan.Attempt
	N       plan.CheckpointID
}

// Replayed: the commits of an older attempt's checkpoint are visible.
type Replayed struct {
	Attempt plan.Attempt
	N       plan.CheckpointID
}

// Abandoned: what older attempts left open is removed, but for Left.
type Abandoned struct {
	Attempt plan.Attempt
	Left    []string
}

// Ended: every task of the attempt has returned and no call is in flight.
type Ended struct {
	Attempt plan.Attempt
	Final   []record.VertexCount
}

// Action is something to be done. Each is asked for once; its result comes back as an event where one is named.
type Action interface{ action() }

// The actions.
type (
	// Stop ends the tasks of an attempt; Ended follows.
	Stop struct{ Attempt plan.Attempt }
	// Release closes the connections of an attempt.
	Release struct{ Attempt plan.Attempt }
	// Build makes the tasks of an attempt and connects them; Built follows.
	Build struct{ Assignment *record.Assignment }
	// Start lets the tasks run: writers open, sources read. Next is the checkpoint whose rows come first.
	Start struct {
		Attempt plan.Attempt
		Next    plan.CheckpointID
	}
	// Replay commits what checkpoint N of an older attempt lists; Replayed follows.
	Replay struct {
		Attempt plan.Attempt
		N       plan.CheckpointID
		Skip    []plan.VertexID
	}
	// Abandon removes what attempts before Attempt left open and checkpoint Keep does not list; Abandoned follows.
	Abandon struct {
		Attempt plan.Attempt
		Keep    plan.CheckpointID
	}
	// Commit makes visible what is complete up to N; Committed follows.
	Commit struct {
		Attempt plan.Attempt
		N       plan.CheckpointID
	}
	// Mark writes into the ack that N is committed, if the word is still as of Rev or says nothing else.
	Mark struct {
		Attempt plan.Attempt
		N       plan.CheckpointID
		Rev     int64
	}
	// Upstream acknowledges to the sources' systems what N covers.
	Upstream struct {
		Attempt plan.Attempt
		N       plan.CheckpointID
	}
	// Barrier hands a barrier to source subtasks and enumerators; Snapped follows once all tasks handled it.
	Barrier struct {
		Attempt plan.Attempt
		Barrier checkpoint.Barrier
	}
	// Abort says that barriers up to N that are not complete never will be.
	Abort struct {
		Attempt plan.Attempt
		N       plan.CheckpointID
	}
	// Ack stores the state of barrier N and acknowledges it, if the word is still as of Rev or says nothing else;
	// Acked follows.
	Ack struct {
		Attempt plan.Attempt
		N       plan.CheckpointID
		Rev     int64
	}
)

func (Stop) action()     {}
func (Release) action()  {}
func (Build) action()    {}
func (Start) action()    {}
func (Replay) action()   {}
func (Abandon) action()  {}
func (Commit) action()   {}
func (Mark) action()     {}
func (Upstream) action() {}
func (Barrier) action()  {}
func (Abort) action()    {}
func (Ack) action()      {}
