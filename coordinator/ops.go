package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
)

const (
	countersFresh = time.Second     // an answer is used again for so long
	countersLimit = 2 * time.Second // workers have so long to answer
)

// Handler answers GET /counters/<job> with the live counters of a job, added up over its workers: JSON of
// []record.VertexSummary. 503 while this process does not lead.
func (x *Coordinator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /counters/{job}", x.ops.serve)
	return mux
}

// counters pulls from workers, at most once a second for each job, however many ask.
type counters struct {
	x    *Coordinator
	http *http.Client
	mu   sync.Mutex
	jobs map[plan.JobID]*pulled
}

type pulled struct {
	mu  sync.Mutex // held while pulling
	at  time.Time
	out []record.VertexSummary
}

func newCounters(x *Coordinator) *counters {
	return &counters{x: x, http: x.c.HTTP, jobs: map[plan.JobID]*pulled{}}
}

var (
	errNotLeading = errors.New("this coordinator does not lead; ask the one in the leader key")
	errNoJob      = errors.New("no such job")
)

func (c *counters) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*countersLimit)
	defer cancel()
	out, err := c.get(ctx, plan.JobID(r.PathValue("job")))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case errors.Is(err, errNoJob):
		w.WriteHeader(http.StatusNotFound)
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if err != nil {
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
		return
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (c *counters) get(ctx context.Context, id plan.JobID) ([]record.VertexSummary, error) {
	l := c.x.loop.Load()
	if l == nil {
		return nil, errNotLeading
	}
	c.mu.Lock()
	p := c.jobs[id]
	if p == nil {
		for old, q := range c.jobs {
			if time.Since(q.at) > time.Minute {
				delete(c.jobs, old)
			}
		}
		p = &pulled{}
		c.jobs[id] = p
	}
	c.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < countersFresh {
		return p.out, nil
	}
	var v *view
	if !l.ask(ctx, func() { v = l.view(id) }) {
		return nil, fmt.Errorf("counters of job %s: %w", id, context.Cause(ctx))
	}
	if v == nil {
		return nil, fmt.Errorf("job %s: %w", id, errNoJob)
	}
	p.out, p.at = c.pull(ctx, id, v), time.Now()
	return p.out, nil
}

// view is what the loop knows of a job's workers.
type view struct {
	plan  *physical.Plan
	pipes map[string][]plan.PipelineID // worker -> its pipelines
	ops   map[string]string            // worker -> address
	final map[plan.PipelineID][]record.VertexCount
	done  []record.VertexSummary // of a job that has ended
}

// view is run in the loop's goroutine.
func (l *loop) view(id plan.JobID) *view {
	e := l.jobs[id]
	if e == nil || !e.facts.Known() {
		return nil
	}
	l.decode(e)
	v := &view{plan: e.plan, pipes: map[string][]plan.PipelineID{}, ops: map[string]string{}, final: map[plan.PipelineID][]record.VertexCount{}}
	if h := e.facts.History.Value; h != nil {
		v.done = h.Vertices
		return v
	}
	for pid, p := range e.facts.Pipes {
		pl := p.Placement.Value
		if pl == nil {
			continue
		}
		for name, at := range pl.Workers {
			if s := p.Statuses[name].Value; s != nil && s.Incarnation == at.Incarnation && len(s.Final) > 0 {
				v.final[pid] = append(v.final[pid], s.Final...)
				continue
			}
			if w := l.fleet.Live(name); w != nil && w.Incarnation == at.Incarnation && w.Record.Ops != "" {
				v.pipes[name] = append(v.pipes[name], pid)
				v.ops[name] = w.Record.Ops
			}
		}
	}
	return v
}

// owner is the first pipeline with that vertex on a worker whose answer names none.
func (v *view) owner(worker string, x plan.VertexID) plan.PipelineID {
	first := plan.PipelineID(0)
	for _, id := range v.pipes[worker] {
		if p := v.plan; p != nil && p.Pipeline(id) != nil && p.Pipeline(id).Vertex(x) != nil && (first == 0 || id < first) {
			first = id
		}
	}
	return first
}

// live is what a worker answers: the counters of one job, by pipeline where it says so.
type live struct {
	Pipeline plan.PipelineID `json:"pipeline"`
	record.VertexCount
}

// pull asks every worker; one that does not answer in time is left out.
func (c *counters) pull(ctx context.Context, id plan.JobID, v *view) []record.VertexSummary {
	if v.done != nil {
		return v.done
	}
	type key struct {
		p plan.PipelineID
		v plan.VertexID
	}
	sums := map[key]*record.Counters{}
	add := func(k key, n record.Counters) {
		if sums[k] == nil {
			sums[k] = &record.Counters{}
		}
		sums[k].Add(n)
	}
	for p, cs := range v.final {
		for _, n := range cs {
			add(key{p, n.Vertex}, n.Counters)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, countersLimit)
	defer cancel()
	var mu sync.Mutex
	g := errgroup.Group{}
	g.SetLimit(16)
	for name, addr := range v.ops {
		g.Go(func() error {
			got, err := c.ask(ctx, addr, id)
			if err != nil {
				return nil // shown without it
			}
			mu.Lock()
			defer mu.Unlock()
			for _, n := range got {
				if n.Pipeline == 0 {
					n.Pipeline = v.owner(name, n.Vertex)
				}
				add(key{n.Pipeline, n.Vertex}, n.Counters)
			}
			return nil
		})
	}
	_ = g.Wait()
	var out []record.VertexSummary
	if v.plan != nil {
		for _, p := range v.plan.Pipelines {
			for _, x := range p.Vertices {
				s := record.VertexSummary{Pipeline: p.ID, Vertex: x.ID, Plugin: x.Plugin, Parallelism: x.Parallelism}
				if n := sums[key{p.ID, x.ID}]; n != nil {
					s.Counters = *n
				}
				out = append(out, s)
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Pipeline < out[j].Pipeline })
	return out
}

func (c *counters) ask(ctx context.Context, addr string, id plan.JobID) ([]live, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/counters/"+string(id), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	var out []live
	return out, json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&out)
}
