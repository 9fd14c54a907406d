package fleet

import (
	"fmt"
	"time"

	"strait/kv/record"
)

// Moving is what is to become of the work on a live incarnation that is not to keep it.
type Moving struct {
	// Why is for people; empty: the work stays.
	Why string
	// Now: it is to go elsewhere at once. Else it may finish, until At; zero: for as long as it takes.
	Now bool
	At  time.Time
}

// Moving says whether an incarnation leaves (its process was asked to end) or is drained.
func (f *Fleet) Moving(id ID, now time.Time) Moving {
	l := f.live[id.Worker]
	switch {
	case l == nil || l.Incarnation != id.Incarnation:
		return Moving{}
	case l.Record.Leaving:
		return Moving{Why: fmt.Sprintf("worker %s leaves", id.Worker), Now: true}
	case f.wishes[id.Worker] != record.WorkerDrain:
		return Moving{}
	}
	switch until := f.drains[id.Worker]; {
	case until.IsZero():
		return Moving{Why: fmt.Sprintf("worker %s is drained without a deadline: what runs there may finish, however long it takes", id.Worker)}
	case now.Before(until):
		return Moving{Why: fmt.Sprintf("worker %s is drained: what runs there at %s moves", id.Worker, until.UTC().Format(time.RFC3339)), At: until}
	default:
		return Moving{Why: fmt.Sprintf("worker %s is drained and its deadline, %s, has passed", id.Worker, until.UTC().Format(time.RFC3339)), Now: true}
	}
}

// Left says that an incarnation that is gone had been about to leave: it vanished on purpose.
func (f *Fleet) Left(id ID) bool { return f.left[id] }
