package protocol

import (
	"fmt"
	"strings"
	"time"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// Decision is what happens next.
type Decision struct {
	Act   Act
	ID    plan.CheckpointID
	Kind  checkpoint.Kind // Trigger
	Why   string          // for people; of Wait: what for
	Until time.Time       // Wait: look again then; zero: only when facts change
	Left  []string        // Stop: what could not be finished, by name
}

// Decide looks at the facts of a pipeline and says the one thing to do next.
func Decide(f *Facts) Decision {
	switch f.Word.Phase {
	case state.PipelineRunning:
		return f.running()
	case state.PipelineClosing:
		return f.closing()
	}
	return Decision{Act: Wait}
}

func (f *Facts) running() Decision {
	w := f.Word
	if w.Barrier.State == record.BarrierOpen {
		return f.open()
	}
	if w.Committed < w.Completed {
		return f.commits()
	}
	if w.Completed > 0 && f.Checkpoint != nil && ends(f.Checkpoint.Kind) {
		// Invariant 2: no end before what older attempts left is accounted for.
		if !Settled(w) {
			return Decision{Act: Wait, Why: unsettled(w)}
		}
		return Decision{Act: Stop}
	}
	if w.FailedPoints > f.Tolerated {
		return Decision{Act: Restart, ID: w.Barrier.ID, Why: fmt.Sprintf("%d checkpoints in a row failed; the last: %s", w.FailedPoints, w.Message)}
	}
	if f.Bounded && f.Drained && len(f.Workers) > 0 {
		return Decision{Act: Trigger, ID: Next(w), Kind: checkpoint.Final}
	}
	return Decision{Act: Wait}
}

func (f *Facts) open() Decision {
	b := f.Word.Barrier
	if f.NoStorage != "" {
		return Decision{Act: Abort, ID: b.ID, Why: fmt.Sprintf("checkpoint %d cannot be stored: %s", b.ID, f.NoStorage)}
	}
	missing := f.acked()
	if len(missing) == 0 && len(f.Workers) > 0 {
		return Decision{Act: Complete, ID: b.ID}
	}
	if until := f.Opened.Add(f.Timeout); f.Now.Before(until) {
		return Decision{Act: Wait, Until: until, Why: fmt.Sprintf("checkpoint %d waits for %s", b.ID, strings.Join(missing, ", "))}
	}
	return Decision{Act: Abort, ID: b.ID, Why: fmt.Sprintf("checkpoint %d: %s did not ack within %v; a slow sink needs a longer checkpoint.timeout", b.ID, strings.Join(missing, ", "), f.Timeout)}
}

func (f *Facts) commits() Decision {
	n := f.Word.Completed
	if f.Checkpoint == nil {
		return Decision{Act: Wait, Why: fmt.Sprintf("checkpoint %d is complete, but its key is gone; restore it from a backup of the store", n)}
	}
	missing := f.uncommitted()
	if len(missing) == 0 {
		return Decision{Act: RecordCommit, ID: n}
	}
	if len(f.Workers) == 0 {
		return Decision{Act: Wait}
	}
	until := f.Owed.Add(f.Timeout)
	why := fmt.Sprintf("checkpoint %d is complete; its commits are not yet done on %s", n, strings.Join(missing, ", "))
	if f.Now.Before(until) || f.Word.Phase != state.PipelineRunning {
		return Decision{Act: Wait, Until: until, Why: why}
	}
	return Decision{Act: Restart, ID: n, Why: fmt.Sprintf("%s within %v", why, f.Timeout)}
}

func (f *Facts) closing() Decision {
	w := f.Word
	late := !f.Deadline.IsZero() && !f.Now.Before(f.Deadline)
	owed := w.Committed < w.Completed && len(f.Replayers) > 0 && w.Restore > 0
	if owed {
		d := f.commits()
		if d.Act == RecordCommit {
			return d
		}
		if !late {
			d.Until = f.Deadline
			return d
		}
	}
	if owed || !Settled(w) {
		if !late {
			return Decision{Act: Wait, Until: f.Deadline, Why: unsettled(w)}
		}
		return f.leave(owed)
	}
	return Decision{Act: Stop}
}

// leave ends a closing whose deadline is over and names what is left.
func (f *Facts) leave(owed bool) Decision {
	w := f.Word
	d := Decision{Act: Stop, Why: "closing was not done by its deadline"}
	if owed {
		d.Left = append(d.Left, fmt.Sprintf("checkpoint %d: %s", w.Completed, "its prepared commits are not all made visible"))
	}
	for _, h := range w.Holders {
		d.Left = append(d.Left, fmt.Sprintf("worker %s (incarnation %d) was not seen to stop attempt %d", h.Worker, h.Incarnation, h.Attempt))
	}
	if !w.Abandoned {
		d.Left = append(d.Left, fmt.Sprintf("what attempts before %d prepared and no checkpoint covers", w.Attempt))
	}
	return d
}

func unsettled(w *record.Word) string {
	if len(w.Holders) == 0 {
		return "what older attempts left open is not yet removed"
	}
	var names []string
	for _, h := range w.Holders {
		how := "to stop"
		if h.Waiting {
			how = "to be waited out"
		}
		names = append(names, fmt.Sprintf("%s (incarnation %d) %s", h.Worker, h.Incarnation, how))
	}
	return "waits for " + strings.Join(names, ", ")
}

// ends says that a pipeline does not go on from a checkpoint of this kind, in this job.
func ends(k checkpoint.Kind) bool { return k == checkpoint.Final || k == checkpoint.Stop }

// Apply does what was decided to a copy of the word. Complete needs to know whether commits follow.
func Apply(w record.Word, d Decision, commits bool, now time.Time) record.Word {
	switch d.Act {
	case Trigger:
		w.Barrier = record.Barrier{ID: d.ID, Kind: d.Kind, State: record.BarrierOpen, Triggered: now.UTC()}
	case Complete:
		w.Barrier.State, w.Completed, w.FailedPoints = record.BarrierComplete, d.ID, 0
		if !commits {
			w.Committed = d.ID
		}
	case Abort:
		w.Barrier.State, w.Message = record.BarrierAborted, d.Why
		w.FailedPoints++
	case RecordCommit:
		w.Committed = d.ID
	case Stop:
		w.Phase = state.PipelineStopped
		if w.Outcome == "" {
			w.Outcome = record.Finished
			if w.Barrier.Kind == checkpoint.Stop {
				w.Outcome = record.SavepointDone
			}
		}
		if len(d.Left) > 0 {
			w.Left = append(w.Left, d.Left...)
			// Finished claims that every row is in its sink.
			if w.Committed < w.Completed && w.Outcome != record.Cancelled {
				w.Outcome = record.Failed
			}
			w.Message = d.Why
		}
		w.Holders = nil
	}
	return w
}
