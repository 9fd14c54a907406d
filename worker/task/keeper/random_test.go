package keeper

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// TestRandom: a coordinator that only makes legal moves, a worker that sees any part of them, results that come in
// any order.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Worker: "w", Incarnation: 7, Pipeline: 1}
		w := record.Word{Attempt: 1, Scope: record.ScopeAll, Phase: deploying, Abandoned: true}
		rev, seen := int64(1), int64(0)
		assigned := (*record.Assignment)(nil)
		var due []Event // results of actions
		live := plan.Attempt(0)
		barrier, acked, committed := plan.CheckpointID(0), map[plan.CheckpointID]bool{}, map[plan.CheckpointID]bool{}
		check := func(actions []Action) {
			for _, a := range actions {
				switch a := a.(type) {
				case Build:
					if live != 0 {
						t.Fatalf("attempt %d is built beside %d", a.Assignment.Attempt, live)
					}
					live, barrier = a.Assignment.Attempt, 0
					due = append(due, Built{Attempt: live})
				case Stop:
					if a.Attempt != live {
						t.Fatalf("stop of %d, %d lives", a.Attempt, live)
					}
					due = append(due, Ended{Attempt: live})
				case Barrier:
					if a.Barrier.ID <= barrier || a.Attempt != live {
						t.Fatalf("barrier %d behind %d", a.Barrier.ID, barrier)
					}
					barrier = a.Barrier.ID
					due = append(due, Snapped{live, barrier})
				case Ack:
					if acked[a.N] {
						t.Fatalf("second ack of %d", a.N)
					}
					acked[a.N] = true
					due = append(due, Acked{a.Attempt, a.N, 1})
				case Commit:
					if committed[a.N] || a.N > w.Completed || a.N <= s.Word.Restore {
						t.Fatalf("commit of %d: completed %d, restored %d", a.N, w.Completed, s.Word.Restore)
					}
					committed[a.N] = true
					due = append(due, Committed{a.Attempt, a.N})
				case Replay:
					if !s.noneMayAct() || a.N > w.Completed {
						t.Fatalf("replay of %d beside %v", a.N, s.Word.Holders)
					}
					due = append(due, Replayed{a.Attempt, a.N})
				case Abandon:
					if len(s.Word.Holders) > 0 {
						t.Fatal("abandoned beside a holder")
					}
					due = append(due, Abandoned{a.Attempt, nil})
				}
			}
		}
		step := func(e Event) {
			if end, ok := e.(Ended); ok && live == end.Attempt {
				live = 0
			}
			var actions []Action
			s, actions = Step(s, e)
			check(actions)
			if r := Report(s); r != nil && s.Part != nil && s.Part.Life != Stopped && r.Stopped >= s.Part.Attempt {
				t.Fatalf("%d is reported stopped and is %d", r.Stopped, s.Part.Life)
			}
			// A step that changes nothing asks for nothing.
			if _, actions := Step(s, Groups{}); len(actions) > 0 {
				t.Fatalf("asked again for %s", words(actions))
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2:
				if seen < rev {
					seen = rev
					now := w
					step(Word{&now, rev})
				}
			case 3, 4:
				if len(due) > 0 {
					i := rapid.IntRange(0, len(due)-1).Draw(t, "result")
					e := due[i]
					due = slices.Delete(due, i, i+1)
					if end, ok := e.(Ended); ok && slices.ContainsFunc(due, func(e Event) bool { b, ok := e.(Built); return ok && b.Attempt == end.Attempt }) {
						due = append(due, e) // a stop waits for the build
						continue
					}
					step(e)
				}
			case 5:
				if w.Phase != stopped_ && (assigned == nil || assigned.Attempt < w.Attempt) {
					assigned = assignment(w.Attempt, w.Scope, "sink")
					step(Assignment{Value: assigned})
				}
			default:
				if next(t, &w) {
					rev++
				}
			}
		}
		// Convergence: the newest word and all results; then nothing is asked for any more.
		now := w
		step(Word{&now, rev})
		for len(due) > 0 {
			i := 0
			if _, ok := due[0].(Ended); ok && len(due) > 1 {
				i = 1
			}
			e := due[i]
			due = slices.Delete(due, i, i+1)
			step(e)
		}
		if p := s.Part; p != nil && (w.Phase == stopped_ || w.Attempt > p.Attempt) && p.Life != Stopped {
			t.Fatalf("attempt %d is %d under word %+v", p.Attempt, p.Life, w)
		}
	})
}

// next is one legal move of a coordinator.
func next(t *rapid.T, w *record.Word) bool {
	raise := func(phase state.Pipeline, scope record.Scope) {
		w.Attempt++
		w.Phase, w.Scope, w.Restore, w.Abandoned = phase, scope, w.Completed, false
		w.Holders = []record.Holder{{Worker: "x"}}
		if w.Barrier.State == record.BarrierOpen {
			w.Barrier.State = record.BarrierAborted
		}
	}
	switch rapid.SampledFrom([]string{"run", "trigger", "abort", "complete", "committed", "restart", "close", "stop", "holder"}).Draw(t, "move") {
	case "run":
		if w.Phase == deploying && (len(w.Holders) == 0 || w.Holders[0].Waiting) {
			w.Phase = running
			return true
		}
	case "trigger":
		if w.Phase == running && w.Barrier.State != record.BarrierOpen && w.Committed == w.Completed {
			w.Barrier = record.Barrier{ID: w.Barrier.ID + 1, Kind: checkpoint.Periodic, State: record.BarrierOpen}
			return true
		}
	case "abort":
		if w.Barrier.State == record.BarrierOpen {
			w.Barrier.State = record.BarrierAborted
			return true
		}
	case "complete":
		if w.Phase == running && w.Barrier.State == record.BarrierOpen {
			w.Barrier.State, w.Completed = record.BarrierComplete, w.Barrier.ID
			return true
		}
	case "committed":
		if w.Committed < w.Completed && (w.Phase == running || w.Phase == closing) {
			w.Committed = w.Completed
			return true
		}
	case "restart":
		if w.Phase == running || w.Phase == deploying {
			raise(deploying, record.ScopeAll)
			return true
		}
	case "close":
		if w.Phase != stopped_ {
			raise(closing, record.ScopeCommitters)
			return true
		}
	case "stop":
		if w.Phase == closing && len(w.Holders) == 0 || w.Phase == running && w.Barrier.State == record.BarrierComplete && w.Committed == w.Completed {
			w.Phase, w.Outcome = stopped_, record.Finished
			return true
		}
	case "holder":
		if len(w.Holders) == 1 {
			if w.Holders[0].Waiting || rapid.Bool().Draw(t, "at once") {
				w.Holders = nil
			} else {
				w.Holders = []record.Holder{{Worker: "x", Waiting: true}}
			}
			return true
		}
	}
	return false
}
