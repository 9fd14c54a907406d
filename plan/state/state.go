// Package state has the life cycles of jobs, pipelines and tasks as tables of legal moves, and what a new
// leader does about every state it may find. The words are those of statuses, logs and documentation.
package state

// Job is the phase of a job.
type Job string

// The phases of a job.
const (
	JobSubmitted     Job = "SUBMITTED"
	JobPlanned       Job = "PLANNED"
	JobPending       Job = "PENDING"
	JobPreparing     Job = "PREPARING"
	JobScheduled     Job = "SCHEDULED"
	JobRunning       Job = "RUNNING"
	JobRestarting    Job = "RESTARTING"
	JobSavepointing  Job = "SAVEPOINTING"
	JobClosing       Job = "CLOSING"
	JobCancelling    Job = "CANCELLING"
	JobFailing       Job = "FAILING"
	JobFinished      Job = "FINISHED"
	JobSavepointDone Job = "SAVEPOINT_DONE"
	JobCancelled     Job = "CANCELLED"
	JobFailed        Job = "FAILED"
)

// Pipeline is the phase in a control word.
type Pipeline string

// The phases of a pipeline.
const (
	Deploying Pipeline = "deploying"
	Running   Pipeline = "running"
	Closing   Pipeline = "closing"
	Stopped   Pipeline = "stopped"
)

// Task is the state of a task group.
type Task string

// The states of a task.
const (
	TaskCreated        Task = "CREATED"
	TaskInit           Task = "INIT"
	TaskWaitingRestore Task = "WAITING_RESTORE"
	TaskReady          Task = "READY"
	TaskStarting       Task = "STARTING"
	TaskRunning        Task = "RUNNING"
	TaskDrained        Task = "DRAINED"
	TaskPrepareClose   Task = "PREPARE_CLOSE"
	TaskFinished       Task = "FINISHED"
	TaskCancelling     Task = "CANCELLING"
	TaskCancelled      Task = "CANCELLED"
	TaskFailed         Task = "FAILED"
)
