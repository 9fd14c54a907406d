package history

import (
	"cmp"
	"fmt"
	"slices"

	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// pipe is one pipeline of one job.
type pipe struct {
	job plan.JobID
	id  plan.PipelineID
}

// group is a task group of an attempt.
type group struct {
	pipe
	attempt plan.Attempt
	chain   plan.ChainID
	index   int
}

// owner is one life of a worker.
type owner struct {
	worker      string
	incarnation int64
}

func (o owner) String() string { return fmt.Sprintf("%s (incarnation %d)", o.worker, o.incarnation) }

// world is the tree at one revision, and what may never be said otherwise.
type world struct {
	tree   keys.Tree
	now    map[string]kv.Entry
	before map[string]kv.Entry // of the keys that this revision changes
	owners map[group]owner
	lead   map[string]kv.Entry            // the keys of the election
	slots  map[string]map[string]kv.Entry // worker → its grants
	rev    int64
	faults []string
}

// Check walks through revisions that follow on the entries first, and lists what breaks the rules.
func Check(tree keys.Tree, first []kv.Entry, revs []Revision) []string {
	w := &world{tree: tree, now: map[string]kv.Entry{}, owners: map[group]owner{}, lead: map[string]kv.Entry{}, slots: map[string]map[string]kv.Entry{}}
	for _, e := range first {
		w.set(kv.Change{Entry: e})
	}
	for _, r := range revs {
		w.rev, w.before = r.Rev, map[string]kv.Entry{}
		led := len(w.lead) > 0
		for _, c := range r.Changes {
			w.before[c.Entry.Key] = w.now[c.Entry.Key]
			w.set(c)
		}
		for _, c := range r.Changes {
			w.change(c, led)
		}
	}
	return w.faults
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf("revision %d: ", w.rev)+fmt.Sprintf(format, args...))
}

// was is a key as it stood before this revision.
func (w *world) was(key string) kv.Entry {
	if e, changed := w.before[key]; changed {
		return e
	}
	return w.now[key]
}

// set takes one change over.
func (w *world) set(c kv.Change) {
	key := c.Entry.Key
	put := func(m map[string]kv.Entry) {
		if c.Deleted {
			delete(m, key)
		} else {
			m[key] = c.Entry
		}
	}
	put(w.now)
	switch p, _ := w.tree.Parse(key); p.Kind {
	case keys.KindLeader:
		put(w.lead)
	case keys.KindSlot:
		if w.slots[p.Worker] == nil {
			w.slots[p.Worker] = map[string]kv.Entry{}
		}
		put(w.slots[p.Worker])
	}
}

// leaders says what only a leader writes.
func leaders(k keys.Kind) bool {
	switch k {
	case keys.KindJobStatus, keys.KindHistory, keys.KindPlan, keys.KindPipeline, keys.KindPlacement, keys.KindTask, keys.KindCheckpoint, keys.KindSlot:
		return true
	}
	return false
}

func (w *world) change(c kv.Change, led bool) {
	key := c.Entry.Key
	p, ok := w.tree.Parse(key)
	if !ok {
		return
	}
	if leaders(p.Kind) && !led {
		w.fault("%s is written while nobody leads", key)
	}
	old := w.before[key]
	if c.Deleted {
		w.deleted(p, key, old)
		return
	}
	switch p.Kind {
	case keys.KindPipeline:
		w.word(p, decode[record.Word](w, old), decode[record.Word](w, c.Entry))
	case keys.KindPlacement:
		w.placement(p, decode[record.Placement](w, old), decode[record.Placement](w, c.Entry))
	case keys.KindTask:
		w.assignment(p, decode[record.Assignment](w, c.Entry))
	case keys.KindSlot:
		w.grant(p, decode[record.Grant](w, old), decode[record.Grant](w, c.Entry))
	case keys.KindTaskStatus:
		w.status(p, decode[record.TaskStatus](w, old), decode[record.TaskStatus](w, c.Entry))
	case keys.KindAck:
		w.ack(p, decode[record.Ack](w, old), decode[record.Ack](w, c.Entry))
	case keys.KindCheckpoint:
		w.checkpoint(p, decode[record.Checkpoint](w, old), decode[record.Checkpoint](w, c.Entry))
	case keys.KindJobStatus:
		w.job(p, decode[record.JobStatus](w, old), decode[record.JobStatus](w, c.Entry))
	case keys.KindWorker:
		if old.Exists() && old.CreateRev == c.Entry.CreateRev && old.Lease != c.Entry.Lease {
			w.fault("worker %s goes from one lease to another", p.Worker)
		}
	}
}

// decode reads a record; nil where there is none.
func decode[T any](w *world, e kv.Entry) *T {
	if !e.Exists() {
		return nil
	}
	v, err := record.Decode[T](e.Value)
	if err != nil {
		w.fault("%s: %v", e.Key, err)
		return nil
	}
	return v
}

func (w *world) deleted(p keys.Parsed, key string, old kv.Entry) {
	if !old.Exists() {
		return
	}
	switch p.Kind {
	case keys.KindPipeline:
		word := decode[record.Word](w, old)
		if word != nil && word.Phase != state.PipelineStopped {
			w.fault("%s is deleted in phase %s", key, word.Phase)
		}
		for g := range w.owners { // the next job of this id begins anew
			if g.pipe == (pipe{p.Job, p.Pipeline}) {
				delete(w.owners, g)
			}
		}
	case keys.KindCheckpoint:
		if s := decode[record.JobStatus](w, w.was(w.tree.JobStatus(p.Job))); s != nil && !s.Phase.Terminal() {
			if c := decode[record.Checkpoint](w, old); c == nil || c.State != "deleting" {
				w.fault("%s is deleted while its job is %s", key, s.Phase)
			}
		}
	case keys.KindSlot:
		if g := decode[record.Grant](w, old); g != nil {
			w.takenBack(p, key, g)
		}
	}
}

// takenBack: a slot is free again once what ran in it has stopped, or its worker is gone, or it never was used.
func (w *world) takenBack(p keys.Parsed, key string, g *record.Grant) {
	if w.was(w.tree.Worker(p.Worker)).CreateRev != g.Incarnation {
		return
	}
	s := decode[record.TaskStatus](w, w.was(w.tree.TaskStatus(p.Worker, g.Job, g.Pipeline)))
	if s != nil && s.Incarnation == g.Incarnation && s.Stopped >= g.Attempt {
		return
	}
	a := decode[record.Assignment](w, w.was(w.tree.Task(p.Worker, g.Job, g.Pipeline)))
	if a == nil || a.Incarnation != g.Incarnation || a.Attempt < g.Attempt || !slices.Contains(a.Slots, int(p.Number)) {
		return // nobody was told of it
	}
	w.fault("%s is taken back from job %s, attempt %d, which has not stopped on worker %s", key, g.Job, g.Attempt, p.Worker)
}

func (w *world) word(p keys.Parsed, from, to *record.Word) {
	if to == nil {
		return
	}
	where := fmt.Sprintf("job %s, pipeline %d", p.Job, p.Pipeline)
	if from == nil {
		if to.Attempt != 1 || to.Completed != 0 || to.Barrier.ID != 0 {
			w.fault("%s begins at attempt %d, barrier %d", where, to.Attempt, to.Barrier.ID)
		}
		return
	}
	raised := to.Attempt != from.Attempt
	switch {
	case raised && to.Attempt != from.Attempt+1:
		w.fault("%s: attempt %d becomes %d", where, from.Attempt, to.Attempt)
	case raised && to.Barrier.State == record.BarrierOpen:
		w.fault("%s: attempt %d begins with barrier %d open", where, to.Attempt, to.Barrier.ID)
	case from.Phase == state.PipelineStopped && (raised || to.Phase != state.PipelineStopped || to.Completed != from.Completed || to.Outcome != from.Outcome):
		w.fault("%s has stopped and becomes %s, attempt %d, outcome %s", where, to.Phase, to.Attempt, to.Outcome)
	case from.Phase != to.Phase:
		if err := state.Move(from.Phase, to.Phase); err != nil {
			w.fault("%s: %v", where, err)
		}
	}
	grows(w, where+": barrier", from.Barrier.ID, to.Barrier.ID)
	grows(w, where+": completed checkpoint", from.Completed, to.Completed)
	grows(w, where+": committed checkpoint", from.Committed, to.Committed)
	if to.Committed > to.Completed || to.Completed > to.Barrier.ID {
		w.fault("%s: committed %d, completed %d, barrier %d", where, to.Committed, to.Completed, to.Barrier.ID)
	}
	if to.Completed == from.Completed {
		return
	}
	if from.Barrier.State != record.BarrierOpen || from.Barrier.ID != to.Completed || raised || from.Phase != state.PipelineRunning {
		w.fault("%s: checkpoint %d completes while barrier %d is %s, attempt %d to %d, phase %s", where, to.Completed, from.Barrier.ID, from.Barrier.State, from.Attempt, to.Attempt, from.Phase)
	}
	if e := w.now[w.tree.Checkpoint(p.Job, p.Pipeline, to.Completed)]; e.CreateRev != w.rev {
		w.fault("%s: checkpoint %d completes at revision %d, its key was made at %d", where, to.Completed, w.rev, e.CreateRev)
	}
}

func grows[T cmp.Ordered](w *world, what string, from, to T) {
	if to < from {
		w.fault("%s goes from %v to %v", what, from, to)
	}
}

// own notes who has a task group; it is said once.
func (w *world) own(p keys.Parsed, a plan.Attempt, c record.PlacedChain, o owner) {
	for i := c.From; i < c.To; i++ {
		g := group{pipe{p.Job, p.Pipeline}, a, c.Chain, i}
		if was, taken := w.owners[g]; taken && was != o {
			w.fault("task group %d/%d/%d of job %s, attempt %d, belongs to %s and is given to %s", p.Pipeline, c.Chain, i, p.Job, a, was, o)
		}
		w.owners[g] = o
	}
}

func (w *world) placement(p keys.Parsed, from, to *record.Placement) {
	if to == nil {
		return
	}
	where := fmt.Sprintf("job %s, pipeline %d", p.Job, p.Pipeline)
	if from != nil && to.Attempt <= from.Attempt {
		w.fault("%s: attempt %d is placed over attempt %d", where, to.Attempt, from.Attempt)
	}
	if word := decode[record.Word](w, w.now[w.tree.Pipeline(p.Job, p.Pipeline)]); word == nil || word.Attempt != to.Attempt {
		w.fault("%s: attempt %d is placed beside another control word", where, to.Attempt)
	}
	for name, at := range to.Workers {
		if live := w.now[w.tree.Worker(name)].CreateRev; live != at.Incarnation {
			w.fault("%s: attempt %d is placed on incarnation %d of worker %s, which is %d", where, to.Attempt, at.Incarnation, name, live)
		}
	}
	seen := map[group]bool{}
	for _, c := range to.Chains {
		at, ok := to.Workers[c.Worker]
		if !ok {
			w.fault("%s: attempt %d: worker %s has a chain and no address", where, to.Attempt, c.Worker)
		}
		for i := c.From; i < c.To; i++ {
			g := group{pipe{p.Job, p.Pipeline}, to.Attempt, c.Chain, i}
			if seen[g] {
				w.fault("%s: task group %d/%d of attempt %d is placed twice", where, c.Chain, i, to.Attempt)
			}
			seen[g] = true
		}
		w.own(p, to.Attempt, c, owner{c.Worker, at.Incarnation})
	}
}

func (w *world) assignment(p keys.Parsed, a *record.Assignment) {
	if a == nil {
		return
	}
	where := fmt.Sprintf("assignment of job %s, pipeline %d, attempt %d to worker %s", p.Job, p.Pipeline, a.Attempt, p.Worker)
	pl := decode[record.Placement](w, w.now[w.tree.Placement(p.Job, p.Pipeline)])
	if pl == nil || pl.Attempt != a.Attempt || pl.Workers[p.Worker].Incarnation != a.Incarnation {
		w.fault("%s, incarnation %d: it is not so placed", where, a.Incarnation)
	}
	for _, c := range a.Chains {
		if c.Worker != p.Worker {
			w.fault("%s names a chain of worker %s", where, c.Worker)
		}
		w.own(p, a.Attempt, c, owner{p.Worker, a.Incarnation})
	}
	for _, n := range a.Slots {
		g := decode[record.Grant](w, w.now[w.tree.Slot(p.Worker, n)])
		if g == nil || g.Job != p.Job || g.Pipeline != p.Pipeline || g.Attempt != a.Attempt || g.Incarnation != a.Incarnation {
			w.fault("%s uses slot %d, which is not granted to it", where, n)
		}
	}
}

func (w *world) grant(p keys.Parsed, from, to *record.Grant) {
	if to == nil {
		return
	}
	what := fmt.Sprintf("slot %d of worker %s", p.Number, p.Worker)
	// A grant on a life of the worker that is over grants nothing: the slots of the next life are others.
	over := from != nil && from.Incarnation != to.Incarnation && w.was(w.tree.Worker(p.Worker)).CreateRev != from.Incarnation
	if from != nil && !over && (from.Job != to.Job || from.Pipeline != to.Pipeline || from.Incarnation != to.Incarnation || to.Attempt < from.Attempt) {
		w.fault("%s of job %s, pipeline %d, attempt %d, incarnation %d is granted to job %s, pipeline %d, attempt %d, incarnation %d", what,
			from.Job, from.Pipeline, from.Attempt, from.Incarnation, to.Job, to.Pipeline, to.Attempt, to.Incarnation)
	}
	e := w.now[w.tree.Worker(p.Worker)]
	live := decode[record.Worker](w, e)
	switch {
	case live == nil || e.CreateRev != to.Incarnation:
		w.fault("%s is granted on incarnation %d, which is %d", what, to.Incarnation, e.CreateRev)
		return
	case !live.Dynamic && p.Number >= int64(live.Slots):
		w.fault("%s is granted, the worker has %d slots", what, live.Slots)
	case !live.Dynamic:
		return
	}
	var cpu int
	var memory int64
	for _, e := range w.slots[p.Worker] {
		if g := decode[record.Grant](w, e); g != nil && g.Incarnation == to.Incarnation {
			cpu, memory = cpu+g.Profile.MilliCPU, memory+g.Profile.Memory
		}
	}
	if cpu > live.CPU*1000 || memory > live.Memory {
		w.fault("with %s worker %s has given away %d thousandths of its %d cores and %d of its %d bytes", what, p.Worker, cpu, live.CPU, memory, live.Memory)
	}
}

// alive: a worker writes only while the incarnation it names lives.
func (w *world) alive(what string, p keys.Parsed, incarnation int64) {
	if live := w.was(w.tree.Worker(p.Worker)).CreateRev; live != incarnation {
		w.fault("%s is written by incarnation %d of worker %s, which is %d", what, incarnation, p.Worker, live)
	}
}

func (w *world) status(p keys.Parsed, from, to *record.TaskStatus) {
	if to == nil {
		return
	}
	what := fmt.Sprintf("status of job %s, pipeline %d", p.Job, p.Pipeline)
	w.alive(what, p, to.Incarnation)
	if from != nil && from.Incarnation == to.Incarnation {
		grows(w, what+" on worker "+p.Worker+": attempt", from.Attempt, to.Attempt)
		grows(w, what+" on worker "+p.Worker+": stopped attempt", from.Stopped, to.Stopped)
	}
	if word := decode[record.Word](w, w.was(w.tree.Pipeline(p.Job, p.Pipeline))); word != nil && to.Attempt > word.Attempt {
		w.fault("%s speaks of attempt %d, the control word is at %d", what, to.Attempt, word.Attempt)
	}
}

func (w *world) ack(p keys.Parsed, from, to *record.Ack) {
	if to == nil {
		return
	}
	what := fmt.Sprintf("ack of checkpoint %d of job %s, pipeline %d", to.Checkpoint, p.Job, p.Pipeline)
	w.alive(what, p, to.Incarnation)
	word := decode[record.Word](w, w.was(w.tree.Pipeline(p.Job, p.Pipeline)))
	switch {
	case word == nil || word.Attempt != to.Attempt:
		w.fault("%s is of attempt %d, the control word is not", what, to.Attempt)
	case to.Committed > word.Completed:
		w.fault("%s: committed %d, completed is only %d", what, to.Committed, word.Completed)
	}
	if from != nil && from.Incarnation == to.Incarnation && from.Attempt == to.Attempt {
		grows(w, what+": checkpoint", from.Checkpoint, to.Checkpoint)
		grows(w, what+": committed", from.Committed, to.Committed)
	}
}

func (w *world) checkpoint(p keys.Parsed, from, to *record.Checkpoint) {
	if to == nil {
		return
	}
	what := fmt.Sprintf("checkpoint %d of job %s, pipeline %d", p.Number, p.Job, p.Pipeline)
	if from != nil {
		if from.Attempt != to.Attempt || from.Kind != to.Kind || from.Size != to.Size || !from.Started.Equal(to.Started) {
			w.fault("%s is made again", what)
		}
		return
	}
	word := decode[record.Word](w, w.now[w.tree.Pipeline(p.Job, p.Pipeline)])
	if word == nil || int64(word.Completed) != p.Number || word.Attempt != to.Attempt {
		w.fault("%s is made and the control word does not complete it", what)
	}
}

func (w *world) job(p keys.Parsed, from, to *record.JobStatus) {
	if to == nil {
		return
	}
	if from != nil && from.Phase.Terminal() && from.SpecCreated == to.SpecCreated && from.Phase != to.Phase {
		w.fault("job %s goes from %s to %s", p.Job, from.Phase, to.Phase)
	}
}
