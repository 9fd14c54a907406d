package integration

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"strait/integration/harness"
	"strait/kv/kvtest"
	"strait/plan/state"
)

// renewed waits until a worker has renewed its lease twice.
func (c *chaos) renewed(worker string) {
	c.t.Helper()
	e, err := c.Store().Get(c.t.Context(), tree+"workers/"+worker)
	if err != nil || e.Lease == 0 {
		c.t.Fatalf("%s has no key with a lease: %v\n%s", worker, err, c.Logs())
	}
	last, times := time.Duration(0), 0
	c.Await(worker+" renews its lease", limit, func() bool {
		left := kvtest.LeaseLeft(c.t, c.Etcd, e.Lease)
		if left == 0 {
			c.t.Fatalf("the lease of %s has ended\n%s", worker, c.Logs())
		}
		if last > 0 && left > last {
			times++
		}
		last = left
		time.Sleep(200 * time.Millisecond) // a lease tells whole seconds
		return times >= 2
	})
}

// jumps sets the clock of a role and waits until doctor sees it.
func (c *chaos) jumps(name string, d time.Duration, sees string) {
	c.t.Helper()
	c.ShiftClock(name, d)
	want := regexp.MustCompile(`(?m)clock +\w+ ` + name + `\b.* ` + sees + ` this host`)
	c.Await("doctor sees the clock of "+name, limit, func() bool { return want.MatchString(c.Stctl("doctor").Stdout) })
}

// TestScenario26ClockJumps sets the wall clock of one running process an hour ahead and an hour back. Whatever it waits
// for, it waits for by the clock that does not jump: leases and gates hold, rows flow, no task restarts.
func TestScenario26ClockJumps(t *testing.T) {
	slow := func(c *chaos) { // the rows flow while the clock jumps, and the job cannot end
		c.rows = 8000
		c.submitText("chaos", strings.Replace(c.text(), "env {", "env { read_limit.rows_per_second = 500, ", 1))
		c.runs("chaos")
	}
	opt := func() harness.Options {
		return harness.Options{Workers: 2, Slots: 2, Worker: []string{"--ttl", "10s", "--call-limit", "2s"}, Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}}
	}
	for role, name := range map[string]string{"worker": "w2", "coordinator": "c1"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			c := startChaos(t, opt())
			slow(c)
			if pl := c.placement("chaos"); len(pl.Workers) != 2 {
				t.Fatalf("placed on %v", pl.Workers)
			}
			w1, w2 := c.incarnation("w1"), c.incarnation("w2")
			for _, jump := range []struct {
				d    time.Duration
				sees string
			}{{time.Hour, "ahead of"}, {-time.Hour, "behind"}} {
				c.jumps(name, jump.d, jump.sees)
				c.renewed("w1")
				c.renewed("w2")
			}
			c.reached()
			c.ShiftClock(name, time.Hour)
			c.free()
			c.whole()
			c.first()
			if a, b := c.incarnation("w1"), c.incarnation("w2"); a != w1 || b != w2 {
				t.Errorf("incarnations %d and %d became %d and %d\n%s", w1, w2, a, b, c.Logs())
			}
		})
	}
	// What the leader has written by a clock that was wrong binds nobody for an hour.
	t.Run("pause", func(t *testing.T) {
		t.Parallel()
		c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Worker: []string{"--ttl", "10s", "--call-limit", "2s"}, Env: []string{"STRAIT_FAILPOINTS=task.read=error/HELD"}})
		c.jumps("c1", time.Hour, "ahead of")
		c.submitText("chaos", strings.Replace(c.text(), "job.retry.interval.seconds = 1", "job.retry.interval.seconds = 10", 1))
		c.Await("the next attempt pauses", limit, func() bool {
			at := c.word("chaos").NotBefore
			return at != nil && time.Until(*at) > 50*time.Minute
		})
		c.ShiftClock("c1", 0)
		if w := c.word("chaos"); w.Phase != state.PipelineDeploying {
			t.Fatalf("it is %s already", w.Phase)
		}
		c.Kill("c1")
		c.RestartCoordinator() // with the clock of the host, and only the key to go by
		c.whole()
		if w := c.word("chaos"); w.Attempt != 2 {
			t.Errorf("attempt %d: %s", w.Attempt, w.Message)
		}
	})
}
