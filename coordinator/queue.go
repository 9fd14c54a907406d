package coordinator

import (
	"context"
	"time"

	"strait/coordinator/fleet"
	"strait/coordinator/job"
	"strait/kv"
	"strait/kv/keys"
	"strait/plan"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/physical"
)

// A job that waits brings what it says of itself up to date now and then: all of them together so often, and none
// before so long.
const (
	lookAgain = 5 * time.Second
	lookApart = 100 * time.Millisecond
)

// pass goes through the queue where room may have come, or a job that wants some.
func (l *loop) pass(ctx context.Context, now time.Time) {
	// What a job of the queue gives back may help one before it.
	for again := 0; l.stale && again < 4; again++ {
		l.stale = false
		l.queue.Pass(now, l.fleet.Workers, func(id plan.JobID) bool { return l.dirty[id] }, func(id plan.JobID, kept map[string]plan.JobID) {
			if e := l.jobs[id]; e != nil && !e.busy && !now.Before(e.retry) {
				delete(l.dirty, id)
				l.stepJob(ctx, id, e, now, kept)
			}
		})
	}
}

// unplaced says that a job has no room yet: its next step may take some.
func (l *loop) unplaced(e *entry) bool {
	s := e.facts.Status.Value
	if s == nil || s.Phase.Terminal() || e.facts.Begun() {
		return false
	}
	l.decode(e)
	if e.planned != nil && e.planned.Plan != nil {
		e.prioritise(e.planned.Plan)
	}
	return true
}

func (e *entry) prioritise(p *physical.Plan) {
	var list fault.List
	e.priority = logical.ReadEnv(p.Env, &list).Priority
}

// forget ends the promises of the last write, so that the step finds its slots as it did. Those that the write did not
// make, because it came to nothing or the job ended, are room for others.
func (l *loop) forget(id plan.JobID, e *entry) {
	for _, s := range e.promised {
		l.fleet.Forget(s.Worker, s.Slot)
		if g, ok := l.fleet.Grants(s.Worker)[s.Slot]; !ok || g.Grant.Job != id {
			l.stale = true
		}
	}
	e.promised = nil
}

// standing is what a step is told of the queue.
func (l *loop) standing(id plan.JobID, kept map[string]plan.JobID) job.Queue {
	since, _ := l.queue.Waits(id)
	return job.Queue{Since: since, Turn: l.queue.Turn(id), Len: l.queue.Len(), Full: l.queue.Len() >= l.c.Queue, Kept: kept}
}

// heard tells the fleet what the status or ack of a worker says of workers.
func (l *loop) heard(f *job.Facts, k keys.Parsed, e kv.Entry, now time.Time) {
	if !e.Exists() || k.Kind != keys.KindTaskStatus && k.Kind != keys.KindAck {
		return
	}
	l.fleet.Heard(k.Worker, e.ModRev)
	if s := f.Pipes[k.Pipeline].Statuses[k.Worker]; k.Kind == keys.KindTaskStatus && s.Value != nil && len(s.Value.Links) > 0 {
		l.fleet.Broke(fleet.ID{Worker: k.Worker, Incarnation: s.Value.Incarnation}, s.Value.Links, e.ModRev, now)
	}
}
