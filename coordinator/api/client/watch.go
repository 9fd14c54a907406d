package client

import (
	"context"
	"errors"

	"strait/kv/record"
	"strait/plan"
)

// Update is the newest state of a job that a Watch has seen. States in between may be skipped, none comes twice
// or out of order.
type Update struct {
	Revision int64
	Spec     bool                             // jobs/<job> exists
	Status   *record.JobStatus                // nil: no coordinator has seen the job yet
	Words    map[plan.PipelineID]*record.Word // the control words; not to be changed
}

// Ended says that the job has reached a terminal state.
func (u *Update) Ended() bool { return u.Status != nil && u.Status.Phase.Terminal() }

// ErrStop is what a callback of Watch returns to end it without an error.
var ErrStop = errors.New("stop watching")

// Watch calls f with the state of the job now and after every change, from one goroutine, until the job has ended
// (f is called with that state first), f returns an error (ErrStop: no error), or ctx ends.
func (c *Client) Watch(ctx context.Context, id plan.JobID, f func(Update) error) error {
	return errors.New("client: watch is not built yet")
}
