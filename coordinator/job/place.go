package job

import (
	"fmt"
	"slices"
	"time"

	"strait/checkpoint/protocol"
	"strait/coordinator/fleet"
	"strait/coordinator/schedule"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// schedule places the pipelines that have no control word yet, all at once or none. It is the only place that makes
// a first attempt.
func (x *stepper) schedule() {
	if _, ends := x.ending(); ends || x.plan == nil || x.st.Phase == state.JobClosing || x.failing != nil {
		return
	}
	var todo []*pipe
	placing := map[plan.PipelineID]bool{}
	var units []schedule.Unit
	for _, p := range x.pipes {
		if p.word == nil {
			todo, placing[p.id] = append(todo, p), true
			units = append(units, schedule.Units(p.plan, x.plan.SlotSharing)...)
		}
	}
	if len(todo) == 0 {
		return
	}
	switch x.st.Phase {
	case state.JobRunning, state.JobRestarting, state.JobSavepointing:
		x.fail(BadPlan, fmt.Sprintf("job %s, pipeline %d: its control word is gone: the key was deleted by hand; submit the job again", x.f.ID, todo[0].id))
		return
	}
	need := x.need(units, 1)
	need.Kept = x.e.Queue.Kept
	if until, why := x.e.Fleet.Paused(x.now); !until.IsZero() {
		x.wakeAt(until)
		x.waiter(&need, false)
		x.pending(FleetPaused, why)
		return
	}
	placed, short := schedule.Place(need, x.e.Fleet.Workers())
	switch {
	case short == nil:
	case x.c.Reject:
		x.fail(NotPlaceable, fmt.Sprintf("job %s is not placeable: %s", x.f.ID, short.Message))
		return
	case x.e.Queue.Full && x.st.Phase == state.JobPlanned:
		x.fail(QueueFull, fmt.Sprintf("job %s does not fit and the queue is full, %d jobs wait already: %s; submit it again later, or raise coordinator.queue", x.f.ID, x.e.Queue.Len, short.Message))
		return
	default:
		x.giveBack(placing)
		x.waiter(&need, false)
		x.pending(short.Reason, x.inQueue(short, &need, false))
		return
	}
	spots := placed.Spots
	if x.st.Phase == state.JobPlanned {
		x.move(state.JobPending)
	}
	// Grants go before the word that needs them, so that no other job takes their slots; a grant without a word
	// means nothing and is used again by the next step.
	var words []unit
	at := 0
	for _, p := range todo {
		n := len(schedule.Units(p.plan, x.plan.SlotSharing))
		us, ss := units[at:at+n], spots[at:at+n]
		at += n
		p.word = &record.Word{Header: record.Head, Attempt: 1, Scope: record.ScopeAll, Phase: state.PipelineDeploying, Abandoned: true}
		p.placed = x.placement(p, us, ss, placed.Protocol)
		if tooLarge(p.placed) {
			x.fail(NotPlaceable, x.about(p, tooScattered))
			return
		}
		x.grant(p, us, ss)
		words = append(words, x.wordUnit(p))
	}
	x.units = append(x.units, gang(words)...)
	x.st.Reason, x.st.Message = "", ""
	if x.st.Phase != state.JobScheduled { // else an earlier step has begun to write the grants, and told of it
		x.move(state.JobScheduled)
		slots := map[string]int{}
		for _, s := range spots {
			slots[s.Worker]++
		}
		x.tellPlaced(nil, 1, slots)
		x.placedLog(nil, placed.Note, "job is placed", "pipelines", len(todo), "slots", len(units))
	}
}

// gang joins units so that a job is placed by one transaction; a job of very many pipelines takes several.
func gang(in []unit) []unit {
	var out []unit
	for _, u := range in {
		if n := len(out); n > 0 && len(out[n-1].puts)+len(u.puts) <= maxOps*2/3 && len(out[n-1].conds)+len(u.conds) <= maxOps*2/3 {
			o := &out[n-1]
			o.conds, o.puts, o.deletes = append(o.conds, u.conds...), append(o.puts, u.puts...), append(o.deletes, u.deletes...)
			continue
		}
		out = append(out, u)
	}
	return out
}

// placement is the record of where an attempt runs.
func (x *stepper) placement(p *pipe, units []schedule.Unit, spots []schedule.Spot, version int) *record.Placement {
	pl := &record.Placement{Header: record.Head, Protocol: version, Attempt: p.word.Attempt, Scope: p.word.Scope, Token: fmt.Sprintf("%s-%d", x.e.Token, p.id), Workers: map[string]record.PlacedWorker{}}
	pl.Chains = schedule.Chains(units, spots)
	pl.Enumerators, pl.Committers = schedule.Singles(p.plan, pl.Chains)
	for _, c := range pl.Chains {
		x.placeOn(pl, c.Worker)
	}
	return pl
}

const tooScattered = "its placement does not fit into a key: too many chains on too many workers; use fewer and larger workers or less parallelism"

func tooLarge(pl *record.Placement) bool { return len(record.MustEncode(pl)) > maxValue }

func (x *stepper) placeOn(pl *record.Placement, name string) {
	l := x.e.Fleet.Live(name)
	pl.Workers[name] = record.PlacedWorker{Incarnation: l.Incarnation, Data: l.Record.Data, Wait: int(l.Wait() / time.Second)}
}

// grant writes the slots of an attempt: one of an older attempt is rewritten in place.
func (x *stepper) grant(p *pipe, units []schedule.Unit, spots []schedule.Spot) {
	for i, u := range units {
		s := spots[i]
		l := x.e.Fleet.Live(s.Worker)
		g := &record.Grant{Header: record.Head, Incarnation: l.Incarnation, Job: x.f.ID, Pipeline: p.id, Attempt: p.word.Attempt, Profile: s.Profile, Endless: !p.bounded()}
		for _, t := range u.Groups {
			g.Groups = append(g.Groups, t.String())
		}
		id := SlotID{s.Worker, s.Slot}
		x.grantsOn(id.Worker)[id.Slot] = g
		x.granted[id] = g
		if old, ok := x.f.Grants[id]; ok && old.Value != nil && old.Value.Attempt == g.Attempt && old.Value.Pipeline == p.id && old.Value.Incarnation == g.Incarnation &&
			old.Value.Profile == g.Profile && slices.Equal(old.Value.Groups, g.Groups) {
			continue // granted by an earlier step
		}
		var w unit
		w.write(x.c.Tree.Slot(s.Worker, s.Slot), x.e.Fleet.Grants(s.Worker)[s.Slot].ModRev, record.MustEncode(g))
		w.conds = append(w.conds, Cond{Key: x.c.Tree.Worker(s.Worker), Rev: l.Incarnation, Create: true})
		x.units = append(x.units, w)
	}
}

// grantsOn are the grants of the job on a worker, by slot, with those that this step writes.
func (x *stepper) grantsOn(worker string) map[int]*record.Grant {
	if x.grants == nil {
		x.grants = map[string]map[int]*record.Grant{}
		for id, g := range x.f.Grants {
			if x.grants[id.Worker] == nil {
				x.grants[id.Worker] = map[int]*record.Grant{}
			}
			x.grants[id.Worker][id.Slot] = g.Value
		}
	}
	if x.grants[worker] == nil {
		x.grants[worker] = map[int]*record.Grant{}
	}
	return x.grants[worker]
}

// placeAgain places attempt a > 1: once its back-off is over, older attempts have stopped where they can, and the
// fleet is not sick. An incarnation that others lost and that does not answer is not waited for, nor used: so a worker
// that died is replaced before its key is gone, and does not cost a second restart.
func (x *stepper) placeAgain(p *pipe) {
	w := p.word
	switch until, why := x.e.Fleet.Paused(x.now); {
	case x.now.Before(x.notBefore(p)):
		begins := x.notBefore(p)
		x.wakeAt(begins)
		p.waits = fmt.Sprintf("attempt %d begins at %s; the last one ended because: %s", w.Attempt, begins.UTC().Format(time.TimeOnly), w.Message)
		return
	case !protocol.OnlyWaiting(w.Holders):
		p.waits = "waits for " + holders(w.Holders)
		return
	case p.plan == nil:
		return
	case !until.IsZero():
		x.wakeAt(until)
		p.waits = why
		need := x.need(schedule.Units(p.plan, x.plan.SlotSharing), w.Attempt)
		x.waiter(&need, true)
		return
	}
	units := schedule.Units(p.plan, x.plan.SlotSharing)
	last := p.f.Placement.Value
	need := x.need(units, w.Attempt)
	need.Last = func(g plan.TaskGroup) string { return schedule.At(last, g.Chain, g.Index) }
	need.Without = x.without(w)
	placed, short := schedule.Place(need, x.e.Fleet.Workers())
	if short != nil {
		x.waiter(&need, true)
		p.waits = fmt.Sprintf("attempt %d %s", w.Attempt, x.inQueue(short, &need, true))
		return
	}
	spots := placed.Spots
	p.placed = x.placement(p, units, spots, placed.Protocol)
	if tooLarge(p.placed) {
		p.placed = nil
		x.giveUp(p, tooScattered)
		return
	}
	x.grant(p, units, spots)
	slots := map[string]int{}
	for _, s := range spots {
		slots[s.Worker]++
	}
	x.tellPlaced(p, w.Attempt, slots)
	x.placedLog(p, placed.Note, "attempt is placed", "pipeline", int(p.id), "attempt", int64(w.Attempt), "slots", len(units))
}

// placeCommitters places a committers-only attempt; it needs no slots.
func (x *stepper) placeCommitters(p *pipe) {
	w := p.word
	switch {
	case x.now.Before(x.notBefore(p)):
		x.wakeAt(x.notBefore(p))
		return
	case !protocol.OnlyWaiting(w.Holders):
		p.waits = "closing waits for " + holders(w.Holders)
		return
	case p.plan == nil:
		return
	}
	need := x.need(nil, w.Attempt)
	need.Labels, need.Without = nil, x.without(w)
	var at map[plan.VertexID]string
	var short *schedule.Short
	version := x.c.Protocol[1]
	for ; version >= x.c.Protocol[0]; version-- { // the newest that all of them speak
		need.Protocol = [2]int{version, version}
		if at, short = schedule.Committers(p.plan, p.f.Placement.Value, need, x.e.Fleet.Workers()); short == nil {
			break
		}
	}
	if short != nil {
		need.Protocol = x.c.Protocol
		if _, any := schedule.Committers(p.plan, p.f.Placement.Value, need, x.e.Fleet.Workers()); any != nil {
			short = any // which names every worker
		}
		p.waits = "closing: " + short.Message
		x.waiter(&need, true)
		return
	}
	pl := &record.Placement{Header: record.Head, Protocol: version, Attempt: w.Attempt, Scope: w.Scope, Token: fmt.Sprintf("%s-%d", x.e.Token, p.id), Workers: map[string]record.PlacedWorker{}, Committers: at}
	for _, v := range sorted(at) {
		x.placeOn(pl, at[v])
	}
	p.placed = pl
}

// wordUnit is the word, and what is written with it or not at all. Attempt 1 has no word to compare but its absence.
func (x *stepper) wordUnit(p *pipe) unit {
	u := p.beside
	p.beside = unit{}
	rev := p.f.Word.ModRev
	if p.was == nil || !equalWords(p.was, p.word) {
		if err := protocol.CheckMove(p.was, p.word); err != nil {
			x.bug(fmt.Errorf("pipeline %d: control word: %w", p.id, err))
		}
		p.word.Header = record.Head
		data, err := record.Encode(p.word, p.f.Word.Raw)
		if err != nil {
			x.bug(err)
		}
		u.write(x.c.Tree.Pipeline(x.f.ID, p.id), rev, data)
	}
	if p.placed != nil {
		// Invariant 3: an attempt is placed once. The key still holds an older attempt, or none.
		u.cond(x.c.Tree.Pipeline(x.f.ID, p.id), rev)
		u.write(x.c.Tree.Placement(x.f.ID, p.id), p.f.Placement.ModRev, record.MustEncode(p.placed))
		for _, name := range sorted(p.placed.Workers) {
			u.conds = append(u.conds, Cond{Key: x.c.Tree.Worker(name), Rev: p.placed.Workers[name].Incarnation, Create: true})
		}
	}
	return u
}

func (x *stepper) writeWord(p *pipe) {
	if p.word == nil || p.was == nil {
		return // attempt 1: written by schedule
	}
	if u := x.wordUnit(p); len(u.puts) > 0 {
		x.units = append(x.units, u)
	}
}

func equalWords(a, b *record.Word) bool {
	return string(record.MustEncode(a)) == string(record.MustEncode(b))
}

// keeper keeps assignments and grants as the placement wants them: what the newest attempt lacks is written, what an
// older one left is deleted once it has stopped there.
func (x *stepper) keeper(p *pipe) {
	if p.word == nil {
		return
	}
	pl := p.placed
	if pl == nil {
		pl = p.f.placement(p.word.Attempt)
	}
	ended := p.word.Phase == state.PipelineStopped
	if pl != nil && !ended {
		x.assign(p, pl)
	}
	over := func(worker string, incarnation int64, a plan.Attempt) bool {
		return x.e.Fleet.Fate(fleet.ID{Worker: worker, Incarnation: incarnation}) != fleet.Alive || p.f.stopped(worker, incarnation, a)
	}
	for _, name := range sorted(p.f.Tasks) {
		t := p.f.Tasks[name]
		if t.Value == nil || t.Value.Attempt == p.word.Attempt && !ended || !over(name, t.Value.Incarnation, t.Value.Attempt) {
			continue
		}
		if pl != nil && !ended {
			if _, again := pl.Workers[name]; again {
				continue // rewritten in place
			}
		}
		var u unit
		u.remove(x.c.Tree.Task(name, x.f.ID, p.id), t.ModRev)
		x.units = append(x.units, u)
	}
	seen := map[string]bool{}
	for _, id := range x.slots() {
		g := x.f.Grants[id]
		if g.Value == nil || g.Value.Pipeline != p.id || x.granted[id] != nil {
			continue
		}
		if !ended && g.Value.Attempt == p.word.Attempt && inUse(pl, id, g.Value, seen) {
			continue
		}
		if !over(id.Worker, g.Value.Incarnation, g.Value.Attempt) && (ended || g.Value.Attempt < p.word.Attempt) {
			continue
		}
		var u unit
		u.remove(x.c.Tree.Slot(id.Worker, id.Slot), g.ModRev)
		x.units = append(x.units, u)
	}
}

// inUse says that a grant of the newest attempt is one the placement has a use for.
func inUse(pl *record.Placement, id SlotID, g *record.Grant, seen map[string]bool) bool {
	if pl == nil || len(g.Groups) == 0 || seen[g.Groups[0]] || pl.Workers[id.Worker].Incarnation != g.Incarnation {
		return pl == nil // grants written before the placement
	}
	t, err := plan.ParseTaskGroup(g.Groups[0])
	if err != nil || schedule.At(pl, t.Chain, t.Index) != id.Worker {
		return false
	}
	seen[g.Groups[0]] = true
	return true
}

func (x *stepper) slots() []SlotID {
	out := make([]SlotID, 0, len(x.f.Grants))
	for id := range x.f.Grants {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b SlotID) int {
		if a.Worker != b.Worker {
			if a.Worker < b.Worker {
				return -1
			}
			return 1
		}
		return a.Slot - b.Slot
	})
	return out
}

// assign writes the assignments of an attempt, derived from its placement alone and comparing it and the word.
func (x *stepper) assign(p *pipe, pl *record.Placement) {
	t := x.c.Tree
	for _, name := range sorted(pl.Workers) {
		a := record.Assignment{Header: record.Head, Incarnation: pl.Workers[name].Incarnation, Attempt: pl.Attempt, Scope: pl.Scope, Protocol: pl.Protocol}
		have := p.f.Tasks[name]
		if v := have.Value; v != nil && v.Attempt == a.Attempt && v.Incarnation == a.Incarnation {
			continue
		}
		for _, c := range pl.Chains {
			if c.Worker == name {
				a.Chains = append(a.Chains, c)
			}
		}
		for _, v := range sorted(pl.Enumerators) {
			if pl.Enumerators[v] == name {
				a.Enumerators = append(a.Enumerators, v)
			}
		}
		for _, v := range sorted(pl.Committers) {
			if pl.Committers[v] == name {
				a.Committers = append(a.Committers, v)
			}
		}
		x.slotsOf(p, name, &a)
		var u unit
		u.cond(t.Pipeline(x.f.ID, p.id), p.f.Word.ModRev)
		u.cond(t.Placement(x.f.ID, p.id), p.f.Placement.ModRev)
		u.write(t.Task(name, x.f.ID, p.id), have.ModRev, record.MustEncode(&a))
		x.units = append(x.units, u)
	}
}

// slotsOf names the grants that a worker's part of an attempt uses, those there are and those that this step writes,
// and adds up what they let it take.
func (x *stepper) slotsOf(p *pipe, worker string, a *record.Assignment) {
	for slot, g := range x.grantsOn(worker) {
		if g != nil && g.Pipeline == p.id && g.Attempt == a.Attempt && g.Incarnation == a.Incarnation {
			a.Slots = append(a.Slots, slot)
			a.Memory += g.Profile.Memory
		}
	}
	slices.Sort(a.Slots)
}
