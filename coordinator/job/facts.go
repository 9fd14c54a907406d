package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"strait/coordinator/fleet"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// Kept is one key as it was read. Absent: ModRev 0. There but not readable: Value nil and Err set.
type Kept[T any] struct {
	Value             *T
	Raw               []byte
	ModRev, CreateRev int64
	Err               error
}

// Exists tells a key from its absence.
func (k Kept[T]) Exists() bool { return k.ModRev != 0 }

func keep[T any](e kv.Entry) Kept[T] {
	if !e.Exists() {
		return Kept[T]{}
	}
	k := Kept[T]{Raw: e.Value, ModRev: e.ModRev, CreateRev: e.CreateRev}
	if k.Value, k.Err = record.Decode[T](e.Value); k.Err != nil {
		k.Value, k.Err = nil, fmt.Errorf("key %s: %w", e.Key, k.Err)
	}
	return k
}

// take is keep for what only a leader writes: a newer one may have.
func take[T any](f *Facts, e kv.Entry) Kept[T] {
	k := keep[T](e)
	if errors.Is(k.Err, record.ErrNewer) {
		f.newer[e.Key] = k.Err
	} else {
		delete(f.newer, e.Key)
	}
	return k
}

// Facts is what the keys say of one job, all at one revision. Step reads it and changes nothing in it.
type Facts struct {
	ID      plan.JobID
	Spec    Kept[record.Spec]
	Wish    kv.Entry
	Status  Kept[record.JobStatus]
	Head    Kept[record.PlanHead]
	Chunks  map[int]kv.Entry // of the plan
	Texts   map[int]kv.Entry // chunks of the job text
	History Kept[record.History]
	Pipes   map[plan.PipelineID]*Pipe
	Grants  map[SlotID]Kept[record.Grant] // that name this job

	// newer are the keys that a newer coordinator wrote, with what is said of them.
	newer map[string]error
}

// SlotID is one slot.
type SlotID struct {
	Worker string
	Slot   int
}

// Pipe is the part of one pipeline.
type Pipe struct {
	Word      Kept[record.Word]
	Placement Kept[record.Placement]
	Tasks     map[string]Kept[record.Assignment] // by worker
	Statuses  map[string]Kept[record.TaskStatus]
	Acks      map[string]Kept[record.Ack]
	Points    map[plan.CheckpointID]Kept[record.Checkpoint]
}

// NewFacts is a job of which nothing is known yet.
func NewFacts(id plan.JobID) *Facts {
	return &Facts{ID: id, Chunks: map[int]kv.Entry{}, Texts: map[int]kv.Entry{}, Pipes: map[plan.PipelineID]*Pipe{}, Grants: map[SlotID]Kept[record.Grant]{}, newer: map[string]error{}}
}

func (f *Facts) pipe(id plan.PipelineID) *Pipe {
	p := f.Pipes[id]
	if p == nil {
		p = &Pipe{Tasks: map[string]Kept[record.Assignment]{}, Statuses: map[string]Kept[record.TaskStatus]{},
			Acks: map[string]Kept[record.Ack]{}, Points: map[plan.CheckpointID]Kept[record.Checkpoint]{}}
		f.Pipes[id] = p
	}
	return p
}

// Tells says that keys of a kind are facts of the one job they name, which Set takes. The history is one, too, but may
// be all that is left of a job.
func Tells(k keys.Kind) bool {
	switch k {
	case keys.KindJob, keys.KindWish, keys.KindJobStatus, keys.KindPlan, keys.KindJobText, keys.KindPipeline, keys.KindPlacement,
		keys.KindTask, keys.KindTaskStatus, keys.KindAck, keys.KindCheckpoint:
		return true
	}
	return false
}

// Set takes a key of the job as it is now; a deleted one has ModRev 0. Grants go through SetGrant.
func (f *Facts) Set(k keys.Parsed, e kv.Entry) {
	switch k.Kind {
	case keys.KindJob:
		f.Spec = keep[record.Spec](e)
	case keys.KindWish:
		f.Wish = e
	case keys.KindJobStatus:
		f.Status = keep[record.JobStatus](e)
	case keys.KindHistory:
		f.History = keep[record.History](e)
	case keys.KindPlan:
		if k.Number < 0 {
			f.Head = take[record.PlanHead](f, e)
		} else {
			set(f.Chunks, int(k.Number), e, e.Exists())
		}
	case keys.KindJobText:
		set(f.Texts, int(k.Number), e, e.Exists())
	case keys.KindPipeline:
		f.pipe(k.Pipeline).Word = take[record.Word](f, e)
	case keys.KindPlacement:
		f.pipe(k.Pipeline).Placement = take[record.Placement](f, e)
	case keys.KindTask:
		set(f.pipe(k.Pipeline).Tasks, k.Worker, take[record.Assignment](f, e), e.Exists())
	case keys.KindTaskStatus:
		set(f.pipe(k.Pipeline).Statuses, k.Worker, keep[record.TaskStatus](e), e.Exists())
	case keys.KindAck:
		set(f.pipe(k.Pipeline).Acks, k.Worker, keep[record.Ack](e), e.Exists())
	case keys.KindCheckpoint:
		set(f.pipe(k.Pipeline).Points, plan.CheckpointID(k.Number), take[record.Checkpoint](f, e), e.Exists())
	}
}

// SetGrant takes a grant that names this job, or with an absent entry one that no longer does.
func (f *Facts) SetGrant(id SlotID, e kv.Entry) {
	set(f.Grants, id, keep[record.Grant](e), e.Exists())
}

func set[K comparable, V any](m map[K]V, k K, v V, there bool) {
	if there {
		m[k] = v
	} else {
		delete(m, k)
	}
}

// Known says that a key of the job says more than that somebody put something there: without a spec and a status
// nothing is done about a job.
func (f *Facts) Known() bool { return f.Spec.Exists() || f.Status.Exists() }

// Begun says that a pipeline has a control word: the job was placed.
func (f *Facts) Begun() bool {
	for _, p := range f.Pipes {
		if p.Word.Exists() {
			return true
		}
	}
	return false
}

// Empty says that no key is left but a history.
func (f *Facts) Empty() bool {
	for _, p := range f.Pipes {
		if p.Word.Exists() || p.Placement.Exists() || len(p.Tasks)+len(p.Statuses)+len(p.Acks)+len(p.Points) > 0 {
			return false
		}
	}
	return !f.Known() && !f.Wish.Exists() && !f.Head.Exists() && len(f.Chunks)+len(f.Texts)+len(f.Grants) == 0
}

// Names calls see for every incarnation that a pipeline of the job still depends on: the holders of its control word,
// and who is in the placement of its newest attempt. Of a pipeline that has stopped it is none.
func Names(f *Facts, see func(fleet.ID)) {
	for _, p := range f.Pipes {
		w := p.Word.Value
		if w == nil || w.Phase == state.PipelineStopped {
			continue
		}
		for _, h := range w.Holders {
			see(fleet.ID{Worker: h.Worker, Incarnation: h.Incarnation})
		}
		if pl := p.placement(w.Attempt); pl != nil {
			for name, at := range pl.Workers {
				see(fleet.ID{Worker: name, Incarnation: at.Incarnation})
			}
		}
	}
}

// Concerns says whether a change of these workers may matter to the job. What runs undisturbed has to do only with the
// workers it is on: of ten thousand jobs few look up when a worker comes or goes.
func (f *Facts) Concerns(workers map[string]bool) bool {
	s := f.Status.Value
	if s == nil || s.Phase != state.JobRunning {
		return s == nil || !s.Phase.Terminal()
	}
	for _, p := range f.Pipes {
		if p.concerns(workers) {
			return true
		}
	}
	for id := range f.Grants {
		if workers[id.Worker] {
			return true
		}
	}
	return false
}

func (p *Pipe) concerns(workers map[string]bool) bool {
	if w := p.Word.Value; w != nil {
		for _, h := range w.Holders {
			if workers[h.Worker] {
				return true
			}
		}
	}
	if pl := p.Placement.Value; pl != nil && anyOf(workers, pl.Workers) {
		return true
	}
	return anyOf(workers, p.Tasks) || anyOf(workers, p.Statuses)
}

func anyOf[V any](workers map[string]bool, m map[string]V) bool {
	if len(m) > len(workers) {
		for w := range workers {
			if _, ok := m[w]; ok {
				return true
			}
		}
		return false
	}
	for w := range m {
		if workers[w] {
			return true
		}
	}
	return false
}

// placement is the placement of an attempt, nil where there is none.
func (p *Pipe) placement(a plan.Attempt) *record.Placement {
	if v := p.Placement.Value; v != nil && v.Attempt == a {
		return v
	}
	return nil
}

// status is what a worker says, if it is that incarnation that says it; else nil.
func (p *Pipe) status(worker string, incarnation int64) *record.TaskStatus {
	if v := p.Statuses[worker].Value; v != nil && v.Incarnation == incarnation {
		return v
	}
	return nil
}

// stopped says that an incarnation has stopped every attempt up to a.
func (p *Pipe) stopped(worker string, incarnation int64, a plan.Attempt) bool {
	s := p.status(worker, incarnation)
	return s != nil && s.Stopped >= a
}

// sorted gives the keys of a map in order: nothing may depend on the order of a map.
func sorted[K ~string | ~int | ~int64, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
