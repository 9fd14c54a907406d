package tasktest

import (
	"fmt"
	"testing"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/config"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/plan/physical"
	"strait/plan/schema"
	"strait/transport/stream"
)

// Chain is one chain of a plan: plugins by name, and how many subtasks. Chains behind the first hang on it.
type Chain struct {
	Plugins     []string
	Parallelism int
	Exchange    stream.Exchange // from the first chain; empty: rebalance
}

func section(p string) config.Section {
	switch p {
	case "TestSource":
		return config.Source
	case "TestEven":
		return config.Transform
	}
	return config.Sink
}

// Plan makes a plan of one pipeline; vertices are v0, v1, … in order.
func Plan(t testing.TB, chains ...Chain) *physical.Plan {
	p := &physical.Pipeline{ID: 1, Bounded: true}
	tables := []*schema.Table{Table}
	n := 0
	for c, sh := range chains {
		ch := &physical.Chain{ID: plan.ChainID(c), Parallelism: sh.Parallelism}
		for i, plugin := range sh.Plugins {
			v := &physical.Vertex{
				ID: plan.VertexID(fmt.Sprintf("v%d", n)), Section: section(plugin), Plugin: plugin, Path: fmt.Sprintf("v%d (%s)", n, plugin),
				Parallelism: sh.Parallelism, Chain: ch.ID, In: tables, Out: tables,
				Options: &option.Node{Kind: option.Object, Fields: []option.Field{{Key: "world", Value: &option.Node{Kind: option.String, Text: t.Name()}}}},
			}
			if v.Section == config.Source {
				v.In, v.Bounded = nil, true
			} else {
				before := plan.VertexID(fmt.Sprintf("v%d", n-1))
				if i == 0 {
					before = p.Chains[0].Vertices[len(p.Chains[0].Vertices)-1]
				}
				v.Inputs, v.InputNames = []plan.VertexID{before}, []string{""}
			}
			if v.Section == config.Sink {
				v.Sink, v.Out = &logical.SinkInfo{TwoPhase: plugin == "TestTwoPhase", Aggregated: plugin == "TestAggregating"}, nil
			}
			n++
			ch.Vertices = append(ch.Vertices, v.ID)
			p.Vertices = append(p.Vertices, v)
		}
		p.Chains = append(p.Chains, ch)
		if c > 0 {
			if sh.Exchange == "" {
				sh.Exchange = stream.Rebalance
			}
			e := &physical.Edge{ID: c - 1, From: 0, To: ch.ID, Exchange: string(sh.Exchange), Tables: tables}
			p.Edges = append(p.Edges, e)
			p.Chains[0].Outputs = append(p.Chains[0].Outputs, e.ID)
			ch.Inputs = []int{e.ID}
		}
	}
	return &physical.Plan{Version: physical.Version, JobName: "test", Pipelines: []*physical.Pipeline{p}}
}

// Place spreads the subtasks of a plan's pipeline over workers, subtask i on worker i modulo their number; enumerators and committers are with subtask 0.
func Place(p *physical.Plan, attempt plan.Attempt, workers ...string) *record.Placement {
	pipe := p.Pipelines[0]
	pl := &record.Placement{Header: record.Head, Attempt: attempt, Scope: record.ScopeAll, Token: "token", Workers: map[string]record.PlacedWorker{},
		Enumerators: map[plan.VertexID]string{}, Committers: map[plan.VertexID]string{}}
	for _, c := range pipe.Chains {
		for i := range c.Parallelism {
			if n := len(pl.Chains); i > 0 && pl.Chains[n-1].Worker == workers[i%len(workers)] {
				pl.Chains[n-1].To++
				continue
			}
			pl.Chains = append(pl.Chains, record.PlacedChain{Chain: c.ID, Worker: workers[i%len(workers)], Range: plan.Range{From: i, To: i + 1}})
		}
	}
	for _, v := range pipe.Vertices {
		switch {
		case v.Section == config.Source:
			pl.Enumerators[v.ID] = workers[0]
		case v.Plugin == "TestTwoPhase" || v.Plugin == "TestAggregating":
			pl.Committers[v.ID] = workers[0]
		}
	}
	return pl
}

// Assign cuts a worker's assignment out of a placement.
func Assign(pl *record.Placement, worker string, incarnation int64) *record.Assignment {
	a := &record.Assignment{Header: record.Head, Incarnation: incarnation, Attempt: pl.Attempt, Scope: pl.Scope}
	for _, pc := range pl.Chains {
		if pc.Worker == worker {
			a.Chains = append(a.Chains, pc)
		}
	}
	for v, w := range pl.Enumerators {
		if w == worker {
			a.Enumerators = append(a.Enumerators, v)
		}
	}
	for v, w := range pl.Committers {
		if w == worker {
			a.Committers = append(a.Committers, v)
		}
	}
	return a
}
