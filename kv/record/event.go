package record

// Reasons of the events of a job: one word for programs. More may come; a reader shows those it does not know.
const (
	EventSubmitted   = "Submitted"   // the spec is stored, the leader knows the job
	EventPlanned     = "Planned"     // the plan is stored
	EventPlanWarning = "PlanWarning" // the planner took the text and has something to say about it
	EventPending     = "Pending"     // it waits for slots, workers or the fleet to recover
	EventPlaced      = "Placed"      // an attempt has its slots
	EventRunning     = "Running"     // every pipeline runs, or one does again
	EventTaskFailed  = "TaskFailed"  // an attempt failed
	EventWorkerLost  = "WorkerLost"  // a worker of an attempt vanished
	EventLinkBroken  = "LinkBroken"  // a connection between two workers of an attempt broke
	EventDraining    = "Draining"    // a worker of an attempt is drained: it may finish, perhaps until a time
	EventMoving      = "Moving"      // a worker leaves, or is drained and its deadline has passed
	EventRestarting  = "Restarting"  // attempt+1: which, when, the how manieth counted
	EventReplaying   = "Replaying"   // attempt+1 of committers only, on the way to an end
	EventCheckpoint  = "Checkpoint"  // a checkpoint that ends or moves the pipeline is complete, or what it listed is committed
	EventFenced      = "Fenced"      // an incarnation did not stop in time; its key was deleted
	EventUnreadable  = "Unreadable"  // a key of the job cannot be read; nothing is done about the job
	EventRefused     = "Refused"     // a wish or a changed spec that was not followed
	EventCancelling  = "Cancelling"  // asked to end
	EventFailing     = "Failing"     // failed for good
	EventEnded       = "Ended"       // terminal
)
