package local

import (
	"sync/atomic"
	"time"
)

// Budget is the memory that the inboxes of an attempt, or of a process, reserve from. Growing inboxes leave part of it
// to others.
type Budget struct {
	limit int64
	grown int64 // up to here inboxes may grow
	used  atomic.Int64
}

// NewBudget makes a budget of that many bytes. Half of it is left to the floors of inboxes that are still to come.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes, grown: bytes / 2} }

// NewOwn makes the budget of one attempt, whose inboxes are all made at once: they may grow up to it.
func NewOwn(bytes int64) *Budget { return &Budget{limit: bytes, grown: bytes} }

// Used is what is reserved now. It may exceed the limit by the floors of inboxes: a consumer always gets its floor.
func (b *Budget) Used() int64 { return b.used.Load() }

// Left is what is not reserved.
func (b *Budget) Left() int64 { return max(b.limit-b.used.Load(), 0) }

func (b *Budget) force(n int64)    { b.used.Add(n) }
func (b *Budget) giveBack(n int64) { b.used.Add(-n) }

// grow reserves n bytes or nothing.
func (b *Budget) grow(n int64) bool {
	if b.used.Add(n) <= b.grown {
		return true
	}
	b.used.Add(-n)
	return false
}

// The reservation of an inbox is worth some time of what its consumer takes. Within that it is as small as keeps
// the consumer busy: what is queued beyond that only makes barriers wait and caches cold.
const (
	meterWindow = 20 * time.Millisecond
	targetTime  = 100 * time.Millisecond
	limitMost   = 16 << 20
)

// meter measures what a consumer takes.
type meter struct {
	since time.Time
	bytes int64
	dry   bool // the consumer found nothing to take while bytes were lent
}

// measure counts bytes taken and, once per window, sizes the reservation: twice as much when the consumer ran dry
// meanwhile, half when it never did; at most target time times measured rate, at least the floor.
func (in *Inbox) measure(bytes int64) {
	m := &in.meter
	m.bytes += bytes
	now := time.Now()
	if m.since.IsZero() {
		m.since = now
		return
	}
	took := now.Sub(m.since)
	if took < meterWindow {
		return
	}
	want := in.limit / 2
	if m.dry {
		want = 2 * in.limit
	}
	worth := int64(float64(m.bytes) * float64(targetTime) / float64(took))
	want = max(min(want, worth, limitMost), in.floor)
	switch {
	case want > in.limit:
		if in.budget.grow(want - in.limit) {
			in.limit = want
		}
	case want < in.limit:
		in.budget.giveBack(in.limit - want)
		in.limit = want
	}
	*m = meter{since: now}
}
