package fleet

import (
	"slices"
	"sort"
	"time"

	"strait/coordinator/schedule"
)

// AvoidFor is for how long both ends of a broken link are not put into one pipeline, where there is another way.
const AvoidFor = 5 * time.Minute

// broken is a link that a worker told of.
type broken struct {
	from, to ID
	rev      int64 // of the report
	until    time.Time
}

// Broke notes that an incarnation told, at a revision, of links that broke. Names are of workers as they live now.
func (f *Fleet) Broke(from ID, to []string, rev int64, now time.Time) {
	if f.Fate(from) != Alive {
		return
	}
	for _, name := range to {
		l := f.live[name]
		if l == nil || name == from.Worker {
			continue
		}
		b := broken{from, l.ID, rev, now.Add(AvoidFor)}
		if i := slices.IndexFunc(f.links, func(o broken) bool { return o.from == b.from && o.to == b.to }); i < 0 {
			f.links = append(f.links, b)
		} else if f.links[i].rev < rev {
			f.links[i] = b
		}
	}
	f.avoid = nil
}

// Heard notes a revision at which an incarnation wrote of its tasks: it was alive then.
func (f *Fleet) Heard(worker string, rev int64) {
	if len(f.links) > 0 && f.heard[worker] < rev {
		f.avoid = nil
	}
	f.heard[worker] = max(f.heard[worker], rev)
}

// Suspect says that others lost a worker that is still there by its key, and that nothing was heard of it since.
func (f *Fleet) Suspect(id ID, now time.Time) bool {
	if f.Fate(id) != Alive {
		return false
	}
	return slices.ContainsFunc(f.links, func(b broken) bool { return b.to == id && now.Before(b.until) && f.heard[id.Worker] < b.rev })
}

// Avoid is what the scheduler had better not use; nil: nothing.
func (f *Fleet) Avoid(now time.Time) *schedule.Avoid {
	if len(f.links) == 0 {
		return nil
	}
	if f.avoid != nil && now.Before(f.avoidUntil) {
		return f.avoid
	}
	f.links = slices.DeleteFunc(f.links, func(b broken) bool {
		return !now.Before(b.until) || f.Fate(b.to) != Alive
	})
	if len(f.links) == 0 {
		f.avoid = nil
		return nil
	}
	a := &schedule.Avoid{Suspects: map[string]bool{}}
	f.avoidUntil = f.links[0].until
	for _, b := range f.links {
		if b.until.Before(f.avoidUntil) {
			f.avoidUntil = b.until
		}
		if f.Suspect(b.to, now) {
			a.Suspects[b.to.Worker] = true
		}
		if f.Fate(b.from) != Alive {
			continue // what it told of the other still holds
		}
		a.Pairs = append(a.Pairs, [2]string{min(b.from.Worker, b.to.Worker), max(b.from.Worker, b.to.Worker)})
	}
	sort.Slice(a.Pairs, func(i, j int) bool {
		return a.Pairs[i][0] < a.Pairs[j][0] || a.Pairs[i][0] == a.Pairs[j][0] && a.Pairs[i][1] < a.Pairs[j][1]
	})
	a.Pairs = slices.Compact(a.Pairs)
	f.avoid = a
	return a
}
