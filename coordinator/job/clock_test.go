package job

import (
	"testing"
	"time"

	"strait/coordinator/internal/workermodel"
	"strait/kv/record"
	"strait/plan/state"
)

// TestAnotherClock: a leader whose clock is far off takes over in the middle of each wait that has a time in a key.
// It neither waits for that time nor takes it for over.
func TestAnotherClock(t *testing.T) {
	waits := func(w *record.Word) bool { return w.NotBefore != nil }
	for _, c := range []struct {
		name     string
		hooks    workermodel.Hooks
		at       func(*record.Word) bool // when the other leader takes over
		attempts int64
		want     state.Job
		least    time.Duration // all of it takes
		most     time.Duration
	}{
		// Behind: the pause seems to be an hour long. Ahead: it seems to be over.
		{"pause", breaks(workermodel.Drain, 1, false), waits, 2, state.JobFinished, 0, 2 * time.Minute},
		{"pause of a replay", breaks(workermodel.Commit, 1, false), waits, 2, state.JobFinished, 0, 2 * time.Minute},
		{"barrier", workermodel.Hooks{}, func(w *record.Word) bool { return w.Barrier.State == record.BarrierOpen }, 1, state.JobFinished, 0, time.Minute},
		{"barrier that hangs", hanging(workermodel.Prepare, 1), func(w *record.Word) bool { return w.Barrier.State == record.BarrierOpen }, 2, state.JobFinished, 10 * time.Minute, 40 * time.Minute},
		{"commits", workermodel.Hooks{}, func(w *record.Word) bool { return w.Completed > w.Committed }, 1, state.JobFinished, 0, time.Minute},
		{"commits that hang", hanging(workermodel.Commit, 1), func(w *record.Word) bool { return w.Completed > w.Committed }, 2, state.JobFinished, 10 * time.Minute, 15 * time.Minute},
		// Ahead: the deadline seems to be over, and what is left then is left for good.
		{"closing", breaks(workermodel.Commit, 1, false), func(w *record.Word) bool { return w.Deadline != nil }, 2, state.JobFinished, 0, 2 * time.Minute},
		{"closing that hangs", hanging(workermodel.Commit, 9), func(w *record.Word) bool { return w.Deadline != nil }, 2, state.JobFailed, 10 * time.Minute, 15 * time.Minute},
	} {
		for _, ahead := range []time.Duration{time.Hour, -time.Hour, 10_000 * time.Hour} {
			t.Run(c.name+" "+ahead.String(), func(t *testing.T) {
				s := with(t, "two-phase", c.hooks, "w1", "w2")
				s.until("taken over", func() bool { w := s.word(1); return w != nil && c.at(w) })
				s.ahead = ahead
				s.elect()
				if !s.settle(func() bool { return s.ended() && s.clean() }) {
					s.fatal("no end")
				}
				w, st := s.word(1), s.status()
				if st.Phase != c.want || int64(w.Attempt) != c.attempts || c.want == state.JobFinished && len(w.Left) > 0 {
					s.fatal("%s in attempt %d, left %v: %s", st.Phase, w.Attempt, w.Left, st.Message)
				}
				if d := s.now.Sub(t0); d < c.least || d > c.most {
					s.fatal("it took %v", d)
				}
				if len(w.Left) > 0 {
					return // whose keys stay with its history
				}
				ended := s.now
				s.retired("ended")
				if d := s.now.Sub(ended); d > 2*s.conf.Linger {
					s.fatal("its keys stayed for %v", d)
				}
			})
		}
	}
}

// TestHere: a time in a key is looked at once, and means no more than it can.
func TestHere(t *testing.T) {
	x := &stepper{s: &State{}, now: t0}
	*x.s = x.s.clone()
	in := func(d time.Duration) time.Duration {
		return x.here(1, clockNotBefore, t0.Add(d), 0, time.Minute).Sub(t0)
	}
	for _, c := range []struct{ written, want time.Duration }{{30 * time.Second, 30 * time.Second}, {time.Hour, time.Minute}, {-time.Hour, 0}, {time.Minute, time.Minute}} {
		if got := in(c.written); got != c.want {
			t.Errorf("%v from now means %v, want %v", c.written, got, c.want)
		}
	}
	in(time.Hour)
	x.now = t0.Add(50 * time.Second)
	if got := in(time.Hour); got != time.Minute {
		t.Errorf("it moves with the clock: %v", got)
	}
	if got := x.here(2, clockNotBefore, t0.Add(time.Hour), 0, time.Minute).Sub(t0); got != 110*time.Second {
		t.Errorf("another pipeline: %v", got)
	}
}

// TestHealthyByAnotherClock: a pipeline is healthy by the time it ran, not by a clock behind the one that wrote when it began.
func TestHealthyByAnotherClock(t *testing.T) {
	x := &stepper{s: &State{}, now: t0, c: Config{}.Defaults()}
	*x.s = x.s.clone()
	since := t0.Add(time.Hour)
	p := &pipe{id: 1, word: &record.Word{RunningSince: &since}}
	if x.healthy(p) {
		t.Error("healthy before it ran")
	}
	if x.now = t0.Add(x.c.Healthy); !x.healthy(p) {
		t.Error("not healthy although it ran long enough")
	}
	since = t0.Add(-time.Hour)
	if x.now = t0; !x.healthy(&pipe{id: 2, word: p.word}) {
		t.Error("not healthy after an hour under another leader")
	}
}
