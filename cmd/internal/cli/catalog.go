package cli

import (
	"context"
	"errors"
	"strings"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/plan/secret"
	"strait/worker/connector"
	"strait/worker/connector/known"
	"strait/worker/secrets"
	"strait/worker/transform"
)

// catalog answers the planner from the registries of this build.
type catalog struct {
	folder string          // where relative paths of the job start
	keys   *secret.Keyring // to open sealed options where a source looks at its data
}

// Lookup implements logical.Catalog.
func (c catalog) Lookup(section config.Section, name string) logical.Plugin {
	switch section {
	case config.Source:
		if f := connector.FindSource(name); f != nil {
			return c.source(f)
		}
	case config.Transform:
		if f := transform.Find(name); f != nil {
			return c.transform(f)
		}
	case config.Sink:
		if f := connector.FindSink(name); f != nil {
			return c.sink(f)
		}
	}
	return foreign(section, name)
}

// foreign classifies a name that no registry has.
func foreign(section config.Section, name string) logical.Plugin {
	k := known.Find(string(section), name)
	switch {
	case k == nil:
		p := logical.Plugin{Name: name, Standing: logical.Unknown, Hint: option.Nearest(name, pluginNames(section))}
		for _, other := range []config.Section{config.Source, config.Transform, config.Sink} {
			for _, n := range pluginNames(other) {
				if other != section && strings.EqualFold(n, name) {
					p.Name, p.Section = n, other
				}
			}
		}
		return p
	case k.Refused != "":
		return logical.Plugin{Name: k.Name, Standing: logical.Refused, Hint: k.Refused}
	}
	return logical.Plugin{Name: k.Name, Standing: logical.NotInBuild}
}

func pluginNames(section config.Section) []string {
	var names []string
	switch section {
	case config.Source:
		for _, f := range connector.AllSources() {
			names = append(names, f.Name)
		}
	case config.Transform:
		for _, f := range transform.All() {
			names = append(names, f.Name)
		}
	case config.Sink:
		for _, f := range connector.AllSinks() {
			names = append(names, f.Name)
		}
	}
	return append(names, known.Names(string(section))...)
}

func (c catalog) source(f *connector.SourceFactory) logical.Plugin {
	return logical.Plugin{
		Name: f.Name, Standing: logical.InBuild, Options: &f.Options,
		Source: func(ctx context.Context, r logical.SourceRequest) (logical.SourceInfo, error) {
			scrub := scrubber(&f.Options, config.Source, r.Options)
			options, unknown := r.Options, error(nil)
			if !r.NoIO { // it may have to log in somewhere
				options, unknown = c.open(&f.Options, r.Options, scrub)
			}
			s, err := f.New(ctx, connector.SourceConfig{
				Options: options, Streaming: r.Streaming, Parallelism: r.Parallelism, NoIO: r.NoIO, Folder: c.folder,
			})
			if err != nil {
				return logical.SourceInfo{}, scrub.Clean(errors.Join(err, unknown))
			}
			info := logical.SourceInfo{Tables: s.Tables(), Bounded: s.Bounded()}
			if k, ok := s.(connector.Changelog); ok {
				info.Changelog = k.Changelog()
			}
			return info, nil
		},
	}
}

func (c catalog) transform(f *transform.Factory) logical.Plugin {
	return logical.Plugin{
		Name: f.Name, Standing: logical.InBuild, Options: &f.Options,
		Transform: func(_ context.Context, r logical.TransformRequest) ([]*schema.Table, error) {
			scrub := scrubber(&f.Options, config.Transform, r.Options)
			t, err := f.New(transform.Config{Options: r.Options, Inputs: r.Inputs})
			if err != nil {
				return nil, scrub.Clean(err)
			}
			out := make([]*schema.Table, len(r.Tables))
			var errs []error
			for i, in := range r.Tables {
				if out[i], err = t.Output(in); err != nil {
					errs = append(errs, err)
				}
			}
			return out, scrub.Clean(errors.Join(errs...))
		},
	}
}

func (c catalog) sink(f *connector.SinkFactory) logical.Plugin {
	return logical.Plugin{
		Name: f.Name, Standing: logical.InBuild, Options: &f.Options,
		Sink: func(ctx context.Context, r logical.SinkRequest) (logical.SinkInfo, error) {
			s, err := f.New(ctx, connector.SinkConfig{
				Options: r.Options, Tables: r.Tables, Streaming: r.Streaming, Parallelism: r.Parallelism,
				JobName: r.JobName, Folder: c.folder,
			})
			if err != nil {
				return logical.SinkInfo{}, scrubber(&f.Options, config.Sink, r.Options).Clean(err)
			}
			claim := s.Claim()
			info := logical.SinkInfo{Guarantee: string(claim.Guarantee), Locks: claim.Locks, HostBound: claim.HostBound}
			_, info.TwoPhase = s.(connector.TwoPhase)
			_, info.Aggregated = s.(connector.Aggregating)
			return info, nil
		},
	}
}

// scrubber knows the secrets that the options of a plugin hold in clear.
func scrubber(spec *option.Spec, section config.Section, v option.Values) *secrets.Scrubber {
	s := &secrets.Scrubber{}
	found := spec.Secrets(v.Raw(), v.Path(""), logical.Common(section)...)
	for i := range found {
		s.Add(found[i].Parts()...)
	}
	return s
}

// open gives the options of a source with what is sealed opened and references filled in, as far as this process
// can; unknown says what it cannot, which matters only if the source then fails.
func (c catalog) open(spec *option.Spec, v option.Values, scrub *secrets.Scrubber) (opened option.Values, unknown error) {
	var l, again fault.List
	n, values := secrets.Here(c.keys, c.folder).Expand(v.Raw(), v.Path(""), &l)
	if n == v.Raw() {
		return v, l.Err()
	}
	scrub.Add(values...)
	opened = spec.Decode(n, v.Path(""), &again, logical.Common(config.Source)...)
	if again.Len() > 0 {
		return v, errors.Join(l.Err(), again.Err())
	}
	return opened, l.Err()
}
