package coordinator

import (
	"container/heap"
	"time"

	"strait/plan"
)

// wakes are times at which jobs want another step. A job may be in it several times; entry.wake says which counts.
type wakes struct{ h wakeHeap }

type wake struct {
	at time.Time
	id plan.JobID
}

type wakeHeap []wake

func (h wakeHeap) Len() int           { return len(h) }
func (h wakeHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h wakeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *wakeHeap) Push(x any)        { *h = append(*h, x.(wake)) }
func (h *wakeHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (w *wakes) add(id plan.JobID, at time.Time) { heap.Push(&w.h, wake{at, id}) }

func (w *wakes) next() time.Time {
	if len(w.h) == 0 {
		return time.Time{}
	}
	return w.h[0].at
}

func (w *wakes) due(now time.Time) []plan.JobID {
	var out []plan.JobID
	for len(w.h) > 0 && !w.h[0].at.After(now) {
		out = append(out, heap.Pop(&w.h).(wake).id)
	}
	return out
}
