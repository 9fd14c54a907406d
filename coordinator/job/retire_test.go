package job

import (
	"fmt"
	"testing"
	"time"

	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// ofJob are the keys that a job has left, without its history.
func (s *sim) ofJob() []string {
	var out []string
	for k := range s.m.now {
		if p, ok := tree.Parse(k); ok && p.Job == simJob && p.Kind != keys.KindHistory || p.Kind == keys.KindSlot {
			out = append(out, k)
		}
	}
	return out
}

// retired goes on from the end of a job until nothing but its history is left, and looks that no write that lands
// later still brings anything back.
func (s *sim) retired(what string) {
	s.t.Helper()
	had := s.m.now[tree.History(simJob)].Exists() // not of a job that was gone before anybody saw it
	if !s.settle(func() bool { return len(s.ofJob()) == 0 }) {
		s.fatal("%s: keys are left: %v", what, s.ofJob())
	}
	for _, f := range s.late {
		f()
	}
	s.late = nil
	s.settle(func() bool { return false })
	if left := s.ofJob(); len(left) > 0 || len(s.bad) > 0 {
		s.fatal("%s: came back: %v", what, left)
	}
	if h := s.m.now[tree.History(simJob)]; had && !h.Exists() && !s.noHistory {
		s.fatal("%s: the history is gone", what)
	}
}

// TestRetire: the keys of an ended job go while a leader dies at any write of it; spec and status go last, and the id
// is free for another life that meets nothing of the first.
func TestRetire(t *testing.T) {
	for kill := range 8 {
		for _, how := range []string{"", "die", "lost", "unknown", "late"} {
			what := fmt.Sprintf("leader %q at write %d", how, kill)
			s := with(t, "two-phase", workermodel.Hooks{}, "w1", "w2")
			s.finish(what, state.JobFinished)
			first := s.m.now[tree.Job(simJob)].CreateRev
			s.m.do(func(m map[string]kv.Entry, rev int64) {
				for n := range 300 { // as a long streaming job leaves them
					put(m, tree.Checkpoint(simJob, 1, plan.CheckpointID(10+n)), record.MustEncode(&record.Checkpoint{Header: record.Head}), rev)
				}
				put(m, tree.JobTextChunk(simJob, 0), []byte("x"), rev)
				put(m, tree.Wish(simJob), []byte("cancelled"), rev)
			})
			ended := s.now
			began := s.writes
			check := func() {
				if n := len(s.ofJob()); n > 0 && !(s.m.now[tree.Job(simJob)].Exists() && s.m.now[tree.JobStatus(simJob)].Exists()) {
					s.bad = append(s.bad, fmt.Sprintf("spec or status is gone and %d keys are left", n))
				}
				if n := len(s.ofJob()); n == 0 && s.now.Sub(ended) < time.Minute {
					s.bad = append(s.bad, "deleted before those who watch could see the end")
				}
			}
			hook := func(n int) string {
				s.after = check
				if how != "" && n == began+1+kill {
					return how
				}
				return ""
			}
			for range 40 {
				s.settleWith(hook, func() bool { return len(s.ofJob()) == 0 })
				if next := s.lead.wake; !next.IsZero() && next.After(s.now) {
					s.now = next
				}
			}
			s.retired(what)
			s.target = workermodel.NewTarget() // the model names commits by the id alone, not by its life
			for _, p := range s.procs {
				p.brain.Target = s.target
			}
			s.submit("again")
			s.finish(what+", again", state.JobFinished)
			s.retired(what + ", again")
			h, _ := record.Decode[record.History](s.m.now[tree.History(simJob)].Value)
			if h.SpecCreated <= first || len(h.Failures) > 0 {
				s.fatal("%s: history %+v of a life that began at %d", what, h, first)
			}
		}
	}
}

// TestRetireByHand: keys deleted by hand on the way do not begin an ended job again, nor keep it for ever.
func TestRetireByHand(t *testing.T) {
	for _, c := range []struct {
		name string
		gone []string
	}{{"status", []string{tree.JobStatus(simJob)}}, {"spec", []string{tree.Job(simJob)}}, {"history", []string{tree.History(simJob)}},
		{"plan", []string{tree.Plan(simJob), tree.PlanChunk(simJob, 0)}}, {"word", []string{tree.Pipeline(simJob, 1)}}} {
		s := with(t, "none", workermodel.Hooks{}, "w1")
		s.finish(c.name, state.JobFinished)
		done := s.target.Done
		s.m.do(func(m map[string]kv.Entry, rev int64) {
			for _, k := range c.gone {
				delete(m, k)
			}
		})
		s.noHistory = c.name == "history"
		s.retired(c.name)
		if s.target.Done != done {
			s.fatal("%s: it ran again", c.name)
		}
	}
}

// TestLeftoversKeepKeys: what could not be cleaned at the target is named by the keys of the job, which stay until its
// history goes; then all goes together.
func TestLeftoversKeepKeys(t *testing.T) {
	s := with(t, "two-phase", hanging(workermodel.Abandon, 99), "w1")
	s.procs[0].brain.Hooks.Fail = breaks(workermodel.Drain, 9, true).Fail
	if !s.settle(func() bool { return s.ended() && s.clean() }) {
		s.fatal("no end")
	}
	s.now = s.now.Add(time.Hour)
	s.settle(func() bool { return false })
	if !s.m.now[tree.Pipeline(simJob, 1)].Exists() || !s.m.now[tree.Job(simJob)].Exists() {
		s.fatal("the keys of a job with leftovers are gone")
	}
	s.retire = true
	s.noHistory = true
	s.retired("retired")
	if s.m.now[tree.History(simJob)].Exists() {
		s.fatal("the history is left")
	}
}

// TestStrays: what a worker writes about a job that nobody knows any more goes; what belongs to a submit under way
// stays.
func TestStrays(t *testing.T) {
	s := newSim(t, simPlan("none", 1), 1, 1)
	s.m.do(func(m map[string]kv.Entry, rev int64) {
		put(m, tree.TaskStatus("w1", simJob, 1), record.MustEncode(&record.TaskStatus{Header: record.Head}), rev)
		put(m, tree.Ack(simJob, 1, "w1"), record.MustEncode(&record.Ack{Header: record.Head}), rev)
		put(m, tree.JobTextChunk(simJob, 0), []byte("x"), rev)
		put(m, tree.Wish(simJob), []byte("running"), rev)
	})
	s.settle(func() bool { return false })
	if left := s.ofJob(); len(left) != 2 || len(s.bad) > 0 {
		s.fatal("left: %v", left)
	}
}
