package logical

import (
	"strait/plan"
	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
)

// Dag is a job as a graph of plugins.
type Dag struct {
	Name     string
	Env      Env
	EnvNode  *option.Node // as written
	Vertices []*Vertex    // in topological order
}

// Vertex is one plugin of the job.
type Vertex struct {
	ID          plan.VertexID
	Section     config.Section
	Plugin      string // as registered
	Path        string // for messages: sink[0] (Console)
	Pos         fault.Position
	Parallelism int
	Options     option.Values
	Inputs      []*Vertex
	InputNames  []string // one for each input, as the job file has it
	Outputs     []*Vertex

	Known     bool            // In and Out are known; false only after Check
	In        []*schema.Table // those of all inputs, in the order of Inputs
	From      []TableRef      // where each of In comes from
	Out       []*schema.Table // a transform has one for each of In
	Bounded   bool            // source
	Changelog bool            // rows that leave it may be other than +I
	Together  bool            // its inputs belong together and stay in one pipeline
	Sink      SinkInfo

	plugin    Plugin
	block     *config.Block
	optionsOK bool
}

// TableRef names a table of an input: Inputs[Input].Out[Table].
type TableRef struct{ Input, Table int }

// Vertex finds a vertex by id, or nil.
func (d *Dag) Vertex(id plan.VertexID) *Vertex {
	for _, v := range d.Vertices {
		if v.ID == id {
			return v
		}
	}
	return nil
}

// Overrides are settings given beside the job file.
type Overrides struct {
	Parallelism int    // goes before env.parallelism; a plugin's own parallelism stays; 0: not given
	Name        string // goes before env.job.name
}
