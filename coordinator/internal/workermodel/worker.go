package workermodel

import (
	"encoding/json"
	"slices"
	"sort"

	"strait/checkpoint"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// Store is what a worker sees of the keys.
type Store interface {
	Get(key string) kv.Entry // ModRev 0: absent
	List(prefix string) []kv.Entry
}

// Ref is one pipeline of one job.
type Ref struct {
	Job      plan.JobID
	Pipeline plan.PipelineID
}

// Write is one write of a worker. Word, where it is not 0, is the mod revision of the control word that it compares.
type Write struct {
	Key   string
	Value []byte
	Ref   Ref
	Word  int64
}

// Stage is a point at which Hooks may interfere.
type Stage string

// The stages.
const (
	Build   Stage = "build"
	Run     Stage = "run"
	Drain   Stage = "drain"
	Prepare Stage = "prepare"
	Commit  Stage = "commit"
	Abandon Stage = "abandon"
	Stop    Stage = "stop"
)

// Hooks interfere. nil: nothing does.
type Hooks struct {
	Fail func(r Ref, a plan.Attempt, s Stage) *record.Failure
	Hang func(r Ref, a plan.Attempt, s Stage) bool // does not get past it
	// Lost names the workers whose link broke, as this worker finds it.
	Lost func(r Ref, a plan.Attempt) []string
	// Big makes state files that are not inline, of this name.
	Big func(data []byte) checkpoint.Handle
	// Open reads a handle that is not inline.
	Open func(h checkpoint.Handle) []byte
}

// Worker is one incarnation.
type Worker struct {
	Tree        keys.Tree
	Name        string
	Incarnation int64
	Target      *Target
	Hooks       Hooks
	Protocol    [2]int // zero: that of this build
	pipes       map[Ref]*pipe
}

type pipe struct {
	asg       *record.Assignment
	state     state.Task
	stopped   plan.Attempt
	handled   plan.CheckpointID
	prepared  []checkpoint.Prepared
	committed plan.CheckpointID
	replayed  bool
	drained   bool
	abandoned bool
	failure   *record.Failure
	links     []string
	ended     bool
}

// Step looks at the keys and returns writes to do, at most one a pipeline; what it returned before and was not done
// it returns again.
func (w *Worker) Step(s Store) []Write {
	if w.pipes == nil {
		w.pipes = map[Ref]*pipe{}
	}
	refs := map[Ref]bool{}
	for _, e := range s.List(w.Tree.Tasks(w.Name)) {
		k, ok := w.Tree.Parse(e.Key)
		a, err := record.Decode[record.Assignment](e.Value)
		if !ok || err != nil || a.Incarnation != w.Incarnation {
			continue
		}
		r := Ref{k.Job, k.Pipeline}
		refs[r] = true
		p := w.pipes[r]
		if p == nil {
			p = &pipe{}
			w.pipes[r] = p
		}
		if p.asg == nil || p.asg.Attempt < a.Attempt {
			if p.asg != nil && w.hang(r, p.asg.Attempt, Stop) {
				continue
			}
			stopped := p.stopped
			if p.asg != nil {
				stopped = max(stopped, p.asg.Attempt)
			}
			*p = pipe{asg: a, state: state.TaskInit, stopped: max(stopped, a.Attempt-1)}
		}
	}
	var out []Write
	order := make([]Ref, 0, len(w.pipes))
	for r := range w.pipes {
		order = append(order, r)
	}
	sort.Slice(order, func(i, j int) bool {
		return order[i].Job < order[j].Job || order[i].Job == order[j].Job && order[i].Pipeline < order[j].Pipeline
	})
	for _, r := range order {
		if !refs[r] {
			delete(w.pipes, r)
			continue
		}
		out = append(out, w.step(s, r, w.pipes[r])...)
	}
	return out
}

// End stops everything, as a process does that ends in order, and returns what it says last.
func (w *Worker) End(s Store) []Write {
	var out []Write
	order := make([]Ref, 0, len(w.pipes))
	for r := range w.pipes {
		order = append(order, r)
	}
	sort.Slice(order, func(i, j int) bool {
		return order[i].Job < order[j].Job || order[i].Job == order[j].Job && order[i].Pipeline < order[j].Pipeline
	})
	for _, r := range order {
		p := w.pipes[r]
		if p.asg == nil || !s.Get(w.Tree.Task(w.Name, r.Job, r.Pipeline)).Exists() {
			continue
		}
		if p.stopped < p.asg.Attempt {
			p.stopped, p.state, p.ended = p.asg.Attempt, state.TaskCancelled, true
		}
		out = append(out, w.status(s, r, p)...)
	}
	return out
}

func (w *Worker) fail(r Ref, a plan.Attempt, s Stage) *record.Failure {
	if w.Hooks.Fail == nil {
		return nil
	}
	return w.Hooks.Fail(r, a, s)
}

func (w *Worker) hang(r Ref, a plan.Attempt, s Stage) bool {
	return w.Hooks.Hang != nil && w.Hooks.Hang(r, a, s)
}

func (w *Worker) step(s Store, r Ref, p *pipe) []Write {
	e := s.Get(w.Tree.Pipeline(r.Job, r.Pipeline))
	word, err := record.Decode[record.Word](e.Value)
	if err != nil || !e.Exists() {
		return nil
	}
	a := p.asg.Attempt
	if word.Attempt < a {
		return nil
	}
	if (word.Attempt > a || word.Phase == state.PipelineStopped) && p.stopped < a {
		if w.hang(r, a, Stop) {
			return nil
		}
		p.stopped, p.state, p.ended = a, state.TaskCancelled, true
		if word.Outcome == record.Finished {
			p.state = state.TaskFinished
		}
	}
	if p.stopped >= a || p.failure != nil {
		return w.status(s, r, p)
	}
	fail := func(st Stage) bool {
		if p.failure = w.fail(r, a, st); p.failure != nil {
			p.state = state.TaskFailed
		}
		return p.failure != nil
	}
	if w.Hooks.Lost != nil && word.Attempt == a {
		if p.links = w.Hooks.Lost(r, a); len(p.links) > 0 {
			p.failure, p.state = &record.Failure{Message: "connection reset by " + p.links[0]}, state.TaskFailed
			return w.status(s, r, p)
		}
	}
	switch word.Phase {
	case state.PipelineDeploying:
		speaks := w.Protocol
		if speaks == [2]int{} {
			speaks = record.Protocol
		}
		switch {
		case p.state != state.TaskInit:
		case !record.Speaks(speaks, p.asg.Protocol):
			p.failure, p.state = &record.Failure{Message: "it does not speak that protocol"}, state.TaskFailed
		case !w.hang(r, a, Build) && !fail(Build):
			p.state = state.TaskReady
		}
	case state.PipelineRunning:
		if p.state == state.TaskInit || p.state == state.TaskReady {
			if fail(Run) {
				break
			}
			p.state = state.TaskRunning
		}
		if ack := w.replay(s, r, p, word, e.ModRev, fail); ack != nil {
			return ack
		}
		if p.failure != nil {
			break
		}
		if !w.hang(r, a, Drain) {
			if !p.drained && fail(Drain) {
				break
			}
			p.drained = true
		}
		w.abandon(s, r, p, word, fail)
		if st := w.status(s, r, p); st != nil {
			return st
		}
		if ack := w.barrier(s, r, p, word, e.ModRev, fail); ack != nil {
			return ack
		}
		if ack := w.commit(s, r, p, word, e.ModRev, fail); ack != nil {
			return ack
		}
	case state.PipelineClosing:
		if p.state == state.TaskInit {
			p.state = state.TaskReady
		}
		if slices.ContainsFunc(word.Holders, func(h record.Holder) bool { return !h.Waiting }) {
			break
		}
		if ack := w.replay(s, r, p, word, e.ModRev, fail); ack != nil {
			return ack
		}
		if p.failure == nil {
			w.abandon(s, r, p, word, fail)
		}
	}
	return w.status(s, r, p)
}

// replay commits what the restore checkpoint lists, in the committers.
func (w *Worker) replay(s Store, r Ref, p *pipe, word *record.Word, rev int64, fail func(Stage) bool) []Write {
	if word.Restore == 0 || word.Committed >= word.Restore || len(p.asg.Committers) == 0 {
		return nil
	}
	if !p.replayed {
		if w.hang(r, p.asg.Attempt, Commit) || fail(Commit) {
			return nil
		}
		for _, c := range w.manifest(s, r, word.Restore) {
			if !slices.Contains(word.Skip, c.Vertex) && slices.Contains(p.asg.Committers, c.Vertex) {
				w.Target.Commit(c)
			}
		}
		p.replayed = true
	}
	ack := &record.Ack{Header: record.Head, Incarnation: w.Incarnation, Attempt: p.asg.Attempt, Committed: word.Restore}
	return w.ack(s, r, ack, rev)
}

func (w *Worker) manifest(s Store, r Ref, n plan.CheckpointID) []checkpoint.Prepared {
	cp, err := record.Decode[record.Checkpoint](s.Get(w.Tree.Checkpoint(r.Job, r.Pipeline, n)).Value)
	if err != nil {
		w.Target.bad("the manifest of checkpoint %d is gone when it is needed", n)
		return nil
	}
	var m record.Manifest
	if err := json.Unmarshal(w.open(cp.Manifest), &m); err != nil {
		w.Target.bad("manifest of checkpoint %d: %v", n, err)
	}
	var out []checkpoint.Prepared
	for _, f := range m.Files {
		var st checkpoint.State
		if f.State.IsZero() {
			continue
		}
		if err := json.Unmarshal(w.open(f.State), &st); err != nil {
			w.Target.bad("state of %s in checkpoint %d: %v", f.Worker, n, err)
		}
		out = append(out, st.Prepared...)
	}
	return out
}

func (w *Worker) open(h checkpoint.Handle) []byte {
	if h.Location != "" && w.Hooks.Open != nil {
		return w.Hooks.Open(h)
	}
	return h.Inline
}

// barrier prepares and acks.
func (w *Worker) barrier(s Store, r Ref, p *pipe, word *record.Word, rev int64, fail func(Stage) bool) []Write {
	b := word.Barrier
	if b.State != record.BarrierOpen || w.hang(r, p.asg.Attempt, Prepare) {
		return nil
	}
	if p.handled < b.ID {
		if fail(Prepare) {
			return w.status(s, r, p)
		}
		p.handled = b.ID
		if p.prepared == nil {
			p.prepared = []checkpoint.Prepared{}
			for _, v := range w.sinks(s, r) {
				for _, c := range p.asg.Chains {
					for i := c.From; i < c.To; i++ {
						x := checkpoint.Prepared{Identity: checkpoint.Identity{Cluster: "c", Job: string(r.Job), Pipeline: r.Pipeline, Vertex: v, Attempt: p.asg.Attempt, Subtask: i}, Checkpoint: b.ID, Worker: w.Name}
						w.Target.Prepare(x)
						p.prepared = append(p.prepared, x)
					}
				}
			}
		}
	}
	st, _ := json.Marshal(&checkpoint.State{Version: 1, Worker: w.Name, Prepared: p.prepared})
	ack := &record.Ack{Header: record.Head, Incarnation: w.Incarnation, Attempt: p.asg.Attempt, Checkpoint: b.ID, Prepared: len(p.prepared)}
	ack.State = checkpoint.Handle{Inline: st, Size: int64(len(st))}
	if w.Hooks.Big != nil {
		ack.State = w.Hooks.Big(st)
	}
	if old, err := record.Decode[record.Ack](s.Get(w.Tree.Ack(r.Job, r.Pipeline, w.Name)).Value); err == nil && old.Incarnation == ack.Incarnation && old.Attempt == ack.Attempt {
		ack.Committed = old.Committed
	}
	return w.ack(s, r, ack, rev)
}

// sinks are those that prepare: all that have a committer.
func (w *Worker) sinks(s Store, r Ref) []plan.VertexID {
	pl, err := record.Decode[record.Placement](s.Get(w.Tree.Placement(r.Job, r.Pipeline)).Value)
	if err != nil {
		return nil
	}
	var out []plan.VertexID
	for v := range pl.Committers {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// commit makes visible what this attempt prepared and what is complete.
func (w *Worker) commit(s Store, r Ref, p *pipe, word *record.Word, rev int64, fail func(Stage) bool) []Write {
	n := word.Completed
	if n == 0 || word.Committed >= n || p.handled < n || len(p.prepared) == 0 && len(p.asg.Committers) == 0 {
		return nil
	}
	if p.committed < n {
		if w.hang(r, p.asg.Attempt, Commit) {
			return nil
		}
		if fail(Commit) {
			return w.status(s, r, p)
		}
		for _, c := range p.prepared {
			w.Target.Commit(c)
		}
		p.committed = n
	}
	old, err := record.Decode[record.Ack](s.Get(w.Tree.Ack(r.Job, r.Pipeline, w.Name)).Value)
	if err != nil || old.Attempt != p.asg.Attempt || old.Incarnation != w.Incarnation {
		return nil
	}
	old.Committed = n
	return w.ack(s, r, old, rev)
}

func (w *Worker) abandon(s Store, r Ref, p *pipe, word *record.Word, fail func(Stage) bool) {
	if p.abandoned || word.Abandoned || len(word.Holders) > 0 || len(p.asg.Committers) == 0 || w.hang(r, p.asg.Attempt, Abandon) || fail(Abandon) {
		return
	}
	var keep []checkpoint.Prepared
	if word.Completed > 0 {
		keep = w.manifest(s, r, word.Completed)
	}
	for _, v := range p.asg.Committers {
		w.Target.Abandon(string(r.Job), r.Pipeline, v, p.asg.Attempt, keep)
	}
	p.abandoned = true
}

func (w *Worker) status(s Store, r Ref, p *pipe) []Write {
	st := &record.TaskStatus{Header: record.Head, Incarnation: w.Incarnation, Attempt: p.asg.Attempt, State: p.state, Stopped: p.stopped,
		Drained: p.drained, Failure: p.failure, Links: p.links, Abandoned: p.abandoned}
	if p.ended {
		for _, v := range []plan.VertexID{"source.In.0", "sink.Out.0"} {
			st.Final = append(st.Final, record.VertexCount{Vertex: v, Counters: record.Counters{RowsIn: 5, RowsOut: 5}})
		}
	}
	key := w.Tree.TaskStatus(w.Name, r.Job, r.Pipeline)
	value := record.MustEncode(st)
	if string(s.Get(key).Value) == string(value) {
		return nil
	}
	return []Write{{Key: key, Value: value, Ref: r}}
}

func (w *Worker) ack(s Store, r Ref, a *record.Ack, word int64) []Write {
	key := w.Tree.Ack(r.Job, r.Pipeline, w.Name)
	value := record.MustEncode(a)
	if string(s.Get(key).Value) == string(value) {
		return nil
	}
	return []Write{{Key: key, Value: value, Ref: r, Word: word}}
}
