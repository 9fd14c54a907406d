package protocol

import (
	"errors"
	"fmt"

	"strait/kv/record"
	"strait/plan/state"
)

// CheckMove returns an error where one control word may not follow the other. Everybody who writes a word asks
// first: what is refused here is a bug of ours, found before it is stored.
func CheckMove(from, to *record.Word) error {
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if from == nil {
		must(to.Attempt == 1 && to.Phase == state.PipelineDeploying && to.Completed == 0 && to.Barrier.State != record.BarrierOpen,
			"the first control word is attempt %d, %s", to.Attempt, to.Phase)
		return errors.Join(errs...)
	}
	raised := to.Attempt > from.Attempt
	must(to.Attempt == from.Attempt || to.Attempt == from.Attempt+1, "attempt goes from %d to %d", from.Attempt, to.Attempt)
	must(from.Phase != state.PipelineStopped || to.Phase == state.PipelineStopped && !raised, "a stopped pipeline becomes %s, attempt %d", to.Phase, to.Attempt)
	if from.Phase != to.Phase || raised {
		if err := state.Move(from.Phase, to.Phase); err != nil {
			errs = append(errs, err)
		}
	}
	must(raised || to.Phase != state.PipelineDeploying || from.Phase == state.PipelineDeploying, "back to deploying without a new attempt")
	must(raised || to.Phase != state.PipelineClosing || from.Phase == state.PipelineClosing, "closing without a new attempt")
	must(to.Barrier.ID >= from.Barrier.ID, "barrier id goes from %d to %d", from.Barrier.ID, to.Barrier.ID)
	must(to.Completed >= from.Completed && to.Committed >= from.Committed && to.Committed <= to.Completed && to.Completed <= to.Barrier.ID,
		"completed %d → %d, committed %d → %d, barrier %d", from.Completed, to.Completed, from.Committed, to.Committed, to.Barrier.ID)
	open := to.Barrier.State == record.BarrierOpen
	must(!open || to.Phase == state.PipelineRunning, "a barrier is open in phase %s", to.Phase)
	must(!raised || !open, "attempt %d begins with an open barrier", to.Attempt)
	if to.Barrier.ID > from.Barrier.ID {
		must(from.Phase == state.PipelineRunning && from.Barrier.State != record.BarrierOpen && from.Committed == from.Completed && to.Barrier.ID == from.Barrier.ID+1,
			"barrier %d is triggered over %d (%s) in phase %s, committed %d of %d", to.Barrier.ID, from.Barrier.ID, from.Barrier.State, from.Phase, from.Committed, from.Completed)
	} else if from.Barrier.State != to.Barrier.State {
		must(from.Barrier.State == record.BarrierOpen, "barrier %d goes from %s to %s", to.Barrier.ID, from.Barrier.State, to.Barrier.State)
	}
	if to.Completed > from.Completed {
		must(!raised && from.Phase == state.PipelineRunning && from.Barrier.State == record.BarrierOpen && to.Completed == from.Barrier.ID,
			"checkpoint %d completes while barrier %d is %s in phase %s", to.Completed, from.Barrier.ID, from.Barrier.State, from.Phase)
	}
	must(!raised || to.Restore == to.Completed || to.Phase != state.PipelineDeploying, "attempt %d starts from checkpoint %d, completed is %d", to.Attempt, to.Restore, to.Completed)
	must(to.Phase != state.PipelineStopped || to.Outcome != "", "stopped without an outcome")
	if to.Phase == state.PipelineRunning && from.Phase == state.PipelineDeploying {
		must(OnlyWaiting(to.Holders), "attempt %d runs while an older one may act", to.Attempt)
	}
	return errors.Join(errs...)
}
