package project

import (
	"fmt"

	"strait/plan/option"
	"strait/plan/schema"
	"strait/worker/transform"
)

func init() {
	transform.Register(transform.Factory{
		Name: "Copy",
		Doc:  "Adds copies of columns.",
		Options: option.Spec{
			Options: []option.Option{
				{Name: "fields", Type: option.TStringMap, Columns: true, Doc: "The copies: new = old. A name that is there already is replaced in its place."},
				{Name: "src_field", Type: option.TString, Doc: "The column to copy; older form of fields."},
				{Name: "dest_field", Type: option.TString, Doc: "The name of the copy; older form of fields."},
			},
			Rules: []option.Rule{
				{Kind: option.ExactlyOne, Of: []string{"fields", "src_field"}},
				{Kind: option.Together, Of: []string{"src_field", "dest_field"}},
			},
		},
		New: newCopy,
	})
	transform.Register(transform.Factory{
		Name: "FieldMapper",
		Doc:  "Keeps the columns it names, in its order and under new names, and drops all others.",
		Options: option.Spec{Options: []option.Option{
			{Name: "field_mapper", Type: option.TStringMap, Columns: true, Required: true, Doc: "The columns to keep: old = new."},
		}},
		New: newMapper,
	})
	transform.Register(transform.Factory{
		Name: "Filter",
		Doc:  "Keeps or drops columns.",
		Options: option.Spec{
			Options: []option.Option{
				{Name: "include_fields", Aliases: []string{"fields"}, Type: option.TStrings, Split: true, Doc: "The columns to keep, in this order."},
				{Name: "exclude_fields", Type: option.TStrings, Split: true, Doc: "The columns to drop."},
			},
			Rules: []option.Rule{{Kind: option.ExactlyOne, Of: []string{"include_fields", "exclude_fields"}}},
		},
		New: newFilter,
	})
}

func newCopy(c transform.Config) (transform.Transform, error) {
	v := c.Options
	name, copies := "fields", v.Pairs("fields")
	if v.Has("src_field") {
		name, copies = "src_field", []option.Pair{{Key: v.String("dest_field"), Value: v.String("src_field")}}
	}
	if len(copies) == 0 {
		return nil, transform.Mistake(v, name, "there is nothing to copy", "write fields { new = old }")
	}
	plan := func(in *schema.Table) ([]pick, error) {
		picks := make([]pick, len(in.Columns), len(in.Columns)+len(copies))
		at := map[string]int{}
		for i, col := range in.Columns {
			picks[i] = pick{i, col.Name}
			at[col.Name] = i
		}
		for _, p := range copies {
			from, err := transform.Column(v, name, in, p.Value)
			if err != nil {
				return nil, err
			}
			if i, ok := at[p.Key]; ok {
				picks[i].from = from
				continue
			}
			at[p.Key] = len(picks)
			picks = append(picks, pick{from, p.Key})
		}
		return picks, nil
	}
	return &projection{options: v, name: name, plan: plan}, nil
}

func newMapper(c transform.Config) (transform.Transform, error) {
	v := c.Options
	pairs := v.Pairs("field_mapper")
	if len(pairs) == 0 {
		return nil, transform.Mistake(v, "field_mapper", "no column is left", "write field_mapper { old = new }")
	}
	plan := func(in *schema.Table) ([]pick, error) {
		picks := make([]pick, len(pairs))
		for i, p := range pairs {
			from, err := transform.Column(v, "field_mapper", in, p.Key)
			if err != nil {
				return nil, err
			}
			picks[i] = pick{from, p.Value}
		}
		return picks, nil
	}
	return &projection{options: v, name: "field_mapper", plan: plan}, nil
}

func newFilter(c transform.Config) (transform.Transform, error) {
	v := c.Options
	name := "include_fields"
	if v.Has("exclude_fields") {
		name = "exclude_fields"
	}
	names := v.Strings(name)
	plan := func(in *schema.Table) ([]pick, error) {
		var picks []pick
		dropped := map[int]bool{}
		for _, n := range names {
			i, err := transform.Column(v, name, in, n)
			if err != nil {
				return nil, err
			}
			dropped[i] = true
			picks = append(picks, pick{i, n})
		}
		if name == "exclude_fields" {
			picks = nil
			for i, col := range in.Columns {
				if !dropped[i] {
					picks = append(picks, pick{i, col.Name})
				}
			}
		}
		if len(picks) == 0 {
			return nil, transform.Mistake(v, name, fmt.Sprintf("no column of table %q is left", in.Path), "keep at least one")
		}
		return picks, nil
	}
	return &projection{options: v, name: name, plan: plan}, nil
}
