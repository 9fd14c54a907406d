package logical

import (
	"context"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
)

// ErrNotInBuild is wrapped by errors about something that SeaTunnel has and this build does not: a plugin, a
// format, an option. Check shows them as warnings unless it is strict; a run fails with them.
var ErrNotInBuild = fault.ErrNotInBuild

// Catalog tells what plugins there are and asks them for tables. cmd fills it from the registries, so that
// planning itself does no I/O.
type Catalog interface {
	// Lookup finds a plugin by section and name, without regard to case.
	Lookup(section config.Section, name string) Plugin
}

// Standing says how a plugin name stands to this build.
type Standing uint8

// The standings.
const (
	Unknown    Standing = iota // no plugin SeaTunnel or Strait knows; Hint: the nearest name
	InBuild                    // usable
	NotInBuild                 // SeaTunnel has it, this build does not
	Refused                    // never will be; Hint says why and what to use instead
)

// Plugin is the answer of a Lookup. With InBuild exactly one of Source, Transform and Sink is set.
type Plugin struct {
	Name     string // as registered
	Standing Standing
	Hint     string
	Section  config.Section // Unknown: the section that has a plugin of this name, if one does
	Options  *option.Spec
	// Together: the transform needs all its inputs at once (a join), so they stay in one pipeline. nil: never.
	Together func(option.Values) bool
	// Each of these checks the options against each other and against the tables; mistakes come back as
	// fault errors. Only Source may do I/O.
	Source    func(ctx context.Context, r SourceRequest) (SourceInfo, error)
	Transform func(ctx context.Context, r TransformRequest) ([]*schema.Table, error)
	Sink      func(ctx context.Context, r SinkRequest) (SinkInfo, error)
}

// SourceRequest asks a source what it produces. With NoIO it may look at nothing but its options: one that
// cannot tell its tables from them answers without tables.
type SourceRequest struct {
	NoIO        bool
	Options     option.Values
	Streaming   bool
	Parallelism int
}

// SourceInfo is what the planner needs to know of a source.
type SourceInfo struct {
	Tables    []*schema.Table // none: not known without I/O
	Bounded   bool            // it ends by itself
	Changelog bool            // its rows may be other than +I
}

// TransformRequest asks a transform what comes out for each table that goes in: one table each, in that order.
type TransformRequest struct {
	Options option.Values
	Inputs  []string // names of the inputs
	Tables  []*schema.Table
}

// SinkRequest asks a sink whether it can take these tables.
type SinkRequest struct {
	Options     option.Values
	Tables      []*schema.Table
	Streaming   bool
	Parallelism int
	JobName     string
}

// SinkInfo is what the planner needs to know of a sink.
type SinkInfo struct {
	Guarantee  string `json:"guarantee"`
	TwoPhase   bool   `json:"twoPhase,omitempty"`   // commits where it prepared
	Aggregated bool   `json:"aggregated,omitempty"` // commits once for the vertex, in one task
	Locks      bool   `json:"locks,omitempty"`
	HostBound  bool   `json:"hostBound,omitempty"`
}
