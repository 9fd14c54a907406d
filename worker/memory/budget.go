package memory

import (
	"fmt"
	"sync"

	"strait/plan/units"
)

// Budget is what the tasks of a worker may reserve together.
type Budget struct {
	limit int64

	mu   sync.Mutex
	used int64
}

// NewBudget makes a budget of that many bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Limit is its size.
func (b *Budget) Limit() int64 { return b.limit }

// Used is what is reserved.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Admit reserves want bytes for an attempt, or what is left where that is enough for it to work with. Release gives
// them back.
func (b *Budget) Admit(u Use, want int64) (Shares, error) {
	floor := u.Floor()
	b.mu.Lock()
	defer b.mu.Unlock()
	left := max(b.limit-b.used, 0)
	want = max(want, floor)
	if floor > left {
		return Shares{}, fmt.Errorf("not admitted: %s need %s of memory at least, of the %s of this worker (worker.memory) %s are not reserved; lower the parallelism, give the worker more memory, or let it run fewer slots",
			u, units.FormatBytes(floor), units.FormatBytes(b.limit), units.FormatBytes(left))
	}
	s := Divide(u, min(want, left))
	b.used += s.Bound
	return s, nil
}

// Release gives the reservation of an attempt back.
func (b *Budget) Release(s Shares) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used -= s.Bound; b.used < 0 {
		panic("BUG: more memory is given back than was reserved")
	}
}
