package cli

import (
	"context"
	"errors"
	"fmt"

	"strait/plan/state"
)

// The exit codes of stctl, documented in the README.
const (
	ExitFinished     = 0   // the command did what it was told; the job finished
	ExitFailed       = 1   // the job failed, the file has mistakes, the command could not do its work
	ExitNotPlaceable = 2   // no worker could take the job
	ExitCancelled    = 3   // the job was cancelled
	ExitTimedOut     = 124 // --timeout ran out
)

// outcome is an error that carries its exit code. Its text may be empty: everything was said already.
type outcome struct {
	code int
	text string
}

func (o *outcome) Error() string { return o.text }

func failf(format string, args ...any) error {
	return &outcome{ExitFailed, fmt.Sprintf(format, args...)}
}

// ExitCode maps any error of a command to the exit code of the process. A deadline of stctl's own (an etcd that
// does not answer) is a failure; only --timeout, told by withClient, is ExitTimedOut.
func ExitCode(err error) int {
	var o *outcome
	switch {
	case err == nil:
		return ExitFinished
	case errors.As(err, &o):
		return o.code
	case errors.Is(err, context.Canceled):
		return ExitCancelled
	}
	return ExitFailed
}

// Reasons in the status of a job that no worker could take.
const (
	ReasonNotPlaceable = "NotPlaceable"
	ReasonQueueFull    = "QueueFull"
)

// ofPhase gives the outcome of a job that has ended, nil when it finished.
func ofPhase(phase state.Job, reason string) error {
	switch {
	case phase == state.JobFinished, phase == state.JobSavepointDone:
		return nil
	case phase == state.JobCancelled:
		return &outcome{code: ExitCancelled}
	case reason == ReasonNotPlaceable, reason == ReasonQueueFull:
		return &outcome{code: ExitNotPlaceable}
	}
	return &outcome{code: ExitFailed}
}
