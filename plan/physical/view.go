package physical

import (
	"strait/plan"
	"strait/plan/config"
	"strait/plan/schema"
)

// View is what `stctl plan --output json` prints of a plan: the plan without options, which may be secret, and
// with the figures that follow from it.
type View struct {
	Job         string          `json:"job"`
	Mode        string          `json:"mode"`
	SlotSharing bool            `json:"slotSharing"`
	TaskGroups  int             `json:"taskGroups"`
	Slots       SlotView        `json:"slots"`
	Pipelines   []*PipelineView `json:"pipelines"`
}

// SlotView has both figures; Needed is the one that counts.
type SlotView struct {
	Shared   int `json:"shared"`
	Unshared int `json:"unshared"`
	Needed   int `json:"needed"`
}

// PipelineView is one pipeline.
type PipelineView struct {
	ID           plan.PipelineID `json:"id"`
	Bounded      bool            `json:"bounded"`
	TaskGroups   int             `json:"taskGroups"`
	Slots        SlotView        `json:"slots"`
	Chains       []*ChainView    `json:"chains"`
	Edges        []*EdgeView     `json:"edges"`
	Coordinators []string        `json:"coordinators"`
}

// ChainView is one chain.
type ChainView struct {
	ID          plan.ChainID  `json:"id"`
	Parallelism int           `json:"parallelism"`
	Vertices    []*VertexView `json:"vertices"`
}

// VertexView is one vertex of a chain.
type VertexView struct {
	ID        plan.VertexID   `json:"id"`
	Section   config.Section  `json:"section"`
	Plugin    string          `json:"plugin"`
	Path      string          `json:"path"`
	Inputs    []plan.VertexID `json:"inputs,omitempty"`
	Guarantee string          `json:"guarantee,omitempty"`
	Tables    []*TableView    `json:"tables"` // what leaves it; of a sink what enters it
}

// TableView is one table.
type TableView struct {
	Path       string       `json:"path"`
	Columns    []ColumnView `json:"columns"`
	PrimaryKey []string     `json:"primaryKey,omitempty"`
}

// ColumnView is one column.
type ColumnView struct {
	Name string `json:"name"`
	Type string `json:"type"` // as a schema block writes it
}

// EdgeView is one edge that is not fused.
type EdgeView struct {
	From       plan.ChainID `json:"from"`
	To         plan.ChainID `json:"to"`
	Exchange   string       `json:"exchange"`
	Partitions int          `json:"partitions"` // of the intermediate result: the producing subtasks
	Consumers  int          `json:"consumers"`
	Keys       []string     `json:"keys,omitempty"`
	Why        string       `json:"why,omitempty"`
}

// Show makes the View of a plan.
func Show(p *Plan) *View {
	v := &View{Job: p.JobName, Mode: "BATCH", SlotSharing: p.SlotSharing, Slots: SlotView{p.Slots(true), p.Slots(false), p.Slots(p.SlotSharing)}}
	if p.Streaming {
		v.Mode = "STREAMING"
	}
	for _, pl := range p.Pipelines {
		v.TaskGroups += pl.Subtasks()
		v.Pipelines = append(v.Pipelines, pl.show(p.SlotSharing))
	}
	return v
}

func (p *Pipeline) show(sharing bool) *PipelineView {
	v := &PipelineView{ID: p.ID, Bounded: p.Bounded, TaskGroups: p.Subtasks(), Edges: []*EdgeView{},
		Slots: SlotView{p.Slots(true), p.Slots(false), p.Slots(sharing)}, Coordinators: p.Coordinators()}
	for _, c := range p.Chains {
		cv := &ChainView{ID: c.ID, Parallelism: c.Parallelism}
		for _, id := range c.Vertices {
			u := p.Vertex(id)
			vv := &VertexView{ID: id, Section: u.Section, Plugin: u.Plugin, Path: u.Path, Inputs: u.Inputs, Tables: tableViews(u.Out)}
			if u.Sink != nil {
				vv.Guarantee, vv.Tables = u.Sink.Guarantee, tableViews(u.In)
			}
			cv.Vertices = append(cv.Vertices, vv)
		}
		v.Chains = append(v.Chains, cv)
	}
	for _, e := range p.Edges {
		v.Edges = append(v.Edges, &EdgeView{From: e.From, To: e.To, Exchange: e.Exchange, Partitions: p.Chains[e.From].Parallelism,
			Consumers: p.Chains[e.To].Parallelism, Keys: p.keyNames(e), Why: e.Why})
	}
	return v
}

func tableViews(tables []*schema.Table) []*TableView {
	out := make([]*TableView, len(tables))
	for i, t := range tables {
		out[i] = &TableView{Path: t.Path.String(), Columns: make([]ColumnView, len(t.Columns))}
		for j, c := range t.Columns {
			out[i].Columns[j] = ColumnView{c.Name, c.Type.String()}
		}
		if t.PrimaryKey != nil {
			out[i].PrimaryKey = t.PrimaryKey.Columns
		}
	}
	return out
}
