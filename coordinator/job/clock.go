package job

import (
	"time"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// The times in keys are what the wall clock of a leader showed that is perhaps another one: it may be an hour off, or
// may have jumped since. A leader looks at each of them once, when it first sees it, and takes from it only how long
// is left, within what is possible at all; from then on its own clock counts, which does not jump.

// clock names a time in the keys of a pipeline, or of the job (pipeline 0).
type clock struct {
	pipeline plan.PipelineID
	what     clockOf
}

type clockOf uint8

const (
	clockNotBefore clockOf = iota
	clockDeadline
	clockRunning
	clockLinger
)

// reading is a time as it is written, and what it is here.
type reading struct{ written, here time.Time }

// here is a written time on the clock of this leader: from least to most away from when this leader first saw it.
func (x *stepper) here(p plan.PipelineID, what clockOf, written time.Time, least, most time.Duration) time.Time {
	k := clock{p, what}
	r, ok := x.s.clocks[k]
	if !ok || !r.written.Equal(written) {
		r = reading{written, x.now.Add(min(max(written.Sub(x.now), least), most))}
		x.s.clocks[k] = r
	}
	return r.here
}

// notBefore is when the pause before the attempt is over; zero: there is none.
func (x *stepper) notBefore(p *pipe) time.Time {
	w := p.word
	if w.NotBefore == nil {
		return time.Time{}
	}
	most := x.backoff(w.RestartsUsed)
	if w.Phase == state.PipelineClosing {
		most = x.replayPause()
	}
	return x.here(p.id, clockNotBefore, *w.NotBefore, 0, most)
}

// replayPause is the pause before commits are tried again: a job that wants none before a restart has one here.
func (x *stepper) replayPause() time.Duration { return max(x.env.RetryInterval, time.Second) }

// deadline is when closing ends; zero: it has no end. A leader that comes to it late tries for Close all the same:
// what is given up at the deadline is given up for good.
func (x *stepper) deadline(p *pipe) time.Time {
	w := p.word
	if w.Deadline == nil {
		return time.Time{}
	}
	return x.here(p.id, clockDeadline, *w.Deadline, x.c.Close, x.closeWithin(w))
}

func (x *stepper) late(p *pipe) bool {
	d := x.deadline(p)
	return !d.IsZero() && !x.now.Before(d)
}

// closeWithin bounds closing. One that does not stop is fenced first; the wait begins when its key vanishes, up to a
// TTL from then.
func (x *stepper) closeWithin(w *record.Word) time.Duration {
	limit := x.c.Close
	for _, h := range w.Holders {
		limit = max(limit, x.c.Stop+2*time.Duration(h.Wait)*time.Second)
	}
	return limit
}

// healthy says that the pipeline has run for so long that its restarts are forgotten.
func (x *stepper) healthy(p *pipe) bool {
	w := p.word
	return w.RunningSince != nil && x.now.Sub(x.here(p.id, clockRunning, *w.RunningSince, -x.c.Healthy, 0)) >= x.c.Healthy
}
