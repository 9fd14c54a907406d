package rowkind

import (
	"testing"

	"strait/plan/schema"
	"strait/worker/transform/conformance"
)

var table = &schema.Table{Path: schema.ParsePath("t"), Columns: []schema.Column{schema.Col("id", schema.Of(schema.Int)), schema.Col("tags", schema.ArrayOf(schema.Of(schema.String)))}}

var rows = []string{`"+I", [1, ["a"]]`, `"-U", [2, null]`, `"+U", [null, []]`, `"-D", [4, ["b", "c"]]`, `"+I", [5, null]`}

func TestConformance(t *testing.T) {
	extracted := table.Clone()
	extracted.Columns = append(extracted.Columns, schema.Column{Name: "row_kind", Type: schema.Of(schema.String), Length: 13, Comment: "What the row does"})
	for name, c := range map[string]conformance.Case{
		"include":         {Plugin: "FilterRowKind", Options: `{"include_kinds": ["INSERT"]}`, Out: table, Want: []string{"+I [1, [a]]", "+I [5, null]"}},
		"include several": {Plugin: "FilterRowKind", Options: `{"include_kinds": "+U,delete"}`, Want: []string{"+U [null, []]", "-D [4, [b, c]]"}},
		"exclude":         {Plugin: "FilterRowKind", Options: `{"exclude_kinds": ["UPDATE_BEFORE", "DELETE"]}`, Want: []string{"+I [1, [a]]", "+U [null, []]", "+I [5, null]"}},
		"exclude all":     {Plugin: "FilterRowKind", Options: `{"exclude_kinds": ["+I", "-U", "+U", "-D"]}`},
		"include none":    {Plugin: "FilterRowKind", Options: `{"include_kinds": []}`},
		"exclude none":    {Plugin: "FilterRowKind", Options: `{"exclude_kinds": []}`, Want: []string{"+I [1, [a]]", "-U [2, null]", "+U [null, []]", "-D [4, [b, c]]", "+I [5, null]"}},
		"extract":         {Plugin: "RowKindExtractor", Options: `{}`, Out: extracted, Want: []string{"+I [1, [a], +I]", "+I [2, null, -U]", "+I [null, [], +U]", "+I [4, [b, c], -D]", "+I [5, null, +I]"}},
		"extract in full": {Plugin: "RowKindExtractor", Options: `{"custom_field_name": "k", "transform_type": "full"}`, Want: []string{"+I [1, [a], INSERT]", "+I [2, null, UPDATE_BEFORE]", "+I [null, [], UPDATE_AFTER]", "+I [4, [b, c], DELETE]", "+I [5, null, INSERT]"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.In, c.Batch, c.Kinds = table, conformance.Batch(t, rows...), true
			conformance.Run(t, c)
		})
	}
}

func TestMistakes(t *testing.T) {
	f := func(plugin, options, want string) {
		t.Helper()
		conformance.Mistake(t, plugin, options, table, want)
	}
	f("FilterRowKind", `{}`, `none of "include_kinds", "exclude_kinds"`)
	f("FilterRowKind", `{"include_kinds": ["INSERTED"]}`, `"INSERTED" is not a row kind`)
	f("FilterRowKind", `{"inclde_kinds": ["INSERT"]}`, `did you mean "include_kinds"?`)
	f("RowKindExtractor", `{"custom_field_name": "id"}`, `table "t" has a column "id" already`)
	f("RowKindExtractor", `{"transform_type": "LONG"}`, `is not one of SHORT, FULL`)
}

// TestInsertsPassUncopied: without row kinds nothing is looked at.
func TestInsertsPassUncopied(t *testing.T) {
	c := conformance.Case{Plugin: "FilterRowKind", Options: `{"exclude_kinds": ["DELETE"]}`, In: table}
	r, in := conformance.Open(t, c, `"+I", [1, null]`, `"+I", [2, null]`)
	out, err := r.Apply(t.Context(), in)
	if err != nil || out.Cols[0] != in.Cols[0] {
		t.Errorf("the columns are copied: %v", err)
	}
}
