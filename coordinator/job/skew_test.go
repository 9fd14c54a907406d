package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/record"
	"strait/plan/physical"
	"strait/plan/state"
)

func (s *sim) placed() *record.Placement {
	pl, _ := record.Decode[record.Placement](s.m.now[tree.Placement(simJob, 1)].Value)
	return pl
}

// TestCommonProtocol: an attempt uses the newest protocol that the leader and all of its workers speak; workers without
// one in common are not put together.
func TestCommonProtocol(t *testing.T) {
	f := func(what string, leader [2]int, slots, want int, on string, workers ...[2]int) {
		t.Helper()
		s := newSim(t, simPlan("two-phase", 2), 0, 0)
		s.conf.Protocol = leader
		for i, p := range workers {
			s.protocol = p
			s.start(fmt.Sprintf("w%d", i+1), slots)
		}
		s.submit("x")
		if want == 0 {
			s.settle(func() bool { return false })
			if st := s.status(); st.Phase != state.JobPending || st.Reason != "ProtocolMismatch" || !strings.Contains(st.Message, on) {
				s.fatal("%s: %s %s: %s", what, st.Phase, st.Reason, st.Message)
			}
			return
		}
		s.until("placed", func() bool { return s.placed() != nil })
		var got []string
		for _, w := range sorted(s.placed().Workers) {
			got = append(got, w)
			a, _ := record.Decode[record.Assignment](s.m.now[tree.Task(w, simJob, 1)].Value)
			if a.Protocol != want {
				s.fatal("%s: assignment of protocol %d", what, a.Protocol)
			}
		}
		if p := s.placed().Protocol; p != want || strings.Join(got, " ") != on {
			s.fatal("%s: protocol %d on %v, want %d on %s", what, p, got, want, on)
		}
		s.finish(what, state.JobFinished)
	}
	f("all the same", [2]int{1, 1}, 1, 1, "w1 w2", [2]int{1, 1}, [2]int{1, 1})
	f("an older worker among them", [2]int{1, 3}, 1, 2, "w1 w2", [2]int{1, 2}, [2]int{2, 3})
	f("the older one is not needed", [2]int{1, 3}, 2, 3, "w2", [2]int{1, 2}, [2]int{2, 3})
	f("a newer fleet under an older leader", [2]int{1, 1}, 1, 1, "w1 w2", [2]int{1, 5}, [2]int{1, 2})
	f("nothing in common", [2]int{1, 3}, 1, 0, "speak no protocol in common: w1 1 to 1, w2 3 to 3", [2]int{1, 1}, [2]int{3, 3})
	f("none that the leader speaks", [2]int{1, 1}, 1, 0, "w1 (speaks protocol 2 to 2, this coordinator 1 to 1)", [2]int{2, 2}, [2]int{2, 2})
}

// TestRollingUpgrade: leader and workers are replaced one after the other, in either order and back again, under a job
// that runs; every attempt is of a protocol that all of it speak, which each write is checked for, and nothing is counted.
func TestRollingUpgrade(t *testing.T) {
	older, newer := [2]int{1, 1}, [2]int{1, 2}
	for _, kind := range []string{"two-phase", "upsert"} {
		s := newSim(t, simPlan(kind, 2), 0, 0)
		s.hooks, s.conf.Protocol, s.protocol = hanging(workermodel.Drain, 99), older, older
		for _, name := range []string{"w1", "w2", "w3"} {
			s.start(name, 2)
		}
		s.submit("x")
		s.until("running", runs(s))
		replace := func(to [2]int) {
			s.protocol = to
			for i := range 3 {
				name := fmt.Sprintf("w%d", i+1)
				for _, p := range s.procs {
					if p.name == name && p.alive {
						s.sigterm(p)
						s.until(name+" has ended", func() bool { return !p.alive })
					}
				}
				s.start(name, 2)
				s.until("running again", runs(s))
			}
		}
		lead := func(speaks [2]int) {
			s.conf.Protocol = speaks
			s.elect()
			s.settle(func() bool { return false })
		}
		lead(newer)
		if s.placed().Attempt != 1 || s.placed().Protocol != 1 {
			s.fatal("a newer leader disturbed a running attempt: %+v", s.placed())
		}
		replace(newer)
		if p := s.placed(); p.Protocol != 2 {
			s.fatal("after the upgrade: %+v", p)
		}
		lead(older) // somebody goes back
		if p := s.placed(); p.Protocol != 1 || !runs(s)() {
			s.fatal("under an older leader: %+v", p)
		}
		replace(older)
		lead(newer)
		for _, p := range s.procs {
			p.brain.Hooks = workermodel.Hooks{}
		}
		s.finish(kind, state.JobFinished)
		if w := s.word(1); w.RestartsUsed != 0 || w.FreeRestart || len(s.status().Failures) > 0 {
			s.fatal("%s: %+v %+v", kind, w, s.status().Failures)
		}
	}
}

// TestRefusedProtocol: a worker that was given an assignment it does not speak says so, and the job tells.
func TestRefusedProtocol(t *testing.T) {
	s := with(t, "none", workermodel.Hooks{}, "w1")
	s.procs[0].brain.Protocol = [2]int{7, 9} // other than its key says
	s.finish("refused", state.JobFailed)
	if st := s.status(); !strings.Contains(st.Message, "does not speak that protocol") {
		s.fatal("%s", st.Message)
	}
}

// TestUnreadableKeys: what a newer coordinator wrote, or a hand spoiled, stops everything about the job but a condition
// that names the key. Once it can be read, the job goes on.
func TestUnreadableKeys(t *testing.T) {
	const newer = `{"apiVersion":"strait/v9","attempt":7}`
	for _, c := range []struct{ key, value, want string }{
		{tree.Pipeline(simJob, 1), newer, "pipelines/j/1"},
		{tree.Pipeline(simJob, 1), "nonsense", "control word of pipeline 1 cannot be read"},
		{tree.Pipeline(simJob, 1), "{}", `phase "" and attempt 0`},
		{tree.Placement(simJob, 1), newer, "placements/j/1"},
		{tree.Task("w1", simJob, 1), newer, "tasks/w1/j/1"},
		{tree.Plan(simJob), newer, "plans/j"},
		{tree.Checkpoint(simJob, 1, 1), newer, "checkpoints/j/1/000000000001"},
	} {
		what := c.key + " " + c.value
		s := with(t, "two-phase", hanging(workermodel.Drain, 1), "w1")
		s.until("running", runs(s))
		s.settle(func() bool { return false })
		old, had := s.m.now[c.key]
		change := func(value []byte) {
			s.m.do(func(m map[string]kv.Entry, rev int64) {
				if value == nil {
					delete(m, c.key)
				} else {
					put(m, c.key, value, rev)
				}
			})
		}
		told := func() string {
			for _, x := range s.status().Conditions {
				if x.Type == Unreadable {
					return x.Reason + ": " + x.Message
				}
			}
			return ""
		}
		rev := s.m.rev
		change([]byte(c.value))
		s.wish(record.WishCancelled)
		s.elect()
		s.lead.settleOnly(s)
		if !strings.Contains(told(), c.want) || !strings.Contains(told(), "nothing is done about it") || strings.Contains(c.value, "v9") != strings.HasPrefix(told(), "NewerVersion") {
			s.fatal("%s: %q", what, told())
		}
		for k, e := range s.m.now {
			if e.ModRev > rev && k != c.key && k != tree.JobStatus(simJob) && k != tree.Wish(simJob) && !strings.HasPrefix(k, tree.Leader()) {
				s.fatal("%s: %s was written", what, k)
			}
		}
		if !had {
			change(nil)
		} else {
			change(old.Value)
		}
		s.finish(what, state.JobCancelled)
		if told() != "" {
			s.fatal("%s: still says %q", what, told())
		}
	}
}

// settleOnly lets the leader alone take its steps.
func (l *leader) settleOnly(s *sim) {
	for range 20 {
		s.step()
	}
}

// TestNewerSpec: a job that a newer stctl submitted waits for a coordinator that can read it, and says so.
func TestNewerSpec(t *testing.T) {
	s := newSim(t, simPlan("none", 1), 1, 1)
	spec := record.MustEncode(&record.Spec{Header: record.Head, Text: "x", Submitted: t0})
	put2 := func(v []byte) {
		s.m.do(func(m map[string]kv.Entry, rev int64) { put(m, tree.Job(simJob), v, rev) })
	}
	put2([]byte(strings.Replace(string(spec), "strait/v1", "strait/v2", 1)))
	s.settle(func() bool { return false })
	st := s.status()
	if st.Phase != state.JobSubmitted || len(st.Conditions) != 1 || st.Conditions[0].Reason != "NewerVersion" || !strings.Contains(st.Conditions[0].Message, "jobs/j") {
		s.fatal("%+v", st)
	}
	put2(spec)
	s.finish("readable", state.JobFinished)
	if len(s.status().Conditions) != 0 {
		s.fatal("%+v", s.status())
	}
}

// TestUnknownFieldsSurvive: what a newer build added to a record stays when this one rewrites it.
func TestUnknownFieldsSurvive(t *testing.T) {
	s := with(t, "two-phase", hanging(workermodel.Drain, 1), "w1")
	s.until("running", runs(s))
	for _, k := range []string{tree.Pipeline(simJob, 1), tree.JobStatus(simJob)} {
		var v map[string]any
		if err := json.Unmarshal(s.m.now[k].Value, &v); err != nil {
			t.Fatal(err)
		}
		v["later"] = []any{"x", 1.0}
		data, _ := json.Marshal(v)
		s.m.do(func(m map[string]kv.Entry, rev int64) { put(m, k, data, rev) })
	}
	for _, p := range s.procs {
		p.brain.Hooks = workermodel.Hooks{}
	}
	s.finish("unknown fields", state.JobFinished)
	for _, k := range []string{tree.Pipeline(simJob, 1), tree.JobStatus(simJob)} {
		if v := string(s.m.now[k].Value); !strings.Contains(v, `"later":["x",1]`) {
			t.Errorf("%s: %s", k, v)
		}
	}
}

// TestWarnings: what the planner has to say about a text that it took is told, once, with the plan.
func TestWarnings(t *testing.T) {
	s := newSim(t, simPlan("none", 1), 1, 1)
	s.submit("x")
	s.step()
	data, err := physical.Encode(s.plan)
	if err != nil {
		t.Fatal(err)
	}
	s.lead.planned = &Planned{Spec: s.m.now[tree.Job(simJob)].ModRev, Plan: s.plan, Encoded: data, Warnings: []string{"x.conf:3: env.flink.x is not used"}}
	s.finish("warned", state.JobFinished)
	st := s.status()
	if len(st.Conditions) != 1 || st.Conditions[0].Type != PlanWarned || !strings.Contains(s.eventText(), "! PlanWarning x.conf:3: env.flink.x is not used") {
		s.fatal("%+v\n%s", st.Conditions, s.eventText())
	}
	if st.Finished.Sub(t0) > time.Second {
		s.fatal("it took %v", st.Finished.Sub(t0))
	}
}
