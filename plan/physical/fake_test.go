package physical

import (
	"context"
	"fmt"
	"testing"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/plan/schema"
)

// fakeCatalog has one source, one sink and two transforms, told by options what to be.
type fakeCatalog struct{}

func (fakeCatalog) Lookup(s config.Section, name string) logical.Plugin {
	flag := func(name string) option.Option {
		return option.Option{Name: name, Type: option.TBool, Default: "false"}
	}
	switch string(s) + "." + name {
	case "source.Fake":
		return logical.Plugin{Name: name, Standing: logical.InBuild, Source: fakeSource, Options: &option.Spec{Options: []option.Option{
			{Name: "schema", Type: option.TObject}, {Name: "tables", Type: option.TList}, flag("changelog"), flag("endless")}}}
	case "transform.Copy":
		return logical.Plugin{Name: name, Standing: logical.InBuild, Options: &option.Spec{},
			Transform: func(_ context.Context, r logical.TransformRequest) ([]*schema.Table, error) { return r.Tables, nil }}
	case "transform.Drop": // takes the first column away
		return logical.Plugin{Name: name, Standing: logical.InBuild, Options: &option.Spec{},
			Transform: func(_ context.Context, r logical.TransformRequest) (out []*schema.Table, err error) {
				for _, t := range r.Tables {
					t = t.Clone()
					t.Columns = t.Columns[1:]
					out = append(out, t)
				}
				return out, nil
			}}
	case "transform.Join":
		return logical.Plugin{Name: name, Standing: logical.InBuild, Options: &option.Spec{}, Together: func(option.Values) bool { return true },
			Transform: func(_ context.Context, r logical.TransformRequest) ([]*schema.Table, error) { return r.Tables, nil }}
	case "sink.Out":
		return logical.Plugin{Name: name, Standing: logical.InBuild, Options: &option.Spec{Options: []option.Option{flag("aggregated"), flag("two_phase"), {Name: "password", Secret: true}}},
			Sink: func(_ context.Context, r logical.SinkRequest) (logical.SinkInfo, error) {
				return logical.SinkInfo{Guarantee: "exactly once", Aggregated: r.Options.Bool("aggregated"), TwoPhase: r.Options.Bool("two_phase")}, nil
			}}
	}
	return logical.Plugin{}
}

func fakeSource(_ context.Context, r logical.SourceRequest) (logical.SourceInfo, error) {
	var l fault.List
	info := logical.SourceInfo{Bounded: !r.Options.Bool("endless"), Changelog: r.Options.Bool("changelog")}
	nodes := []*option.Node{r.Options.Node("schema")}
	if n := r.Options.Node("tables"); n != nil {
		nodes = n.List
	}
	for i, n := range nodes {
		info.Tables = append(info.Tables, schema.Parse(n, fmt.Sprintf("%s[%d]", r.Options.Path("schema"), i), &l))
	}
	return info, l.Err()
}

// dagOf plans a job file as far as the Dag.
func dagOf(t testing.TB, file, text string) *logical.Dag {
	t.Helper()
	job, _, err := config.Parse([]byte(text), config.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := logical.Build(context.Background(), job, fakeCatalog{}, logical.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func planOf(t testing.TB, text string) *Plan {
	t.Helper()
	p, err := Build(dagOf(t, "job.conf", text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
