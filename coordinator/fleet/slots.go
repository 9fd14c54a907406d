package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"strait/coordinator/schedule"
	"strait/kv"
	"strait/kv/record"
)

// Grant is a slot that is granted.
type Grant struct {
	ModRev int64
	Grant  record.Grant
}

// Grants lists the grants on one worker.
func (f *Fleet) Grants(worker string) map[int]Grant { return f.grants[worker] }

// Workers is the fleet as the scheduler sees it, by name. It is only read, and good until the next change.
func (f *Fleet) Workers() []schedule.Worker { return f.view }

// Promise notes a grant that a write under way makes: for others the slot is in use from now on. Forget ends it.
func (f *Fleet) Promise(worker string, slot int, g record.Grant) {
	if f.promised[worker] == nil {
		f.promised[worker] = map[int]record.Grant{}
	}
	f.promised[worker][slot] = g
	f.refresh(worker, slot)
}

// Forget ends a promise: the write came round, or came to nothing.
func (f *Fleet) Forget(worker string, slot int) {
	delete(f.promised[worker], slot)
	f.refresh(worker, slot)
}

func (f *Fleet) setGrant(worker string, slot int, e kv.Entry) error {
	defer f.refresh(worker, slot)
	if !e.Exists() {
		delete(f.grants[worker], slot)
		return nil
	}
	g, err := record.Decode[record.Grant](e.Value)
	if f.grants[worker] == nil {
		f.grants[worker] = map[int]Grant{}
	}
	if err != nil {
		// Somebody wrote there: the slot is not free, whoever it is.
		f.grants[worker][slot] = Grant{ModRev: e.ModRev, Grant: record.Grant{Incarnation: unreadable}}
		return fmt.Errorf("key %s: %w; its slot counts as taken until the key is deleted", e.Key, err)
	}
	f.grants[worker][slot] = Grant{e.ModRev, *g}
	return nil
}

// unreadable stands for the incarnation of a grant that cannot be read: it holds its slot on every one.
const unreadable = -1

func (f *Fleet) at(worker string) *schedule.Worker {
	i, ok := slices.BinarySearchFunc(f.view, worker, func(w schedule.Worker, name string) int { return cmp.Compare(w.Name, name) })
	if !ok {
		return nil
	}
	return &f.view[i]
}

// refresh brings one slot of the view in line with grants and promises.
func (f *Fleet) refresh(worker string, slot int) {
	w := f.at(worker)
	if w == nil {
		return
	}
	i, held := slices.BinarySearchFunc(w.Held, slot, func(h schedule.Held, n int) int { return cmp.Compare(h.Slot, n) })
	if held {
		w.Used.MilliCPU -= w.Held[i].Profile.MilliCPU
		w.Used.Memory -= w.Held[i].Profile.Memory
	}
	g, ok := f.holds(w, slot)
	switch {
	case !ok && held:
		w.Held = slices.Delete(w.Held, i, i+1)
	case ok && !held:
		w.Held = slices.Insert(w.Held, i, schedule.Held{})
		w.Load.Since++
	}
	if ok {
		w.Held[i] = schedule.Held{Slot: slot, Job: g.Job, Pipeline: g.Pipeline, Profile: g.Profile, Endless: g.Endless}
		w.Used.MilliCPU += g.Profile.MilliCPU
		w.Used.Memory += g.Profile.Memory
	}
}

// holds is what holds a slot of the worker as it lives now. A grant of an incarnation that is gone holds nothing of
// the new one.
func (f *Fleet) holds(w *schedule.Worker, slot int) (record.Grant, bool) {
	g, ok := f.promised[w.Name][slot]
	if !ok {
		var there Grant
		there, ok = f.grants[w.Name][slot]
		g = there.Grant
	}
	if !ok || g.Incarnation != w.Incarnation && g.Incarnation != unreadable {
		return g, false
	}
	if g.Profile == (record.Profile{}) && g.Incarnation != unreadable {
		g.Profile = w.Slot(g.Profile) // written by a build that knew of no profiles
	}
	return g, true
}

// enter puts a worker into the view, as it is now.
func (f *Fleet) enter(l *Live) {
	w := schedule.Worker{Name: l.Worker, Incarnation: l.Incarnation, Dynamic: l.Record.Dynamic, Slots: l.Record.Slots,
		Total:  record.Profile{MilliCPU: 1000 * l.Record.CPU, Memory: l.Record.Memory},
		Labels: l.Record.Labels, Protocol: l.Record.Protocol, Closed: f.closed(l)}
	i, there := slices.BinarySearchFunc(f.view, l.Worker, func(w schedule.Worker, name string) int { return cmp.Compare(w.Name, name) })
	if !there {
		f.view = slices.Insert(f.view, i, w)
	} else {
		if f.view[i].Incarnation == w.Incarnation {
			w.Load = f.view[i].Load
		}
		f.view[i] = w
	}
	load := w.Load
	for slot := range f.grants[l.Worker] {
		f.refresh(l.Worker, slot)
	}
	for slot := range f.promised[l.Worker] {
		f.refresh(l.Worker, slot)
	}
	f.view[i].Load = load
}

// leave takes a worker out of the view.
func (f *Fleet) leave(name string) {
	if i, ok := slices.BinarySearchFunc(f.view, name, func(w schedule.Worker, name string) int { return cmp.Compare(w.Name, name) }); ok {
		f.view = slices.Delete(f.view, i, i+1)
	}
}

// closed says why nothing new is placed on a worker.
func (f *Fleet) closed(l *Live) string {
	switch {
	case l.Record.Leaving:
		return "leaving"
	case f.wishes[l.Worker] == record.WorkerDrain:
		return "draining"
	}
	return ""
}
