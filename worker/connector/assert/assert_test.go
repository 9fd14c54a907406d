package assert

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"strait/checkpoint"
	"strait/plan/fault"
	"strait/plan/option/optiontest"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/connector/conformance"
	"strait/worker/format/value"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	tables := []*schema.Table{conformance.Table("d.t", schema.Col("i", schema.Of(schema.Int)), schema.Col("s", schema.Of(schema.String)))}
	conformance.Sink(t, conformance.SinkCase{
		Plugin: "Assert", Tables: tables,
		Batches: func(s []*batch.Schema) []*batch.Batch {
			return []*batch.Batch{conformance.Sequence(s[0], 0, 20, true), conformance.Sequence(s[0], 20, 20, false)}
		},
		Target: func(*testing.T) conformance.Target {
			return conformance.Target{Options: `{"rules": {"row_rules": [{"rule_type": "MAX_ROW", "rule_value": 40}], "field_rules": [{"field_name": "i", "field_type": "int"}]}}`}
		},
	})
}

// job runs rows, one list of JSON rows a subtask, through the sink and its committer.
func job(t *testing.T, rules string, streaming bool, tables []*schema.Table, rows map[int][]string, subtasks int) error {
	t.Helper()
	f := connector.FindSink("Assert")
	v, err := optiontest.Decode(t, f.Options, `{"rules": `+rules+`}`)
	if err != nil {
		return err
	}
	s, err := f.New(t.Context(), connector.SinkConfig{Options: v, Tables: tables, Streaming: streaming, Parallelism: subtasks})
	if err != nil {
		return err
	}
	schemas := batch.Schemas(tables)
	var prepared []checkpoint.Prepared
	for sub := range subtasks {
		w, err := s.NewWriter(t.Context(), connector.WriterContext{Identity: checkpoint.Identity{Subtask: sub}, Schemas: schemas})
		if err != nil {
			t.Fatal(err)
		}
		for table, texts := range rows {
			b := batch.NewBuilder(schemas[table])
			for i := sub; i < len(texts); i += subtasks {
				n := optiontest.Node(t, texts[i])
				for c, col := range tables[table].Columns {
					if err := (value.Reader{}).Append(b.Field(c), col.Type, n.List[c]); err != nil {
						t.Fatal(err)
					}
				}
				b.EndRow(schema.Insert)
			}
			if x := b.Finish(); x != nil {
				if err := w.Write(t.Context(), x); err != nil {
					return err
				}
			}
		}
		entries, err := w.Prepare(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			prepared = append(prepared, checkpoint.Prepared{Identity: checkpoint.Identity{Subtask: sub}, Data: e})
		}
	}
	c, err := s.(connector.Aggregating).NewAggregated(t.Context(), connector.CommitterContext{Schemas: schemas})
	if err != nil {
		t.Fatal(err)
	}
	return c.Commit(t.Context(), prepared)
}

// wide has a column of each sort.
var wide = schema.Table{
	Path: schema.ParsePath("db.wide"),
	Columns: []schema.Column{
		schema.Col("i", schema.Of(schema.Int)), schema.Col("s", schema.Of(schema.String)), schema.Col("n", schema.Of(schema.Null)),
		schema.Col("d", schema.DecimalOf(10, 2)), schema.Col("a", schema.ArrayOf(schema.Of(schema.Int))), schema.Col("m", schema.MapOf(schema.Of(schema.String), schema.Of(schema.Double))),
		schema.Col("r", schema.RowOf(schema.Col("x", schema.Of(schema.Int)), schema.Col("y", schema.ArrayOf(schema.Of(schema.String))))),
		schema.Col("t", schema.Of(schema.Timestamp)), schema.Col("b", schema.Of(schema.Bytes)), schema.Col("f", schema.Of(schema.Boolean)),
		{Name: "k", Type: schema.Of(schema.BigInt), Length: 20, Comment: "the key", Default: ptr("7")},
	},
	PrimaryKey:  &schema.PrimaryKey{Name: "pk", Columns: []string{"k", "i"}},
	Constraints: []schema.Constraint{{Name: "u", Type: "UNIQUE_KEY", Columns: []schema.ConstraintColumn{{Name: "s", Sort: "ASC"}}}},
}

func ptr(s string) *string { return &s }

var wideRows = []string{
	`[5, "five", null, 1.50, [1, 2], {"p": 1.5, "q": 2}, [1, ["u", null]], "2024-01-02T03:04:05.6", "dGVzdA==", true, 1]`,
	`[7, "seven", null, 1.50, [1, 2], {"q": 2.0, "p": 1.5}, {"x": 1, "y": ["u", null]}, "2024-01-02 03:04:05.600", "dGVzdA==", "true", 2]`,
}

// TestRules has each rule hold and fail, at parallelism 1 and 4.
func TestRules(t *testing.T) {
	f := func(name, rules, want string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			for _, parallelism := range []int{1, 4} {
				err := job(t, rules, false, []*schema.Table{&wide}, map[int][]string{0: wideRows}, parallelism)
				if want == "" && err != nil {
					t.Errorf("parallelism %d: %v", parallelism, err)
				}
				if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !fault.IsFatal(err)) {
					t.Errorf("parallelism %d: error %v, want %q in a fatal one", parallelism, err, want)
				}
			}
		})
	}
	field := func(column, rest string) string {
		return `{"field_rules": [{"field_name": "` + column + `", ` + rest + `}]}`
	}
	rule := func(column, rule string) string { return field(column, `"field_value": [`+rule+`]`) }

	f("NOT_NULL", rule("i", `{"rule_type": "NOT_NULL"}`), "")
	f("NOT_NULL fails", rule("n", `{"rule_type": "NOT_NULL"}`), `table "db.wide", row 1 of subtask 0, column n: the value null breaks the rule NOT_NULL`)
	f("NULL", rule("n", `{"rule_type": "NULL"}`), "")
	f("NULL fails", rule("i", `{"rule_type": "NULL"}`), "column i: the value 5 breaks the rule NULL")
	f("MIN", rule("i", `{"rule_type": "MIN", "rule_value": 5}`), "")
	f("MIN fails", rule("i", `{"rule_type": "MIN", "rule_value": 6}`), "the value 5 breaks the rule MIN 6; the row is +I [5, five, null, 1.50, [1, 2]")
	f("MIN of null fails", rule("n", `{"rule_type": "MIN", "rule_value": 0}`), "the value null breaks the rule MIN 0")
	f("MAX", rule("d", `{"rule_type": "max", "rule_value": "1.5"}`), "")
	f("MAX fails", rule("i", `{"rule_type": "MAX", "rule_value": 6.5}`), "the value 7 breaks the rule MAX 6.5")
	f("MIN_LENGTH", rule("s", `{"rule_type": "MIN_LENGTH", "rule_value": 4}`), "")
	f("MIN_LENGTH fails", rule("s", `{"rule_type": "MIN_LENGTH", "rule_value": 5}`), "the value five breaks the rule MIN_LENGTH 5")
	f("MIN_LENGTH of null fails", rule("n", `{"rule_type": "MIN_LENGTH", "rule_value": 1}`), "breaks the rule MIN_LENGTH 1")
	f("MAX_LENGTH", rule("s", `{"rule_type": "MAX_LENGTH", "rule_value": 5}`), "")
	f("MAX_LENGTH fails", rule("s", `{"rule_type": "MAX_LENGTH", "rule_value": 4}`), "the value seven breaks the rule MAX_LENGTH 4")

	f("equals_to array", rule("a", `{"equals_to": [1, 2]}`), "")
	f("equals_to array fails", rule("a", `{"equals_to": [1, 2, 3]}`), "the value [1, 2] breaks the rule equals_to [1, 2, 3]")
	f("equals_to map", rule("m", `{"equals_to": {"q": 2, "p": 1.5}}`), "")
	f("equals_to map fails", rule("m", `{"equals_to": {"q": 2, "p": 1.25}}`), "breaks the rule equals_to {q=2.0, p=1.25}")
	f("equals_to row", rule("r", `{"equals_to": [1, ["u", null]]}`), "")
	f("equals_to row fails", rule("r", `{"equals_to": [1, ["u", "v"]]}`), "the value [1, [u, null]] breaks the rule equals_to [1, [u, v]]")
	f("equals_to decimal", rule("d", `{"equals_to": 1.5}`), "")
	f("equals_to decimal fails", rule("d", `{"equals_to": "1.51"}`), "the value 1.50 breaks")
	f("equals_to timestamp", rule("t", `{"equals_to": "2024-01-02T03:04:05.600"}`), "")
	f("equals_to timestamp fails", rule("t", `{"equals_to": "2024-01-02T03:04:05"}`), "the value 2024-01-02T03:04:05.600 breaks")
	f("equals_to bytes", rule("b", `{"equals_to": "dGVzdA=="}`), "")
	f("equals_to bytes fails", rule("b", `{"equals_to": "dGVzdHM="}`), "breaks the rule equals_to [116, 101, 115, 116, 115]")
	f("equals_to boolean fails", rule("f", `{"equals_to": false}`), "the value true breaks the rule equals_to false")
	f("equals_to of null fails", rule("i", `{"rule_type": "NOT_NULL", "equals_to": 5}`), "the value 7 breaks the rule equals_to 5")

	f("field_type", field("d", `"field_type": "decimal(12, 2)"`), "")
	f("field_type of a value", field("d", `"field_type": "decimal(3, 2)"`), "")
	f("field_type null", field("n", `"field_type": "string"`), "")
	f("field_type row", field("r", `"field_type": {"x": "int", "y": "array<string>"}`), "")
	f("field_type fails", field("i", `"field_type": "bigint"`), "the value 5 breaks the rule field_type bigint, the column is of type int")
	f("field_type decimal fails", field("d", `"field_type": "decimal(2, 2)"`), "the value 1.50 breaks the rule field_type decimal(2, 2)")
	f("field_type scale fails", field("d", `"field_type": "decimal(10, 3)"`), "breaks the rule field_type decimal(10, 3)")
	f("field_type row fails", field("r", `"field_type": {"x": "int", "y": "array<int>"}`), "breaks the rule field_type row<x int, y array<int>>")
	f("field_type map fails", field("m", `"field_type": "map<string, string>"`), "breaks the rule field_type map<string, string>")
	f("field_type null fails", field("i", `"field_type": "null"`), "breaks the rule field_type null")

	f("rows", `{"row_rules": [{"rule_type": "MIN_ROW", "rule_value": 2}, {"rule_type": "MAX_ROW", "rule_value": 2}]}`, "")
	f("MIN_ROW fails", `{"row_rules": [{"rule_type": "MIN_ROW", "rule_value": 3}]}`, `table "db.wide": 2 rows break the rule MIN_ROW 3`)
	f("MAX_ROW fails under the name in SeaTunnel's files", `{"rule_ruls": [{"rule_type": "MAX_ROW", "rule_value": 1}]}`, `2 rows break the rule MAX_ROW 1`)
	f("MAX_ROW fails", `{"row_rules": [{"rule_type": "MAX_ROW", "rule_value": 1}]}`, `2 rows break the rule MAX_ROW 1`)
	f("table-names", `{"table-names": ["db.wide"]}`, "")
	f("table-names fails", `{"table-names": ["db.wide", "db.other"]}`, `table-names: rows arrived of db.wide, not of db.other, db.wide`)

	catalog := func(rule string) string { return `{"catalog_table_rule": {` + rule + `}}` }
	f("catalog", catalog(`"table_path": "db.wide", "table_identifier_rule": {"catalog_name": "FakeSource", "table": "db.wide"},
		"primary_key_rule": {"primary_key_name": "pk", "primary_key_columns": ["i", "k"]},
		"constraint_key_rule": [{"constraint_key_name": "u", "constraint_key_type": "UNIQUE_KEY", "constraint_key_columns": [{"constraint_key_column_name": "s", "constraint_key_sort_type": "ASC"}]}]`), "")
	f("table_path fails", catalog(`"table_path": "db.narrow"`), `table_path: the table is not "db.narrow"`)
	f("table_identifier_rule fails", catalog(`"table_identifier_rule": {"table": "x"}`), `table_identifier_rule: the table is not "x"`)
	f("primary key name fails", catalog(`"primary_key_rule": {"primary_key_name": "key"}`), `the key is named "pk", not "key"`)
	f("primary key columns fails", catalog(`"primary_key_rule": {"primary_key_columns": ["i"]}`), `the key columns are k, i, not i`)
	f("constraint name fails", catalog(`"constraint_key_rule": [{"constraint_key_name": "v", "constraint_key_type": "UNIQUE_KEY"}]`), `the keys are UNIQUE_KEY u(s ASC), not UNIQUE_KEY v()`)
	f("constraint sort fails", catalog(`"constraint_key_rule": [{"constraint_key_name": "u", "constraint_key_columns": [{"constraint_key_column_name": "s", "constraint_key_sort_type": "DESC"}]}]`), `not UNIQUE_KEY u(s DESC)`)

	column := func(rest string) string {
		rules := []string{`{"name": "k", "type": "bigint"` + rest + `}`}
		for _, c := range wide.Columns[:10] {
			word := strings.ReplaceAll(c.Type.String(), "row<x int, y array<string>>", "{x = int, y = array<string>}")
			rules = append(rules, `{"name": "`+c.Name+`", "type": "`+word+`"}`)
		}
		return catalog(`"column_rule": [` + strings.Join(rules, ", ") + `]`)
	}
	f("columns", column(`, "column_length": 20, "nullable": false, "comment": "the key", "default_value": 7`), "")
	f("columns fails", catalog(`"column_rule": [{"name": "k", "type": "bigint"}]`), `column_rule: the columns are i, s, n, d, a, m, r, t, b, f, k, not k`)
	f("column type fails", catalog(`"column_rule": [{"name": "k", "type": "int"}]`), `column k has type bigint, not int`)
	f("column length fails", column(`, "column_length": 21`), `column k has length 20, not 21`)
	f("column scale fails", column(`, "column_scale": 2`), `column k has scale 0, not 2`)
	f("column nullable fails", column(`, "nullable": true`), `column k has nullable false, not true`)
	f("column default fails", column(`, "default_value": "8"`), `column k has default 7, not 8`)
	f("column comment fails", column(`, "comment": ""`), `column k has comment the key, not `)
}

// TestKeyless has the rules for keys fail on a table without keys.
func TestKeyless(t *testing.T) {
	table := conformance.Table("t", schema.Col("i", schema.Of(schema.Int)))
	err := job(t, `{"catalog_table_rule": {"primary_key_rule": {"primary_key_columns": ["i"]}, "constraint_key_rule": [{"constraint_key_name": "u"}]}}`, false, []*schema.Table{table}, nil, 2)
	for _, want := range []string{"it has no primary key", "the keys are none, not "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestNullIsNotEqual(t *testing.T) {
	table := conformance.Table("t", schema.Col("i", schema.Of(schema.Int)))
	err := job(t, `{"field_rules": [{"field_name": "i", "field_value": [{"equals_to": 1}]}]}`, false, []*schema.Table{table}, map[int][]string{0: {`[1]`, `[null]`}}, 1)
	if err == nil || !strings.Contains(err.Error(), "row 2 of subtask 0, column i: the value null breaks the rule equals_to 1") {
		t.Errorf("error %v", err)
	}
}

func TestNoRowsAndStreaming(t *testing.T) {
	table := conformance.Table("t", schema.Col("i", schema.Of(schema.Int)))
	minimum := `{"row_rules": [{"rule_type": "MIN_ROW", "rule_value": 1}], "table-names": ["t"]}`
	err := job(t, minimum, false, []*schema.Table{table}, nil, 3)
	for _, want := range []string{"0 rows break the rule MIN_ROW 1", "rows arrived of none, not of t"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := job(t, minimum, true, []*schema.Table{table}, nil, 3); err != nil {
		t.Errorf("in a job without end: %v", err)
	}
	err = job(t, `{"row_rules": [{"rule_type": "MAX_ROW", "rule_value": 0}]}`, true, []*schema.Table{table}, map[int][]string{0: {`[1]`}}, 1)
	if err == nil {
		t.Error("MAX_ROW is not judged in a job without end")
	}
}

func TestTables(t *testing.T) {
	tables := []*schema.Table{conformance.Table("d.a", schema.Col("i", schema.Of(schema.Int))), conformance.Table("d.b", schema.Col("s", schema.Of(schema.String)))}
	rows := map[int][]string{0: {`[1]`, `[2]`}, 1: {`["x"]`, `["y"]`, `["z"]`}}
	f := func(rules, want string) {
		t.Helper()
		err := job(t, rules, false, tables, rows, 2)
		if (want == "") != (err == nil) || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("rules %s: error %v, want %q", rules, err, want)
		}
	}
	f(`{"row_rules": [{"rule_type": "MAX_ROW", "rule_value": 3}, {"rule_type": "MIN_ROW", "rule_value": 2}]}`, "")
	f(`{"row_rules": [{"rule_type": "MIN_ROW", "rule_value": 3}]}`, `table "d.a": 2 rows break the rule MIN_ROW 3`)
	single := func(path, rule string) string {
		return `{"tables_configs": [{"table_path": "d.a", "row_rules": [{"rule_type": "MAX_ROW", "rule_value": 2}]}, {"table_path": "` + path + `", ` + rule + `}]}`
	}
	f(single("d.b", `"row_rules": [{"rule_type": "MIN_ROW", "rule_value": 3}], "field_rules": [{"field_name": "s", "field_type": "string"}]`), "")
	f(single("d.b", `"row_rules": [{"rule_type": "MIN_ROW", "rule_value": 4}]`), `table "d.b": 3 rows break the rule MIN_ROW 4`)
	f(single("d.b", `"field_rules": [{"field_name": "s", "field_value": [{"equals_to": "x"}]}]`), `the value`)
	f(single("d.c", `"row_rules": [{"rule_type": "MIN_ROW", "rule_value": 1}]`), `table "d.c": 0 rows break the rule MIN_ROW 1`)
	f(single("d.c", `"row_rules": [{"rule_type": "MAX_ROW", "rule_value": 1}]`), "")
	f(single("d.bb", `"field_rules": [{"field_name": "s", "field_type": "string"}]`), `no table "d.bb" arrives at this sink; did you mean "d.b"?`)
	f(`{"table-names": ["d.b", "d.a", "d.a"]}`, "")
	f(`{"table-names": ["d.b"]}`, `rows arrived of d.a, d.b, not of d.b`)
	f(`{"field_rules": [{"field_name": "i", "field_type": "int"}]}`, `table "d.b" has no column "i"`)
}

func TestMistakes(t *testing.T) {
	table := conformance.Table("t", schema.Col("score", schema.Of(schema.Int)), schema.Col("name", schema.Of(schema.String)))
	f := func(rules, want string) {
		t.Helper()
		err := job(t, rules, false, []*schema.Table{table}, nil, 1)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rules %s: error %v, want %q", rules, err, want)
		}
	}
	f(`{}`, `none of "row_rules", "field_rules", "catalog_table_rule", "table-names", "tables_configs" is set`)
	f(`{"feild_rules": []}`, `did you mean "field_rules"?`)
	f(`{"table_names": []}`, `did you mean "table-names"?`)
	f(`{"row_rules": [{"rule_tpye": "MAX_ROW", "rule_value": 1}]}`, `did you mean "rule_type"?`)
	f(`{"field_rules": [{"field_name": "score", "field_value": [{"rule_tpye": "MAX", "rule_value": 1}]}]}`, `did you mean "rule_type"?`)
	f(`{"field_rules": [{"field_name": "score", "field_value": [{"rule_type": "MAXX", "rule_value": 1}]}]}`, `did you mean MAX?`)
	f(`{"field_rules": [{"field_name": "score", "field_value": [{"rule_type": "MAX"}]}]}`, `option "rule_value" is missing`)
	f(`{"field_rules": [{"field_name": "scroe"}]}`, `table "t" has no column "scroe"; did you mean "score"?`)
	f(`{"field_rules": [{"field_name": "zzzzzzzz"}]}`, `the columns are score, name`)
	f(`{"field_rules": [{"field_name": "score", "field_type": "itn"}]}`, `int`)
	f(`{"field_rules": [{"field_name": "score", "field_value": [{"equals_to": "x"}]}]}`, `column score: "x" is not a value of type int`)
	f(`{"field_rules": [{"field_name": "name", "field_value": [{"rule_type": "MIN", "rule_value": 1}]}]}`, `MIN wants a number, column name is of type string`)
	f(`{"tables_configs": [{"table_path": "t", "row_rules": [{"rule_type": "MAX_ROW", "rule_vaule": 1}]}]}`, `did you mean "rule_value"?`)
	f(`{"catalog_table_rule": {"column_rule": [{"name": "score", "typo": "int"}]}}`, `did you mean "type"?`)
}
