package ledger

import (
	"fmt"

	"strait/plan"
)

// Reader is what one source subtask holds. It moves with what has passed the subtask's loop, not with what its
// connector has read ahead. One goroutine owns it.
type Reader struct {
	held     []Handed
	finished []string // in order; dropped only by Covered
	report   []string // finished and not yet told to the enumerator
	asked    bool
	noMore   bool
}

// Assign adds splits to read. A split it holds or finished already is a fault of the enumerator.
func (r *Reader) Assign(splits []Handed) error {
	r.asked = false
	for _, s := range splits {
		for _, h := range r.held {
			if h.ID == s.ID {
				return fmt.Errorf("split %q was handed out twice", s.ID)
			}
		}
		for _, id := range r.finished {
			if id == s.ID {
				return fmt.Errorf("split %q was handed out again after it was finished", s.ID)
			}
		}
		r.held = append(r.held, s)
	}
	return nil
}

// NoMore notes that no split will follow.
func (r *Reader) NoMore() { r.noMore = true }

// Passed notes how far a split has passed, and whether it ended there.
func (r *Reader) Passed(id string, position []byte, done bool) error {
	for i := range r.held {
		if r.held[i].ID != id {
			continue
		}
		if !done {
			r.held[i].Position = position
			return nil
		}
		r.held = append(r.held[:i], r.held[i+1:]...)
		r.finished = append(r.finished, id)
		r.report = append(r.report, id)
		return nil
	}
	return fmt.Errorf("rows of split %q, which was not handed out here", id)
}

// Ask returns what to tell the enumerator when nothing is left to read; ok is false when it was told already, or
// knows there is no more. readAhead says that the connector has read everything that is held, even if not all of it
// has passed yet: the next split is fetched meanwhile.
func (r *Reader) Ask(readAhead bool) (done []string, ok bool) {
	switch {
	case r.asked, len(r.held) > 0 && !readAhead:
		return nil, false
	case r.noMore && (len(r.report) == 0 || len(r.held) > 0):
		return nil, false
	}
	done, r.report = r.report, nil
	r.asked = true
	return done, true
}

// Registered notes that the registration, which asks too, was sent.
func (r *Reader) Registered() { r.asked = true }

// Drained says that all that was handed out has passed and nothing will follow.
func (r *Reader) Drained() bool { return r.noMore && len(r.held) == 0 }

// Held is what it holds, with positions.
func (r *Reader) Held() []Handed { return r.held }

// Snapshot is what it holds and what it finished, at a barrier, as versioned bytes.
func (r *Reader) Snapshot() []byte {
	return encode(readerState{Version: Version, Held: r.held, Finished: r.finished})
}

// Covered drops finished splits that a completed snapshot of the enumerator shows as finished.
func (r *Reader) Covered(ids []string) {
	gone := make(map[string]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	kept := r.finished[:0]
	for _, id := range r.finished {
		if !gone[id] {
			kept = append(kept, id)
		}
	}
	r.finished = kept
}

// Cut keeps frames that would cross a checkpoint backwards. T is whatever carries a frame.
type Cut[T any] struct {
	handled plan.CheckpointID // the last barrier handled here
	settled plan.CheckpointID // the last barrier known to be aborted, complete or passed over
	waiting []tagged[T]
}

type tagged[T any] struct {
	tag plan.CheckpointID
	v   T
}

// Tag is what frames sent from here carry.
func (c *Cut[T]) Tag() plan.CheckpointID { return c.handled }

// Offer takes a frame in; it comes out of Take, at once or behind the barrier it names.
func (c *Cut[T]) Offer(tag plan.CheckpointID, v T) { c.waiting = append(c.waiting, tagged[T]{tag, v}) }

// Handled notes that the barrier was handled here.
func (c *Cut[T]) Handled(n plan.CheckpointID) { c.handled = max(c.handled, n) }

// Settled notes that the barrier was aborted, completed, or passed over by a higher one.
func (c *Cut[T]) Settled(n plan.CheckpointID) { c.settled = max(c.settled, n) }

// Take returns the frames that may be handled now, in the order they came. Tags of one sender only grow, so no frame
// overtakes another of the same sender.
func (c *Cut[T]) Take() []T {
	var out []T
	kept := c.waiting[:0]
	for _, w := range c.waiting {
		if w.tag <= max(c.handled, c.settled) {
			out = append(out, w.v)
		} else {
			kept = append(kept, w)
		}
	}
	clear(c.waiting[len(kept):])
	c.waiting = kept
	return out
}

// Empty says that no frame waits.
func (c *Cut[T]) Empty() bool { return len(c.waiting) == 0 }
