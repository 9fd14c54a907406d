package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"strait/coordinator/fleet"
	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// hanging makes a worker model that does not get past a stage of attempts up to some number.
func hanging(stage workermodel.Stage, upTo plan.Attempt) workermodel.Hooks {
	return workermodel.Hooks{Hang: func(_ workermodel.Ref, a plan.Attempt, s workermodel.Stage) bool { return s == stage && a <= upTo }}
}

func (s *sim) word(p plan.PipelineID) *record.Word {
	w, _ := record.Decode[record.Word](s.m.now[tree.Pipeline(simJob, p)].Value)
	return w
}

func (s *sim) until(what string, ok func() bool) {
	s.t.Helper()
	if !s.settle(ok) {
		s.fatal("%s: not reached", what)
	}
}

func with(t *testing.T, kind string, hooks workermodel.Hooks, names ...string) *sim {
	s := newSim(t, simPlan(kind, 2), 0, 0)
	s.hooks = hooks
	for _, n := range names {
		s.start(n, 2)
	}
	s.submit("x")
	return s
}

// TestFencing: an incarnation that does not confirm that it stopped is fenced after its time, waited out where its
// sinks need it, and the job goes on elsewhere.
func TestFencing(t *testing.T) {
	for _, c := range []struct {
		kind string
		most time.Duration
	}{{"none", 35 * time.Second}, {"two-phase", 75 * time.Second}, {"upsert", 75 * time.Second}} {
		s := with(t, c.kind, workermodel.Hooks{}, "w1", "w2")
		s.hooks = workermodel.Hooks{}
		for _, p := range s.procs[:1] {
			p.brain.Hooks = hanging(workermodel.Stop, 1)
		}
		s.procs[1].brain.Hooks = breaks(workermodel.Drain, 1, false)
		s.finish(c.kind, state.JobFinished)
		if s.m.now[tree.Worker("w1")].Exists() {
			s.fatal("%s: the key of w1 is there", c.kind)
		}
		if d := s.now.Sub(t0); d < 30*time.Second || d > c.most {
			s.fatal("%s: it took %v", c.kind, d)
		}
	}
}

// TestStoppedButNotGone: a job does not end while one of its tasks may still run.
func TestStoppedButNotGone(t *testing.T) {
	s := with(t, "none", hanging(workermodel.Stop, 9), "w1")
	s.until("stopped", func() bool { w := s.word(1); return w != nil && w.Phase == state.PipelineStopped })
	if s.ended() {
		s.fatal("ended beside a running task")
	}
	s.finish("fenced", state.JobFinished)
	if d := s.now.Sub(t0); d < 30*time.Second {
		s.fatal("it took %v", d)
	}
}

func TestDeployTimeout(t *testing.T) {
	s := with(t, "two-phase", hanging(workermodel.Build, 2), "w1")
	s.finish("hangs twice", state.JobFinished)
	st := s.status()
	if len(st.Failures) != 2 || !strings.Contains(st.Failures[0].Message, "w1 did not become ready within 5m0s") {
		s.fatal("%+v", st.Failures)
	}
}

// TestBarrierTimeout: a sink that is too slow costs checkpoints, then the attempt.
func TestBarrierTimeout(t *testing.T) {
	s := with(t, "two-phase", hanging(workermodel.Prepare, 1), "w1")
	s.finish("hangs at prepare", state.JobFinished)
	w := s.word(1)
	if w.Attempt != 2 || w.Barrier.ID != 4 || len(s.status().Failures) != 1 || !strings.Contains(s.status().Failures[0].Message, "3 checkpoints in a row failed") {
		s.fatal("%+v %+v", w, s.status().Failures)
	}
}

// TestCommitTimeout: commits that are not done by the timeout are replayed by the next attempt.
func TestCommitTimeout(t *testing.T) {
	s := with(t, "two-phase", hanging(workermodel.Commit, 1), "w1", "w2")
	s.finish("hangs at commit", state.JobFinished)
	if w := s.word(1); w.Attempt != 2 || w.Scope != record.ScopeCommitters || w.Committed != 1 {
		s.fatal("%+v", w)
	}
}

// TestCloseDeadline: closing has an end, and what is left is told.
func TestCloseDeadline(t *testing.T) {
	s := with(t, "two-phase", hanging(workermodel.Abandon, 99), "w1")
	s.procs[0].brain.Hooks.Fail = breaks(workermodel.Drain, 9, true).Fail
	if !s.settle(func() bool { return s.ended() && s.clean() }) {
		s.fatal("no end")
	}
	st, w := s.status(), s.word(1)
	h, _ := record.Decode[record.History](s.m.now[tree.History(simJob)].Value)
	if st.Phase != state.JobFailed || len(w.Left) != 1 || len(h.Left) != 1 || !strings.Contains(h.Left[0], "prepared and no checkpoint covers") {
		s.fatal("%+v %+v", w, h)
	}
	if d := s.now.Sub(t0); d < time.Minute || d > 3*time.Minute {
		s.fatal("it took %v", d)
	}
}

// TestMassExpiry: when most of the fleet vanishes at once, nothing is placed on the rest until the pause is over or
// the workers are back.
func TestMassExpiry(t *testing.T) {
	run := func(back bool) *sim {
		s := newSim(t, simPlan("none", 2), 0, 0)
		s.hooks = hanging(workermodel.Drain, 1)
		for i := range 5 {
			s.start(fmt.Sprintf("w%d", i), 2)
		}
		s.submit("x")
		s.until("running", func() bool { w := s.word(1); return w != nil && w.Phase == state.PipelineRunning })
		for _, p := range s.procs[:4] {
			s.kill(p)
			s.expire(p)
		}
		s.until("paused", func() bool { st := s.status(); return strings.Contains(st.Message, "vanished at once") })
		if back {
			for _, p := range s.procs[:2] {
				s.start(p.name, 2)
			}
		}
		s.finish("after the pause", state.JobFinished)
		return s
	}
	if d := run(false).now.Sub(t0); d != 2*simTTL*time.Second {
		t.Errorf("the pause took %v", d)
	}
	if d := run(true).now.Sub(t0); d != 0 {
		t.Errorf("the pause took %v although the workers are back", d)
	}
}

// TestBackoff: counted restarts wait longer each time; a lost worker is free, once per healthy period.
func TestBackoff(t *testing.T) {
	x := &stepper{c: Config{}.Defaults()}
	x.env.RetryInterval = 3 * time.Second
	for n, want := range map[int]time.Duration{1: 3 * time.Second, 2: 6 * time.Second, 3: 12 * time.Second, 5: 48 * time.Second, 6: time.Minute, 60: time.Minute} {
		if got := x.backoff(n); got != want {
			t.Errorf("restart %d waits %v, want %v", n, got, want)
		}
	}
	x.env.RetryInterval = 10 * time.Minute
	if got := x.backoff(4); got != 10*time.Minute {
		t.Errorf("an interval over the limit: %v", got)
	}
	x.env.RetryInterval = 0
	if got := x.backoff(4); got != 0 {
		t.Errorf("no interval: %v", got)
	}
}

func TestFreeRestartAndHealing(t *testing.T) {
	s := with(t, "none", hanging(workermodel.Drain, 9), "w1", "w2", "w3")
	running := func(a plan.Attempt) {
		s.until(fmt.Sprintf("attempt %d runs", a), func() bool { w := s.word(1); return w != nil && w.Attempt == a && w.Phase == state.PipelineRunning })
	}
	lose := func() {
		pl, _ := record.Decode[record.Placement](s.m.now[tree.Placement(simJob, 1)].Value)
		for _, p := range s.procs {
			if pl.Workers[p.name].Incarnation == p.brain.Incarnation {
				s.kill(p)
				s.expire(p)
				s.start(p.name, 2)
				return
			}
		}
	}
	running(1)
	lose()
	running(2)
	if w := s.word(1); s.now != t0 || w.RestartsUsed != 0 || !w.FreeRestart {
		s.fatal("the first lost worker: %+v at %v", w, s.now)
	}
	lose()
	running(3)
	if w := s.word(1); s.now.Sub(t0) != 3*time.Second || w.RestartsUsed != 1 {
		s.fatal("the second one counts: %+v at %v", w, s.now)
	}
	s.now = s.now.Add(11 * time.Minute) // healthy for so long
	lose()
	running(4)
	if w := s.word(1); w.RestartsUsed != 0 || !w.FreeRestart {
		s.fatal("healed: %+v", w)
	}
}

// running waits until an attempt runs and returns its workers.
func (s *sim) running(a plan.Attempt) map[string]record.PlacedWorker {
	s.t.Helper()
	s.until(fmt.Sprintf("attempt %d runs", a), func() bool { w := s.word(1); return w != nil && w.Attempt == a && w.Phase == state.PipelineRunning })
	pl, _ := record.Decode[record.Placement](s.m.now[tree.Placement(simJob, 1)].Value)
	return pl.Workers
}

func (s *sim) proc(name string) *proc {
	return s.procs[slices.IndexFunc(s.procs, func(p *proc) bool { return p.name == name && p.alive })]
}

// TestDeadWorkerIsReplaced: a worker dies while its key is still there and its peer tells that the link broke. The
// next attempt is placed on the others as soon as its time to answer is over, and runs there unless its sinks need
// the clock. One restart, uncounted, and none when the key goes at last.
func TestDeadWorkerIsReplaced(t *testing.T) {
	for _, kind := range kinds {
		s := with(t, kind, hanging(workermodel.Drain, 1), "w1", "w2", "w3")
		was := s.running(1)
		dead := sorted(was)[0]
		s.freeze(s.proc(dead), true)
		now := s.running(2)
		if _, again := now[dead]; again || len(now) != 2 {
			s.fatal("%s: %v dead, attempt 2 is on %v", kind, dead, now)
		}
		waited := s.now.Sub(t0)
		w := s.word(1)
		switch {
		case kind == "upsert":
			if waited != (simTTL+simTTL+simLimit)*time.Second || len(w.Holders) != 0 {
				s.fatal("%s: it ran after %v: %+v", kind, waited, w)
			}
		case waited != time.Second || len(w.Holders) != 1 || w.Holders[0].Worker != dead || !w.Holders[0].Waiting:
			s.fatal("%s: it ran after %v: %+v", kind, waited, w)
		}
		s.finish(kind, state.JobFinished)
		if w := s.word(1); w.Attempt != 2 || len(s.status().Failures) != 1 || w.RestartsUsed != 0 {
			s.fatal("%s: %+v %+v", kind, w, s.status().Failures)
		}
	}
}

// TestDeadWorkerWithoutRoomElsewhere: where nobody else has room the attempt waits for the dead one's key, and says
// so; it is not placed on it.
func TestDeadWorkerWithoutRoomElsewhere(t *testing.T) {
	s := with(t, "none", hanging(workermodel.Drain, 1), "w1")
	s.procs[0].brain.Hooks = s.hooks
	s.start("w2", 1)
	s.procs[1].brain.Hooks.Lost = s.lost
	if was := s.running(1); len(was) == 1 {
		s.fatal("on one worker alone: %v", was)
	}
	s.freeze(s.proc("w1"), true)
	s.until("waits", func() bool { st := s.status(); return strings.Contains(st.Message, "does not answer") })
	const want = "pipeline 1: attempt 2 needs 2 slots, 1 is free on 1 worker: w2 1/1; not counted: w1 (its link broke and it does not answer; attempt 1 may still run there); no slot for 1/0/1; what gets free on w1 is kept for it"
	if got := s.status().Message; got != want {
		s.fatal("got  %s\nwant %s", got, want)
	}
	s.start("w3", 1)
	s.finish("another came", state.JobFinished)
	if d := s.now.Sub(t0); d > simTTL*time.Second {
		s.fatal("it took %v", d)
	}
}

// TestLinkBetweenTheLiving: a link breaks between workers that both answer. They are not put together again while
// there is another way.
func TestLinkBetweenTheLiving(t *testing.T) {
	s := with(t, "none", hanging(workermodel.Drain, 1), "w1", "w2", "w3")
	was := sorted(s.running(1))
	s.proc(was[0]).brain.Hooks.Lost = func(_ workermodel.Ref, a plan.Attempt) []string {
		if a == 1 {
			return []string{was[1]}
		}
		return nil
	}
	now := s.running(2)
	_, one := now[was[0]]
	_, other := now[was[1]]
	if one && other || s.now != t0 {
		s.fatal("%v, then %v after %v", was, now, s.now.Sub(t0))
	}
	s.finish("elsewhere", state.JobFinished)
}

// TestEachPhaseFound: whatever phase a new leader finds a job in, it takes it to an end; what it cannot read it leaves
// alone and says so.
func TestEachPhaseFound(t *testing.T) {
	for _, ph := range []state.Job{state.JobSubmitted, state.JobPlanned, state.JobPending, state.JobPreparing, state.JobScheduled, state.JobRunning,
		state.JobRestarting, state.JobCancelling, state.JobFailing, state.JobClosing} {
		if a, err := state.Takeover(ph); err != nil || a == state.Nothing {
			t.Errorf("%s: %s, %v", ph, a, err)
		}
		s := newSim(t, simPlan("two-phase", 1), 1, 2)
		s.submit("x")
		s.m.do(func(m map[string]kv.Entry, rev int64) {
			spec := m[tree.Job(simJob)]
			put(m, tree.JobStatus(simJob), record.MustEncode(&record.JobStatus{Header: record.Head, Phase: ph, SpecCreated: spec.CreateRev, ObservedSpec: spec.ModRev, Submitted: t0}), rev)
		})
		if !s.settle(s.ended) || len(s.bad) > 0 {
			s.fatal("%s: stays %+v", ph, s.status())
		}
	}
	f := NewFacts(simJob)
	f.Status = keep[record.JobStatus](kv.Entry{Key: "k", Value: []byte(`{"apiVersion":"strait/v9"}`), ModRev: 3, CreateRev: 3})
	_, out := Step(Config{}.Defaults(), State{}, Event{Facts: f, Fleet: fleet.New(t0)}, t0)
	if out.Write != nil || out.Bug == nil || !strings.Contains(out.Bug.Error(), "newer") {
		t.Errorf("%+v", out)
	}
}

// TestLongMessages: what people are told fits into its key.
func TestLongMessages(t *testing.T) {
	s := newSim(t, simPlan("none", 1), 1, 1)
	s.submit("x")
	s.step()
	spec := s.m.now[tree.Job(simJob)]
	var lines []string
	for i := range 5000 {
		lines = append(lines, fmt.Sprintf("orders.conf:%d: mistake", i))
	}
	s.lead.planned = &Planned{Spec: spec.ModRev, Err: fmt.Errorf("%s", strings.Join(lines, "\n"))}
	s.step()
	st := s.status()
	if st.Phase != state.JobFailed || st.Reason != BadJob || len(st.Message) > 17<<10 || !strings.HasSuffix(st.Message, "has the rest)") || !strings.Contains(st.Message, "orders.conf:0: mistake\n") {
		t.Errorf("%s %d %q", st.Phase, len(st.Message), st.Message[max(0, len(st.Message)-100):])
	}
}

// TestQuiet: a step on facts that did not change writes nothing.
func TestQuiet(t *testing.T) {
	for _, stage := range []workermodel.Stage{workermodel.Build, workermodel.Drain, workermodel.Prepare, workermodel.Commit} {
		s := with(t, "two-phase", hanging(stage, 99), "w1")
		for range 20 {
			for s.step() {
			}
			s.work(s.procs[0])
		}
		n := s.writes
		for range 10 {
			s.now = s.now.Add(time.Second)
			s.step()
			s.elect() // nor does a new leader
			s.step()
		}
		if s.writes != n {
			s.fatal("%s: %d writes for nothing", stage, s.writes-n)
		}
	}
}

// The worker may name the task group in its message; the leader's text names it once.
func TestPlaceIsToldOnce(t *testing.T) {
	s := &record.TaskStatus{Failure: &record.Failure{Group: "1/0/1", Vertex: "sink.Out.0", Message: "task group 1/0/1: it broke"}}
	if got, want := (&stepper{}).reported(nil, "w1", s).text, "sink.Out.0, task group 1/0/1, worker w1: it broke"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestConcerns: a worker that comes or goes wakes the jobs it has to do with and those that are not settled.
func TestConcerns(t *testing.T) {
	in := func(s ...string) map[string]bool {
		out := map[string]bool{}
		for _, w := range s {
			out[w] = true
		}
		return out
	}
	f := NewFacts("j")
	is := func(want bool, workers ...string) {
		t.Helper()
		if got := f.Concerns(in(workers...)); got != want {
			t.Errorf("%v: %v", workers, got)
		}
	}
	is(true, "w9") // no status yet
	for _, phase := range []state.Job{state.JobSubmitted, state.JobPending, state.JobScheduled, state.JobRestarting, state.JobClosing} {
		f.Status.Value = &record.JobStatus{Phase: phase}
		is(true, "w9")
	}
	f.Status.Value = &record.JobStatus{Phase: state.JobFinished}
	is(false, "w9")
	f.Status.Value = &record.JobStatus{Phase: state.JobRunning}
	p := f.pipe(1)
	p.Word.Value = &record.Word{Holders: []record.Holder{{Worker: "holder"}}}
	p.Placement.Value = &record.Placement{Workers: map[string]record.PlacedWorker{"placed": {}, "other": {}}}
	p.Tasks["assigned"] = Kept[record.Assignment]{}
	p.Statuses["told"] = Kept[record.TaskStatus]{}
	f.Grants[SlotID{Worker: "granted"}] = Kept[record.Grant]{}
	is(false, "w9")
	is(false, "w7", "w8", "w9", "w10", "w11")
	for _, w := range []string{"holder", "placed", "other", "assigned", "told", "granted"} {
		is(true, w)
		is(true, "w7", w, "w8", "w9")
	}
}
