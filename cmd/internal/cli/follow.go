package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan"
)

// jobs is what a follower needs of the client.
type jobs interface {
	Watch(ctx context.Context, id plan.JobID, f func(client.Update) error) error
	Leader(ctx context.Context) (*record.Leader, error)
}

const (
	lookEvery   = 250 * time.Millisecond // whether something has stood long enough to be told
	liveEvery   = 500 * time.Millisecond // counters on a terminal
	plainEvery  = 10 * time.Second       // counters elsewhere
	askWithin   = 2 * time.Second        // for counters
	maxCounters = 4 << 20
)

// follower shows a job while it runs. What is shown is decided by its display; here is what moves it: the watch of
// the job's keys, the leader's live counters, the clock.
type follower struct {
	jobs jobs
	http *http.Client

	mu   sync.Mutex
	show *display
}

func newFollower(j jobs, s *screen) *follower {
	return &follower{jobs: j, http: &http.Client{Timeout: askWithin}, show: newDisplay(s)}
}

// follow shows the job until it has ended or ctx ends, and returns its last status, nil when there was none.
func (f *follower) follow(ctx context.Context, id plan.JobID) (*record.JobStatus, error) {
	defer f.http.CloseIdleConnections()
	moving, stop := context.WithCancel(ctx)
	var g sync.WaitGroup
	g.Go(func() { f.look(moving) })
	g.Go(func() { f.pull(moving, id) })
	err := f.jobs.Watch(ctx, id, func(u client.Update) error {
		f.do(func(d *display) { d.update(u, time.Now()) })
		return nil
	})
	stop()
	g.Wait()
	f.show.screen.clear()
	return f.show.last.Status, err
}

func (f *follower) do(step func(*display)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	step(f.show)
}

func (f *follower) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f.do(func(d *display) { d.tick(now) })
		}
	}
}

// pull asks the leader for live counters now and then. Without an answer the lines show none; when etcd does not
// answer either, that is told.
func (f *follower) pull(ctx context.Context, id plan.JobID) {
	every := plainEvery
	if f.show.screen.live() {
		every = liveEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		counts, trouble := f.counters(ctx, id)
		if ctx.Err() != nil {
			return
		}
		f.do(func(d *display) { d.counters(counts, trouble, time.Now()) })
	}
}

// counters are nil when the leader does not answer. The error is for people: why nothing new can be heard of the
// job at all.
func (f *follower) counters(ctx context.Context, id plan.JobID) ([]record.VertexSummary, error) {
	leader, err := f.jobs.Leader(ctx)
	if errors.Is(err, client.ErrNoLeader) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("nothing is heard of the job, trying again; what runs is not disturbed: %w", err)
	}
	return leaderCounters(ctx, f.http, leader.Ops, id), nil
}

// leaderCounters asks a leader at ops for the live counters of a job; nil when it gives none.
func leaderCounters(ctx context.Context, hc *http.Client, ops string, id plan.JobID) []record.VertexSummary {
	if ops == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/counters/"+string(id), nil)
	if err != nil {
		return nil
	}
	resp, err := hc.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var out []record.VertexSummary
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, maxCounters)).Decode(&out) != nil {
		return nil
	}
	return out
}
