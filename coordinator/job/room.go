package job

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"strait/coordinator/fleet"
	"strait/coordinator/schedule"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// giveBack deletes grants that an earlier step, or leader, had begun to write for a job that waits now: two jobs that
// each hold a part and wait for the rest would wait for ever.
func (x *stepper) giveBack(placing map[plan.PipelineID]bool) {
	for _, id := range x.slots() {
		if g := x.f.Grants[id]; g.Value != nil && placing[g.Value.Pipeline] {
			var u unit
			u.remove(x.c.Tree.Slot(id.Worker, id.Slot), g.ModRev)
			x.units = append(x.units, u)
		}
	}
}

// placedLog says what was placed, and what of the wishes could not be met.
func (x *stepper) placedLog(p *pipe, note, msg string, args ...any) {
	if note != "" {
		args = append(args, "note", note)
		x.tell(p, true, record.EventPlaced, "%s", note)
	}
	x.log(note != "", msg, args...)
}

// need is what the scheduler is asked for.
func (x *stepper) need(units []schedule.Unit, attempt plan.Attempt) schedule.Need {
	n := schedule.Need{Job: x.f.ID, Units: units, Ask: record.Profile{MilliCPU: x.env.SlotMilliCPU, Memory: x.env.SlotMemory}, Labels: x.labels(),
		Avoid: x.e.Fleet.Avoid(x.now), Strategy: x.c.Placement, Protocol: x.c.Protocol}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", x.f.ID, attempt)
	n.Seed = h.Sum64()
	if len(x.f.Grants) > 0 {
		n.Holds = map[string]bool{}
		for id := range x.f.Grants {
			n.Holds[id.Worker] = true
		}
	}
	return n
}

// waiter puts the job into the queue: with what helps it soonest, where several of its pipelines wait.
func (x *stepper) waiter(n *schedule.Need, restart bool) {
	if w := x.out.Waiting; w != nil && w.Units <= len(n.Units) {
		return
	}
	x.out.Waiting = &schedule.Waiter{Job: x.f.ID, Restart: restart, Priority: x.env.Priority, Created: x.f.Spec.CreateRev, Units: len(n.Units), Ask: n.Ask, Labels: n.Labels}
}

// inQueue is why something waits, with its turn and whether room is kept for it.
func (x *stepper) inQueue(s *schedule.Short, n *schedule.Need, restart bool) string {
	text, q := s.Message, x.e.Queue
	since, of := q.Since, q.Len
	if since.IsZero() {
		since, of = x.now, of+1
	}
	if of > 1 {
		text += fmt.Sprintf("; place %d of %d in the queue", min(q.Turn, of), of)
	}
	w := schedule.Waiter{Job: x.f.ID, Units: len(n.Units), Ask: n.Ask, Labels: n.Labels}
	names := schedule.Keep(w, x.e.Fleet.Workers(), n.Kept)
	switch from := since.Add(x.c.Patience); {
	case len(names) == 0:
	case restart || !x.now.Before(from):
		const most = 8
		if len(names) > most {
			names = append(names[:most:most], fmt.Sprintf("%d more", len(names)-most))
		}
		text += "; what gets free on " + strings.Join(names, ", ") + " is kept for it"
	default:
		x.wakeAt(from)
		text += "; from " + from.UTC().Format(time.TimeOnly) + " on what gets free is kept for it"
	}
	return clip(text, maxText)
}

// without are the workers that still live by their key, but whose older attempt was given up for lost.
func (x *stepper) without(w *record.Word) map[string]string {
	var out map[string]string
	for _, h := range w.Holders {
		if h.Waiting && x.e.Fleet.Fate(fleet.ID{Worker: h.Worker, Incarnation: h.Incarnation}) == fleet.Alive {
			if out == nil {
				out = map[string]string{}
			}
			out[h.Worker] = fmt.Sprintf("its link broke and it does not answer; attempt %d may still run there", h.Attempt)
		}
	}
	return out
}

// pending says why the job waits. While it waits only the numbers change, and they are not written at every change
// of the fleet.
func (x *stepper) pending(reason, message string) {
	switch x.st.Phase {
	case state.JobPlanned, state.JobScheduled:
		x.move(state.JobPending)
	}
	if x.st.Phase != state.JobPending {
		return
	}
	const every = 2 * time.Second
	if until := x.s.pending.Add(every); x.st.Reason == reason && x.st.Message != message && x.now.Before(until) {
		x.wakeAt(until)
		return
	}
	if x.st.Reason != reason || x.st.Message != message {
		x.s.pending = x.now
	}
	if x.st.Reason != reason {
		x.tell(nil, false, record.EventPending, "%s: %s", reason, message)
	}
	x.st.Reason, x.st.Message = reason, message
}

func (x *stepper) labels() map[string]string {
	if len(x.env.TagFilter) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, p := range x.env.TagFilter {
		out[p.Key] = p.Value
	}
	return out
}
