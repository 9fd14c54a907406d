package logical

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
)

// parse reads a job file for a test.
func parse(t testing.TB, text string) *config.Job {
	t.Helper()
	job, _, err := config.Parse([]byte(text), config.Options{File: "job.conf"})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// fakeCatalog has a source, transforms and a sink with the behaviours the planner must deal with.
type fakeCatalog struct{ asked []string }

func (c *fakeCatalog) Lookup(s config.Section, name string) Plugin {
	key := string(s) + "." + strings.ToLower(name)
	switch key {
	case "source.fake":
		return Plugin{Name: "Fake", Standing: InBuild, Options: &option.Spec{Options: []option.Option{
			{Name: "schema", Type: option.TObject}, {Name: "tables", Type: option.TList}, {Name: "row.num", Type: option.TInt, Default: "5"},
			{Name: "endless", Type: option.TBool, Default: "false"}, {Name: "changelog", Type: option.TBool, Default: "false"}}}, Source: c.fake}
	case "source.file":
		return Plugin{Name: "File", Standing: InBuild, Options: &option.Spec{Options: []option.Option{
			{Name: "path", Required: true}, {Name: "format", Default: "csv"}}}, Source: c.file}
	case "transform.copy":
		return Plugin{Name: "Copy", Standing: InBuild, Options: &option.Spec{Options: []option.Option{{Name: "from"}, {Name: "to"}}}, Transform: c.copy}
	case "transform.join":
		return Plugin{Name: "Join", Standing: InBuild, Options: &option.Spec{}, Together: func(option.Values) bool { return true },
			Transform: func(_ context.Context, r TransformRequest) ([]*schema.Table, error) { return r.Tables, nil }}
	case "sink.out":
		return Plugin{Name: "Out", Standing: InBuild, Options: &option.Spec{Options: []option.Option{{Name: "column"}, {Name: "password", Secret: true}}}, Sink: c.out}
	case "sink.orc", "source.orc":
		return Plugin{Name: "Orc", Standing: NotInBuild}
	case "transform.dynamiccompile":
		return Plugin{Name: "DynamicCompile", Standing: Refused, Hint: "it runs Java code; use Sql"}
	}
	return Plugin{Standing: Unknown, Hint: option.Nearest(name, []string{"Fake", "File", "Copy", "Out"})}
}

func (c *fakeCatalog) fake(_ context.Context, r SourceRequest) (SourceInfo, error) {
	var l fault.List
	info := SourceInfo{Bounded: !r.Options.Bool("endless"), Changelog: r.Options.Bool("changelog")}
	if n := r.Options.Node("tables"); n != nil {
		for i, t := range n.List {
			info.Tables = append(info.Tables, schema.Parse(t, fmt.Sprintf("%s[%d]", r.Options.Path("tables"), i), &l))
		}
	} else {
		info.Tables = append(info.Tables, schema.Parse(r.Options.Node("schema"), r.Options.Path("schema"), &l))
	}
	return info, l.Err()
}

func (c *fakeCatalog) file(_ context.Context, r SourceRequest) (SourceInfo, error) {
	c.asked = append(c.asked, r.Options.String("path"))
	if f := r.Options.String("format"); f == "orc" {
		return SourceInfo{}, fmt.Errorf("format orc: %w", ErrNotInBuild)
	}
	if r.NoIO {
		return SourceInfo{Bounded: true}, nil
	}
	if strings.Contains(r.Options.String("path"), "missing") {
		return SourceInfo{}, fmt.Errorf("open %s: no such file", r.Options.String("path"))
	}
	return SourceInfo{Bounded: true, Tables: []*schema.Table{{Columns: []schema.Column{schema.Col("line", schema.Of(schema.String))}}}}, nil
}

func (c *fakeCatalog) copy(_ context.Context, r TransformRequest) ([]*schema.Table, error) {
	var errs []error
	out := make([]*schema.Table, len(r.Tables))
	for i, t := range r.Tables {
		from := r.Options.String("from")
		out[i] = t.Clone()
		if from == "" {
			continue
		}
		n := t.Index(from)
		if n < 0 {
			errs = append(errs, &fault.Mistake{Found: fmt.Sprintf("table %s has no column %q", t.Path, from), Remedy: "the columns are " + strings.Join(t.Names(), ", ")})
			continue
		}
		out[i].Columns = append(out[i].Columns, schema.Col(r.Options.String("to"), t.Columns[n].Type))
	}
	return out, errors.Join(errs...)
}

func (c *fakeCatalog) out(_ context.Context, r SinkRequest) (SinkInfo, error) {
	for _, t := range r.Tables {
		if name := r.Options.String("column"); name != "" && t.Index(name) < 0 {
			return SinkInfo{}, &fault.Mistake{Found: fmt.Sprintf("there is no column %q", name)}
		}
	}
	return SinkInfo{Guarantee: "at least once"}, nil
}
