package task

import (
	"errors"
	"slices"
	"strings"
	"time"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/fault"
	"strait/plan/state"
	"strait/worker/secrets"
)

// Failure puts an error into the form of a status.
func (a *Attempt) Failure(err error) record.Failure {
	return NewFailure(a.cfg.Pipeline.ID, a.cfg.Attempt, a.cfg.Worker, a.cfg.Scrub, err)
}

// NewFailure puts an error of an attempt into the form of a status, without the secrets that scrub knows.
func NewFailure(p plan.PipelineID, n plan.Attempt, worker string, scrub *secrets.Scrubber, err error) record.Failure {
	f := record.Failure{Pipeline: p, Attempt: n, Worker: worker, Message: scrub.Text(err.Error()), Fatal: fault.IsFatal(err), Time: time.Now().UTC().Truncate(time.Millisecond)}
	var place *Fault
	if errors.As(err, &place) {
		f.Group, f.Vertex, f.Position = place.Group, place.Vertex, scrub.Text(place.Position)
	}
	if len(f.Message) > maxMessage {
		f.Message = strings.ToValidUTF8(f.Message[:maxMessage-3], "") + "..."
	}
	return f
}

// maxMessage keeps a status far below the limit of a value.
const maxMessage = 8 << 10

// States are the states of the task groups, coalesced to ranges.
func (a *Attempt) States() []record.GroupState {
	var out []record.GroupState
	for _, g := range a.groups {
		s := g.state()
		if n := len(out); n > 0 && out[n-1].Chain == g.id.Chain && out[n-1].State == s && out[n-1].To == g.id.Index {
			out[n-1].To++
			continue
		}
		out = append(out, record.GroupState{Chain: g.id.Chain, Range: plan.Range{From: g.id.Index, To: g.id.Index + 1}, State: s})
	}
	if len(out) > maxStates {
		return summed(out)
	}
	return out
}

// maxStates keeps a status far below the limit of a value.
const maxStates = 256

// summed gives each chain one range, in the state of its least advanced group.
func summed(all []record.GroupState) []record.GroupState {
	var out []record.GroupState
	for _, g := range all {
		n := len(out) - 1
		if n < 0 || out[n].Chain != g.Chain {
			out = append(out, g)
			continue
		}
		out[n].To = g.To
		if advance(g.State) < advance(out[n].State) {
			out[n].State = g.State
		}
	}
	return out
}

func advance(s state.Task) int {
	return slices.Index([]state.Task{state.TaskReady, state.TaskStarting, state.TaskRunning, state.TaskDrained, state.TaskPrepareClose}, s)
}

// Drained says that every source subtask and enumerator here has no further input; false where there is none.
func (a *Attempt) Drained() bool {
	any := len(a.enumerators) > 0
	for _, e := range a.enumerators {
		if !e.drained.Load() {
			return false
		}
	}
	for _, g := range a.groups {
		if g.source == nil {
			continue
		}
		any = true
		if s := g.state(); s != state.TaskDrained && !(s == state.TaskPrepareClose && g.source.drained.Load()) {
			return false
		}
	}
	return any
}
