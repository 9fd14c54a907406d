package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"strait/checkpoint"
	"strait/checkpoint/driver"
	"strait/checkpoint/protocol"
	"strait/coordinator/fleet"
	"strait/coordinator/schedule"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/config"
	"strait/plan/physical"
	"strait/plan/state"
)

// pipelines takes the step of every pipeline and writes the words that changed.
func (x *stepper) pipelines() {
	x.pipes = nil
	ids := map[plan.PipelineID]*physical.Pipeline{}
	for id, p := range x.f.Pipes {
		if p.Word.Exists() {
			ids[id] = nil
		}
	}
	if x.plan != nil {
		for _, p := range x.plan.Pipelines {
			ids[p.ID] = p
		}
	}
	for _, id := range sorted(ids) {
		p := &pipe{id: id, plan: ids[id], f: x.f.Pipes[id]}
		if p.f == nil {
			p.f = NewFacts(x.f.ID).pipe(id)
		}
		if p.f.Word.Exists() {
			w := *p.f.Word.Value // alone has looked
			w.Holders, w.Skip, w.Left = slices.Clone(w.Holders), slices.Clone(w.Skip), slices.Clone(w.Left)
			p.was, p.word = p.f.Word.Value, &w
		}
		x.pipes = append(x.pipes, p)
	}
	x.adoptAim()
	for _, p := range x.pipes {
		if p.word != nil {
			x.pipeline(p)
			if x.failing != nil && x.st.Phase != state.JobFailing && x.st.Phase != state.JobCancelling {
				return
			}
		}
	}
	x.schedule()
	for _, p := range x.pipes {
		x.writeWord(p)
	}
	for _, p := range x.pipes {
		x.keeper(p)
	}
}

// adoptAim goes on with what the words say an earlier step, or leader, began: they may be ahead of the status.
func (x *stepper) adoptAim() {
	for _, p := range x.pipes {
		if p.word == nil || p.word.Phase != state.PipelineClosing && p.word.Phase != state.PipelineStopped {
			continue
		}
		switch {
		case p.word.Outcome == record.Failed && x.st.Phase != state.JobCancelling:
			x.fail(PipelineFailed, x.about(p, p.word.Message))
		case p.word.Outcome == record.Cancelled && x.st.Phase != state.JobFailing:
			x.cancel("a pipeline was")
		}
	}
}

func (x *stepper) about(p *pipe, text string) string {
	return fmt.Sprintf("job %s, pipeline %d: %s", x.f.ID, p.id, text)
}

// pipeline is the step of one pipeline that has a control word.
func (x *stepper) pipeline(p *pipe) {
	x.settleHolders(p)
	outcome, ends := x.ending()
	switch p.word.Phase {
	case state.PipelineDeploying:
		if ends {
			x.beginClosing(p, outcome, x.st.Message)
		} else {
			x.deploying(p)
		}
	case state.PipelineRunning:
		if ends {
			x.beginClosing(p, outcome, x.st.Message)
		} else {
			x.running(p)
		}
	case state.PipelineClosing:
		x.closing(p)
	case state.PipelineStopped:
		x.stopped(p)
	}
}

// commits says that the pipeline has sinks with prepared commits: something to replay or to abandon.
func (p *pipe) commits() bool { return len(p.committing(nil)) > 0 }

// committing lists the sinks with prepared commits that are not skipped. Without a plan the placement knows.
func (p *pipe) committing(skip []plan.VertexID) []plan.VertexID {
	var out []plan.VertexID
	if p.plan != nil {
		for _, v := range p.plan.Sinks() {
			if schedule.Commits(v) && !slices.Contains(skip, v.ID) {
				out = append(out, v.ID)
			}
		}
		return out
	}
	if pl := p.f.Placement.Value; pl != nil {
		for _, v := range sorted(pl.Committers) {
			if !slices.Contains(skip, v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// converging says that a replacement waits for the clock: a keyed-upsert sink.
func (p *pipe) converging() bool {
	return p.plan != nil && slices.ContainsFunc(p.plan.Sinks(), func(v *physical.Vertex) bool {
		return v.Sink != nil && strings.Contains(v.Sink.Guarantee, "converging")
	})
}

// bounded says that the pipeline ends by itself.
func (p *pipe) bounded() bool { return p.plan != nil && p.plan.Bounded }

// settleHolders lets incarnations of older attempts go: stopped, fenced, or waited out.
func (x *stepper) settleHolders(p *pipe) {
	w := p.word
	if len(w.Holders) == 0 || w.Phase == state.PipelineStopped {
		return
	}
	kept := make([]record.Holder, 0, len(w.Holders))
	for _, h := range w.Holders {
		id := fleet.ID{Worker: h.Worker, Incarnation: h.Incarnation}
		if p.f.stopped(h.Worker, h.Incarnation, h.Attempt) {
			continue
		}
		switch x.e.Fleet.Fate(id) {
		case fleet.Fenced:
			continue
		case fleet.Alive:
			// One that others lost and that does not answer may have died: what may run beside an incarnation whose
			// key is gone may run beside it. It is waited out from when its key is gone, or fenced.
			told := x.patience(p, id, h.Attempt)
			lost := false
			if x.e.Fleet.Suspect(id, x.now) {
				if lost = !x.now.Before(told.Add(x.c.Suspect)); !lost {
					x.wakeAt(told.Add(x.c.Suspect))
				}
			}
			h.Waiting = lost || h.Waiting && w.Phase != state.PipelineDeploying
		default:
			// Nothing an incarnation that is gone may still do can be seen: no wait.
			if !p.commits() && !p.converging() {
				continue
			}
			until := x.e.Fleet.Since(id).Add(time.Duration(h.Wait) * time.Second)
			if !x.now.Before(until) {
				continue
			}
			h.Waiting = true
			x.wakeAt(until)
		}
		kept = append(kept, h)
	}
	if len(kept) == 0 {
		kept = nil
	}
	w.Holders = kept
}

// patience fences an incarnation that lives, was told to stop, and has not confirmed it in time. It says when it was told.
func (x *stepper) patience(p *pipe, id fleet.ID, a plan.Attempt) time.Time {
	k := withdrawn{p.id, id, a}
	since, ok := x.s.withdraw[k]
	if !ok {
		since = x.now
		x.s.withdraw[k] = since
	}
	until := since.Add(x.c.Stop)
	if x.now.Before(until) {
		x.wakeAt(until)
		return since
	}
	live := x.e.Fleet.Live(id.Worker)
	var u unit
	key := x.c.Tree.Worker(id.Worker)
	u.conds = append(u.conds, Cond{Key: key, Rev: id.Incarnation, Create: true})
	u.deletes = append(u.deletes, key)
	u.revoke = append(u.revoke, live.Lease)
	if !slices.ContainsFunc(x.units, func(o unit) bool { return slices.Contains(o.deletes, key) }) {
		x.units = append(x.units, u)
		x.log(true, "worker is fenced: it did not confirm in time that it stopped", "pipeline", int(p.id), "worker", id.Worker, "incarnation", id.Incarnation, "waited", x.c.Stop)
		x.tell(p, true, record.EventFenced, "worker %s (incarnation %d) did not confirm within %v that it stopped: its key is deleted", id.Worker, id.Incarnation, x.c.Stop)
	}
	return since
}

// mayRun says that no older attempt stands in the way of this one.
func (p *pipe) mayRun() bool {
	if p.converging() {
		return len(p.word.Holders) == 0
	}
	return protocol.OnlyWaiting(p.word.Holders)
}

func (x *stepper) deploying(p *pipe) {
	w := p.word
	pl := p.f.placement(w.Attempt)
	if pl == nil {
		x.placeAgain(p)
		return
	}
	if t := x.trouble(p, pl); t != nil {
		x.recover(p, t)
		return
	}
	if t := x.moving(p, pl); t != nil {
		x.recover(p, t)
		return
	}
	d := x.s.deploy[p.id]
	if d.attempt != w.Attempt {
		d = deploy{w.Attempt, x.now}
		x.s.deploy[p.id] = d
	}
	var missing []string
	for _, name := range sorted(pl.Workers) {
		if s := p.f.status(name, pl.Workers[name].Incarnation); s == nil || s.Attempt != w.Attempt || !ready(s.State) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 && p.mayRun() {
		w.Phase = state.PipelineRunning
		now := x.now.UTC()
		w.RunningSince, w.NotBefore = &now, nil
		x.log(false, "pipeline runs", "pipeline", int(p.id), "attempt", int64(w.Attempt))
		return
	}
	if len(missing) == 0 {
		p.waits = "ready; waits for " + holders(w.Holders)
		return
	}
	until := d.since.Add(x.c.Deploy)
	if x.now.Before(until) {
		x.wakeAt(until)
		return
	}
	x.recover(p, &trouble{text: fmt.Sprintf("%s did not become ready within %v", strings.Join(missing, ", "), x.c.Deploy)})
}

func ready(s state.Task) bool {
	switch s {
	case state.TaskReady, state.TaskStarting, state.TaskRunning, state.TaskDrained, state.TaskPrepareClose, state.TaskFinished:
		return true
	}
	return false
}

func holders(hs []record.Holder) string {
	var out []string
	for _, h := range hs {
		how := "to stop"
		if h.Waiting {
			how = fmt.Sprintf("to be waited out (up to %d s after it vanished)", h.Wait)
		}
		out = append(out, fmt.Sprintf("%s (incarnation %d) %s", h.Worker, h.Incarnation, how))
	}
	return strings.Join(out, ", ")
}

func (x *stepper) running(p *pipe) {
	pl := p.f.placement(p.word.Attempt)
	if pl == nil {
		x.recover(p, &trouble{text: "its placement is gone: the key was deleted by hand"})
		return
	}
	if t := x.trouble(p, pl); t != nil {
		x.recover(p, t)
		return
	}
	if t := x.moving(p, pl); t != nil {
		x.recover(p, t)
		return
	}
	x.healthy(p) // looks at since when, for later
	x.recordAbandoned(p, pl)
	if restart := x.drive(p, pl); restart != "" {
		x.recover(p, &trouble{text: restart})
	}
}

// recordAbandoned notes that the committers have removed what older attempts left.
func (x *stepper) recordAbandoned(p *pipe, pl *record.Placement) {
	w := p.word
	if w.Abandoned || len(w.Holders) > 0 {
		return
	}
	var left []string
	for _, v := range sorted(pl.Committers) {
		name := pl.Committers[v]
		s := p.f.status(name, pl.Workers[name].Incarnation)
		if s == nil || s.Attempt != w.Attempt || !s.Abandoned {
			return
		}
		for _, l := range s.Left {
			if !slices.Contains(left, l) && !slices.Contains(w.Left, l) {
				left = append(left, l)
			}
		}
	}
	w.Abandoned, w.Left = true, append(w.Left, left...)
}

// drive takes the step of the checkpoint driver and returns why the attempt cannot go on.
func (x *stepper) drive(p *pipe, pl *record.Placement) string {
	in := driver.Input{Facts: x.points(p, pl), Pipeline: p.id, Job: x.name(), Leader: x.e.Leader}
	for _, a := range x.e.Published {
		if a.Pipeline == p.id {
			in.Answer = a
		}
	}
	s, out := driver.Step(x.s.points[p.id], in)
	x.s.points[p.id] = s
	committed := p.word.Committed
	if out.Word != nil {
		*p.word = *out.Word
	}
	if out.Point != nil {
		key := x.c.Tree.Checkpoint(x.f.ID, p.id, out.PointID)
		p.beside.write(key, 0, record.MustEncode(out.Point)) // create-only: the commit point
		x.log(false, "checkpoint is complete", "pipeline", int(p.id), "attempt", int64(p.word.Attempt), "checkpoint", int64(out.PointID), "kind", string(out.Point.Kind))
	}
	if b := p.word.Barrier; b.Kind != checkpoint.Periodic && b.State == record.BarrierComplete {
		if out.Point != nil {
			x.tell(p, false, record.EventCheckpoint, "%s checkpoint %d is complete", b.Kind, b.ID)
		}
		if p.word.Committed > committed {
			x.tell(p, false, record.EventCheckpoint, "%s checkpoint %d is committed", b.Kind, b.ID)
		}
	}
	if out.Publish != nil {
		x.out.Publish = append(x.out.Publish, out.Publish)
	}
	// What changes with every ack is not told, or it would be written with every ack.
	if p.word.Barrier.State != record.BarrierOpen && p.word.Committed == p.word.Completed {
		p.waits = out.Waits
	}
	x.wakeAt(out.Wake)
	if p.word.Phase == state.PipelineStopped {
		x.log(false, "pipeline has ended", "pipeline", int(p.id), "attempt", int64(p.word.Attempt), "outcome", string(p.word.Outcome))
	}
	return out.Restart
}

// name is the job in external names: id and create revision of its spec.
func (x *stepper) name() string { return record.JobLife(x.f.ID, x.st.SpecCreated) }

// points are the facts of the checkpoint protocol.
func (x *stepper) points(p *pipe, pl *record.Placement) protocol.Facts {
	w := p.word
	f := protocol.Facts{Word: w, Bounded: p.bounded(), Acks: map[string]*record.Ack{}, Timeout: x.env.CheckpointTimeout, Tolerated: 2, Now: x.now, Deadline: x.deadline(p),
		Aggregators: map[string]bool{}, Replayers: map[string]bool{}}
	if f.Timeout <= 0 {
		f.Timeout = x.c.Checkpoint
	}
	if k, ok := p.f.Points[w.Completed]; ok {
		f.Checkpoint = k.Value
	}
	if pl == nil {
		return f
	}
	f.Workers = map[string]int64{}
	f.Drained = p.plan != nil
	for name, at := range pl.Workers {
		f.Workers[name] = at.Incarnation
		if a := p.f.Acks[name].Value; a != nil {
			f.Acks[name] = a
		}
		if p.feeds(pl, name) {
			s := p.f.status(name, at.Incarnation)
			f.Drained = f.Drained && s != nil && s.Attempt == w.Attempt && s.Drained
		}
	}
	for v, name := range pl.Committers {
		if slices.Contains(w.Skip, v) {
			continue
		}
		f.Replayers[name] = true
		if p.plan == nil {
			continue
		}
		if vx := p.plan.Vertex(v); vx != nil && vx.Sink != nil {
			f.Aggregators[name] = f.Aggregators[name] || vx.Sink.Aggregated
			if vx.Sink.Locks {
				f.Tolerated = 0
			}
		}
	}
	for name, yes := range f.Aggregators {
		if !yes {
			delete(f.Aggregators, name)
		}
	}
	return f
}

// feeds says that a worker hosts a source subtask or an enumerator.
func (p *pipe) feeds(pl *record.Placement, name string) bool {
	for _, at := range pl.Enumerators {
		if at == name {
			return true
		}
	}
	for _, c := range pl.Chains {
		if c.Worker != name || int(c.Chain) >= len(p.plan.Chains) || len(p.plan.Chains[c.Chain].Vertices) == 0 {
			continue
		}
		if v := p.plan.Vertex(p.plan.Chains[c.Chain].Vertices[0]); v != nil && v.Section == config.Source {
			return true
		}
	}
	return false
}
