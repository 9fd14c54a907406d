package protocol

import (
	"fmt"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
)

// Start is how an attempt begins.
type Start uint8

// The starts. Exactly one is the answer of Resolve.
const (
	Ready      Start = iota + 1 // from the state of Point, or from the beginning; nothing to commit
	Replay                      // replay the commits of Point, then go on from it
	ReplayOnly                  // Point was the last: replay what is not committed, and end with Outcome
	Orphan                      // this attempt is over: stop
	Fail                        // not to be decided here; Why says what the operator can do
)

// String is the start in words.
func (s Start) String() string {
	return [...]string{"", "ready", "replay, then go on", "replay only", "orphan", "fail"}[s]
}

// Restore is what Resolve looks at.
type Restore struct {
	Attempt    plan.Attempt // the attempt that asks
	Word       *record.Word
	Checkpoint *record.Checkpoint // the key of Word.Completed; nil: absent
	// Newest is the highest checkpoint id of this pipeline that storage has a manifest of; 0: none or not looked.
	Newest plan.CheckpointID
}

// Resolution is the answer of Resolve.
type Resolution struct {
	Start   Start
	Point   plan.CheckpointID // 0: the beginning
	Outcome record.Outcome    // ReplayOnly
	Why     string
}

// Resolve says how an attempt starts. A completed checkpoint is never passed over, whatever else is there.
func Resolve(r Restore) Resolution {
	w := r.Word
	fail := func(format string, args ...any) Resolution {
		return Resolution{Start: Fail, Point: w.Completed, Why: fmt.Sprintf(format, args...)}
	}
	switch {
	case r.Attempt < w.Attempt:
		return Resolution{Start: Orphan, Why: fmt.Sprintf("attempt %d is over, %d is the newest", r.Attempt, w.Attempt)}
	case r.Attempt > w.Attempt:
		return fail("attempt %d is newer than the control word's %d: the store was restored from an older backup; stop the workers and start from a savepoint", r.Attempt, w.Attempt)
	case r.Newest > w.Barrier.ID:
		return fail("storage has a manifest of checkpoint %d, the control word knows none after %d: the store was restored from an older backup; confirm which of them is right before the job runs", r.Newest, w.Barrier.ID)
	case w.Completed == 0:
		return Resolution{Start: Ready}
	case w.Completed > w.Barrier.ID || w.Committed > w.Completed:
		return fail("the control word names checkpoint %d complete, %d committed and %d the newest: the key was changed by hand", w.Completed, w.Committed, w.Barrier.ID)
	case r.Checkpoint == nil:
		return fail("checkpoint %d is complete, but its key is gone; restore the key from a backup of the store, it says what must be committed", w.Completed)
	case r.Checkpoint.Attempt > w.Attempt:
		return fail("checkpoint %d was taken by attempt %d, the control word is at %d: the store was restored from an older backup", w.Completed, r.Checkpoint.Attempt, w.Attempt)
	case r.Checkpoint.State == CheckpointDeleting:
		return fail("checkpoint %d is being deleted and cannot be started from", w.Completed)
	case ends(r.Checkpoint.Kind):
		out := record.Finished
		if r.Checkpoint.Kind == checkpoint.Stop {
			out = record.SavepointDone
		}
		return Resolution{Start: ReplayOnly, Point: w.Completed, Outcome: out}
	case w.Committed < w.Completed:
		return Resolution{Start: Replay, Point: w.Completed}
	}
	return Resolution{Start: Ready, Point: w.Completed}
}

// The states of a checkpoints key.
const (
	CheckpointLive     = "live"
	CheckpointDeleting = "deleting"
)
