package physical

import (
	"strait/plan"
	"strait/plan/config"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/plan/schema"
)

// Version is the format of an encoded plan; a newer one is refused.
const Version = 1

// Plan is what is deployed: plain data, the content of plans/<job>. It holds nothing per subtask, so its
// size does not grow with parallelism.
type Plan struct {
	Version     int          `json:"version"`
	JobName     string       `json:"jobName"`
	Streaming   bool         `json:"streaming,omitempty"`
	SlotSharing bool         `json:"slotSharing"`
	Env         *option.Node `json:"env,omitempty"`
	Pipelines   []*Pipeline  `json:"pipelines"`
}

// Pipeline is a unit of failure and of checkpoints.
type Pipeline struct {
	ID       plan.PipelineID `json:"id"` // from 1
	Bounded  bool            `json:"bounded"`
	Vertices []*Vertex       `json:"vertices"` // in topological order
	Chains   []*Chain        `json:"chains"`   // in topological order; index is plan.ChainID
	Edges    []*Edge         `json:"edges,omitempty"`
}

// Vertex is a source, transform or sink with everything a worker needs to build it.
type Vertex struct {
	ID          plan.VertexID     `json:"id"`
	Section     config.Section    `json:"section"`
	Plugin      string            `json:"plugin"` // as registered
	Path        string            `json:"path"`   // for messages: sink[0] (Console)
	Parallelism int               `json:"parallelism"`
	Options     *option.Node      `json:"options"`
	Inputs      []plan.VertexID   `json:"inputs,omitempty"`
	InputNames  []string          `json:"inputNames,omitempty"` // plugin_output names as the job file has them
	In          []*schema.Table   `json:"in,omitempty"`
	Out         []*schema.Table   `json:"out,omitempty"`
	Bounded     bool              `json:"bounded,omitempty"` // source
	Sink        *logical.SinkInfo `json:"sink,omitempty"`    // sink
	Chain       plan.ChainID      `json:"chain"`
}

// Chain is a linear run of fused vertices; at one subtask index it is a task group.
type Chain struct {
	ID          plan.ChainID    `json:"id"`
	Vertices    []plan.VertexID `json:"vertices"`
	Parallelism int             `json:"parallelism"`
	Inputs      []int           `json:"inputs,omitempty"`  // edge ids; none when it begins with a source
	Outputs     []int           `json:"outputs,omitempty"` // edge ids; none when it ends with a sink
}

// Edge is an edge that is not fused: it produces an intermediate result with one partition per producing
// subtask. N×M channels are never written down.
type Edge struct {
	ID       int             `json:"id"`
	From     plan.ChainID    `json:"from"`
	To       plan.ChainID    `json:"to"`
	Exchange string          `json:"exchange"` // forward, rebalance, hash, broadcast
	Tables   []*schema.Table `json:"tables"`
	Keys     [][]int         `json:"keys,omitempty"` // per table; hash only; empty: the producer decides
	Why      string          `json:"why,omitempty"`  // why it is not fused and why this exchange, for explain
}

// Vertex finds a vertex by id, or nil.
func (p *Pipeline) Vertex(id plan.VertexID) *Vertex {
	for _, v := range p.Vertices {
		if v.ID == id {
			return v
		}
	}
	return nil
}

// Sources lists the sources: each has an enumerator task.
func (p *Pipeline) Sources() []*Vertex { return p.section(config.Source) }

// Sinks lists the sinks.
func (p *Pipeline) Sinks() []*Vertex { return p.section(config.Sink) }

func (p *Pipeline) section(s config.Section) []*Vertex {
	var out []*Vertex
	for _, v := range p.Vertices {
		if v.Section == s {
			out = append(out, v)
		}
	}
	return out
}

// Subtasks is the number of task groups.
func (p *Pipeline) Subtasks() int {
	n := 0
	for _, c := range p.Chains {
		n += c.Parallelism
	}
	return n
}

// Slots is the number of slots a pipeline needs, with and without slot sharing.
func (p *Pipeline) Slots(sharing bool) int {
	if !sharing {
		return p.Subtasks()
	}
	most := 0
	for _, c := range p.Chains {
		most = max(most, c.Parallelism)
	}
	return most
}

// Slots is the number of slots of the whole job, with and without slot sharing.
func (p *Plan) Slots(sharing bool) int {
	n := 0
	for _, pl := range p.Pipelines {
		n += pl.Slots(sharing)
	}
	return n
}

// Pipeline finds a pipeline by id, or nil.
func (p *Plan) Pipeline(id plan.PipelineID) *Pipeline {
	for _, pl := range p.Pipelines {
		if pl.ID == id {
			return pl
		}
	}
	return nil
}
