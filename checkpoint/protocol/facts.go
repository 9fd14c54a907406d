package protocol

import (
	"slices"
	"sort"
	"time"

	"strait/kv/record"
	"strait/plan"
)

// Facts is all that a decision looks at, read at one revision.
type Facts struct {
	Word *record.Word
	// Workers are the incarnations that the word's attempt is placed on; nil while it is not.
	Workers map[string]int64
	Acks    map[string]*record.Ack
	// Bounded: the pipeline ends by itself. Drained: every source subtask and enumerator of the attempt has ended.
	Bounded, Drained bool
	// Aggregators are workers with the committer of an aggregating sink: its commit happens also when nothing was
	// prepared.
	Aggregators map[string]bool
	// Replayers are workers with a committer of any sink that is not skipped: in an attempt that did not complete
	// the checkpoint itself, each of them replays it and marks its own ack.
	Replayers map[string]bool
	// Checkpoint is the key of Word.Completed, nil while there is none.
	Checkpoint *record.Checkpoint
	// NoStorage says why the open barrier cannot complete: a state file or the manifest could not be stored.
	NoStorage string
	// Timeout bounds a barrier, and after it the commits.
	Timeout time.Duration
	// Tolerated is how many checkpoints in a row may be aborted before the attempt is given up. Where prepared
	// commits hold locks it is 0: the next checkpoint would wait for the locks of this one.
	Tolerated int
	// Now, and what is compared with it, is the clock of this leader. The times in keys are of the clock of whoever
	// wrote them, which may be an hour off, and decide nothing here.
	Now time.Time
	// Opened is since when this leader sees the open barrier, Owed since when it sees that the commits of Word.Completed
	// are owed by a running attempt.
	Opened, Owed time.Time
	// Deadline is when this leader ends closing; zero: never.
	Deadline time.Time
}

// Act is what a Decision is about.
type Act uint8

// The acts.
const (
	Wait         Act = iota // nothing to do; Until says when to look again
	Trigger                 // open barrier ID of kind Kind
	Complete                // every ack of ID is there: record it
	Abort                   // the open barrier will not complete
	RecordCommit            // every commit of Completed is done
	Restart                 // the attempt cannot go on: attempt+1
	Stop                    // the pipeline has ended
)

// String is the act in a word.
func (a Act) String() string {
	return [...]string{"wait", "trigger", "complete", "abort", "record commit", "restart", "stop"}[a]
}

// acked says that every worker of the attempt has acked the barrier; if not, missing names who has not.
func (f *Facts) acked() (missing []string) {
	for w, inc := range f.Workers {
		a := f.Acks[w]
		// Readers of acks ignore other incarnations and older attempts.
		if a == nil || a.Incarnation != inc || a.Attempt != f.Word.Attempt || a.Checkpoint != f.Word.Barrier.ID {
			missing = append(missing, w)
		}
	}
	sort.Strings(missing)
	return missing
}

// Commits says whether completing n leaves commits to do: some worker lists prepared ones, or a sink aggregates.
func (f *Facts) Commits() bool {
	if len(f.Aggregators) > 0 {
		return true
	}
	for w := range f.Workers {
		if a := f.Acks[w]; a != nil && a.Attempt == f.Word.Attempt && a.Prepared > 0 {
			return true
		}
	}
	return false
}

// uncommitted names the workers that still owe their mark for Word.Completed.
func (f *Facts) uncommitted() (missing []string) {
	n, a := f.Word.Completed, f.Word.Attempt
	own := f.Checkpoint != nil && f.Checkpoint.Attempt == a
	for w, inc := range f.Workers {
		ack := f.Acks[w]
		mine := ack != nil && ack.Incarnation == inc && ack.Attempt == a
		owes := f.Replayers[w]
		if own {
			owes = f.Aggregators[w] || mine && ack.Prepared > 0
		}
		if owes && !(mine && ack.Committed >= n) {
			missing = append(missing, w)
		}
	}
	if !own && len(f.Replayers) > 0 && len(f.Workers) == 0 {
		missing = append(missing, "a worker to be placed")
	}
	sort.Strings(missing)
	return missing
}

// Settled says that nothing an older attempt left is unaccounted for.
func Settled(w *record.Word) bool { return len(w.Holders) == 0 && w.Abandoned }

// OnlyWaiting says that every holder left is one that is being waited out.
func OnlyWaiting(hs []record.Holder) bool {
	return !slices.ContainsFunc(hs, func(h record.Holder) bool { return !h.Waiting })
}

// Next is the id of the next barrier: it only grows.
func Next(w *record.Word) plan.CheckpointID { return w.Barrier.ID + 1 }
