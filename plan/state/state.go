package state

import (
	"fmt"
	"slices"
	"strings"
)

// Job is a state of a job.
type Job string

// The states of a job.
const (
	JobSubmitted     Job = "SUBMITTED"      // the spec is stored
	JobPlanned       Job = "PLANNED"        // the physical plan is stored
	JobPending       Job = "PENDING"        // waits for slots; the reason stands beside it
	JobPreparing     Job = "PREPARING"      // pipeline 0 prepares the target tables
	JobScheduled     Job = "SCHEDULED"      // every pipeline has a placement and is deployed
	JobRunning       Job = "RUNNING"        // every pipeline runs
	JobRestarting    Job = "RESTARTING"     // a pipeline waits for its next attempt or deploys it
	JobSavepointing  Job = "SAVEPOINTING"   // takes a savepoint, with or without stopping
	JobCancelling    Job = "CANCELLING"     // asked to end
	JobFailing       Job = "FAILING"        // a pipeline failed for good
	JobClosing       Job = "CLOSING"        // replays commits and abandons leftovers before it ends
	JobFinished      Job = "FINISHED"       // terminal: every row is in its sink
	JobSavepointDone Job = "SAVEPOINT_DONE" // terminal: stopped with a savepoint
	JobCancelled     Job = "CANCELLED"      // terminal
	JobFailed        Job = "FAILED"         // terminal
)

// Pipeline is the phase of a pipeline's control word.
type Pipeline string

// The phases of a pipeline.
const (
	PipelineDeploying Pipeline = "deploying" // workers build this attempt; older ones stop
	PipelineRunning   Pipeline = "running"
	PipelineClosing   Pipeline = "closing" // readers and writers stop, committers stay
	PipelineStopped   Pipeline = "stopped" // terminal; the outcome stands beside it
)

// Task is a state of a task: of a task group, of an enumerator or of an aggregated committer.
type Task string

// The states of a task.
const (
	TaskCreated        Task = "CREATED"
	TaskInit           Task = "INIT"            // plugins are built
	TaskWaitingRestore Task = "WAITING_RESTORE" // loads its state
	TaskReady          Task = "READY"           // no external effect yet; stands still until the control word says running
	TaskStarting       Task = "STARTING"        // replays commits, opens writers
	TaskRunning        Task = "RUNNING"
	TaskDrained        Task = "DRAINED"       // no further input; answers barriers
	TaskPrepareClose   Task = "PREPARE_CLOSE" // holds rows behind a closing barrier
	TaskFinished       Task = "FINISHED"      // terminal: the closing checkpoint is complete
	TaskCancelling     Task = "CANCELLING"
	TaskCancelled      Task = "CANCELLED" // terminal
	TaskFailed         Task = "FAILED"    // terminal for this attempt
)

// jobMoves lists the legal steps of a job. A pair not listed is refused by Move.
var jobMoves = map[Job][]Job{
	JobSubmitted: {JobPlanned, JobCancelling, JobFailing},
	JobPlanned:   {JobPending, JobCancelling, JobFailing},
	// Without tables to prepare, and on a restore, PREPARING is left out.
	JobPending: {JobPreparing, JobScheduled, JobCancelling, JobFailing},
	// A worker lost before the first `running` may leave too few slots.
	JobPreparing: {JobScheduled, JobPending, JobCancelling, JobFailing},
	JobScheduled: {JobRunning, JobPending, JobRestarting, JobCancelling, JobFailing},
	// CLOSING: every pipeline has ended.
	JobRunning: {JobRestarting, JobSavepointing, JobClosing, JobCancelling, JobFailing},
	// CLOSING: the restart found a final checkpoint, only its commits are replayed.
	JobRestarting: {JobRunning, JobClosing, JobCancelling, JobFailing},
	// RUNNING: the savepoint goes on or missed its deadline. RESTARTING: pipelines that had stopped for it come
	// back, or one failed meanwhile.
	JobSavepointing: {JobRunning, JobRestarting, JobClosing, JobCancelling, JobFailing},
	JobCancelling:   {JobClosing},
	JobFailing:      {JobClosing},
	JobClosing:      {JobFinished, JobSavepointDone, JobCancelled, JobFailed},
	JobFinished:     {}, JobSavepointDone: {}, JobCancelled: {}, JobFailed: {},
}

// pipelineMoves lists the legal steps of a pipeline; a step into deploying, or from closing to closing, raises
// the attempt. To stopped without closing goes what has nothing to replay or abandon: closing is that one
// write then. From closing back to deploying goes a pipeline that stopped for a savepoint which others missed:
// it is not stopped before the savepoint of the whole job is settled.
var pipelineMoves = map[Pipeline][]Pipeline{
	PipelineDeploying: {PipelineRunning, PipelineDeploying, PipelineClosing, PipelineStopped},
	PipelineRunning:   {PipelineDeploying, PipelineClosing, PipelineStopped},
	PipelineClosing:   {PipelineStopped, PipelineClosing, PipelineDeploying},
	PipelineStopped:   {},
}

// taskMoves lists the legal steps of a task within one attempt; the next attempt has new tasks.
var taskMoves = map[Task][]Task{
	TaskCreated:        {TaskInit, TaskCancelling, TaskFailed},
	TaskInit:           {TaskWaitingRestore, TaskCancelling, TaskFailed},
	TaskWaitingRestore: {TaskReady, TaskCancelling, TaskFailed},
	TaskReady:          {TaskStarting, TaskCancelling, TaskFailed},
	TaskStarting:       {TaskRunning, TaskCancelling, TaskFailed},
	// PREPARE_CLOSE without DRAINED: a stop or a handover.
	TaskRunning: {TaskDrained, TaskPrepareClose, TaskCancelling, TaskFailed},
	TaskDrained: {TaskPrepareClose, TaskCancelling, TaskFailed},
	// Back: the closing checkpoint was aborted.
	TaskPrepareClose: {TaskFinished, TaskRunning, TaskDrained, TaskCancelling, TaskFailed},
	TaskCancelling:   {TaskCancelled, TaskFailed},
	TaskFinished:     {}, TaskCancelled: {}, TaskFailed: {},
}

// State is one of the three life cycles.
type State interface{ Job | Pipeline | Task }

// IllegalMove is the error of Move.
type IllegalMove struct {
	Of       string // job, pipeline or task
	From, To string
	Legal    []string // where From leads; nil when From is no state at all
}

func (e *IllegalMove) Error() string {
	switch {
	case e.Legal == nil:
		return fmt.Sprintf("%q is not a state of a %s", e.From, e.Of)
	case len(e.Legal) == 0:
		return fmt.Sprintf("a %s cannot go from %s to %s: %s is terminal", e.Of, e.From, e.To, e.From)
	}
	return fmt.Sprintf("a %s cannot go from %s to %s, only to %s", e.Of, e.From, e.To, strings.Join(e.Legal, ", "))
}

// Move returns nil when the step from one state to the other is legal, else an *IllegalMove.
func Move[S State](from, to S) error {
	switch f := any(from).(type) {
	case Job:
		return move("job", jobMoves, f, any(to).(Job))
	case Pipeline:
		return move("pipeline", pipelineMoves, f, any(to).(Pipeline))
	case Task:
		return move("task", taskMoves, f, any(to).(Task))
	}
	panic("unreachable: State has three types")
}

func move[S ~string](of string, moves map[S][]S, from, to S) error {
	legal, known := moves[from]
	if known && slices.Contains(legal, to) {
		return nil
	}
	e := &IllegalMove{Of: of, From: string(from), To: string(to)}
	if known {
		e.Legal = make([]string, len(legal))
		for i, s := range legal {
			e.Legal[i] = string(s)
		}
	}
	return e
}

// String is the text of the state.
func (s Job) String() string { return string(s) }

// String is the text of the phase.
func (s Pipeline) String() string { return string(s) }

// String is the text of the state.
func (s Task) String() string { return string(s) }

// Terminal says that nothing leaves the state.
func (s Job) Terminal() bool { return terminal(jobMoves, s) }

// Terminal says that nothing leaves the phase.
func (s Pipeline) Terminal() bool { return terminal(pipelineMoves, s) }

// Terminal says that nothing leaves the state.
func (s Task) Terminal() bool { return terminal(taskMoves, s) }

// Valid says that the text is one of the states; a text read from elsewhere may not be.
func (s Job) Valid() bool { _, ok := jobMoves[s]; return ok }

// Valid says that the text is one of the phases.
func (s Pipeline) Valid() bool { _, ok := pipelineMoves[s]; return ok }

// Valid says that the text is one of the states.
func (s Task) Valid() bool { _, ok := taskMoves[s]; return ok }

func terminal[S ~string](moves map[S][]S, s S) bool {
	legal, known := moves[s]
	return known && len(legal) == 0
}
