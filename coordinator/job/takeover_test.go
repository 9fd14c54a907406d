package job

import (
	"fmt"
	"testing"
	"time"

	"strait/coordinator/internal/workermodel"
	"strait/kv/record"
	"strait/plan/state"
)

// TestTakeover: a new leader in every state of a job and of a pipeline that a run meets, by the table of plan/state.
// What runs is not disturbed: no attempt more than without the change, no failure, and the same result.
func TestTakeover(t *testing.T) { takeovers(t, 0) }

// TestTakeoverByAnotherClock: the new leader's clock is an hour off, so every time in the keys is wrong for it.
func TestTakeoverByAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) { takeovers(t, ahead) })
	}
}

func takeovers(t *testing.T, ahead time.Duration) {
	seen := map[string]bool{}
	// now is the state that a leader would find.
	now := func(s *sim) string {
		st := s.status()
		if st == nil {
			return "no status"
		}
		out := string(st.Phase)
		if w := s.word(1); w != nil {
			out += "/" + string(w.Phase) + "/" + string(w.Barrier.State)
			if pl := s.placed(); pl == nil || pl.Attempt != w.Attempt {
				out += "/not placed"
			}
		}
		return out
	}
	f := func(name string, attempts int64, want state.Job, begin func() *sim, happens func(s *sim) bool) {
		t.Helper()
		for at := 0; ; at++ { // a new leader after the at-th change of anything
			s := begin()
			happened, took := happens == nil, false
			for i := 0; !s.ended(); i++ {
				if i == at {
					seen[now(s)] = true
					took = true
					s.ahead = ahead
					s.elect()
				}
				if !happened {
					happened = happens(s)
				}
				rev := s.m.rev
				for range 3 {
					if s.m.rev == rev && !s.step() {
						for _, p := range s.procs {
							if s.m.rev == rev {
								s.work(p)
							}
						}
					}
				}
				if s.m.rev == rev {
					if s.lead.wake.IsZero() {
						break // nothing happens any more: the rest is for finish
					}
					s.now = s.lead.wake
				}
			}
			s.finish(fmt.Sprintf("%s, a new leader at change %d", name, at), want)
			if w := s.word(1); w != nil && int64(w.Attempt) != attempts {
				s.fatal("%s, a new leader at change %d: attempt %d, want %d", name, at, w.Attempt, attempts)
			}
			if d := s.now.Sub(t0); d > 10*time.Minute {
				s.fatal("%s, a new leader at change %d: it took %v", name, at, d)
			}
			if !took {
				return
			}
		}
	}
	for _, kind := range kinds {
		start := func() *sim { return with(t, kind, workermodel.Hooks{}, "w1", "w2") }
		f(kind, 1, state.JobFinished, start, nil)
		f(kind+", a failure", 2, state.JobFinished, func() *sim { return with(t, kind, breaks(workermodel.Drain, 1, false), "w1", "w2") }, nil)
		f(kind+", a fatal failure", map[string]int64{"two-phase": 2, "aggregated": 2, "none": 1, "upsert": 1}[kind], state.JobFailed,
			func() *sim { return with(t, kind, breaks(workermodel.Drain, 9, true), "w1", "w2") }, nil)
	}
	f("a worker vanishes under two leaders", 2, state.JobFinished, func() *sim { return with(t, "two-phase", hanging(workermodel.Drain, 1), "w1", "w2", "w3") }, func(s *sim) bool {
		if w := s.word(1); w == nil || w.Phase != state.PipelineRunning {
			return false
		}
		for _, p := range s.procs {
			if s.placed().Workers[p.name].Incarnation == p.brain.Incarnation {
				s.kill(p)
				s.expire(p)
				return true
			}
		}
		return false
	})
	f("cancelled while it runs", 2, state.JobCancelled, func() *sim { return with(t, "two-phase", hanging(workermodel.Drain, 1), "w1", "w2") }, func(s *sim) bool {
		if w := s.word(1); w == nil || w.Phase != state.PipelineRunning {
			return false
		}
		s.wish(record.WishCancelled)
		return true
	})
	f("pending until a worker comes", 1, state.JobFinished, func() *sim { return with(t, "none", workermodel.Hooks{}, "w1") }, func(s *sim) bool {
		if len(s.procs) == 1 && s.procs[0].alive && s.status() == nil {
			s.kill(s.procs[0])
			s.expire(s.procs[0])
		}
		if st := s.status(); st == nil || st.Phase != state.JobPending {
			return false
		}
		s.start("w2", 2)
		return true
	})
	for _, want := range []string{"no status", "SUBMITTED", "PENDING", "SCHEDULED/deploying/", "RUNNING/running/", "RUNNING/running/open", "RUNNING/running/complete",
		"CLOSING/stopped/complete", "RESTARTING/deploying//not placed", "RESTARTING/deploying/", "CLOSING/closing/", "CLOSING/closing//not placed"} {
		if !seen[want] {
			t.Errorf("no leader began at %s; at %v", want, sorted(seen))
		}
	}
}
