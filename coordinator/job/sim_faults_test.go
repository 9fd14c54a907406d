package job

import (
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"testing"
	"time"

	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// scenario is what happens to a job, at the n-th write of the leader.
type scenario struct {
	name string
	do   func(s *sim)
	want []state.Job
}

var (
	anyEnd   = []state.Job{state.JobFinished, state.JobCancelled}
	finished = []state.Job{state.JobFinished}
)

var scenarios = []scenario{
	{"nothing", func(*sim) {}, finished},
	{"cancel", func(s *sim) { s.wish(record.WishCancelled) }, anyEnd},
	{"spec deleted", func(s *sim) {
		s.m.do(func(m map[string]kv.Entry, rev int64) { delete(m, tree.Job(simJob)) })
	}, anyEnd},
	{"worker killed", func(s *sim) { s.kill(s.procs[0]); s.expire(s.procs[0]) }, finished},
	{"worker dies, its peers tell", func(s *sim) { s.freeze(s.procs[0], true) }, finished},
	{"worker hangs a while, its peers tell", func(s *sim) { s.freeze(s.procs[0], false) }, finished},
	{"worker loses its key and goes on", func(s *sim) { s.expire(s.procs[0]) }, finished},
	{"worker comes back", func(s *sim) {
		s.kill(s.procs[0])
		s.expire(s.procs[0])
		s.start("w1", 4)
	}, finished},
	{"worker loses its key, its name comes back", func(s *sim) { s.expire(s.procs[0]); s.start("w1", 4) }, finished},
	{"worker lost, then cancel", func(s *sim) { s.expire(s.procs[1]); s.wish(record.WishCancelled) }, anyEnd},
	{"all workers killed, another comes", func(s *sim) {
		for _, p := range s.procs {
			s.kill(p)
			s.expire(p)
		}
		s.start("w9", 4)
	}, finished},
	{"worker leaves", func(s *sim) { s.sigterm(s.procs[0]) }, finished},
	{"worker leaves and comes back", func(s *sim) { s.sigterm(s.procs[0]); s.start("w3", 4) }, finished},
	{"all workers leave", func(s *sim) {
		for _, p := range s.procs {
			s.sigterm(p)
		}
		s.start("w9", 4)
	}, finished},
	{"worker leaves, then cancel", func(s *sim) { s.sigterm(s.procs[0]); s.wish(record.WishCancelled) }, anyEnd},
	{"worker leaves and dies", func(s *sim) { s.sigterm(s.procs[0]); s.kill(s.procs[0]); s.expire(s.procs[0]) }, finished},
	{"worker is drained", func(s *sim) { s.drain("w1", 0) }, finished},
	{"worker is drained, past its deadline", func(s *sim) { s.drain("w1", -time.Second) }, finished},
	{"worker is drained until later", func(s *sim) { s.drain("w1", time.Second); s.procs[0].brain.Hooks = hanging(workermodel.Drain, 1) }, finished},
	{"unparsable wish", func(s *sim) { s.wish("cancelled please") }, finished},
}

// full runs every combination of TestEveryWrite, which takes minutes; otherwise a sixteenth of them, spread evenly, and fewer under the race detector.
var full = os.Getenv("STRAIT_SIM_FULL") != ""

// TestEveryWrite ends the leader at every single write, in each way, while something else happens at every other.
func TestEveryWrite(t *testing.T) {
	for _, kind := range kinds {
		for _, sc := range scenarios {
			t.Run(kind+"/"+sc.name, func(t *testing.T) {
				runs := 0
				for at := 1; at < 60; at++ {
					done := false
					for kill := 0; kill < 40; kill++ {
						for i, how := range []string{"die", "lost", "unknown", "late"} {
							if kill == 0 && how != "die" || !full && kill > 0 && (at*5+kill)%sparse != 4*i+at%4 {
								continue
							}
							s := newSim(t, simPlan(kind, 2, 1), 2, 4)
							s.submit("x")
							happened := false
							killed := kill == 0
							hook := func(n int) string {
								if n == (at+1)/2 && !happened {
									happened = true
									if at%2 == 1 {
										sc.do(s)
									} else {
										s.after = func() { sc.do(s) }
									}
								}
								if n == kill {
									killed = true
									return how
								}
								return ""
							}
							s.settleWith(hook, func() bool { return happened && killed || s.ended() })
							what := fmt.Sprintf("%s at write %d (before, or after: %v), leader %s at %d", sc.name, (at+1)/2, at%2 == 0, how, kill)
							s.finish(what, sc.want...)
							s.retired(what)
							runs++
							if kill == 0 && !happened {
								done = true
							}
							if !killed {
								kill = 1000 // there are not so many writes
								break
							}
						}
						if done {
							break
						}
					}
					if done {
						break
					}
				}
				t.Logf("%d runs", runs)
			})
		}
	}
}

// settleWith is settle with a hook at every write.
func (s *sim) settleWith(hook func(n int) string, until func() bool) {
	for range 2000 {
		if until() || len(s.bad) > 0 {
			return
		}
		s.onWrite = hook
		did := false
		for i := 0; i < 100 && s.step(); i++ {
			did = true
			if until() || len(s.bad) > 0 {
				s.onWrite = nil
				return
			}
		}
		s.onWrite = nil
		for _, p := range s.procs {
			did = s.work(p) || did
		}
		if !did {
			return
		}
	}
}

// breaks makes a worker fail at a stage of attempts up to some number.
func breaks(stage workermodel.Stage, upTo plan.Attempt, fatal bool, links ...string) workermodel.Hooks {
	return workermodel.Hooks{Fail: func(_ workermodel.Ref, a plan.Attempt, s workermodel.Stage) *record.Failure {
		if s != stage || a > upTo {
			return nil
		}
		return &record.Failure{Message: "it broke at " + string(s), Vertex: "sink.Out.0", Fatal: fatal}
	}}
}

func TestFailures(t *testing.T) {
	f := func(kind string, stage workermodel.Stage, upTo plan.Attempt, fatal bool, want state.Job, restarts int) {
		t.Helper()
		what := fmt.Sprintf("%s fails at %s up to attempt %d, fatal %v", kind, stage, upTo, fatal)
		s := &sim{}
		*s = *newSim(t, simPlan(kind, 2), 0, 0)
		s.hooks = breaks(stage, upTo, fatal)
		s.start("w1", 2)
		s.start("w2", 2)
		s.submit("x")
		s.finish(what, want)
		st := s.status()
		if len(st.Failures) != restarts {
			s.fatal("%s: %d failures are told, want %d", what, len(st.Failures), restarts)
		}
		if want == state.JobFailed && st.Message == "" {
			s.fatal("%s: nothing told", what)
		}
	}
	for _, kind := range kinds {
		for _, stage := range []workermodel.Stage{workermodel.Build, workermodel.Run, workermodel.Drain, workermodel.Prepare} {
			f(kind, stage, 1, false, state.JobFinished, 1)
			f(kind, stage, 3, false, state.JobFinished, 3)
			f(kind, stage, 4, false, state.JobFailed, 4) // the budget is 3 restarts
			f(kind, stage, 1, true, state.JobFailed, 1)
		}
	}
	for _, kind := range []string{"two-phase", "aggregated"} {
		f(kind, workermodel.Commit, 1, false, state.JobFinished, 1)
		f(kind, workermodel.Commit, 7, false, state.JobFinished, 7) // the commit point is passed: no budget, only the deadline
	}
}

// TestFatalCommit: what a commit answers for good is not tried again; the job has failed and says what.
func TestFatalCommit(t *testing.T) {
	s := newSim(t, simPlan("aggregated", 2), 0, 0)
	s.hooks = breaks(workermodel.Commit, 1, true)
	s.start("w1", 4)
	s.submit("x")
	if !s.settle(func() bool { return s.ended() && s.clean() }) {
		s.fatal("no end")
	}
	w, _ := record.Decode[record.Word](s.m.now[tree.Pipeline(simJob, 1)].Value)
	st := s.status()
	if st.Phase != state.JobFailed || w.Attempt != 2 || len(w.Skip) != 1 || w.Committed != 0 || s.target.Done != 0 {
		s.fatal("%+v %s %d", w, st.Phase, s.target.Done)
	}
	const want = "job j, pipeline 1: sink.Out.0, worker w1: it broke at commit"
	if st.Message != want || st.Reason != PipelineFailed {
		s.fatal("%s: %s", st.Reason, st.Message)
	}
}

// TestRandom: many jobs in any order of events, with lagging views, lost answers, killed workers and leaders.
func TestRandom(t *testing.T) {
	runs := 2400 / sparse
	if v, err := strconv.Atoi(os.Getenv("STRAIT_SIM_RUNS")); err == nil {
		runs = v
	}
	if testing.Short() {
		runs = 50
	}
	base := int64(1)
	if v, err := strconv.ParseInt(os.Getenv("STRAIT_SIM_SEED"), 10, 64); err == nil {
		base, runs = v, 1
	}
	phases := map[state.Job]int{}
	for seed := base; seed < base+int64(runs); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			phases[randomRun(t, seed)]++
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%v", phases)
}

func randomRun(t *testing.T, seed int64) state.Job {
	rnd := rand.New(rand.NewSource(seed))
	par := []int{1 + rnd.Intn(3)}
	if rnd.Intn(3) == 0 {
		par = append(par, 1+rnd.Intn(2))
	}
	s := newSim(t, simPlan(kinds[rnd.Intn(len(kinds))], par...), 0, 0)
	s.rnd = rnd
	fails := rnd.Intn(4)
	s.hooks = workermodel.Hooks{Fail: func(_ workermodel.Ref, _ plan.Attempt, st workermodel.Stage) *record.Failure {
		if fails == 0 || rnd.Intn(20) > 0 {
			return nil
		}
		fails--
		return &record.Failure{Message: "random failure at " + string(st), Vertex: "sink.Out.0", Fatal: rnd.Intn(8) == 0 && st != workermodel.Commit && st != workermodel.Abandon}
	}}
	for i := range 1 + rnd.Intn(3) {
		s.start(fmt.Sprintf("w%d", i+1), 1+rnd.Intn(4))
	}
	s.submit("x")
	kills, elections := rnd.Intn(4), rnd.Intn(4)
	s.onWrite = nil
	hook := func(int) string {
		if elections > 0 && rnd.Intn(6) == 0 {
			elections--
			return []string{"die", "lost", "unknown", "late"}[rnd.Intn(4)]
		}
		return ""
	}
	for range 50 + rnd.Intn(300) {
		if s.ended() || len(s.bad) > 0 {
			break
		}
		switch n := rnd.Intn(100); {
		case n < 45:
			s.onWrite = hook
			s.step()
			s.onWrite = nil
		case n < 88 && len(s.procs) > 0:
			s.work(s.procs[rnd.Intn(len(s.procs))])
		case n < 90 && kills > 0:
			p := s.procs[rnd.Intn(len(s.procs))]
			kills--
			if rnd.Intn(2) == 0 {
				s.kill(p)
			}
			s.expire(p)
		case n < 92 && len(s.procs) < 8:
			p := s.procs[rnd.Intn(len(s.procs))]
			if !s.m.now[tree.Worker(p.name)].Exists() {
				s.start(p.name, 1+rnd.Intn(4))
			}
		case n < 94:
			s.now = s.now.Add(time.Duration(rnd.Intn(15)) * time.Second)
			for _, p := range s.procs {
				s.notice(p)
			}
		case n == 96 && kills > 0:
			kills--
			if p := s.procs[rnd.Intn(len(s.procs))]; p.alive && !p.gone {
				s.freeze(p, rnd.Intn(2) == 0)
			}
		case n == 99 && kills > 0:
			kills--
			s.sigterm(s.procs[rnd.Intn(len(s.procs))])
		case n == 97:
			until := []time.Duration{0, -1, time.Duration(rnd.Intn(20)) * time.Second}[rnd.Intn(3)]
			s.drain(s.procs[rnd.Intn(len(s.procs))].name, until)
		case n == 98:
			s.undrain(s.procs[rnd.Intn(len(s.procs))].name)
		case n == 94 && rnd.Intn(4) == 0:
			s.wish([]string{"cancelled", "running", "stop it", "savepoint"}[rnd.Intn(4)])
		case n == 95 && len(s.late) > 0:
			i := rnd.Intn(len(s.late))
			f := s.late[i]
			s.late = append(s.late[:i:i], s.late[i+1:]...)
			f()
		}
	}
	s.start("z1", 4)
	s.start("z2", 4)
	s.finish(fmt.Sprintf("seed %d", seed))
	phase := s.status().Phase
	s.retired(fmt.Sprintf("seed %d", seed))
	return phase
}
