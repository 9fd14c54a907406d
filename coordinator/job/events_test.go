package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"strait/coordinator/internal/workermodel"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/config"
	"strait/plan/option"
	"strait/plan/state"
)

// eventText is what a job tells, one event a line.
func (s *sim) eventText() string {
	h, err := record.Decode[record.History](s.m.now[tree.History(simJob)].Value)
	if err != nil {
		s.fatal("history: %v", err)
	}
	var out []string
	for _, e := range h.Events {
		line := e.Reason + " " + e.Message
		if e.Warn {
			line = "! " + line
		}
		if e.Count > 1 {
			line += fmt.Sprintf(" (%d times)", e.Count)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// TestEvents: the story of a job, as `stctl job describe` ends with it.
func TestEvents(t *testing.T) {
	f := func(name, want string, s *sim, end state.Job) {
		t.Helper()
		s.finish(name, end)
		if got := s.eventText(); got != strings.TrimSpace(want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, strings.TrimSpace(want))
		}
		if st := s.status(); st != nil && len(st.Events) == 0 {
			t.Errorf("%s: the status has no events", name)
		}
	}
	f("a job that meets nothing", `
Submitted submitted
Planned 1 pipeline, 2 slots needed
Placed attempt 1: 2 slots on w1 1, w2 1
Running every pipeline runs
Checkpoint final checkpoint 1 is complete
Checkpoint final checkpoint 1 is committed
Ended FINISHED after 0s`, with(t, "two-phase", workermodel.Hooks{}, "w1", "w2"), state.JobFinished)

	lost := with(t, "none", hanging(workermodel.Drain, 1), "w1", "w2", "w3")
	lost.until("running", func() bool { w := lost.word(1); return w != nil && w.Phase == state.PipelineRunning })
	lost.kill(lost.procs[0])
	lost.expire(lost.procs[0])
	f("a lost worker", `
Submitted submitted
Planned 1 pipeline, 2 slots needed
Placed attempt 1: 2 slots on w1 1, w3 1
Running every pipeline runs
! WorkerLost attempt 1: worker w1 (incarnation 2) is gone: its key vanished, as when the process died, lost etcd for longer than its TTL, or was fenced
Restarting attempt 2
Placed attempt 2: 2 slots on w2 1, w3 1
Running every pipeline runs again
Checkpoint final checkpoint 1 is complete
Checkpoint final checkpoint 1 is committed
Ended FINISHED after 0s, with 1 further attempt`, lost, state.JobFinished)

	f("a budget that is spent", `
Submitted submitted
Planned 1 pipeline, 2 slots needed
Placed attempt 1: 2 slots on w1 2
Running every pipeline runs
! TaskFailed attempt 1: sink.Out.0, worker w1: it broke at drain
Restarting attempt 2, restart 1 of 3, in 3s
Placed attempt 2: 2 slots on w1 2
Running every pipeline runs again
! TaskFailed attempt 2: sink.Out.0, worker w1: it broke at drain
Restarting attempt 3, restart 2 of 3, in 6s
Placed attempt 3: 2 slots on w1 2
Running every pipeline runs again
! TaskFailed attempt 3: sink.Out.0, worker w1: it broke at drain
Restarting attempt 4, restart 3 of 3, in 12s
Placed attempt 4: 2 slots on w1 2
Running every pipeline runs again
! Failing PipelineFailed: job j, pipeline 1: sink.Out.0, worker w1: it broke at drain; it was restarted as often as job.retry.times allows: 3
! Ended FAILED after 21s, with 3 further attempts: job j, pipeline 1: sink.Out.0, worker w1: it broke at drain; it was restarted as often as job.retry.times allows: 3`,
		with(t, "none", breaks(workermodel.Drain, 9, false), "w1"), state.JobFailed)

	waits := with(t, "none", workermodel.Hooks{})
	waits.until("pending", func() bool { st := waits.status(); return st != nil && st.Phase == state.JobPending })
	waits.wish("stop it")
	waits.until("refused", func() bool { return len(waits.status().Conditions) > 0 })
	waits.wish(record.WishCancelled)
	f("a job without workers", `
Submitted submitted
Planned 1 pipeline, 2 slots needed
Pending NoWorkers: needs 2 slots, no worker is there; start one with `+"`stctl serve worker`"+`
! Refused wish "stop it" is not known; write one word: running, cancelled, savepoint or stopped
Cancelling the wish was put
Ended CANCELLED after 0s: cancelled: the wish was put`, waits, state.JobCancelled)

	stuck := with(t, "none", hanging(workermodel.Stop, 9), "w1")
	f("a worker that does not stop", `
Submitted submitted
Planned 1 pipeline, 2 slots needed
Placed attempt 1: 2 slots on w1 2
Running every pipeline runs
Checkpoint final checkpoint 1 is complete
Checkpoint final checkpoint 1 is committed
! Fenced worker w1 (incarnation 2) did not confirm within 30s that it stopped: its key is deleted
Ended FINISHED after 30s`, stuck, state.JobFinished)
}

// TestEventsOfManyPipelines: what happens to many pipelines at once is one event.
func TestEventsOfManyPipelines(t *testing.T) {
	s := newSim(t, simPlan("none", 1, 1, 1, 1, 1), 0, 0)
	s.hooks = hanging(workermodel.Drain, 1)
	s.start("w1", 5)
	s.submit("x")
	s.until("running", func() bool { st := s.status(); return st != nil && st.Phase == state.JobRunning })
	s.kill(s.procs[0])
	s.expire(s.procs[0])
	s.start("w2", 5)
	s.finish("five pipelines", state.JobFinished)
	if got := s.eventText(); strings.Count(got, "WorkerLost pipelines 1-5: attempt 1") != 1 || strings.Count(got, "Restarting pipelines 1-5: attempt 2") != 1 {
		t.Error(got)
	}
	if got := pipelineNames([]plan.PipelineID{9, 1, 3, 2, 7}); got != "pipelines 1-3, 7, 9" {
		t.Error(got)
	}
}

// TestBounds: however much a job has to tell, its status and its history fit into their keys, the first failure and
// the newest stay, and a status that was cut is not written again and again.
func TestBounds(t *testing.T) {
	for _, c := range []string{"x", "\"", "\x01", "<", "ü"} {
		s := with(t, "none", workermodel.Hooks{}, "w1")
		s.until("planned", func() bool { st := s.status(); return st != nil && st.Phase == state.JobRunning })
		st := *s.status()
		long := strings.Repeat(c, 50_000)
		st.Name, st.Message, st.Reason = long, long, long
		for i := range 200 {
			st.Failures = append(st.Failures, record.Failure{Attempt: plan.Attempt(i + 1), Message: fmt.Sprint(i) + long, Position: long, Time: t0})
			st.Events = append(st.Events, record.Event{Reason: "Some", Message: fmt.Sprint(i) + long[:4000], Time: t0})
		}
		for i := range 5 {
			st.Conditions = append(st.Conditions, record.Condition{Type: fmt.Sprint(i), Message: long})
		}
		bound(&st)
		data := record.MustEncode(&st)
		if len(data) > maxValue {
			t.Fatalf("%q: %d bytes", c, len(data))
		}
		if n := len(st.Failures); st.Failures[0].Attempt != 1 || st.Failures[n-1].Attempt != 200 || st.Earlier+n != 200 || n < 12 {
			t.Errorf("%q: %d failures, %d not listed", c, n, st.Earlier)
		}
		again := st
		again.Failures, again.Events = append([]record.Failure(nil), st.Failures...), append([]record.Event(nil), st.Events...)
		if bound(&again); string(record.MustEncode(&again)) != string(data) {
			t.Errorf("%q: bounding twice is not bounding once", c)
		}
		x := &stepper{st: st, now: t0, f: NewFacts(simJob)}
		fin := t0.Add(time.Second)
		x.st.Finished = &fin
		h := x.history()
		h.Left = strings.Split(strings.Repeat(long[:1000]+"\n", 100), "\n")
		if n := len(fit(h)); n > maxValue {
			t.Errorf("%q: history of %d bytes", c, n)
		}
	}
}

func env(t *testing.T, text string) *option.Node {
	t.Helper()
	j, _, err := config.Parse([]byte("env { "+text+" }\nsource { In { } }\nsink { Out { } }"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return j.Env
}

// TestHugeFailures: a worker that tells very much, at every attempt, does not spoil the status.
func TestHugeFailures(t *testing.T) {
	s := newSim(t, simPlan("none", 2), 0, 0)
	s.plan.Env = env(t, "job.retry.times = 120, job.retry.interval.seconds = 0")
	long := errors.New(strings.Repeat("<no\x02 route>", 5000)).Error()
	n := 0
	s.hooks = workermodel.Hooks{Fail: func(_ workermodel.Ref, a plan.Attempt, st workermodel.Stage) *record.Failure {
		if st != workermodel.Run || a > 60 {
			return nil
		}
		n++
		return &record.Failure{Message: fmt.Sprint(n) + long, Vertex: "sink.Out.0"}
	}}
	s.start("w1", 2)
	s.submit("x")
	s.finish("huge failures", state.JobFinished)
	st := s.status()
	if st.Failures[0].Attempt != 1 || st.Failures[len(st.Failures)-1].Attempt != 60 || len(st.Failures)+st.Earlier != 60 {
		t.Errorf("%d failures of attempts %d to %d, %d not listed", len(st.Failures), st.Failures[0].Attempt, st.Failures[len(st.Failures)-1].Attempt, st.Earlier)
	}
	if len(st.Events) == 0 || len(st.Events) > record.MaxEvents {
		t.Errorf("%d events", len(st.Events))
	}
}
