package task

import (
	"strait/checkpoint"
	"strait/plan"
)

// holder can stop taking from a channel and take from all again: the inputs of a group.
type holder interface {
	hold(channel int)
	release()
}

// aligner waits for a barrier on every channel of a group and holds those on which it came early, so that no row
// crosses it. A higher barrier ends the alignment on a lower one; what is aborted, or lower than one handled, is
// dropped where it arrives.
type aligner struct {
	h       holder
	arrived []bool
	left    int                // channels on which open has not arrived
	open    checkpoint.Barrier // being aligned; ID 0: none
	settled plan.CheckpointID  // handled or aborted up to here
}

func newAligner(h holder, channels int) *aligner {
	return &aligner{h: h, arrived: make([]bool, channels)}
}

// arrive takes a barrier in; true says that it has arrived on every channel, and all are taken from again.
func (a *aligner) arrive(channel int, b checkpoint.Barrier) bool {
	if b.ID <= a.settled || b.ID < a.open.ID {
		return false
	}
	if b.ID > a.open.ID {
		a.clear()
		a.open, a.left = b, len(a.arrived)
	}
	if a.arrived[channel] {
		return false
	}
	a.arrived[channel] = true
	if a.left--; a.left > 0 {
		a.h.hold(channel)
		return false
	}
	a.settled = b.ID
	a.clear()
	return true
}

// abort drops the alignment on a barrier that will not complete.
func (a *aligner) abort(n plan.CheckpointID) {
	a.settled = max(a.settled, n)
	if a.open.ID != 0 && a.open.ID <= n {
		a.clear()
	}
}

func (a *aligner) clear() {
	if a.open.ID == 0 {
		return
	}
	a.open = checkpoint.Barrier{}
	clear(a.arrived)
	a.h.release()
}
