package job

import (
	"strings"
	"testing"
	"time"

	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/record"
	"strait/plan/state"
)

// drain asks a worker to be drained, with a deadline so far from now (0: none).
func (s *sim) drain(name string, until time.Duration) {
	wish := record.WorkerDrain
	if until != 0 {
		wish = string(record.DrainWish(s.now.Add(until)))
	}
	s.m.do(func(m map[string]kv.Entry, rev int64) { put(m, tree.WorkerWish(name), []byte(wish), rev) })
	s.log("%s: %s", name, wish)
}

func (s *sim) undrain(name string) {
	s.m.do(func(m map[string]kv.Entry, rev int64) {
		put(m, tree.WorkerWish(name), []byte(record.WorkerActive), rev)
	})
}

func runs(s *sim) func() bool {
	return func() bool { w := s.word(1); return w != nil && w.Phase == state.PipelineRunning }
}

// TestLeaving: what runs on a worker that leaves begins elsewhere at once: no failure, nothing counted, no wait for
// its TTL, also where sinks make a replacement wait for the clock; the worker ends when nothing of it is left there.
func TestLeaving(t *testing.T) {
	for _, kind := range kinds {
		s := with(t, kind, hanging(workermodel.Drain, 3), "w1", "w2", "w3", "w4")
		s.until("running", runs(s))
		for i, name := range []string{"w1", "w2", "w3"} { // a rolling restart
			p := s.procs[i]
			s.sigterm(p)
			s.until(name+" has ended", func() bool { return !p.alive })
			s.start(name, 2)
			s.until("running again", runs(s))
		}
		w := s.word(1)
		if s.now != t0 || w.RestartsUsed != 0 || w.FreeRestart || len(s.status().Failures) != 0 || w.Attempt < 2 {
			s.fatal("%s: at %v: %+v, failures %+v", kind, s.now.Sub(t0), w, s.status().Failures)
		}
		for _, p := range s.procs {
			p.brain.Hooks = workermodel.Hooks{}
		}
		s.finish(kind, state.JobFinished)
		if text := s.eventText(); !strings.Contains(text, "Moving attempt 1: worker w") || strings.Contains(text, "! ") {
			s.fatal("%s: %s", kind, text)
		}
	}
}

// TestLeavingWithoutRoom: where nobody else has room the job waits for a worker; the one that left does not wait for
// it, and coming back it is taken.
func TestLeavingWithoutRoom(t *testing.T) {
	s := with(t, "two-phase", hanging(workermodel.Drain, 1), "w1")
	s.until("running", runs(s))
	p := s.procs[0]
	s.sigterm(p)
	s.until("ended", func() bool { return !p.alive })
	s.settle(func() bool { return false })
	st := s.status()
	if st.Phase != state.JobRestarting || !strings.Contains(st.Message, "no worker is there") || s.now != t0 {
		s.fatal("at %v: %s: %s", s.now.Sub(t0), st.Phase, st.Message)
	}
	s.start("w1", 2)
	s.finish("it comes back", state.JobFinished)
	if w := s.word(1); w.Attempt != 2 || w.RestartsUsed != 0 {
		s.fatal("%+v", w)
	}
}

// TestLeavingNearTheEnd: a pipeline that only commits yet is left to end where it is.
func TestLeavingNearTheEnd(t *testing.T) {
	for _, stage := range []workermodel.Stage{workermodel.Prepare, workermodel.Commit} {
		s := with(t, "two-phase", hanging(stage, 1), "w1", "w2")
		s.until("final barrier", func() bool { w := s.word(1); return w != nil && w.Barrier.ID == 1 })
		s.settle(func() bool { return true })
		s.sigterm(s.procs[0])
		for range 20 {
			s.step()
		}
		for _, p := range s.procs {
			p.brain.Hooks = workermodel.Hooks{}
		}
		s.finish(string(stage), state.JobFinished)
		if w := s.word(1); w.Attempt != 1 {
			s.fatal("%s: %+v", stage, w)
		}
	}
}

// TestDrain: nothing new goes to a drained worker. What runs there goes on, and the job says so; at the deadline it
// moves, uncounted. An undrained worker is as before.
func TestDrain(t *testing.T) {
	s := with(t, "two-phase", hanging(workermodel.Drain, 1), "w1", "w2", "w3")
	s.until("running", runs(s))
	s.drain("w1", 0)
	s.settle(func() bool { return false })
	told := func() string {
		for _, c := range s.status().Conditions {
			if c.Type == Draining {
				return c.Message
			}
		}
		return ""
	}
	if w := s.word(1); w.Attempt != 1 || !strings.Contains(told(), "w1 is drained without a deadline") || s.now != t0 {
		s.fatal("%+v: %q", w, told())
	}
	writes := s.writes
	for range 5 { // and costs nothing while it lasts
		s.now = s.now.Add(10 * time.Minute)
		s.step()
		s.elect()
		s.step()
	}
	if s.writes != writes {
		s.fatal("%d writes for nothing", s.writes-writes)
	}
	s.undrain("w1")
	s.settle(func() bool { return false })
	if told() != "" {
		s.fatal("after undrain: %q", told())
	}
	began := s.now
	s.drain("w1", 20*time.Second)
	s.until("it has moved", func() bool { return s.word(1).Attempt == 2 && runs(s)() })
	if d := s.now.Sub(began); d != 20*time.Second {
		s.fatal("it moved after %v", d)
	}
	s.finish("moved", state.JobFinished)
	w := s.word(1)
	if w.RestartsUsed != 0 || w.FreeRestart || len(s.status().Failures) != 0 || told() != "" {
		s.fatal("%+v: %q", w, told())
	}
	if text := s.eventText(); !strings.Contains(text, "Moving attempt 1: worker w1 is drained and its deadline") || strings.Count(text, "Draining") != 2 {
		s.fatal("%s", text)
	}
}

// TestDrainPending: a job that only a drained worker has room for waits, and says why.
func TestDrainPending(t *testing.T) {
	s := with(t, "none", workermodel.Hooks{}, "w1")
	s.drain("w1", time.Hour)
	s.until("pending", func() bool { st := s.status(); return st != nil && st.Phase == state.JobPending })
	if st := s.status(); !strings.Contains(st.Message, "draining") {
		s.fatal("%s", st.Message)
	}
	s.undrain("w1")
	s.finish("undrained", state.JobFinished)
}
