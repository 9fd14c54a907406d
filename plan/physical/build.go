package physical

import (
	"fmt"
	"slices"
	"strings"

	"strait/plan"
	"strait/plan/config"
	"strait/plan/logical"
	"strait/plan/schema"
)

// The exchanges of an edge, as transport knows them.
const (
	Forward   = "forward"
	Rebalance = "rebalance"
	Hash      = "hash"
	Broadcast = "broadcast"
)

// Build makes the plan of a Dag that logical.Build gave.
func Build(d *logical.Dag) (*Plan, error) {
	for _, v := range d.Vertices {
		if !v.Known {
			return nil, fmt.Errorf("BUG: the tables of %s are not known; a Dag of a check cannot be planned", v.Path)
		}
	}
	parts, err := cut(d)
	if err != nil {
		return nil, err
	}
	p := &Plan{Version: Version, JobName: d.Name, Streaming: d.Env.Streaming, SlotSharing: d.Env.SlotSharing, Env: d.EnvNode}
	for i, nodes := range parts {
		b := pipelineBuilder{out: &Pipeline{ID: plan.PipelineID(i + 1), Bounded: true}, clones: map[*logical.Vertex]*clone{}}
		b.build(nodes)
		p.Pipelines = append(p.Pipelines, b.out)
	}
	return p, nil
}

// clone is a vertex of one pipeline while it is built.
type clone struct {
	v       *logical.Vertex
	out     *Vertex
	outputs int   // in this pipeline
	tables  []int // which of v.Out it has, ascending
}

type pipelineBuilder struct {
	out    *Pipeline
	clones map[*logical.Vertex]*clone
}

func (b *pipelineBuilder) build(nodes []node) {
	for _, n := range nodes {
		for _, i := range n.inputs {
			b.clones[n.v.Inputs[i]].outputs++
		}
		c := &clone{v: n.v, out: &Vertex{ID: n.v.ID, Section: n.v.Section, Plugin: n.v.Plugin, Path: n.v.Path,
			Parallelism: n.v.Parallelism, Options: n.v.Options.Raw()}}
		b.clones[n.v] = c
		b.tables(c, n.inputs)
		for _, i := range n.inputs {
			c.out.Inputs = append(c.out.Inputs, n.v.Inputs[i].ID)
			c.out.InputNames = append(c.out.InputNames, n.v.InputNames[i])
		}
		switch n.v.Section {
		case config.Source:
			c.out.Bounded = n.v.Bounded
			b.out.Bounded = b.out.Bounded && n.v.Bounded
		case config.Sink:
			sink := n.v.Sink
			c.out.Sink = &sink
		}
		b.out.Vertices = append(b.out.Vertices, c.out)
	}
	for _, n := range nodes {
		b.fuse(n)
	}
}

// tables gives the clone those tables that come along the inputs this pipeline has.
func (b *pipelineBuilder) tables(c *clone, inputs []int) {
	if c.v.Section == config.Source {
		for i, t := range c.v.Out {
			c.tables = append(c.tables, i)
			c.out.Out = append(c.out.Out, t)
		}
		return
	}
	for i, ref := range c.v.From {
		if _, ok := slices.BinarySearch(inputs, ref.Input); !ok {
			continue
		}
		if _, ok := slices.BinarySearch(b.clones[c.v.Inputs[ref.Input]].tables, ref.Table); !ok {
			continue
		}
		c.tables = append(c.tables, i)
		c.out.In = append(c.out.In, c.v.In[i])
		if c.v.Section == config.Transform {
			c.out.Out = append(c.out.Out, c.v.Out[i])
		}
	}
}

// fuse puts a vertex behind its only input, or opens a chain with an edge from each input.
func (b *pipelineBuilder) fuse(n node) {
	c := b.clones[n.v]
	if len(n.inputs) == 1 {
		in := b.clones[n.v.Inputs[n.inputs[0]]]
		if in.outputs == 1 && in.v.Parallelism == n.v.Parallelism {
			chain := b.out.Chains[in.out.Chain]
			chain.Vertices = append(chain.Vertices, n.v.ID)
			c.out.Chain = chain.ID
			return
		}
	}
	chain := &Chain{ID: plan.ChainID(len(b.out.Chains)), Vertices: []plan.VertexID{n.v.ID}, Parallelism: n.v.Parallelism}
	b.out.Chains = append(b.out.Chains, chain)
	c.out.Chain = chain.ID
	for _, i := range n.inputs {
		in := b.clones[n.v.Inputs[i]]
		e := &Edge{ID: len(b.out.Edges), From: in.out.Chain, To: chain.ID, Tables: in.out.Out}
		exchange(e, in, c, len(n.inputs))
		b.out.Edges = append(b.out.Edges, e)
		chain.Inputs = append(chain.Inputs, e.ID)
		from := b.out.Chains[in.out.Chain]
		from.Outputs = append(from.Outputs, e.ID)
	}
}

// exchange chooses how the rows of an edge are spread.
func exchange(e *Edge, from, to *clone, inputs int) {
	if from.v.Parallelism == to.v.Parallelism {
		e.Exchange = Forward
		var why []string
		if from.outputs > 1 {
			why = append(why, fmt.Sprintf("%s has %d outputs", from.v.ID, from.outputs))
		}
		if inputs > 1 {
			why = append(why, fmt.Sprintf("%s has %d inputs", to.v.ID, inputs))
		}
		e.Why = strings.Join(why, ", ")
		return
	}
	e.Why = fmt.Sprintf("parallelism goes from %d to %d", from.v.Parallelism, to.v.Parallelism)
	if !from.v.Changelog {
		e.Exchange = Rebalance
		return
	}
	e.Exchange = Hash
	var keyless []string
	for _, t := range e.Tables {
		key := keyOf(t)
		if len(key) == 0 {
			keyless = append(keyless, t.Path.String())
		}
		e.Keys = append(e.Keys, key)
	}
	if len(keyless) > 0 {
		e.Why += "; no primary key in " + strings.Join(keyless, ", ") + ", so each producing subtask keeps to one consumer"
	}
}

// keyOf gives the places of the primary key's columns; empty without one.
func keyOf(t *schema.Table) []int {
	key := []int{}
	if t.PrimaryKey == nil {
		return key
	}
	for _, name := range t.PrimaryKey.Columns {
		i := t.Index(name)
		if i < 0 {
			return []int{} // a transform took the column away
		}
		key = append(key, i)
	}
	return key
}
