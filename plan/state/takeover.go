package state

import "fmt"

// Action is what a new leader does with a state it finds. Waits (intervals, fences, deadlines) start again in
// full: their beginning was seen by another process.
type Action string

// The actions of a new leader.
const (
	Plan            Action = "plan the job again from its text"
	Queue           Action = "put the job into the queue for slots"
	Schedule        Action = "schedule the job"
	Prepare         Action = "go on with the tables that have no recorded outcome"
	FollowPipelines Action = "go on with each pipeline as its control word says; an incarnation that is missing counts as vanished now"
	GoOnDeploying   Action = "go on with the placement that is written, or attempt+1 where none fits"
	Adopt           Action = "adopt what runs, the open barrier too"
	GoOnSavepoint   Action = "go on with the savepoint: open barriers are adopted, pipelines without one are asked"
	GoOnCancelling  Action = "stop what is not stopped, then close as cancelled"
	GoOnFailing     Action = "stop what is not stopped, then close as failed"
	GoOnClosing     Action = "go on closing"
	CleanUp         Action = "write the history if it is missing, then clean up"
	Fail            Action = "treat it as a failure reported now"
	Nothing         Action = "nothing"
)

// String is the action in words.
func (a Action) String() string { return string(a) }

var jobTakeover = map[Job]Action{
	JobSubmitted:     Plan,
	JobPlanned:       Queue,
	JobPending:       Schedule,
	JobPreparing:     Prepare,
	JobScheduled:     FollowPipelines,
	JobRunning:       FollowPipelines,
	JobRestarting:    FollowPipelines,
	JobSavepointing:  GoOnSavepoint,
	JobCancelling:    GoOnCancelling,
	JobFailing:       GoOnFailing,
	JobClosing:       GoOnClosing,
	JobFinished:      CleanUp,
	JobSavepointDone: CleanUp,
	JobCancelled:     CleanUp,
	JobFailed:        CleanUp,
}

var pipelineTakeover = map[Pipeline]Action{
	PipelineDeploying: GoOnDeploying,
	PipelineRunning:   Adopt,
	PipelineClosing:   GoOnClosing,
	PipelineStopped:   Nothing,
}

// A task's worker goes on by itself; the leader only reads its status.
var taskTakeover = map[Task]Action{
	TaskCreated:        Adopt,
	TaskInit:           Adopt,
	TaskWaitingRestore: Adopt,
	TaskReady:          Adopt,
	TaskStarting:       Adopt,
	TaskRunning:        Adopt,
	TaskDrained:        Adopt,
	TaskPrepareClose:   Adopt,
	TaskCancelling:     Adopt,
	TaskFinished:       Nothing,
	TaskCancelled:      Nothing,
	TaskFailed:         Fail,
}

// Takeover is what a new leader does with a state it finds; an error for a text that is none.
func Takeover[S State](found S) (Action, error) {
	var a Action
	var ok bool
	var of string
	switch s := any(found).(type) {
	case Job:
		of = "job"
		a, ok = jobTakeover[s]
	case Pipeline:
		of = "pipeline"
		a, ok = pipelineTakeover[s]
	case Task:
		of = "task"
		a, ok = taskTakeover[s]
	}
	if !ok {
		return "", fmt.Errorf("%q is not a state of a %s", string(found), of)
	}
	return a, nil
}
