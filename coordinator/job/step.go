package job

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/physical"
	"strait/plan/state"
)

// Reasons of a job's status: one word for programs.
const (
	BadSpec        = "BadSpec"
	BadJob         = "BadJob"
	BadPlan        = "BadPlan"
	NotPlaceable   = "NotPlaceable"
	QueueFull      = "QueueFull"
	FleetPaused    = "FleetPaused"
	Cancelled      = "Cancelled"
	PipelineFailed = "PipelineFailed"
)

// Types of conditions.
const (
	WishRefused = "WishRefused"
	SpecChanged = "SpecChanged"
	Unreadable  = "Unreadable"   // a key of the job cannot be read: nothing is done about it
	PlanWarned  = "PlanWarnings" // what the planner has to say about the text
	Draining    = "Draining"     // a worker of it is drained; what runs there may finish
)

// stepper is one step under way.
type stepper struct {
	c     Config
	e     *Event
	f     *Facts
	s     *State
	now   time.Time
	env   logical.Env
	plan  *physical.Plan
	st    record.JobStatus
	pipes []*pipe
	units []unit
	out   Actions
	told  []told // events of this step
	// drains are the drained workers that attempts of this job wait for, as sentences
	drains []string
	unread bool // a key of the job cannot be read, and this step said so
	// granted are the slots that this step gives, or finds given by an earlier one to the same attempt.
	granted map[SlotID]*record.Grant
	// grants are those of the job by worker and slot, made when first wanted.
	grants map[string]map[int]*record.Grant
	// failing is set when a pipeline fails for good: the step is taken again, with the whole job failing.
	failing *failing
}

type failing struct{ reason, message string }

// Step says what to do about a job, given everything that is known of it. It is a function of its arguments.
//
// It takes no notice of what happened, only of what is so: an event that is missed, seen twice or seen late changes
// nothing, and a new leader takes the same steps.
func Step(c Config, s State, e Event, now time.Time) (State, Actions) {
	x := newStepper(c, s, &e, now)
	x.run(nil)
	if x.failing != nil {
		f := *x.failing
		x = newStepper(c, s, &e, now)
		x.run(&f)
	}
	return *x.s, x.out
}

func newStepper(c Config, s State, e *Event, now time.Time) *stepper {
	s = s.clone()
	if e.Planned != nil {
		s.planned = e.Planned
	}
	return &stepper{c: c, e: e, f: e.Facts, s: &s, now: now, granted: map[SlotID]*record.Grant{}}
}

func (x *stepper) run(f *failing) {
	if !x.f.Known() {
		x.strays() // Nobody asked for this job, or nobody does any more.
		return
	}
	if x.f.Status.Exists() && x.f.Status.Value == nil {
		x.out.Bug = fmt.Errorf("job %s: its status cannot be read, so nothing is done about it: %w; a newer coordinator wrote it, or a hand did: correct or delete the key", x.f.ID, x.f.Status.Err)
		return
	}
	if !x.begin() {
		return
	}
	if x.st.Phase.Terminal() {
		x.terminal()
		return
	}
	if x.alone() {
		x.emit()
		return
	}
	x.wish()
	x.specChange()
	if f != nil {
		x.fail(f.reason, f.message)
	}
	x.planning()
	x.pipelines()
	if x.failing != nil && f == nil {
		return
	}
	x.draining()
	x.phases()
	if !x.unread {
		x.clear(Unreadable)
	}
	x.emit()
}

// alone says that a key of the job cannot be read and what it means is not known: nothing is done about the job, and a
// condition says so, until somebody corrects the key or a coordinator comes that can read it.
func (x *stepper) alone() bool {
	for _, key := range sorted(x.f.newer) {
		x.unreadable("NewerVersion", fmt.Sprintf("%v; start a coordinator of that version", x.f.newer[key]))
		return true
	}
	for _, id := range sorted(x.f.Pipes) {
		word := x.f.Pipes[id].Word
		switch w := word.Value; {
		case !word.Exists():
		case w == nil:
			x.unreadable("Damaged", fmt.Sprintf("the control word of pipeline %d cannot be read: %v; correct the key, or delete it to let the job fail", id, word.Err))
			return true
		case !w.Phase.Valid() || w.Attempt < 1:
			x.unreadable("Damaged", fmt.Sprintf("the control word of pipeline %d has phase %q and attempt %d, which no leader writes; correct the key, or delete it to let the job fail", id, w.Phase, w.Attempt))
			return true
		}
	}
	return false
}

func (x *stepper) unreadable(reason, why string) {
	x.unread = true
	why = fmt.Sprintf("job %s: nothing is done about it: %s", x.f.ID, why)
	if x.condition(Unreadable, reason, why) {
		x.log(true, "job is left as it is", "why", why)
	}
}

// begin makes the status of a new job, or of a new life of its id; false: the step is done.
func (x *stepper) begin() bool {
	f := x.f
	if f.Status.Exists() {
		x.st = *f.Status.Value
		x.st.Conditions, x.st.Failures, x.st.Events = slices.Clone(x.st.Conditions), slices.Clone(x.st.Failures), slices.Clone(x.st.Events)
		if !x.st.Phase.Valid() {
			x.out.Bug = fmt.Errorf("job %s: status has phase %q, which is none; correct or delete the key", f.ID, x.st.Phase)
			return false
		}
		if !x.st.Phase.Terminal() || !f.Spec.Exists() || f.Spec.CreateRev == x.st.SpecCreated {
			return true
		}
	}
	if !f.Spec.Exists() {
		return false
	}
	if !f.Status.Exists() && f.ended(f.Spec.CreateRev) {
		// Its status was deleted by hand; ended it has all the same.
		x.st = *f.History.Value.Status()
		x.st.ObservedSpec, x.st.Failures, x.st.Events = f.Spec.ModRev, slices.Clone(x.st.Failures), slices.Clone(x.st.Events)
		return true
	}
	// The spec is compared: a write that lands late must not begin a job that has come and gone meanwhile.
	var u unit
	u.cond(x.c.Tree.Job(f.ID), f.Spec.ModRev)
	switch {
	case !f.Status.Exists() && f.History.Exists():
		u.remove(x.c.Tree.History(f.ID), f.History.ModRev) // of an earlier life
	case f.Status.Exists() && !x.forget():
		return false
	}
	x.st = record.JobStatus{Header: record.Head, Name: string(f.ID), Phase: state.JobSubmitted, ObservedSpec: f.Spec.ModRev, SpecCreated: f.Spec.CreateRev, Submitted: x.now.UTC()}
	if s := f.Spec.Value; s != nil {
		if s.Name != "" {
			x.st.Name = s.Name
		}
		if !s.Submitted.IsZero() {
			x.st.Submitted = s.Submitted.UTC()
		}
	}
	x.tell(nil, false, record.EventSubmitted, "submitted%s", of(f.Spec.Value))
	*x.s = State{}.clone()
	forgot := len(x.units) > 0
	x.units = append(x.units, u)
	if forgot {
		x.emit()
	}
	return !forgot
}

func of(s *record.Spec) string {
	if s == nil || s.File == "" {
		return ""
	}
	return " as " + s.File
}

// forget deletes what an earlier life of the id left, its history too, before the status says that another life has begun. The
// control word is compared by mod revision, which a key made anew never has again.
func (x *stepper) forget() bool {
	var u unit
	t := x.c.Tree
	for _, id := range sorted(x.f.Pipes) {
		p := x.f.Pipes[id]
		if p.Word.Exists() {
			u.deletes = append(u.deletes, t.Pipeline(x.f.ID, id))
		}
		if p.Placement.Exists() {
			u.deletes = append(u.deletes, t.Placement(x.f.ID, id))
		}
		for _, w := range sorted(p.Tasks) {
			u.deletes = append(u.deletes, t.Task(w, x.f.ID, id))
		}
		for _, w := range sorted(p.Statuses) {
			u.deletes = append(u.deletes, t.TaskStatus(w, x.f.ID, id))
		}
		for _, w := range sorted(p.Acks) {
			u.deletes = append(u.deletes, t.Ack(x.f.ID, id, w))
		}
		for _, n := range sorted(p.Points) {
			u.deletes = append(u.deletes, t.Checkpoint(x.f.ID, id, n))
		}
	}
	for _, n := range sorted(x.f.Chunks) {
		u.deletes = append(u.deletes, t.PlanChunk(x.f.ID, n))
	}
	if x.f.Head.Exists() {
		u.deletes = append(u.deletes, t.Plan(x.f.ID))
	}
	if x.f.History.Exists() {
		u.deletes = append(u.deletes, t.History(x.f.ID))
	}
	if len(u.deletes) == 0 {
		return true
	}
	if many := len(u.deletes) > maxOps-1; many {
		u.deletes = u.deletes[:maxOps-1]
		u.cond(t.JobStatus(x.f.ID), x.f.Status.ModRev)
		x.out.Write = pack([]unit{u}, nil)
		return false
	}
	x.units = append(x.units, u)
	return true
}

// wish answers a wish, once per mod revision. One older than the spec was meant for an earlier life of the id.
func (x *stepper) wish() {
	w := x.f.Wish
	if !w.Exists() || w.ModRev <= x.st.ObservedWish || w.ModRev < x.st.SpecCreated {
		return
	}
	x.st.ObservedWish = w.ModRev
	word, err := record.ParseWish(w.Value)
	switch {
	case err != nil:
		x.condition(WishRefused, "NotKnown", err.Error())
	case word == record.WishSavepoint || word == record.WishStopped:
		x.condition(WishRefused, "NotInThisBuild", fmt.Sprintf("wish %q is not in this build: it comes with periodic checkpoints; %q ends the job", word, record.WishCancelled))
	case word == record.WishCancelled:
		x.clear(WishRefused)
		x.cancel("the wish was put")
	default:
		x.clear(WishRefused)
	}
}

// specChange looks at a spec that changed under a live job.
func (x *stepper) specChange() {
	f := x.f
	switch {
	case !f.Spec.Exists():
		x.cancel("its spec was deleted")
	case f.Spec.CreateRev != x.st.SpecCreated:
		x.cancel("its spec was deleted and another one put in its place, which begins when this one has ended")
	case f.Spec.ModRev != x.st.ObservedSpec && x.st.Phase == state.JobSubmitted:
		x.st.ObservedSpec = f.Spec.ModRev // not planned yet: the new text counts
	case f.Spec.ModRev != x.st.ObservedSpec:
		x.condition(SpecChanged, "Ignored", "the spec was changed while the job lives, which changes nothing; cancel it and submit the new text as another job")
	}
}

// cancel asks a job to end, unless it is ending already.
func (x *stepper) cancel(why string) {
	switch x.st.Phase {
	case state.JobCancelling, state.JobFailing, state.JobClosing:
		return
	}
	x.move(state.JobCancelling)
	x.st.Reason, x.st.Message = Cancelled, "cancelled: "+why
	x.tell(nil, false, record.EventCancelling, "%s", why)
}

// fail ends a job as failed; the first reason stays.
func (x *stepper) fail(reason, message string) {
	switch x.st.Phase {
	case state.JobFailing, state.JobClosing:
		return
	}
	if x.st.Phase != state.JobCancelling {
		x.move(state.JobFailing)
		x.st.Reason = reason
		first, _, _ := strings.Cut(message, "\n")
		x.tell(nil, true, record.EventFailing, "%s: %s", reason, first)
	}
	x.st.Message = clip(message, maxMessage)
}

// ending says that the job is on its way to an end that is not FINISHED by itself, with the outcome it aims at.
func (x *stepper) ending() (record.Outcome, bool) {
	switch x.st.Phase {
	case state.JobCancelling:
		return record.Cancelled, true
	case state.JobFailing:
		return record.Failed, true
	}
	return "", false
}

// planning brings a submitted job to PLANNED and makes the plan known to the rest of the step.
func (x *stepper) planning() {
	f := x.f
	x.plan = x.e.Plan
	if f.Head.Exists() && (f.Head.Value == nil || f.Head.Value.Spec != x.st.SpecCreated) {
		x.plan = nil // of an earlier life, or not to be read
	}
	if x.e.PlanErr != nil && f.Head.Exists() && x.st.Phase != state.JobSubmitted {
		if _, ends := x.ending(); !ends && x.st.Phase != state.JobClosing {
			x.fail(BadPlan, fmt.Sprintf("job %s: its stored plan cannot be read: %v; submit it again", f.ID, x.e.PlanErr))
		}
	}
	if _, ends := x.ending(); x.plan == nil && !ends && x.st.Phase != state.JobClosing {
		if x.f.Begun() {
			x.fail(BadPlan, fmt.Sprintf("job %s: its stored plan is gone; submit it again", f.ID))
		} else {
			x.planNow()
		}
	}
	if x.plan == nil {
		return
	}
	if f.Head.Exists() && x.e.Plan != nil {
		x.s.planned = nil // stored
	}
	var list fault.List
	x.env = logical.ReadEnv(x.plan.Env, &list) // it was checked when it was planned
	x.st.Priority = x.env.Priority
	if x.st.Phase == state.JobSubmitted {
		x.st.Slots = x.plan.Slots(x.plan.SlotSharing)
		if x.plan.JobName != "" {
			x.st.Name = x.plan.JobName
		}
		x.move(state.JobPlanned)
		x.tell(nil, false, record.EventPlanned, "%s, %s needed", count(len(x.plan.Pipelines), "pipeline"), count(x.st.Slots, "slot"))
		if p := x.s.planned; p != nil && p.PlainSecrets != "" {
			x.tell(nil, true, record.EventPlanWarning, "%s", p.PlainSecrets)
		}
	}
}

func (x *stepper) planNow() {
	f := x.f
	if errors.Is(f.Spec.Err, record.ErrNewer) {
		x.unreadable("NewerVersion", fmt.Sprintf("%v; start a coordinator of that version, or submit the job with this one", f.Spec.Err))
		return
	}
	if f.Spec.Value == nil {
		x.fail(BadSpec, fmt.Sprintf("job %s: %v; put a spec as `stctl job submit` does", f.ID, f.Spec.Err))
		return
	}
	p := x.s.planned
	switch {
	case p == nil || p.Spec != f.Spec.ModRev:
		if x.s.asked != f.Spec.ModRev {
			x.s.asked = f.Spec.ModRev
			x.out.Plan = &PlanRequest{Spec: f.Spec.ModRev}
		}
	case p.Err != nil:
		x.fail(BadJob, p.Err.Error())
	default:
		x.storePlan(p)
	}
}

// storePlan writes chunks, then the key that names them. A plan too large for one transaction takes several; the
// key comes with the last.
func (x *stepper) storePlan(p *Planned) {
	chunks, parts := record.Pack(p.Encoded)
	t := x.c.Tree
	var todo []unit
	for i, part := range parts {
		if have, ok := x.f.Chunks[i]; ok && bytes.Equal(have.Value, part) {
			continue
		}
		var u unit
		u.write(t.PlanChunk(x.f.ID, i), x.f.Chunks[i].ModRev, part)
		todo = append(todo, u)
	}
	var head unit
	head.write(t.Plan(x.f.ID), x.f.Head.ModRev, record.MustEncode(&record.PlanHead{Header: record.Head, Chunks: chunks, Spec: x.st.SpecCreated}))
	const atOnce = 14 // chunks of 48 KiB, under 1 MiB with what else the step writes
	if len(todo) > atOnce {
		x.units = append(x.units, todo[:atOnce]...)
		return
	}
	x.units = append(append(x.units, todo...), head)
	if len(p.Warnings) > 0 {
		x.condition(PlanWarned, "Warnings", strings.Join(p.Warnings, "\n"))
	}
	x.plan = p.Plan
}

// wakeAt asks for another step at the latest then.
func (x *stepper) wakeAt(t time.Time) {
	if !t.IsZero() && (x.out.Wake.IsZero() || t.Before(x.out.Wake)) {
		x.out.Wake = t
	}
}

func (x *stepper) bug(err error) {
	if x.out.Bug == nil {
		x.out.Bug = fmt.Errorf("BUG: job %s: %w", x.f.ID, err)
	}
}

func (x *stepper) log(warn bool, msg string, args ...any) {
	x.out.Log = append(x.out.Log, Line{warn, msg, append([]any{"job", string(x.f.ID)}, args...)})
}

// pipe is a pipeline within a step: the word as it was and as it will be.
type pipe struct {
	id   plan.PipelineID
	plan *physical.Pipeline // nil where the plan cannot be read
	f    *Pipe
	was  *record.Word // nil: none yet
	word *record.Word // a copy, changed by the step
	// beside what is written together with the word, or not at all
	beside unit
	// placed is the placement that this step writes
	placed *record.Placement
	waits  string // for people
	clean  bool   // stopped, and nothing of it runs any more
}
