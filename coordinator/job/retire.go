package job

import (
	"fmt"
)

// terminal is the step of a job that has ended. First goes what workers and slots still hold of it. A while later,
// when those who watched have seen the end, everything else goes but its history, which the shell retires in its
// turn. Nothing leaves the terminal state.
func (x *stepper) terminal() {
	x.wishAfterEnd()
	x.workersKeys()
	if x.emit(); x.out.Write != nil || x.out.Bug != nil {
		return
	}
	if x.st.Finished != nil {
		if due := x.here(0, clockLinger, x.st.Finished.Add(x.c.Linger), 0, x.c.Linger); x.now.Before(due) {
			x.wakeAt(due)
			return
		}
	}
	// What could not be cleaned at the target is named by these keys too: they stay as long as the history does.
	if h := x.f.History.Value; h != nil && len(h.Left) > 0 && !x.e.Retire {
		return
	}
	x.retire()
}

// workersKeys removes what workers and slots hold.
func (x *stepper) workersKeys() {
	t := x.c.Tree
	for _, id := range sorted(x.f.Pipes) {
		p := x.f.Pipes[id]
		for _, w := range sorted(p.Tasks) {
			x.remove(t.Task(w, x.f.ID, id), p.Tasks[w].ModRev)
		}
		for _, w := range sorted(p.Statuses) {
			x.remove(t.TaskStatus(w, x.f.ID, id), p.Statuses[w].ModRev)
		}
		for _, w := range sorted(p.Acks) {
			x.remove(t.Ack(x.f.ID, id, w), p.Acks[w].ModRev)
		}
	}
	for _, id := range x.slots() {
		x.remove(t.Slot(id.Worker, id.Slot), x.f.Grants[id].ModRev)
	}
}

func (x *stepper) remove(key string, rev int64) {
	var u unit
	u.remove(key, rev)
	x.units = append(x.units, u)
}

// retire deletes the keys of an ended job, at most a transaction at a time: spec and status together and last, so
// that no other job begins under the id while anything of this one is left.
func (x *stepper) retire() {
	f, t := x.f, x.c.Tree
	for _, id := range sorted(f.Pipes) {
		p := f.Pipes[id]
		for _, n := range sorted(p.Points) {
			x.remove(t.Checkpoint(f.ID, id, n), p.Points[n].ModRev)
		}
		if p.Placement.Exists() {
			x.remove(t.Placement(f.ID, id), p.Placement.ModRev)
		}
		if p.Word.Exists() {
			x.remove(t.Pipeline(f.ID, id), p.Word.ModRev)
		}
	}
	if f.Head.Exists() {
		x.remove(t.Plan(f.ID), f.Head.ModRev)
	}
	for _, n := range sorted(f.Chunks) {
		x.remove(t.PlanChunk(f.ID, n), f.Chunks[n].ModRev)
	}
	for _, n := range sorted(f.Texts) {
		x.remove(t.JobTextChunk(f.ID, n), f.Texts[n].ModRev)
	}
	var last unit
	gone := func(key string, rev int64) {
		last.cond(key, rev) // 0: it must not be there; a job put anew keeps its keys
		if rev != 0 {
			last.deletes = append(last.deletes, key)
		}
	}
	gone(t.Job(f.ID), f.Spec.ModRev)
	gone(t.JobStatus(f.ID), f.Status.ModRev)
	if f.Wish.Exists() {
		gone(t.Wish(f.ID), f.Wish.ModRev)
	}
	if x.e.Retire && f.History.Exists() {
		gone(t.History(f.ID), f.History.ModRev)
	}
	x.units = append(x.units, last)
	x.out.Write = x.pack(nil)
	x.log(false, "keys of an ended job are deleted", "phase", string(x.st.Phase))
}

// strays removes what workers wrote late about a job that nobody knows any more. What is no record of theirs somebody
// put by hand, and may take away again.
func (x *stepper) strays() {
	t := x.c.Tree
	for _, id := range sorted(x.f.Pipes) {
		p := x.f.Pipes[id]
		for _, w := range sorted(p.Statuses) {
			if s := p.Statuses[w]; s.Value != nil {
				x.remove(t.TaskStatus(w, x.f.ID, id), s.ModRev)
			}
		}
		for _, w := range sorted(p.Acks) {
			if a := p.Acks[w]; a.Value != nil {
				x.remove(t.Ack(x.f.ID, id, w), a.ModRev)
			}
		}
	}
	for i := range x.units {
		x.units[i].cond(x.c.Tree.Job(x.f.ID), 0)
		x.units[i].cond(x.c.Tree.JobStatus(x.f.ID), 0)
	}
	x.out.Write = pack(x.units, nil)
}

// ended says that the history tells of the end of that life of the id.
func (f *Facts) ended(specCreated int64) bool {
	return f.History.Value != nil && f.History.Value.SpecCreated == specCreated
}

// wishAfterEnd answers a wish that came too late: terminal is terminal.
func (x *stepper) wishAfterEnd() {
	w := x.f.Wish
	if !w.Exists() || w.ModRev <= x.st.ObservedWish || w.ModRev < x.st.SpecCreated {
		return
	}
	x.st.ObservedWish = w.ModRev
	x.condition(WishRefused, "Ended", fmt.Sprintf("the job is %s, which nothing changes", x.st.Phase))
}
