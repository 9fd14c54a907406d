package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
	"strait/plan/units"
)

// follower shows a job while it runs: one line a pipeline, rewritten in place on a terminal, plain lines
// otherwise, and only when something changed.
type follower struct {
	cl    *client.Client
	out   io.Writer
	live  bool // a terminal: rewrite lines
	every time.Duration
	http  *http.Client

	mu     sync.Mutex
	last   client.Update
	said   string // last plain text about the phase
	lines  int    // lines of the live block
	rows   map[plan.PipelineID]int64
	at     time.Time
	counts map[plan.PipelineID]progress
}

type progress struct {
	rows, bytes int64
	rate        float64
}

func newFollower(cl *client.Client, out io.Writer) *follower {
	f, isFile := out.(*os.File)
	live := isFile && terminal(f)
	every := 10 * time.Second
	if live {
		every = 500 * time.Millisecond
	}
	return &follower{cl: cl, out: out, live: live, every: every, http: &http.Client{Timeout: 2 * time.Second}, counts: map[plan.PipelineID]progress{}}
}

// follow shows the job until it has ended or ctx ends, and returns its last status.
func (f *follower) follow(ctx context.Context, id plan.JobID) (*record.JobStatus, error) {
	defer f.http.CloseIdleConnections()
	pulling, stop := context.WithCancel(ctx)
	var pulls sync.WaitGroup
	pulls.Add(1)
	go func() {
		defer pulls.Done()
		f.pull(pulling, id)
	}()
	err := f.cl.Watch(ctx, id, func(u client.Update) error {
		f.show(u)
		return nil
	})
	stop()
	pulls.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.erase()
	return f.last.Status, err
}

// pull asks the leader for live counters now and then. Without an answer the lines show none.
func (f *follower) pull(ctx context.Context, id plan.JobID) {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		counts, err := f.counters(ctx, id)
		if err != nil || len(counts) == 0 {
			continue
		}
		f.mu.Lock()
		f.count(counts, time.Now())
		f.draw(true)
		f.mu.Unlock()
	}
}

func (f *follower) counters(ctx context.Context, id plan.JobID) ([]record.VertexSummary, error) {
	leader, err := f.cl.Leader(ctx)
	if err != nil || leader.Ops == "" {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+leader.Ops+"/counters/"+string(id), nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out []record.VertexSummary
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("counters: %s", resp.Status)
	}
	return out, json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&out)
}

func (f *follower) count(vertices []record.VertexSummary, now time.Time) {
	rows, bytes := map[plan.PipelineID]int64{}, map[plan.PipelineID]int64{}
	for _, v := range vertices {
		if v.RowsIn == 0 { // a source: what it gave out
			rows[v.Pipeline] += v.RowsOut
			bytes[v.Pipeline] += v.BytesOut
		}
	}
	for p, n := range rows {
		r := 0.0
		if f.rows != nil {
			if d := now.Sub(f.at).Seconds(); d > 0 {
				r = float64(n-f.rows[p]) / d
			}
		}
		f.counts[p] = progress{n, bytes[p], r}
	}
	f.rows, f.at = rows, now
}

func (f *follower) show(u client.Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = u
	f.draw(false)
}

// draw writes what is new. tick: counters may have moved.
func (f *follower) draw(tick bool) {
	u := f.last
	if u.Status == nil {
		f.plain("waiting for a coordinator to take the job")
		return
	}
	st := u.Status
	text := string(st.Phase)
	if st.Message != "" {
		text += ": " + st.Message
	}
	if !st.Phase.Terminal() { // the end is told by the caller
		f.plain(text)
	}
	if st.Phase != state.JobRunning && st.Phase != state.JobRestarting && st.Phase != state.JobClosing {
		return
	}
	if f.live {
		f.erase()
		for _, line := range f.pipelines() {
			fmt.Fprintln(f.out, line)
			f.lines++
		}
	} else if tick {
		for _, line := range f.pipelines() {
			fmt.Fprintln(f.out, line)
		}
	}
}

func (f *follower) plain(text string) {
	if text == f.said {
		return
	}
	f.said = text
	f.erase()
	fmt.Fprintf(f.out, "%s %s\n", time.Now().Format("15:04:05"), text)
}

// erase takes the live block off the terminal.
func (f *follower) erase() {
	if f.lines > 0 {
		fmt.Fprintf(f.out, "\x1b[%dA\x1b[J", f.lines)
		f.lines = 0
	}
}

func (f *follower) pipelines() []string {
	var out []string
	for id := plan.PipelineID(1); int(id) <= len(f.last.Status.Pipelines)+1; id++ {
		p, ok := f.last.Status.Pipelines[id]
		if !ok {
			continue
		}
		line := fmt.Sprintf("  pipeline %d  %-9s", id, p.Phase)
		if p.Attempt > 1 {
			line += fmt.Sprintf("  attempt %d", p.Attempt)
		}
		if n, ok := f.counts[id]; ok {
			line += fmt.Sprintf("  %s rows  %s  %s rows/s", units.FormatCount(n.rows), units.FormatBytes(n.bytes), units.FormatCount(int64(n.rate)))
		}
		out = append(out, strings.TrimRight(line, " "))
	}
	return out
}
