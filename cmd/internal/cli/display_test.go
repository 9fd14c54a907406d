package cli

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// glass is a terminal as far as a screen uses one: text, "up n lines" and "clear what is below".
type glass struct {
	lines []string
	at    int // the line of the cursor, which stands at the end of it
	wraps int // lines longer than the terminal is wide
	width int
}

var escape = regexp.MustCompile(`^\x1b\[(\d*)([AJ])`)

func (g *glass) Write(p []byte) (int, error) {
	for s := string(p); s != ""; {
		if m := escape.FindStringSubmatch(s); m != nil {
			if m[2] == "A" {
				n, _ := strconv.Atoi(m[1])
				g.at -= n
			} else {
				g.lines = g.lines[:g.at]
			}
			s = s[len(m[0]):]
			continue
		}
		for len(g.lines) <= g.at {
			g.lines = append(g.lines, "")
		}
		i := strings.IndexAny(s, "\n\x1b")
		if i < 0 {
			i = len(s)
		}
		g.lines[g.at] += s[:i]
		if len([]rune(g.lines[g.at])) > g.width {
			g.wraps++
		}
		if s = s[i:]; strings.HasPrefix(s, "\n") {
			s = s[1:]
			g.at++
		}
	}
	return len(p), nil
}

func (g *glass) want(t *testing.T, want ...string) {
	t.Helper()
	if got := g.lines; !cmp.Equal(append([]string{}, got...), append([]string{}, want...)) {
		t.Errorf("the terminal shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if g.wraps > 0 {
		t.Errorf("%d lines are wider than the terminal", g.wraps)
	}
}

func liveScreen(columns, rows int) (*screen, *glass) {
	g := &glass{width: columns}
	return &screen{out: g, size: func() (int, int) { return columns, rows }}, g
}

func TestScreenKeepsWhatOthersPrint(t *testing.T) {
	s, g := liveScreen(40, 10)
	rows := s.beside(g) // a Console sink on the same terminal
	s.draw([]string{"one", "two"})
	g.want(t, "one", "two")
	fmt.Fprintln(rows, "row 1")
	g.want(t, "row 1")
	s.draw([]string{"one", "two"})
	g.want(t, "row 1", "one", "two")
	s.say("said %d", 1)
	fmt.Fprint(rows, "half of ")
	s.draw([]string{"one"}) // not into the middle of a line
	g.want(t, "row 1", "said 1", "half of ")
	fmt.Fprintln(rows, "a row")
	s.draw([]string{"one"})
	fmt.Fprintln(s, "a log line")
	g.want(t, "row 1", "said 1", "half of a row", "a log line")
	s.draw([]string{"two"})
	s.clear()
	s.clear()
	g.want(t, "row 1", "said 1", "half of a row", "a log line")
}

func TestScreenFits(t *testing.T) {
	s, g := liveScreen(12, 6)
	s.draw([]string{"0123456789ä", "0123456789äbc", "two\nlines", "x"})
	g.want(t, "0123456789ä", "0123456789…", "two lines", "x")
	s.draw([]string{"1", "2", "3", "4", "5", "6"})
	g.want(t, "1", "2", "3", "  … and 3 …")
	s.draw(nil)
	g.want(t)
}

func TestScreenIsQuietWhenNothingIsNew(t *testing.T) {
	s, g := liveScreen(40, 10)
	s.draw([]string{"a"})
	var b bytes.Buffer
	s.out = &b
	s.draw([]string{"a"})
	if b.Len() > 0 {
		t.Errorf("the same block was drawn again: %q", b.String())
	}
	s.out = g
	s.draw([]string{"b"})
	g.want(t, "b")
}

func TestPlainScreenNeverRewrites(t *testing.T) {
	var b bytes.Buffer
	s := newScreen(&b)
	w := s.beside(&b)
	if w != &b || s.live() {
		t.Fatal("a buffer is taken for a terminal")
	}
	s.draw([]string{"live"})
	s.say("said")
	s.clear()
	if b.String() != "said\n" {
		t.Errorf("%q", b.String())
	}
}

// start is the time of the tests of displays.
var start = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

func status(phase state.Job, message string) client.Update {
	return client.Update{Status: &record.JobStatus{Phase: phase, Message: message}}
}

func running(attempt plan.Attempt, pipelines int) client.Update {
	u := status(state.JobRunning, "")
	u.Status.Pipelines = map[plan.PipelineID]record.PipelineStatus{}
	for i := range pipelines {
		u.Status.Pipelines[plan.PipelineID(i+1)] = record.PipelineStatus{Phase: state.PipelineRunning, Attempt: attempt}
	}
	return u
}

func sourceRows(rows ...int64) []record.VertexSummary {
	var out []record.VertexSummary
	for i, n := range rows {
		id := plan.PipelineID(i + 1)
		out = append(out,
			record.VertexSummary{Pipeline: id, Vertex: "in", Counters: record.Counters{RowsOut: n, BytesOut: n * 10}},
			record.VertexSummary{Pipeline: id, Vertex: "out", Counters: record.Counters{RowsIn: n, RowsOut: n, BytesIn: n * 10}})
	}
	return out
}

// TestPlainLines: what a log file or a pipe gets.
func TestPlainLines(t *testing.T) {
	f := func(name string, steps func(*display), want ...string) {
		t.Helper()
		var b bytes.Buffer
		steps(newDisplay(newScreen(&b)))
		got := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if b.Len() == 0 {
			got = nil
		}
		if !cmp.Equal(got, want) {
			t.Errorf("%s: said\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	f("a job of milliseconds says nothing", func(d *display) {
		for i, u := range []client.Update{{}, status(state.JobSubmitted, ""), status(state.JobPlanned, ""), status(state.JobScheduled, ""),
			running(1, 1), status(state.JobRunning, "pipeline 1: checkpoint 1 is complete; its commits are not yet done on run"),
			status(state.JobClosing, "pipeline 1: checkpoint 1 is complete; its commits are not yet done on run"), status(state.JobFinished, "")} {
			d.update(u, after(time.Duration(i)*50*time.Millisecond))
			d.tick(after(time.Duration(i)*50*time.Millisecond + 25*time.Millisecond))
		}
		d.tick(after(10 * time.Second)) // the end is told by others
	})
	f("what lasts is told once, at the second", func(d *display) {
		d.update(client.Update{}, start)
		d.tick(after(999 * time.Millisecond))
		d.tick(after(time.Second))
		d.tick(after(2 * time.Second))
		d.update(status(state.JobRunning, ""), after(3*time.Second))
		d.tick(after(3500 * time.Millisecond))
		d.update(status(state.JobRunning, ""), after(3600*time.Millisecond)) // other parts of the status changed
		d.tick(after(4 * time.Second))
		d.update(status(state.JobRunning, ""), after(5*time.Second))
	}, "08:00:01 waiting for a coordinator to take the job", "08:00:04 RUNNING")
	f("why it waits is told at once", func(d *display) {
		d.update(status(state.JobPending, "needs 1 slot, no worker is there"), start)
		d.update(status(state.JobPending, "needs 1 slot, no worker is there"), after(time.Second))
		d.update(status(state.JobPending, "needs 1 slot, all 2 are taken"), after(2*time.Second))
		d.update(running(1, 1), after(3*time.Second))
		d.update(status(state.JobRestarting, ""), after(3100*time.Millisecond))
		d.update(status(state.JobRestarting, "pipeline 1: attempt 2 begins at 08:00:10; the last one ended because: x"), after(3200*time.Millisecond))
		d.update(running(2, 1), after(3300*time.Millisecond))
	}, "08:00:00 PENDING: needs 1 slot, no worker is there", "08:00:02 PENDING: needs 1 slot, all 2 are taken",
		"08:00:03 RESTARTING: pipeline 1: attempt 2 begins at 08:00:10; the last one ended because: x")
	f("a restart that only the pipeline explains", func(d *display) {
		u := running(2, 2)
		u.Status.Phase = state.JobRestarting
		u.Status.Pipelines[2] = record.PipelineStatus{Phase: state.PipelineDeploying, Attempt: 2, Message: "worker w2 is gone"}
		d.update(u, start)
		d.tick(after(time.Second))
	}, "08:00:01 RESTARTING: pipeline 2: worker w2 is gone")
	f("a state that comes back is told again", func(d *display) {
		d.update(running(1, 1), start)
		d.tick(after(time.Second))
		d.update(status(state.JobRestarting, "x"), after(2*time.Second))
		d.update(running(2, 1), after(3*time.Second))
		d.tick(after(4 * time.Second))
	}, "08:00:01 RUNNING", "08:00:02 RESTARTING: x", "08:00:04 RUNNING")
	f("a failure that is slow to end", func(d *display) {
		d.update(status(state.JobFailing, "pipeline 1: x"), start)
		d.tick(after(time.Second))
	}, "08:00:01 FAILING: pipeline 1: x")
	f("counters", func(d *display) {
		d.update(running(1, 2), start)
		d.counters(sourceRows(1000, 5), nil, after(100*time.Millisecond))
		d.counters(nil, nil, after(200*time.Millisecond)) // no answer
		d.counters(sourceRows(3000, 5), nil, after(600*time.Millisecond))
	}, "08:00:00 pipeline 1 running, 1,000 rows, 9.8 KiB", "08:00:00 pipeline 2 running, 5 rows, 50 B",
		"08:00:00 pipeline 1 running, 3,000 rows, 29.3 KiB, 4,000 rows/s", "08:00:00 pipeline 2 running, 5 rows, 50 B")
	f("no counters of a job that waits", func(d *display) {
		d.update(status(state.JobPending, ""), start)
		d.counters(sourceRows(1), nil, start)
	})
	f("etcd is away", func(d *display) {
		d.update(running(1, 1), start)
		d.counters(nil, errors.New("etcd does not answer"), after(100*time.Millisecond))
		d.counters(nil, errors.New("etcd does not answer, still"), after(200*time.Millisecond))
		d.counters(nil, nil, after(300*time.Millisecond))
		d.counters(nil, errors.New("etcd does not answer"), after(400*time.Millisecond))
	}, "08:00:00 etcd does not answer", "08:00:00 the fleet answers again", "08:00:00 etcd does not answer")
}

func TestLiveLines(t *testing.T) {
	s, g := liveScreen(80, 10)
	d := newDisplay(s)
	d.update(status(state.JobPending, "needs 4 slots, 2 are free"), start)
	g.want(t, "08:00:00 PENDING: needs 4 slots, 2 are free")
	d.update(running(1, 2), after(time.Second))
	const said = "08:00:00 PENDING: needs 4 slots, 2 are free"
	g.want(t, said, "pipeline 1 running", "pipeline 2 running")
	d.counters(sourceRows(1000, 0), nil, after(1100*time.Millisecond))
	g.want(t, said, "pipeline 1 running, 1,000 rows, 9.8 KiB", "pipeline 2 running, 0 rows, 0 B")
	d.counters(sourceRows(2000, 0), nil, after(1600*time.Millisecond))
	g.want(t, said, "pipeline 1 running, 2,000 rows, 19.5 KiB, 2,000 rows/s", "pipeline 2 running, 0 rows, 0 B")
	d.counters(sourceRows(2000, 0), nil, after(2*time.Second)) // the leader's numbers are the same for a while
	g.want(t, said, "08:00:02 RUNNING", "pipeline 1 running, 2,000 rows, 19.5 KiB, 2,000 rows/s", "pipeline 2 running, 0 rows, 0 B")
	d.counters(sourceRows(2000, 0), nil, after(6*time.Second))
	g.want(t, said, "08:00:02 RUNNING", "pipeline 1 running, 2,000 rows, 19.5 KiB, 0 rows/s", "pipeline 2 running, 0 rows, 0 B, 0 rows/s")

	u := running(2, 1)
	u.Status.Phase, u.Status.Message = state.JobRestarting, "pipeline 1: attempt 2 begins at 08:00:09"
	u.Status.Pipelines[1] = record.PipelineStatus{Phase: state.PipelineDeploying, Attempt: 2}
	d.update(u, after(7*time.Second))
	d.counters(sourceRows(10), nil, after(8*time.Second))
	restarting := "08:00:07 RESTARTING: pipeline 1: attempt 2 begins at 08:00:09"
	g.want(t, said, "08:00:02 RUNNING", restarting, "pipeline 1 deploying, attempt 2, 10 rows, 100 B")

	d.update(status(state.JobFinished, ""), after(8*time.Second))
	s.clear()
	g.want(t, said, "08:00:02 RUNNING", restarting)
}
