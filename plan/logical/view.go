package logical

import (
	"strait/plan"
	"strait/plan/config"
)

// View is what `stctl plan --output json` prints of a Dag; it has no options, which may be secret.
type View struct {
	Job      string        `json:"job"`
	Mode     string        `json:"mode"`
	Vertices []*VertexView `json:"vertices"` // in topological order
}

// VertexView is one vertex.
type VertexView struct {
	ID          plan.VertexID   `json:"id"`
	Section     config.Section  `json:"section"`
	Plugin      string          `json:"plugin"`
	Path        string          `json:"path"`
	Parallelism int             `json:"parallelism"`
	Inputs      []plan.VertexID `json:"inputs,omitempty"`
	Bounded     bool            `json:"bounded,omitempty"`
	Changelog   bool            `json:"changelog,omitempty"` // rows that leave it may be other than +I
	Together    bool            `json:"together,omitempty"`
	Guarantee   string          `json:"guarantee,omitempty"`
}

// Show makes the View of a Dag. The tables stand in the view of the physical plan.
func Show(d *Dag) *View {
	v := &View{Job: d.Name, Mode: mode(d.Env), Vertices: make([]*VertexView, len(d.Vertices))}
	for i, u := range d.Vertices {
		v.Vertices[i] = &VertexView{ID: u.ID, Section: u.Section, Plugin: u.Plugin, Path: u.Path, Parallelism: u.Parallelism,
			Bounded: u.Bounded, Changelog: u.Changelog && u.Section != config.Sink, Together: u.Together, Guarantee: u.Sink.Guarantee}
		for _, in := range u.Inputs {
			v.Vertices[i].Inputs = append(v.Vertices[i].Inputs, in.ID)
		}
	}
	return v
}

func mode(e Env) string {
	if e.Streaming {
		return "STREAMING"
	}
	return "BATCH"
}
