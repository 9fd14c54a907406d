package fleet

import (
	"fmt"
	"sort"
	"time"

	"strait/coordinator/schedule"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
)

// ID is one life of a worker process.
type ID struct {
	Worker      string
	Incarnation int64
}

// Live is a worker whose key is there.
type Live struct {
	ID
	Lease  int64
	Record record.Worker
}

// Wait is how long it is waited out once its key is gone: TTL + call limit.
func (l *Live) Wait() time.Duration {
	return time.Duration(l.Record.TTL+l.Record.CallLimit) * time.Second
}

// Fate is what became of an incarnation.
type Fate uint8

// The fates.
const (
	Alive  Fate = iota + 1
	Gone        // its key is gone; it may still act
	Fenced      // it is known to be dead
)

// Fleet is the view. Make one with New.
type Fleet struct {
	began  time.Time
	live   map[string]*Live
	gone   map[ID]time.Time
	fenced map[ID]int64 // mod revision of the key
	left   map[ID]bool  // gone, and had said so before
	wishes map[string]string
	drains map[string]time.Time // until when what runs on a drained worker may finish
	grants map[string]map[int]Grant

	view     []schedule.Worker // of live, by name; kept in line with every change
	promised map[string]map[int]record.Grant

	links      []broken
	heard      map[string]int64 // worker -> newest revision at which it wrote of its tasks
	avoid      *schedule.Avoid  // nil: to be made anew
	avoidUntil time.Time

	samples map[string][]sample // newest first

	recent []vanished
	until  time.Time // placement pauses until then
	before int       // size of the fleet before it fell sick
}

type vanished struct {
	at  time.Time
	ttl time.Duration
}

// New begins to look at a fleet.
func New(now time.Time) *Fleet {
	return &Fleet{began: now, live: map[string]*Live{}, gone: map[ID]time.Time{}, fenced: map[ID]int64{}, left: map[ID]bool{},
		wishes: map[string]string{}, drains: map[string]time.Time{}, grants: map[string]map[int]Grant{},
		promised: map[string]map[int]record.Grant{}, heard: map[string]int64{}, samples: map[string][]sample{}}
}

// Set takes a key of the fleet as it is now; a deleted one has ModRev 0. What cannot be read counts as absent, and
// the error says which key it was. Other kinds of keys are no business of the fleet and are ignored.
func (f *Fleet) Set(k keys.Parsed, e kv.Entry, now time.Time) error {
	switch k.Kind {
	case keys.KindWorker:
		return f.setWorker(k.Worker, e, now)
	case keys.KindWorkerWish:
		word, until, err := record.ParseWorkerWish(e.Value)
		if !until.IsZero() {
			until = now.Add(until.Sub(now)) // from here on by the leader's clock that does not jump
		}
		if f.wishes[k.Worker], f.drains[k.Worker] = word, until; word != record.WorkerDrain {
			delete(f.wishes, k.Worker)
			delete(f.drains, k.Worker)
		}
		if w := f.at(k.Worker); w != nil {
			w.Closed = f.closed(f.live[k.Worker])
		}
		if err != nil {
			return fmt.Errorf("key %s: %w; it counts as %s", e.Key, err, record.WorkerActive)
		}
	case keys.KindFenced:
		id := ID{k.Worker, k.Number}
		if e.Exists() {
			f.fenced[id] = e.ModRev
		} else {
			delete(f.fenced, id)
		}
	case keys.KindSlot:
		return f.setGrant(k.Worker, int(k.Number), e)
	}
	return nil
}

func (f *Fleet) setWorker(name string, e kv.Entry, now time.Time) error {
	old := f.live[name]
	if old != nil && old.Incarnation != e.CreateRev {
		f.vanish(old, now)
	}
	if !e.Exists() {
		return nil
	}
	w, err := record.Decode[record.Worker](e.Value)
	if err != nil {
		// It lives, but nothing can be asked of it.
		w = &record.Worker{}
		err = fmt.Errorf("key %s: %w", e.Key, err)
	}
	f.live[name] = &Live{ID{name, e.CreateRev}, e.Lease, *w}
	f.enter(f.live[name])
	f.recover()
	return err
}

func (f *Fleet) vanish(l *Live, now time.Time) {
	delete(f.live, l.Worker)
	delete(f.heard, l.Worker)
	delete(f.samples, l.Worker)
	f.leave(l.Worker)
	f.avoid = nil
	f.gone[l.ID] = now
	if l.Record.Leaving {
		f.left[l.ID] = true
		return
	}
	f.sick(now, time.Duration(l.Record.TTL)*time.Second)
}

// Missing tells of an incarnation that a placement names and that is not there: for a new leader it vanished now.
func (f *Fleet) Missing(id ID, wait time.Duration, now time.Time) {
	if _, known := f.gone[id]; known || f.Fate(id) != Gone {
		return
	}
	f.gone[id] = now
	f.sick(now, wait)
}

// sick looks whether too many vanished at once.
func (f *Fleet) sick(now time.Time, ttl time.Duration) {
	f.recent = append(f.recent, vanished{now, ttl})
	longest := time.Duration(0)
	for _, v := range f.recent {
		longest = max(longest, v.ttl)
	}
	kept := f.recent[:0]
	for _, v := range f.recent {
		if now.Sub(v.at) <= longest {
			kept = append(kept, v)
		}
	}
	f.recent = kept
	n, size := len(f.recent), len(f.live)+len(f.recent)
	if n >= 3 && 2*n > size {
		if f.until.IsZero() || !now.Before(f.until) {
			f.before = size
			// From the first one on: the pause has an end however many follow.
			f.until = f.recent[0].at.Add(2 * longest)
		}
		f.before = max(f.before, size)
	}
}

// recover ends the pause when over half of the fleet is there again.
func (f *Fleet) recover() {
	if !f.until.IsZero() && 2*len(f.live) > f.before {
		f.until, f.recent = time.Time{}, nil
	}
}

// Paused says until when nothing is placed, and why; a zero time: placement goes on.
func (f *Fleet) Paused(now time.Time) (time.Time, string) {
	if !now.Before(f.until) {
		return time.Time{}, ""
	}
	return f.until, fmt.Sprintf("%d of %d workers vanished at once, which looks like a sick store; placement waits for them until %s",
		max(0, f.before-len(f.live)), f.before, f.until.UTC().Format(time.TimeOnly))
}

// Live is the worker of that name, or nil.
func (f *Fleet) Live(name string) *Live { return f.live[name] }

// Fate is what became of an incarnation.
func (f *Fleet) Fate(id ID) Fate {
	if l := f.live[id.Worker]; l != nil && l.Incarnation == id.Incarnation {
		return Alive
	}
	if f.fenced[id] != 0 {
		return Fenced
	}
	return Gone
}

// FencedKey is a key that says that an incarnation is known to be dead.
type FencedKey struct {
	ID
	ModRev int64
}

// FencedKeys lists them, by worker and incarnation.
func (f *Fleet) FencedKeys() []FencedKey {
	out := make([]FencedKey, 0, len(f.fenced))
	for id, rev := range f.fenced {
		out = append(out, FencedKey{id, rev})
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Worker < out[j].Worker || out[i].Worker == out[j].Worker && out[i].Incarnation < out[j].Incarnation
	})
	return out
}

// Since is when this leader saw an incarnation gone, at the earliest when it began to look.
func (f *Fleet) Since(id ID) time.Time {
	if t, ok := f.gone[id]; ok {
		return t
	}
	return f.began
}

// Names lists the live workers, sorted.
func (f *Fleet) Names() []string {
	out := make([]string, 0, len(f.live))
	for n := range f.live {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
