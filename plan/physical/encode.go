package physical

import (
	"encoding/json"
	"fmt"
	"slices"

	"strait/plan"
	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/schema"
)

// Encode writes a plan as JSON. The same plan gives the same bytes.
func Encode(p *Plan) ([]byte, error) {
	if p.Version != Version {
		return nil, fmt.Errorf("BUG: a plan of format %d is to be written as format %d", p.Version, Version)
	}
	return json.Marshal(p)
}

// Decode reads what Encode wrote, this format or an older one. It refuses a newer format, and a plan whose parts
// do not fit together: nothing that comes out of it makes a reader look for what is not there.
func Decode(data []byte) (*Plan, error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fault.Fatal(fmt.Errorf("the plan cannot be read: %w", err))
	}
	if head.Version > Version {
		return nil, fault.Fatal(fmt.Errorf("the plan has format %d, this build reads up to %d; use the version of Strait that wrote it, or a newer one", head.Version, Version))
	}
	if head.Version < 1 {
		return nil, fault.Fatal(fmt.Errorf("the plan cannot be read: it has no format version"))
	}
	p := &Plan{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fault.Fatal(fmt.Errorf("the plan cannot be read: %w", err))
	}
	if err := p.check(); err != nil {
		return nil, fault.Fatal(fmt.Errorf("the plan is damaged: %w", err))
	}
	return p, nil
}

func (p *Plan) check() error {
	for i, pl := range p.Pipelines {
		if pl == nil || pl.ID != plan.PipelineID(i+1) {
			return fmt.Errorf("pipeline %d is missing", i+1)
		}
		if err := pl.check(); err != nil {
			return fmt.Errorf("pipeline %d: %w", pl.ID, err)
		}
	}
	return nil
}

func (p *Pipeline) check() error {
	if len(p.Vertices) == 0 {
		return fmt.Errorf("it has no vertices")
	}
	seen := map[plan.VertexID]*Vertex{}
	for i, v := range p.Vertices {
		switch {
		case v == nil || v.ID == "" || seen[v.ID] != nil:
			return fmt.Errorf("vertex %d is missing or named twice", i)
		case v.Section != config.Source && v.Section != config.Transform && v.Section != config.Sink:
			return fmt.Errorf("vertex %s is of section %q", v.ID, v.Section)
		case v.Section == config.Sink && v.Sink == nil:
			return fmt.Errorf("sink %s says nothing of itself", v.ID)
		case v.Chain < 0 || int(v.Chain) >= len(p.Chains):
			return fmt.Errorf("vertex %s is in chain %d, which is not there", v.ID, v.Chain)
		case v.Options == nil:
			return fmt.Errorf("vertex %s has no options", v.ID)
		case len(v.Inputs) != len(v.InputNames) || (len(v.Inputs) == 0) != (v.Section == config.Source):
			return fmt.Errorf("the inputs of vertex %s do not fit", v.ID)
		case v.Section == config.Transform && len(v.In) != len(v.Out):
			return fmt.Errorf("the tables of vertex %s do not fit", v.ID)
		}
		for _, in := range v.Inputs {
			if seen[in] == nil {
				return fmt.Errorf("vertex %s reads %s, which is not before it", v.ID, in)
			}
		}
		for _, t := range slices.Concat(v.In, v.Out) {
			if err := checkTable(t); err != nil {
				return fmt.Errorf("vertex %s: %w", v.ID, err)
			}
		}
		seen[v.ID] = v
	}
	return p.checkChains(seen)
}

func (p *Pipeline) checkChains(vertices map[plan.VertexID]*Vertex) error {
	for i, e := range p.Edges {
		switch {
		case e == nil || e.ID != i:
			return fmt.Errorf("edge %d is missing", i)
		case e.From < 0 || e.From >= e.To || int(e.To) >= len(p.Chains):
			return fmt.Errorf("edge %d goes from chain %d to chain %d", i, e.From, e.To)
		case !slices.Contains([]string{Forward, Rebalance, Hash, Broadcast}, e.Exchange):
			return fmt.Errorf("edge %d has exchange %q", i, e.Exchange)
		case e.Exchange == Hash && len(e.Keys) != len(e.Tables) || e.Exchange != Hash && len(e.Keys) > 0:
			return fmt.Errorf("edge %d has %d keys for %d tables", i, len(e.Keys), len(e.Tables))
		}
		for j, t := range e.Tables {
			if err := checkTable(t); err != nil {
				return fmt.Errorf("edge %d: %w", i, err)
			}
			if j >= len(e.Keys) {
				continue
			}
			for _, k := range e.Keys[j] {
				if k < 0 || k >= len(t.Columns) {
					return fmt.Errorf("edge %d: the key of table %s is column %d", i, t.Path, k)
				}
			}
		}
	}
	members := 0
	for i, c := range p.Chains {
		if c == nil || c.ID != plan.ChainID(i) || len(c.Vertices) == 0 || c.Parallelism < 1 || c.Parallelism > logical.MaxParallelism {
			return fmt.Errorf("chain %d is missing or empty, or its parallelism is out of range", i)
		}
		members += len(c.Vertices)
		for _, id := range c.Vertices {
			if v := vertices[id]; v == nil || v.Chain != c.ID || v.Parallelism != c.Parallelism {
				return fmt.Errorf("chain %d and its vertex %s do not fit", i, id)
			}
		}
		for _, e := range c.Inputs {
			if e < 0 || e >= len(p.Edges) || p.Edges[e].To != c.ID {
				return fmt.Errorf("chain %d and its edge %d do not fit", i, e)
			}
		}
		for _, e := range c.Outputs {
			if e < 0 || e >= len(p.Edges) || p.Edges[e].From != c.ID {
				return fmt.Errorf("chain %d and its edge %d do not fit", i, e)
			}
		}
	}
	if members != len(vertices) {
		return fmt.Errorf("%d vertices stand in chains that hold %d", len(vertices), members)
	}
	return nil
}

func checkTable(t *schema.Table) error {
	if t == nil {
		return fmt.Errorf("a table is missing")
	}
	for _, c := range t.Columns {
		if err := c.Type.Check(); err != nil {
			return fmt.Errorf("table %s, column %s: %w", t.Path, c.Name, err)
		}
	}
	return nil
}
