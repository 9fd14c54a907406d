package logical

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
)

// Build makes the Dag of a job that is to run. The error is nil or a *fault.Many with every mistake; it is fatal
// unless all that went wrong was I/O of sources. Warnings are given in either case.
func Build(ctx context.Context, job *config.Job, cat Catalog, o Overrides) (*Dag, []*fault.Mistake, error) {
	b := &builder{ctx: ctx}
	return b.build(job, cat, o)
}

// Check looks at a job without I/O and without the need to run it: sources that cannot tell their tables leave
// what is behind them unchecked. What this build does not have is a warning; with strict it is an error.
func Check(ctx context.Context, job *config.Job, cat Catalog, strict bool) ([]*fault.Mistake, error) {
	b := &builder{ctx: ctx, check: true, strict: strict}
	_, warnings, err := b.build(job, cat, Overrides{})
	return warnings, err
}

type builder struct {
	ctx           context.Context
	check, strict bool
	l             fault.List
	dag           *Dag
}

func (b *builder) build(job *config.Job, cat Catalog, o Overrides) (*Dag, []*fault.Mistake, error) {
	b.dag = &Dag{EnvNode: job.Env, Env: ReadEnv(job.Env, &b.l)}
	if o.Parallelism != 0 {
		b.dag.Env.Parallelism = o.Parallelism
		if o.Parallelism < 1 || o.Parallelism > MaxParallelism {
			b.l.Add(fault.Position{}, "--parallelism", fmt.Sprintf("%d is not from 1 to %d", o.Parallelism, MaxParallelism), "give a number in that range")
		}
	}
	b.dag.Name = jobName(job, o, b.dag.Env)
	b.dag.Vertices = wire(job, cat, &b.l)
	for _, v := range b.dag.Vertices {
		b.options(v)
		b.infer(v)
	}
	warnings := b.l.Warnings()
	slices.SortStableFunc(warnings, func(x, y *fault.Mistake) int { return x.Pos.Line - y.Pos.Line })
	if err := b.l.Err(); err != nil {
		return nil, warnings, err
	}
	return b.dag, warnings, nil
}

func jobName(job *config.Job, o Overrides, env Env) string {
	switch {
	case o.Name != "":
		return o.Name
	case env.JobName != "":
		return env.JobName
	case job.File != "":
		base := filepath.Base(job.File)
		return strings.TrimSuffix(base, filepath.Ext(base))
	}
	return "job"
}

// options decodes the block and settles the parallelism.
func (b *builder) options(v *Vertex) {
	spec := v.plugin.Options
	switch v.plugin.Standing {
	case Unknown:
		remedy := "`stctl connector list` lists the plugins"
		switch {
		case v.plugin.Section != "":
			remedy = fmt.Sprintf("%s is a %s", v.plugin.Name, v.plugin.Section)
		case v.plugin.Hint != "":
			remedy = fmt.Sprintf("did you mean %s?", v.plugin.Hint)
		}
		b.l.Add(v.Pos, v.Path, fmt.Sprintf("there is no %s %q", v.Section, v.block.Plugin), remedy)
		spec = nil
	case Refused:
		b.l.Add(v.Pos, v.Path, fmt.Sprintf("%s is not supported", v.Plugin), v.plugin.Hint)
		spec = nil
	case NotInBuild:
		if remedy := v.plugin.Hint; b.check && !b.strict {
			b.l.AddWarning(&fault.Mistake{Pos: v.Pos, Path: v.Path, Found: "not in this build, options not checked", Remedy: remedy, Err: ErrNotInBuild})
		} else {
			b.l.AddError(&fault.Mistake{Pos: v.Pos, Path: v.Path, Found: fmt.Sprintf("%s is a %s of SeaTunnel that is not in this build", v.Plugin, v.Section), Remedy: remedy, Err: ErrNotInBuild})
		}
		spec = nil
	}
	if spec == nil {
		spec = &option.Spec{Open: true}
	}
	before := b.l.Len()
	v.Options = spec.Decode(v.block.Options, v.Path, &b.l, Common(v.Section)...)
	v.optionsOK = b.l.Len() == before
	for _, o := range Common(v.Section) {
		if why, ok := noEffect[v.Section][o.Name]; ok && v.Options.Has(o.Name) && declaredHere(v.plugin.Options, o.Name) == nil {
			b.l.Warn(v.Options.Node(o.Name).Pos, v.Path, fmt.Sprintf("option %q has no effect", o.Name), why)
		}
	}
	v.Parallelism = b.dag.Env.Parallelism
	if v.Section != config.Source {
		v.Parallelism = 0
		for _, in := range v.Inputs {
			v.Parallelism = max(v.Parallelism, in.Parallelism)
		}
	}
	if declaredHere(v.plugin.Options, "parallelism") == nil && v.Options.Has("parallelism") {
		v.Parallelism = int(v.Options.Int("parallelism"))
	}
}

// declaredHere finds an option that the plugin declares itself under the name of a common one.
func declaredHere(s *option.Spec, name string) *option.Option {
	if s == nil {
		return nil
	}
	for i := range s.Options {
		if s.Options[i].Name == name {
			return &s.Options[i]
		}
	}
	return nil
}

// infer asks the plugin for its tables. A plugin whose options are wrong, or whose inputs are not known, is not
// asked: what would follow from that is no news.
func (b *builder) infer(v *Vertex) {
	before := b.l.Len()
	known := true
	for _, in := range v.Inputs {
		known = known && in.Known
		v.Changelog = v.Changelog || in.Changelog
	}
	if known && v.Section != config.Source {
		b.collect(v)
		if v.optionsOK {
			b.merged(v)
		}
	}
	if !v.optionsOK || v.plugin.Standing != InBuild || b.l.Len() > before || v.Section != config.Source && (!known || len(v.Inputs) == 0) {
		return
	}
	switch v.Section {
	case config.Source:
		b.source(v)
	case config.Transform:
		b.transform(v)
	case config.Sink:
		b.sink(v)
	}
}

// maxTables is the most tables that may reach one vertex: merges of merges multiply them.
const maxTables = 50000

// collect gathers the tables of all inputs.
func (b *builder) collect(v *Vertex) {
	for i, in := range v.Inputs {
		if len(v.In)+len(in.Out) > maxTables {
			b.l.Add(v.Pos, v.Path, fmt.Sprintf("more than %d tables reach it", maxTables), "merge fewer inputs, or split the job")
			return
		}
		for j, t := range in.Out {
			v.In = append(v.In, t)
			v.From = append(v.From, TableRef{i, j})
		}
	}
}

func (b *builder) source(v *Vertex) {
	info, err := v.plugin.Source(b.ctx, SourceRequest{NoIO: b.check, Options: v.Options, Streaming: b.dag.Env.Streaming, Parallelism: v.Parallelism})
	if !b.took(v, err) {
		return
	}
	v.Bounded, v.Changelog = info.Bounded, info.Changelog
	if !v.Bounded && !b.dag.Env.Streaming {
		b.l.Add(v.Pos, v.Path, "the source never ends, and job.mode is BATCH", `write env { job.mode = "STREAMING" }`)
	}
	if len(info.Tables) == 0 {
		if !b.check {
			b.l.Add(v.Pos, v.Path, "BUG: the source tells no table", "")
		}
		return
	}
	v.Known = true
	for _, t := range info.Tables {
		v.Out = append(v.Out, v.named(t))
	}
}

// named gives a table without a name that of the plugin's output, as SeaTunnel does.
func (v *Vertex) named(t *schema.Table) *schema.Table {
	if t.Path != (schema.Path{}) {
		return t
	}
	t = t.Clone()
	t.Path = schema.DefaultPath
	if v.block.Output != "" {
		t.Path = schema.ParsePath(v.block.Output)
	}
	return t
}

func (b *builder) transform(v *Vertex) {
	out, err := v.plugin.Transform(b.ctx, TransformRequest{Options: v.Options, Inputs: v.InputNames, Tables: v.In})
	if !b.took(v, err) {
		return
	}
	if len(out) != len(v.In) || slices.Contains(out, nil) {
		b.l.Add(v.Pos, v.Path, fmt.Sprintf("BUG: %d tables come out for %d that go in", len(out), len(v.In)), "")
		return
	}
	v.Out, v.Known = out, true
	if v.plugin.Together != nil {
		v.Together = v.plugin.Together(v.Options)
	}
}

func (b *builder) sink(v *Vertex) {
	info, err := v.plugin.Sink(b.ctx, SinkRequest{Options: v.Options, Tables: v.In, Streaming: b.dag.Env.Streaming, Parallelism: v.Parallelism, JobName: b.dag.Name})
	if !b.took(v, err) {
		return
	}
	v.Sink, v.Known = info, true
}

// took reports the errors of a plugin at its place and says whether there were none. What is not in this build
// is a warning in a check that is not strict; the vertex is then not known.
func (b *builder) took(v *Vertex, err error) bool {
	if err == nil {
		return true
	}
	for _, e := range splitMarked(err) {
		var m *fault.Mistake
		switch {
		case errors.As(e, &m):
			m = placed(*m, v)
			if errors.Is(e, ErrNotInBuild) {
				m.Err = ErrNotInBuild
			}
			e = m
		case errors.Is(e, ErrNotInBuild):
			m = &fault.Mistake{Pos: v.Pos, Path: v.Path, Found: e.Error(), Err: e}
			e = m
		default:
			e = fault.At(v.Pos, v.Path, e)
		}
		if errors.Is(e, ErrNotInBuild) && b.check && !b.strict {
			b.l.AddWarning(m)
			continue
		}
		b.l.AddError(e)
	}
	return false
}

// splitMarked takes an error apart. What wraps many errors and ErrNotInBuild beside them without a text of its own
// marks each of them.
func splitMarked(err error) []error {
	parts := fault.Split(err)
	if len(parts) != 1 || !errors.Is(err, ErrNotInBuild) {
		return parts
	}
	var many *fault.Many
	if !errors.As(err, &many) || many.Error() != err.Error() || errors.Is(many, ErrNotInBuild) {
		return parts
	}
	var out []error
	for _, e := range fault.Split(many) {
		out = append(out, marked{e})
	}
	return out
}

// marked is an error that is also ErrNotInBuild.
type marked struct{ error }

func (m marked) Unwrap() []error { return []error{m.error, ErrNotInBuild} }

// placed fills in where the plugin stands.
func placed(m fault.Mistake, v *Vertex) *fault.Mistake {
	if m.Pos.IsZero() {
		m.Pos = v.Pos
	}
	switch {
	case m.Path == "":
		m.Path = v.Path
	case !strings.HasPrefix(m.Path, v.Path):
		m.Path = v.Path + ": " + m.Path
	}
	return &m
}
