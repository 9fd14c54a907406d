package keeper

import (
	"slices"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// Step takes an event in and says what to do about it. s is not changed; what it points to is shared.
func Step(s State, e Event) (State, []Action) {
	if s.Part != nil {
		p := *s.Part
		s.Part = &p
	}
	e.apply(&s)
	return s, s.decide()
}

// Over says that nothing is left to do here: no assignment, and nothing that has not stopped.
func (s *State) Over() bool {
	return s.Assigned == nil && (s.Part == nil || s.Part.Life == Stopped && s.Part.Released)
}

func (e Found) apply(s *State) {
	s.Unread = false
	if e.Status != nil && e.Status.Incarnation == s.Incarnation {
		s.Before = e.Status.Stopped
	}
}

func (e Assignment) apply(s *State) {
	s.Assigned = e.Value
	// Invariant 3: an assignment of another incarnation is none of ours.
	if s.Assigned != nil && s.Assigned.Incarnation != s.Incarnation {
		s.Assigned = nil
	}
	if p := s.Part; s.Assigned == nil && p != nil && p.Life.live() && p.Failure == nil && !s.Leaving && s.wanted() {
		p.Failure = &record.Failure{Pipeline: s.Pipeline, Attempt: p.Attempt, Worker: s.Worker, Time: e.Now,
			Message: "the assignment of this worker was deleted while its attempt ran"}
	}
}

func (e Word) apply(s *State) {
	if e.Value != nil && s.Word != nil && e.Rev < s.WordRev {
		return // an older read
	}
	s.Word, s.WordRev, s.WordGone = e.Value, e.Rev, e.Value == nil
}

func (Leave) apply(s *State) { s.Leaving = true }

// part returns the part of that attempt if it is the current one.
func (s *State) part(a plan.Attempt) *Part {
	if s.Part != nil && s.Part.Attempt == a {
		return s.Part
	}
	return nil
}

func (p *Part) fail(f *record.Failure) {
	if p.Failure == nil && p.Life.live() { // what fails while it is stopped fails because of that
		p.Failure = f
	}
}

func (e Built) apply(s *State) {
	p := s.part(e.Attempt)
	if p == nil || p.Life != Building {
		return
	}
	p.Aggregated = e.Aggregated
	if e.Failure != nil {
		p.fail(e.Failure)
		return
	}
	p.Life = Ready
}

func (e Failed) apply(s *State) {
	p := s.part(e.Attempt)
	if p == nil {
		return
	}
	p.fail(&e.Failure)
	// A link that broke wakes the tasks that use it: one of them may have failed by it before the link is named.
	if e.Link != "" && p.Failure != nil && p.Life != Stopped {
		p.Links = append(slices.Clip(p.Links), e.Link)
	}
}

func (e Groups) apply(s *State) {
	if p := s.part(e.Attempt); p != nil && p.Life != Stopped {
		p.Groups, p.Drained = e.Groups, e.Drained
	}
}

func (e Snapped) apply(s *State) {
	if p := s.part(e.Attempt); p != nil {
		p.Snapped = max(p.Snapped, e.N)
	}
}

func (e Acked) apply(s *State) {
	if p := s.part(e.Attempt); p != nil {
		p.Prepared = e.Prepared
	}
}

func (e Committed) apply(s *State) {
	if p := s.part(e.Attempt); p != nil {
		p.Committed = max(p.Committed, e.N)
	}
}

func (e Replayed) apply(s *State) {
	if p := s.part(e.Attempt); p != nil {
		p.Replay, p.Committed = Done, max(p.Committed, e.N)
	}
}

func (e Abandoned) apply(s *State) {
	if p := s.part(e.Attempt); p != nil {
		p.Abandon, p.Left = Done, e.Left
	}
}

func (e Ended) apply(s *State) {
	if p := s.part(e.Attempt); p != nil {
		p.Life, p.Drained = Stopped, false
		if p.Scope != record.ScopeCommitters {
			p.Final = e.Final
		}
	}
}

// current says that the word speaks of the part's attempt.
func (s *State) current() bool {
	return s.Part != nil && s.Word != nil && s.Word.Attempt == s.Part.Attempt
}

// wanted says that the word wants the part's tasks to be there. A word not yet seen wants nothing else.
func (s *State) wanted() bool {
	if s.WordGone {
		return false
	}
	return s.Word == nil || s.Word.Attempt <= s.Part.Attempt && s.Word.Phase != state.PipelineStopped
}

// decide says what to do about the state, and notes in it that it was asked for.
func (s *State) decide() []Action {
	var out []Action
	if p := s.Part; p != nil {
		leave := s.Leaving || !s.wanted() || s.Assigned == nil || s.Assigned.Attempt > p.Attempt
		if p.Life.live() && (leave || p.Failure != nil) {
			p.Life = Stopping
			out = append(out, Stop{p.Attempt})
		}
		if leave && !p.Released {
			p.Released = true
			out = append(out, Release{p.Attempt})
		}
		if s.current() && (p.Life == Ready || p.Life == Running) {
			out = s.start(out)
			out = s.commit(out)
			out = s.upstream(out)
			out = s.barrier(out)
		}
	}
	return s.build(out)
}

// commit asks for the commit of what is complete, one at a time, and for the mark once it is done.
func (s *State) commit(out []Action) []Action {
	p, w := s.Part, s.Word
	// Invariant 2: what an older attempt completed is replayed by the committer task, never from here.
	if p.Life == Running && w.Completed > w.Restore && w.Completed > p.CommitAsked && p.CommitAsked <= p.Committed {
		p.CommitAsked = w.Completed
		out = append(out, Commit{p.Attempt, w.Completed})
	}
	mine := p.Prepared > 0 || p.Aggregated || p.Replay == Done
	if mine && p.Committed > p.MarkAsked && w.Completed >= p.Committed {
		p.MarkAsked = p.Committed
		out = append(out, Mark{p.Attempt, p.Committed, s.WordRev})
	}
	return out
}

// upstream: Invariant 1, only what is committed is acknowledged to where the rows came from.
func (s *State) upstream(out []Action) []Action {
	p, w := s.Part, s.Word
	if p.Life == Running && w.Committed > w.Restore && w.Committed > p.Upstream {
		p.Upstream = w.Committed
		out = append(out, Upstream{p.Attempt, w.Committed})
	}
	return out
}

func (s *State) barrier(out []Action) []Action {
	p, w := s.Part, s.Word
	if p.Life != Running || w.Phase != state.PipelineRunning {
		return out
	}
	b := w.Barrier
	settled := b.ID
	if b.State == record.BarrierOpen {
		settled--
	}
	// Barriers between Completed and settled were aborted, also those whose abort was never seen here.
	if settled > w.Completed && settled > p.Aborted {
		p.Aborted = settled
		out = append(out, Abort{p.Attempt, settled})
	}
	if b.State != record.BarrierOpen {
		return out
	}
	if b.ID > p.Barrier {
		p.Barrier = b.ID
		out = append(out, Barrier{p.Attempt, checkpoint.Barrier{ID: b.ID, Kind: b.Kind}})
	}
	if p.Snapped == b.ID && p.AckAsked < b.ID {
		p.AckAsked = b.ID
		out = append(out, Ack{p.Attempt, b.ID, s.WordRev})
	}
	return out
}

// start lets the tasks of a ready part run, behind the replay of what the attempt restores; a committers-only part
// replays and abandons.
func (s *State) start(out []Action) []Action {
	p, w := s.Part, s.Word
	all := p.Scope != record.ScopeCommitters
	owed := plan.CheckpointID(0) // the checkpoint to be replayed, where one is
	switch {
	case all && w.Phase == state.PipelineRunning && w.Committed < w.Restore:
		owed = w.Restore
	case !all && w.Phase == state.PipelineClosing && w.Committed < w.Completed:
		owed = w.Completed
	case w.Phase != state.PipelineRunning && w.Phase != state.PipelineClosing:
		return out
	}
	if owed > 0 && p.Committers && p.Replay == NotAsked && s.noneMayAct() {
		p.Replay = Asked
		out = append(out, Replay{p.Attempt, owed, w.Skip})
	}
	if all && owed == 0 && p.Life == Ready && w.Phase == state.PipelineRunning {
		p.Life = Running
		p.Barrier = w.Barrier.ID // what is open now, or was, is not for tasks that begin behind it
		if w.Barrier.State == record.BarrierOpen {
			p.Barrier--
		}
		p.Aborted = p.Barrier
		out = append(out, Start{p.Attempt, p.Barrier + 1})
	}
	replayed := owed == 0 || p.Replay == Done
	// Invariant 2: as long as any older incarnation may still prepare, nothing is abandoned.
	if p.Committers && p.Attempt > 1 && !w.Abandoned && replayed && len(w.Holders) == 0 && p.Abandon == NotAsked {
		p.Abandon = Asked
		out = append(out, Abandon{p.Attempt, w.Completed})
	}
	return out
}

// noneMayAct says that no older incarnation can run its tasks any more; those waited out may have a last call.
func (s *State) noneMayAct() bool {
	for _, h := range s.Word.Holders {
		if !h.Waiting {
			return false
		}
	}
	return true
}

func (s *State) build(out []Action) []Action {
	a, w, p := s.Assigned, s.Word, s.Part
	switch {
	case a == nil || w == nil || s.Leaving || s.Unread:
	case a.Attempt <= s.Before: // Invariant 3: once, also where its assignment was deleted and written again
	case a.Attempt != w.Attempt || w.Phase == state.PipelineStopped:
	case p != nil && (p.Life != Stopped || !p.Released || p.Attempt >= a.Attempt): // Invariant 3: once, and after the older
	default:
		next := &Part{Attempt: a.Attempt, Scope: a.Scope, Committers: len(a.Committers) > 0, Life: Building}
		if p != nil && a.Scope == record.ScopeCommitters {
			next.Final = p.Final // it moves no rows: what the attempt before moved stays the job's summary
		}
		s.Part = next
		out = append(out, Build{a})
	}
	return out
}

// Report is the status to publish; nil when there is nothing to say.
func Report(s State) *record.TaskStatus {
	p := s.Part
	if p == nil && (s.Assigned == nil || s.Unread || s.Assigned.Attempt <= s.Before) {
		return nil // what stands there is right
	}
	r := &record.TaskStatus{Header: record.Head, Incarnation: s.Incarnation}
	if p != nil {
		r.Attempt, r.State = p.Attempt, s.task()
		r.Drained, r.Failure, r.Links, r.Left = p.Drained && p.Failure == nil, p.Failure, p.Links, p.Left
		r.Abandoned, r.Final = p.Abandon == Done, p.Final
		if p.Life == Running || p.Life == Stopping {
			r.Groups = p.Groups
		}
		r.Stopped = p.Attempt
		if p.Life != Stopped {
			r.Stopped--
			return r
		}
	} else {
		r.Attempt, r.State = s.Assigned.Attempt, state.TaskCreated
		r.Stopped = s.Assigned.Attempt - 1
	}
	// Nothing runs here, and nothing older than the word will.
	if w := s.Word; w != nil {
		last := w.Attempt - 1
		if w.Phase == state.PipelineStopped {
			last = w.Attempt
		}
		r.Stopped = max(r.Stopped, last)
	}
	if p == nil && r.Stopped >= r.Attempt {
		r.State = state.TaskCancelled
	}
	return r
}

// task is the state that stands for all tasks of the part: the least advanced, or how they ended.
func (s *State) task() state.Task {
	p := s.Part
	switch {
	case p.Failure != nil:
		return state.TaskFailed
	case p.Life == Building:
		return state.TaskInit
	case p.Life == Ready && p.Replay == Asked:
		return state.TaskStarting
	case p.Life == Ready:
		return state.TaskReady
	case p.Life == Running:
		return least(p.Groups)
	case s.current() && s.Word.Phase == state.PipelineStopped && (s.Word.Outcome == record.Finished || s.Word.Outcome == record.SavepointDone):
		if p.Life == Stopping {
			return state.TaskPrepareClose
		}
		return state.TaskFinished
	case p.Life == Stopping:
		return state.TaskCancelling
	}
	return state.TaskCancelled
}

// order of advance, the least first.
var order = []state.Task{state.TaskCreated, state.TaskInit, state.TaskWaitingRestore, state.TaskReady, state.TaskStarting,
	state.TaskRunning, state.TaskDrained, state.TaskPrepareClose, state.TaskFinished}

func least(groups []record.GroupState) state.Task {
	for _, t := range order {
		for _, g := range groups {
			if g.State == t {
				return t
			}
		}
	}
	return state.TaskStarting
}

// Urgent says whether somebody waits for the difference between two statuses; others may be written later, together.
func Urgent(old, now *record.TaskStatus) bool {
	if old == nil || now == nil {
		return now != nil && (now.State == state.TaskReady || now.Failure != nil || now.Stopped >= now.Attempt)
	}
	return old.Attempt != now.Attempt && now.State != state.TaskInit || old.Stopped != now.Stopped ||
		old.Drained != now.Drained || old.Abandoned != now.Abandoned || (old.Failure == nil) != (now.Failure == nil) ||
		old.State != now.State && (now.State == state.TaskReady || now.State.Terminal())
}
