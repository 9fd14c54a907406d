package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"strait/checkpoint/protocol"
	"strait/coordinator/fleet"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// trouble is one incident of an attempt, however many reported it.
type trouble struct {
	text   string
	fatal  bool
	free   bool   // a lost worker or link: neither waits nor counts, once per healthy period
	kind   string // the reason of its event; empty: a task failed
	moved  bool   // nothing failed: a worker leaves or is drained. It is free always, and no failure
	vertex plan.VertexID
	report record.Failure
}

// trouble looks whether the attempt can go on: a worker of it gone, a failure reported, a link broken. Reports of
// other incarnations and older attempts are ignored.
func (x *stepper) trouble(p *pipe, pl *record.Placement) *trouble {
	var failed, link, lost *trouble
	var names []string
	for _, name := range sorted(pl.Workers) {
		inc := pl.Workers[name].Incarnation
		s := p.f.status(name, inc)
		if s != nil && s.Attempt == p.word.Attempt && (s.Failure != nil || s.State == state.TaskFailed || len(s.Links) > 0) {
			t := x.reported(p, name, s)
			switch {
			case t.free && link == nil:
				link = t
			case !t.free && (failed == nil || t.fatal && !failed.fatal):
				failed = t
			}
		}
		if x.e.Fleet.Fate(fleet.ID{Worker: name, Incarnation: inc}) != fleet.Alive {
			names = append(names, fmt.Sprintf("%s (incarnation %d)", name, inc))
			if lost == nil {
				lost = &trouble{free: true, moved: true, kind: record.EventWorkerLost, report: record.Failure{Worker: name}}
			}
			lost.moved = lost.moved && x.e.Fleet.Left(fleet.ID{Worker: name, Incarnation: inc})
		}
	}
	if lost != nil {
		lost.text = fmt.Sprintf("worker %s is gone: its key vanished, as when the process died, lost etcd for longer than its TTL, or was fenced", strings.Join(names, ", "))
		if lost.moved {
			lost.kind, lost.text = record.EventMoving, fmt.Sprintf("worker %s has left", strings.Join(names, ", "))
		}
	}
	// What a lost worker or a broken link makes fail elsewhere is the same incident, unless it is fatal.
	t := failed
	if t == nil || !t.fatal {
		switch {
		case lost != nil:
			t = lost
		case link != nil:
			t = link
		}
	}
	if t != nil {
		t.report.Pipeline, t.report.Attempt, t.report.Fatal = p.id, p.word.Attempt, t.fatal
		t.report.Message, t.report.Time = t.text, x.now.UTC()
	}
	return t
}

// moving looks whether the attempt is to go on elsewhere although nothing of it failed: a worker of it leaves, or is
// drained and its deadline has passed. Where it waits for a drained worker it says so.
func (x *stepper) moving(p *pipe, pl *record.Placement) *trouble {
	w := p.word
	if b := w.Barrier; b.Kind.Closing() && b.State != record.BarrierAborted && b.ID > 0 {
		return nil // It is about to end where it is, sooner than it could begin elsewhere.
	}
	var why []string
	if !record.Speaks(x.c.Protocol, pl.Protocol) {
		why = append(why, fmt.Sprintf("the attempt runs with protocol %d, this coordinator speaks %d to %d", max(pl.Protocol, record.FirstProtocol), x.c.Protocol[0], x.c.Protocol[1]))
	}
	for _, name := range sorted(pl.Workers) {
		m := x.e.Fleet.Moving(fleet.ID{Worker: name, Incarnation: pl.Workers[name].Incarnation}, x.now)
		switch {
		case m.Now:
			why = append(why, m.Why)
		case m.Why != "":
			if !slices.Contains(x.drains, m.Why) {
				x.drains = append(x.drains, m.Why)
			}
			x.wakeAt(m.At)
		}
	}
	if why == nil {
		return nil
	}
	return &trouble{free: true, moved: true, kind: record.EventMoving, text: strings.Join(why, ", ")}
}

// leaving says that a worker of the attempt has said that it ends.
func (x *stepper) leaving(p *pipe, name string) bool {
	if p == nil {
		return false
	}
	pl := p.f.placement(p.word.Attempt)
	if pl == nil {
		return false
	}
	id := fleet.ID{Worker: name, Incarnation: pl.Workers[name].Incarnation}
	l := x.e.Fleet.Live(name)
	return x.e.Fleet.Left(id) || l != nil && l.ID == id && l.Record.Leaving
}

func (x *stepper) reported(p *pipe, name string, s *record.TaskStatus) *trouble {
	t := &trouble{report: record.Failure{Worker: name}, free: len(s.Links) > 0}
	text := "a task failed without saying why"
	if f := s.Failure; f != nil {
		t.fatal, t.vertex, t.report = f.Fatal, f.Vertex, *f
		t.report.Worker, text = name, f.Message
		if t.fatal {
			t.free = false
		}
	} else if len(s.Links) > 0 {
		text = "the link to " + strings.Join(s.Links, ", ") + " broke"
	}
	if t.free {
		t.kind = record.EventLinkBroken
		// A link that broke because either end is on its way out is no failure of the job.
		t.moved = x.leaving(p, name) || !slices.ContainsFunc(s.Links, func(w string) bool { return !x.leaving(p, w) })
	}
	var where []string
	if t.report.Vertex != "" {
		where = append(where, string(t.report.Vertex))
	}
	if t.report.Group != "" {
		where = append(where, "task group "+t.report.Group)
		text = strings.TrimPrefix(text, "task group "+t.report.Group+": ") // the worker may have said so itself
	}
	where = append(where, "worker "+name)
	t.text = strings.Join(where, ", ") + ": " + clip(text, maxText)
	return t
}

// note keeps a failure in the status, which bounds them.
func (x *stepper) note(t *trouble) {
	if t == nil || t.moved || t.report.Message == "" {
		return
	}
	for _, f := range x.st.Failures {
		if f.Pipeline == t.report.Pipeline && f.Attempt == t.report.Attempt {
			return // one incident, one entry
		}
	}
	x.st.Failures = append(x.st.Failures, t.report)
}

// recover answers trouble of a pipeline that is deployed or runs: attempt+1, closing, or the end of the job.
func (x *stepper) recover(p *pipe, t *trouble) {
	w := p.word
	if t.report.Message == "" {
		t.report = record.Failure{Pipeline: p.id, Attempt: w.Attempt, Message: t.text, Time: x.now.UTC()}
	}
	x.note(t)
	x.tellTrouble(p, t)
	if t.fatal {
		x.giveUp(p, t.text)
		return
	}
	res := x.resolve(p)
	switch res.Start {
	case protocol.Fail:
		x.giveUp(p, res.Why)
		return
	case protocol.ReplayOnly:
		// The commit point is passed: only its commits are replayed, as often as closing has time for.
		var pause time.Duration
		if !t.free {
			pause = x.env.RetryInterval
		}
		x.raiseClosing(p, res.Outcome, t.text, pause)
		return
	}
	if x.healthy(p) {
		w.RestartsUsed, w.FreeRestart = 0, false
	}
	var pause time.Duration
	switch {
	case t.moved:
	case t.free && !w.FreeRestart:
		w.FreeRestart = true
	default:
		w.RestartsUsed++
		if w.RestartsUsed > x.env.RetryTimes {
			times := fmt.Sprintf("it was restarted as often as job.retry.times allows: %d", x.env.RetryTimes)
			if x.env.RetryTimes == 0 {
				times = "job.retry.times allows no restart"
			}
			x.giveUp(p, fmt.Sprintf("%s; %s", t.text, times))
			return
		}
		pause = x.backoff(w.RestartsUsed)
	}
	x.raise(p, state.PipelineDeploying, record.ScopeAll, t.text, pause)
	x.tellAttempt(p, record.EventRestarting, pause)
}

// backoff is the pause before the n-th counted restart: the interval of the job, doubled each time.
func (x *stepper) backoff(n int) time.Duration {
	d := x.env.RetryInterval
	most := max(d, x.c.MaxPause)
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}

// giveUp makes the whole job fail: its other pipelines close too.
func (x *stepper) giveUp(p *pipe, text string) {
	if x.failing == nil {
		x.failing = &failing{PipelineFailed, x.about(p, text)}
	}
}

func (x *stepper) resolve(p *pipe) protocol.Resolution {
	return protocol.Resolve(protocol.Restore{Attempt: p.word.Attempt, Word: p.word, Checkpoint: p.f.Points[p.word.Completed].Value})
}

// raise makes attempt+1. Invariant 3: naming it in the word orders every older attempt to stop, and those that may
// still act are written down as holders. An open barrier is aborted with the attempt it belonged to.
func (x *stepper) raise(p *pipe, phase state.Pipeline, scope record.Scope, why string, pause time.Duration) {
	w := p.word
	if pl := p.f.placement(w.Attempt); pl != nil {
		for _, name := range sorted(pl.Workers) {
			at := pl.Workers[name]
			i := slices.IndexFunc(w.Holders, func(h record.Holder) bool { return h.Worker == name && h.Incarnation == at.Incarnation })
			if i < 0 {
				w.Holders = append(w.Holders, record.Holder{Worker: name, Incarnation: at.Incarnation, Wait: at.Wait})
				i = len(w.Holders) - 1
			}
			w.Holders[i].Attempt = w.Attempt
		}
	}
	// An attempt that never ran has prepared nothing.
	w.Abandoned = !p.commits() || w.Abandoned && w.Phase == state.PipelineDeploying
	if w.Barrier.State == record.BarrierOpen {
		w.Barrier.State = record.BarrierAborted
	}
	w.Attempt++
	w.Phase, w.Scope, w.Restore = phase, scope, w.Completed
	w.RunningSince, w.NotBefore, w.FailedPoints, w.Message = nil, nil, 0, why
	if pause > 0 {
		t := x.now.Add(pause).UTC()
		w.NotBefore = &t
	}
	x.settleHolders(p)
	x.log(true, "pipeline gets another attempt", "pipeline", int(p.id), "attempt", int64(w.Attempt), "phase", string(phase), "why", why)
}

// beginClosing takes a pipeline towards the end of its job: by one write where there is nothing to replay or to
// abandon, else by an attempt of committers only.
func (x *stepper) beginClosing(p *pipe, outcome record.Outcome, why string) {
	w := p.word
	var t *trouble
	pl := p.f.placement(w.Attempt)
	if pl != nil {
		t = x.trouble(p, pl)
	}
	x.note(t)
	if t != nil && outcome == record.Failed {
		why = x.about(p, t.text)
	}
	res := x.resolve(p)
	if res.Start == protocol.ReplayOnly && !(t != nil && t.fatal) {
		// The commit point is passed: what was wished or failed since does not undo it.
		outcome = res.Outcome
		if w.Phase == state.PipelineRunning && t == nil && pl != nil {
			x.running(p)
			return
		}
	}
	if t != nil && t.fatal && w.Committed < w.Completed {
		x.skip(p, t.vertex)
		outcome = record.Failed
	}
	replay := res.Start != protocol.Fail && w.Committed < w.Completed && len(p.committing(w.Skip)) > 0
	abandon := p.commits() && !(w.Abandoned && w.Phase == state.PipelineDeploying)
	if !replay && !abandon {
		if w.Barrier.State == record.BarrierOpen {
			w.Barrier.State = record.BarrierAborted
		}
		w.Phase, w.Outcome, w.Message = state.PipelineStopped, outcome, why
		x.log(false, "pipeline has ended", "pipeline", int(p.id), "attempt", int64(w.Attempt), "outcome", string(outcome))
		return
	}
	x.raiseClosing(p, outcome, why, 0)
}

// skip gives up the commit of a sink: it failed in a way that would fail again. Unknown: all of them.
func (x *stepper) skip(p *pipe, v plan.VertexID) {
	all := p.committing(nil)
	if slices.Contains(all, v) {
		all = []plan.VertexID{v}
	}
	for _, v := range all {
		if !slices.Contains(p.word.Skip, v) {
			p.word.Skip = append(p.word.Skip, v)
		}
	}
	slices.Sort(p.word.Skip)
}

// raiseClosing is attempt+1 of committers only. The deadline of closing stays that of its first attempt.
func (x *stepper) raiseClosing(p *pipe, outcome record.Outcome, why string, pause time.Duration) {
	w := p.word
	if w.Barrier.State == record.BarrierOpen {
		w.Barrier.State = record.BarrierAborted
	}
	x.raise(p, state.PipelineClosing, record.ScopeCommitters, why, pause)
	w.Outcome = outcome
	if len(p.committing(w.Skip)) == 0 {
		w.Restore = 0 // nothing is replayed
	}
	if w.Deadline == nil {
		d := x.now.Add(x.closeWithin(w)).UTC()
		w.Deadline = &d
	}
	x.tellAttempt(p, record.EventReplaying, pause)
}

// closing goes on with an attempt of committers only.
func (x *stepper) closing(p *pipe) {
	w := p.word
	pl := p.f.placement(w.Attempt)
	if pl != nil {
		if t := x.trouble(p, pl); t != nil && !x.late(p) {
			x.note(t)
			x.tellTrouble(p, t)
			switch {
			case t.fatal && (w.Committed >= w.Completed || slices.Contains(w.Skip, t.vertex) || w.Restore == 0):
				// The abandonment itself cannot be done, or what was not to be tried was: name what is left.
				p.word.Left = append(p.word.Left, t.text)
				*w = protocol.Apply(*w, protocol.Decision{Act: protocol.Stop, Why: t.text, Left: []string{"what attempts up to " + fmt.Sprint(w.Attempt) + " left open"}}, false, x.now)
			case t.fatal:
				x.skip(p, t.vertex)
				x.raiseClosing(p, record.Failed, t.text, 0)
			case t.free:
				x.raiseClosing(p, w.Outcome, t.text, 0)
			default:
				x.raiseClosing(p, w.Outcome, t.text, x.replayPause())
			}
			return
		}
		x.recordAbandoned(p, pl)
	} else if !x.late(p) {
		x.placeCommitters(p)
	}
	x.drive(p, pl)
	x.wakeAt(x.deadline(p))
	if w.Phase == state.PipelineStopped {
		x.stopped(p)
	}
}

// stopped looks whether anything of a stopped pipeline still runs.
func (x *stepper) stopped(p *pipe) {
	p.clean = true
	see := func(id fleet.ID, a plan.Attempt) {
		if x.e.Fleet.Fate(id) != fleet.Alive || p.f.stopped(id.Worker, id.Incarnation, a) {
			return
		}
		p.clean = false
		x.patience(p, id, a)
	}
	if pl := p.f.Placement.Value; pl != nil {
		for _, name := range sorted(pl.Workers) {
			see(fleet.ID{Worker: name, Incarnation: pl.Workers[name].Incarnation}, pl.Attempt)
		}
	}
	for _, h := range p.word.Holders {
		see(fleet.ID{Worker: h.Worker, Incarnation: h.Incarnation}, h.Attempt)
	}
}
