package schedule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"strait/kv/record"
	"strait/plan"
)

// Waiter is a job that waits for room.
type Waiter struct {
	Job plan.JobID
	// Restart: a pipeline that ran before. It comes before every job that never ran.
	Restart  bool
	Priority int
	Created  int64     // revision at which the job was submitted
	Since    time.Time // when this leader first saw it wait
	Units    int       // slots it needs at once
	Ask      record.Profile
	Labels   map[string]string

	class string // equal: the same workers have the same room for it
	fresh bool   // nobody has looked yet what it needs
}

// MaxKept is for how many waiting jobs room is kept at once.
const MaxKept = 8

// Queue has the waiting jobs in the order in which they get room: restarts, then by priority, then by age. Not safe
// for concurrent use.
//
// A job that fits is placed although an earlier one waits (back-fill), unless its room is kept. Room is kept for a
// job that would fit if all jobs ended that end by themselves: at once against jobs of lower priority, against all
// behind it once it has waited for Patience. What is kept are whole workers, just as many as it needs, those first
// that have most room already; there nothing of a later job begins, so the room only grows until the job fits. So no
// job starves that can be placed at all, and two jobs that hold half each cannot happen: nothing is granted by parts.
type Queue struct {
	Patience time.Duration
	list     []*Waiter
	by       map[plan.JobID]*Waiter
	waiting  int // without the fresh ones
}

// NewQueue is an empty queue.
func NewQueue(patience time.Duration) *Queue {
	return &Queue{Patience: patience, by: map[plan.JobID]*Waiter{}}
}

func before(a, b *Waiter) int {
	if a.Restart != b.Restart {
		if a.Restart {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Created, b.Created), cmp.Compare(a.Job, b.Job))
}

// Put takes a job into the queue, or what it needs by now. The time since when it waits stays.
func (q *Queue) Put(w Waiter, now time.Time) {
	w.Since, w.fresh = now, false
	if old := q.by[w.Job]; old != nil && !old.fresh {
		w.Since = old.Since
	}
	names := make([]string, 0, len(w.Labels))
	for k, v := range w.Labels {
		names = append(names, fmt.Sprintf("%q=%q", k, v))
	}
	sort.Strings(names)
	w.class = fmt.Sprint(w.Ask, names)
	q.put(&w)
}

// Come takes in a job of which nobody knows yet whether it fits: the next Pass tries it in its turn.
func (q *Queue) Come(id plan.JobID, priority int, created int64, now time.Time) {
	if q.by[id] == nil {
		q.put(&Waiter{Job: id, Priority: priority, Created: created, Since: now, fresh: true})
	}
}

func (q *Queue) put(w *Waiter) {
	q.Remove(w.Job)
	at, _ := slices.BinarySearchFunc(q.list, w, before)
	q.list = slices.Insert(q.list, at, w)
	q.by[w.Job] = w
	if !w.fresh {
		q.waiting++
	}
}

// Remove takes a job out.
func (q *Queue) Remove(id plan.JobID) {
	w := q.by[id]
	if w == nil {
		return
	}
	if at, ok := slices.BinarySearchFunc(q.list, w, before); ok {
		q.list = slices.Delete(q.list, at, at+1)
	}
	delete(q.by, id)
	if !w.fresh {
		q.waiting--
	}
}

// Len is how many jobs wait.
func (q *Queue) Len() int { return q.waiting }

// Waits says since when a job waits; false: it does not.
func (q *Queue) Waits(id plan.JobID) (time.Time, bool) {
	if w := q.by[id]; w != nil && !w.fresh {
		return w.Since, true
	}
	return time.Time{}, false
}

// Turn is the place of a job in the queue, from 1 on; one that is not in it comes last.
func (q *Queue) Turn(id plan.JobID) int {
	if w := q.by[id]; w != nil {
		if at, ok := slices.BinarySearchFunc(q.list, w, before); ok {
			return at + 1
		}
	}
	return len(q.list) + 1
}

// patient says that room is kept for a job against every other behind it.
func (q *Queue) patient(w *Waiter, now time.Time) bool {
	return w.Restart || !now.Before(w.Since.Add(q.Patience))
}

// claim is room kept for a job.
type claim struct {
	job      plan.JobID
	priority int
	patient  bool
	workers  []string
}

// Pass goes through the queue in order and calls try for every job that is new, that wants to be looked at, or that
// seems to fit; kept are workers whose room is kept for jobs before it. try places the job (Remove, and the fleet
// shows it) or finds that it still waits (Put). fleet is called again after each try.
func (q *Queue) Pass(now time.Time, fleet func() []Worker, look func(plan.JobID) bool, try func(id plan.JobID, kept map[string]plan.JobID)) {
	if len(q.list) == 0 {
		return
	}
	var claims []claim
	kept, built, level, restart := map[string]plan.JobID(nil), 0, 0, true
	// By class, as long as fleet and kept are the same: the room there is, and could be.
	free, could := map[string]int{}, map[string]int{}
	forget := func() { clear(free); clear(could) }
	workers := fleet()
	for _, w := range slices.Clone(q.list) {
		if q.by[w.Job] != w {
			continue
		}
		if built != len(claims) || w.Priority != level || w.Restart != restart {
			kept, built, level, restart = keptFrom(claims, w), len(claims), w.Priority, w.Restart
			forget()
		}
		if !w.fresh {
			if _, ok := free[w.class]; !ok {
				free[w.class] = roomFor(w, workers, kept)
			}
		}
		if w.fresh || look(w.Job) || free[w.class] >= w.Units {
			try(w.Job, kept)
			workers = fleet()
			forget()
			if w = q.by[w.Job]; w == nil || w.fresh {
				continue
			}
		}
		if len(claims) < MaxKept {
			if _, ok := could[w.class]; !ok {
				could[w.class] = potential(w, workers, kept)
			}
			if could[w.class] < w.Units {
				continue
			}
			if names := w.keep(workers, kept); len(names) > 0 {
				c := claim{w.Job, w.Priority, q.patient(w, now), names}
				if w.Restart {
					c.priority = math.MaxInt
				}
				claims = append(claims, c)
			}
		}
	}
}

// keptFrom is what of the claims holds against a job.
func keptFrom(claims []claim, w *Waiter) map[string]plan.JobID {
	if w.Restart { // restarts do not wait for each other
		return nil
	}
	out := map[string]plan.JobID{}
	for _, c := range claims {
		if !c.patient && c.priority <= w.Priority {
			continue
		}
		for _, name := range c.workers {
			if _, ok := out[name]; !ok {
				out[name] = c.job
			}
		}
	}
	return out
}

func (w *Waiter) need(kept map[string]plan.JobID) Need {
	return Need{Job: w.Job, Ask: w.Ask, Labels: w.Labels, Kept: kept}
}

func roomFor(w *Waiter, fleet []Worker, kept map[string]plan.JobID) int {
	n, sum := w.need(kept), 0
	for i := range fleet {
		if f := &fleet[i]; refused(&n, f) == "" {
			sum += f.room(f.Slot(w.Ask), len(f.Held), f.Used)
		}
	}
	return sum
}

func potential(w *Waiter, fleet []Worker, kept map[string]plan.JobID) int {
	n, sum := w.need(kept), 0
	for i := range fleet {
		if f := &fleet[i]; refused(&n, f) == "" {
			b := newBin(&n, f)
			sum += b.potential()
		}
	}
	return sum
}

// Keep names the workers whose room would be kept for a job that needs so many slots; none where it would not fit
// even if every job ended that ends by itself.
func Keep(w Waiter, fleet []Worker, kept map[string]plan.JobID) []string { return w.keep(fleet, kept) }

func (w *Waiter) keep(fleet []Worker, kept map[string]plan.JobID) []string {
	n := w.need(kept)
	open, short := eligible(&n, fleet)
	if short != nil || w.Units == 0 {
		return nil
	}
	slices.SortStableFunc(open, func(a, b bin) int { return cmp.Compare(b.room, a.room) })
	var names []string
	for i, sum := 0, 0; i < len(open); i++ {
		if p := open[i].potential(); p > 0 {
			sum += p
			names = append(names, open[i].w.Name)
		}
		if sum >= w.Units {
			slices.Sort(names)
			return names
		}
	}
	return nil
}
