package align

import (
	"fmt"

	"strait/checkpoint"
	"strait/plan"
	"strait/transport/stream"
)

// Action says what to do with an element.
type Action uint8

// The actions.
const (
	Deliver  Action = iota + 1 // hand it on: rows, or an end
	Hold                       // a barrier: take nothing more from this channel until Release
	Complete                   // a barrier that has now come on all channels: do its work
	Drop                       // a barrier that nobody waits for
)

var actionNames = [...]string{Deliver: "deliver", Hold: "hold", Complete: "complete", Drop: "drop"}

// String is the name of the action.
func (a Action) String() string { return actionNames[a] }

// Verdict is the answer to one element. Release is carried out before Action.
type Verdict struct {
	// Release: take from all channels again, an alignment has ended. The rows that were held belong behind the
	// barrier: with Complete nothing may be taken before its work is done.
	Release bool
	Action  Action
	// Barrier is the one to hold for or that is complete.
	Barrier checkpoint.Barrier
	// Ended is set with the end of the last channel that had not ended.
	Ended bool
}

// Aligner keeps the alignment of one operator. The zero value is of no use. One goroutine uses it.
type Aligner struct {
	arrived []bool // channels that have brought the open barrier
	ended   []bool
	missing int                // channels that have not brought it
	rows    int                // channels that have not ended
	open    checkpoint.Barrier // ID 0: none
	done    plan.CheckpointID  // nobody waits for this one or a lower one
}

// New makes an aligner of that many channels.
func New(channels int) *Aligner {
	return &Aligner{arrived: make([]bool, channels), ended: make([]bool, channels), rows: channels}
}

// Open is the barrier that is being aligned on; its ID is 0 when there is none.
func (a *Aligner) Open() checkpoint.Barrier { return a.open }

// Missing lists the channels that an open alignment waits for, for messages. It is nil when none is open.
func (a *Aligner) Missing() []int {
	var out []int
	for c, ok := range a.arrived {
		if a.open.ID != 0 && !ok {
			out = append(out, c)
		}
	}
	return out
}

// Step decides about the next element of a channel. An error means that the channel broke the order contract,
// or that the caller took from a channel that it was to hold.
func (a *Aligner) Step(channel int, el stream.Element) (Verdict, error) {
	if channel < 0 || channel >= len(a.arrived) {
		return Verdict{}, fmt.Errorf("BUG: an element of channel %d of %d", channel, len(a.arrived))
	}
	if a.open.ID != 0 && a.arrived[channel] {
		return Verdict{}, fmt.Errorf("BUG: channel %d is held behind barrier %d and gave something", channel, a.open.ID)
	}
	switch el.Kind {
	case stream.Rows:
		if a.ended[channel] {
			return Verdict{}, fmt.Errorf("BUG: rows behind the end of channel %d", channel)
		}
		return Verdict{Action: Deliver}, nil
	case stream.End:
		if a.ended[channel] {
			return Verdict{}, fmt.Errorf("BUG: channel %d ended twice", channel)
		}
		a.ended[channel] = true
		a.rows--
		return Verdict{Action: Deliver, Ended: a.rows == 0}, nil
	case stream.Barrier:
		return a.barrier(channel, el.Barrier)
	}
	return Verdict{}, fmt.Errorf("BUG: an element of kind %d on channel %d", el.Kind, channel)
}

func (a *Aligner) barrier(channel int, b checkpoint.Barrier) (v Verdict, err error) {
	switch {
	case b.ID <= a.done || b.ID < a.open.ID:
		return Verdict{Action: Drop, Barrier: b}, nil
	case b.ID == a.open.ID && b.Kind != a.open.Kind:
		return Verdict{}, fmt.Errorf("BUG: barrier %d is %s on channel %d and %s on others", b.ID, b.Kind, channel, a.open.Kind)
	case b.ID > a.open.ID:
		v.Release = a.end()
		a.open, a.missing = b, len(a.arrived)
	}
	a.arrived[channel] = true
	a.missing--
	v.Action, v.Barrier = Hold, b
	if a.missing == 0 {
		v.Action = Complete
		a.end()
		v.Release = v.Release || len(a.arrived) > 1
	}
	return v, nil
}

// Abort says that checkpoint n will never complete. release is true when the open alignment has ended by it:
// take from all channels again. Later barriers up to n are dropped.
func (a *Aligner) Abort(n plan.CheckpointID) (release bool) {
	if a.open.ID != 0 && a.open.ID <= n {
		release = a.end()
	}
	a.done = max(a.done, n)
	return release
}

// end ends the open alignment, if there is one, and reports whether there was.
func (a *Aligner) end() bool {
	if a.open.ID == 0 {
		return false
	}
	a.done = max(a.done, a.open.ID)
	a.open = checkpoint.Barrier{}
	clear(a.arrived)
	return true
}
