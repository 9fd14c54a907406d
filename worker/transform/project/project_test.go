package project

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"strait/plan/schema"
	"strait/worker/transform/conformance"
)

var people = &schema.Table{
	Path: schema.ParsePath("db.people"),
	Columns: []schema.Column{
		{Name: "id", Type: schema.Of(schema.BigInt)}, schema.Col("name", schema.Of(schema.String)),
		schema.Col("tags", schema.ArrayOf(schema.Of(schema.String))), schema.Col("c_row", schema.RowOf(schema.Col("x", schema.Of(schema.Int)))),
	},
	PrimaryKey:  &schema.PrimaryKey{Name: "pk", Columns: []string{"id"}},
	Constraints: []schema.Constraint{{Name: "u", Type: "UNIQUE_KEY", Columns: []schema.ConstraintColumn{{Name: "name", Sort: "ASC"}, {Name: "id", Sort: "DESC"}}}},
	Partition:   []string{"name"},
}

var rows = []string{
	`"+I", [1, "Ann", ["a", null], {"x": 1}]`,
	`"-U", [2, null, null, null]`,
	`"+U", [2, "Bo", [], [null]]`,
	`"-D", [null, "", ["b"], [4]]`,
}

func TestConformance(t *testing.T) {
	all := people.Columns
	with := func(cols ...schema.Column) *schema.Table {
		out := people.Clone()
		out.Columns = cols
		return out
	}
	named := func(c schema.Column, name string) schema.Column {
		c.Name = name
		return c
	}
	keyless := with(all[1], all[3])
	keyless.PrimaryKey, keyless.Constraints = nil, nil
	mapped := with(all[1], named(all[0], "key"))
	mapped.PrimaryKey = &schema.PrimaryKey{Name: "pk", Columns: []string{"key"}}
	mapped.Constraints = []schema.Constraint{{Name: "u", Type: "UNIQUE_KEY", Columns: []schema.ConstraintColumn{{Name: "name", Sort: "ASC"}, {Name: "key", Sort: "DESC"}}}}
	only := with(all[0])
	only.Constraints, only.Partition = nil, nil

	for name, c := range map[string]conformance.Case{
		"copies": {Plugin: "Copy", Options: `{"fields": {"name2": "name", "a.b": "c_row"}}`, Out: with(append(people.Clone().Columns, named(all[1], "name2"), named(all[3], "a.b"))...),
			Want: []string{"+I [1, Ann, [a, null], [1], Ann, [1]]", "-U [2, null, null, null, null, null]", "+U [2, Bo, [], [null], Bo, [null]]", "-D [null, , [b], [4], , [4]]"}},
		"copy in place": {Plugin: "Copy", Options: `{"src_field": "name", "dest_field": "tags"}`, Out: with(all[0], all[1], named(all[1], "tags"), all[3]),
			Want: []string{"+I [1, Ann, Ann, [1]]", "-U [2, null, null, null]", "+U [2, Bo, Bo, [null]]", "-D [null, , , [4]]"}},
		"mapper": {Plugin: "FieldMapper", Options: `{"field_mapper": {"name": "name", "id": "key"}}`, Out: mapped,
			Want: []string{"+I [Ann, 1]", "-U [null, 2]", "+U [Bo, 2]", "-D [, null]"}},
		"include": {Plugin: "Filter", Options: `{"fields": ["name", "c_row"]}`, Out: keyless,
			Want: []string{"+I [Ann, [1]]", "-U [null, null]", "+U [Bo, [null]]", "-D [, [4]]"}},
		"exclude": {Plugin: "filter", Options: `{"exclude_fields": ["tags", "c_row", "name"]}`, Out: only, Want: []string{"+I [1]", "-U [2]", "+U [2]", "-D [null]"}},
		"exclude a key": {Plugin: "filter", Options: `{"exclude_fields": ["id", "tags"]}`, Out: keyless,
			Want: []string{"+I [Ann, [1]]", "-U [null, null]", "+U [Bo, [null]]", "-D [, [4]]"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.In, c.Batch = people, conformance.Batch(t, rows...)
			conformance.Run(t, c)
		})
	}
}

func TestMistakes(t *testing.T) {
	f := func(plugin, options, want string) {
		t.Helper()
		conformance.Mistake(t, plugin, options, people, want)
	}
	f("Copy", `{"fields": {"name2": "nmae"}}`, `table "db.people" has no column "nmae"; did you mean "name"?`)
	f("Copy", `{"feilds": {"name2": "name"}}`, `did you mean "fields"?`)
	f("Copy", `{}`, `none of "fields", "src_field" is set`)
	f("Copy", `{"fields": {}}`, `nothing to copy`)
	f("Copy", `{"src_field": "name"}`, `only some of "src_field", "dest_field" are set`)
	f("FieldMapper", `{"field_mapper": {"zzz": "a"}}`, `the columns are id, name, tags, c_row`)
	f("FieldMapper", `{"field_mapper": {"id": "a", "name": "a"}}`, `two columns of the output are named "a"`)
	f("FieldMapper", `{}`, `option "field_mapper" is missing`)
	f("Filter", `{"include_fields": ["id", "id"]}`, `two columns of the output are named "id"`)
	f("Filter", `{"include_fields": ["id"], "exclude_fields": ["name"]}`, `more than one of "include_fields", "exclude_fields"`)
	f("Filter", `{"exclude_fields": ["id", "name", "tags", "c_row"]}`, `no column of table "db.people" is left`)
}

// TestArraysAreShared shows that nothing is copied.
func TestArraysAreShared(t *testing.T) {
	r, b := conformance.Open(t, conformance.Case{Plugin: "Copy", Options: `{"fields": {"n": "name"}}`, In: people}, rows...)
	got, err := r.Apply(t.Context(), b)
	if err != nil || got.Cols[4] != b.Cols[1] || got.Cols[0] != b.Cols[0] {
		t.Errorf("columns are copied: %v", err)
	}
	if d := cmp.Diff(b.Kinds, got.Kinds); d != "" {
		t.Error(d)
	}
}
