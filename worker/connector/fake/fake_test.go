package fake

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"strait/plan/option/optiontest"
	"strait/worker/connector"
	"strait/worker/connector/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const everyType = `"c_null": "null", "c_string": "string", "c_boolean": "boolean", "c_tinyint": "tinyint", "c_smallint": "smallint",
	"c_int": "int", "c_bigint": "bigint", "c_float": "float", "c_double": "double", "c_decimal": "decimal(38, 18)", "c_small": "decimal(4,2)",
	"c_wide": "decimal(60, 4)", "c_bytes": "bytes", "c_date": "date", "c_time": "time", "c_timestamp": "timestamp", "c_nanos": "timestamp(9)",
	"c_tz": "timestamp_tz", "c_array": "array<int>", "c_arrays": "array<array<string>>", "c_map": "map<string, int>", "c_flags": "map<boolean, string>",
	"c_row": {"a": "int", "b": "array<date>", "c": {"d": "map<int, decimal(10,2)>"}},
	"v1": "binary_vector", "v2": "float_vector", "v3": "float16_vector", "v4": "bfloat16_vector", "v5": "sparse_float_vector"`

func TestConformance(t *testing.T) {
	cases := map[string]conformance.SourceCase{
		"made up":    {Options: `{"schema": {"fields": {` + everyType + `}}, "row.num": 100, "split.num": 3, "seed": 7}`, Rows: 200},
		"large":      {Options: `{"schema": {"fields": {"a": "bigint", "s": "string"}}, "row.num": 10000, "seed": 1}`, Rows: 20000},
		"unseeded":   {Options: `{"schema": {"fields": {"a": "boolean"}}, "row.num": 0}`, Rows: 0},
		"streaming":  {Options: `{"schema": {"fields": {"a": "int"}}, "seed": 3}`, Streaming: true, Rows: 10},
		"interval":   {Options: `{"schema": {"fields": {"a": "int"}}, "row.num": 6, "split.num": 3, "split.read-interval": 5, "seed": 3}`, Rows: 12},
		"many":       {Options: `{"schema": {"fields": {"a": "int"}}, "row.num": 1500, "split.num": 1500, "seed": 1}`, Rows: 3000},
		"uneven":     {Options: `{"schema": {"fields": {"a": "int"}}, "row.num": 10, "split.num": 4, "seed": 1}`, Rows: 20, Parallelism: 2},
		"two tables": {Options: `{"seed": 1, "tables_configs": [{"schema": {"table": "d.a", "fields": {"x": "int"}}, "row.num": 2}, {"schema": {"table": "d.b", "fields": {"y": "string", "z": "date"}}, "row.num": 3}]}`, Rows: 10},
		"literal": {
			Options: `{"schema": {"table": "t", "fields": {"id": "bigint", "name": "string"}}, "rows": [{"kind": "INSERT", "fields": [1, "a"]}, {"kind": "-D", "fields": {"name": "b"}}, {"fields": [3]}]}`,
			Want:    []string{"t +I [1, a]", "t -D [null, b]", "t +I [3, null]"}, Rows: 3, Parallelism: 1,
		},
		"literal, every subtask": {Options: `{"schema": {"fields": {"id": "int"}}, "row.num": 100, "split.num": 5, "rows": [{"kind": "INSERT", "fields": [1]}]}`, Rows: 3, Parallelism: 3},
		"no literal":             {Options: `{"schema": {"fields": {"id": "int"}}, "rows": []}`, Rows: 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.Plugin = "FakeSource"
			conformance.Source(t, c)
		})
	}
}

// open makes a source for parallelism 1.
func open(t testing.TB, options string) connector.Source {
	t.Helper()
	f := connector.FindSource("fakesource")
	s, err := f.New(t.Context(), connector.SourceConfig{Options: optiontest.Values(t, f.Options, options), Parallelism: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMistakes(t *testing.T) {
	f := func(name, options, want string) {
		t.Run(name, func(t *testing.T) {
			t.Helper()
			fac := connector.FindSource("FakeSource")
			v, err := optiontest.Decode(t, fac.Options, options)
			if err == nil {
				_, err = fac.New(t.Context(), connector.SourceConfig{Options: v, Parallelism: 1})
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("error %v, want %q in it", err, want)
			}
		})
	}
	ab := `"schema": {"fields": {"a": "int", "b": "string"}}`
	f("no schema", `{}`, `none of "schema", "tables_configs" is set`)
	f("both", `{`+ab+`, "tables_configs": []}`, `more than one of "schema", "tables_configs"`)
	f("misspelt", `{`+ab+`, "row.mun": 5}`, `did you mean "row.num"`)
	f("misspelt schema", `{"shcema": {"fields": {"a": "int"}}}`, `did you mean "schema"`)
	f("misspelt in a table", `{"tables_configs": [{`+ab+`, "row.mun": 5}]}`, `did you mean "row.num"`)
	f("misspelt in a row", `{`+ab+`, "rows": [{"kind": "INSERT", "feilds": []}]}`, `did you mean "fields"`)
	f("rows that do not fit", `{`+ab+`, "rows": [{"kind": "INSERT", "fields": ["x", "y"]}]}`, `rows[0]: column a: "x" is not a value of type int`)
	f("too many values", `{`+ab+`, "rows": [{"kind": "INSERT", "fields": [1, "y", 3]}]}`, `the row has 3 values, its type 2 fields`)
	f("unknown column", `{`+ab+`, "rows": [{"kind": "INSERT", "fields": {"a": 1, "bb": 2}}]}`, `no field "bb", did you mean "b"?`)
	f("bad kind", `{`+ab+`, "rows": [{"kind": "INSRT", "fields": []}]}`, `did you mean INSERT`)
	f("range upside down", `{`+ab+`, "int.min": 5, "int.max": 4}`, `4 is below int.min = 5`)
	f("range too wide", `{`+ab+`, "tinyint.max": 300}`, `300 is outside of tinyint`)
	f("template", `{`+ab+`, "smallint.template": [1, 70000]}`, `"70000" is outside of smallint`)
	f("template of words", `{`+ab+`, "double.template": ["x"]}`, `"x" is not a number`)
	f("mode without template", `{`+ab+`, "string.fake.mode": "template"}`, `string.template is empty`)
	f("month", `{`+ab+`, "date.month.template": [13]}`, `"13" is outside of what a month may be: 1 to 12`)
	f("binary vector", `{`+ab+`, "binary.vector.dimension": 12}`, `12 is not a multiple of 8`)
	f("default", `{"schema": {"columns": [{"name": "a", "type": "int", "defaultValue": "x"}]}}`, `column a: default "x" is not a value of type int`)
	f("two tables of one name", `{"tables_configs": [{`+ab+`}, {`+ab+`}]}`, `two tables have the name ""`)
	f("rows of terabytes", `{"schema": {"fields": {"a": "array<array<int>>"}}, "array.size": 1000000}`, `a row would have about`)
	f("negative rows", `{`+ab+`, "row.num": -1}`, `below 0`)
}

// TestBounds looks at many values of each type.
func TestBounds(t *testing.T) {
	options := `{"seed": 5, "row.num": 5000, "tinyint.min": 1, "tinyint.max": 9, "smallint.template": [10, 19], "int.min": -5, "int.max": -5, "bigint.min": -9223372036854775808,
		"float.min": 40, "float.max": 43, "double.min": -1e308, "double.max": 1e308, "string.template": "abc", "date.year.template": [2023], "date.month.template": ["2"], "date.day.template": [31],
		"time.hour.template": [7], "time.minute.template": [0], "time.second.template": [30],
		"schema": {"fields": {"ti": "tinyint", "si": "smallint", "i": "int", "f": "float", "d": "decimal(3,1)", "s": "string", "dt": "date", "tm": "time", "ts": "timestamp"}}}`
	seen := map[string]int{}
	for _, row := range readRows(t, open(t, options)) {
		for i, v := range strings.Split(row, ", ") {
			seen[fmt.Sprintf("%d:%s", i, v)]++
		}
	}
	for _, fix := range []string{"2:-5", "5:abc", "6:2023-02-28", "7:07:00:30", "8:2023-02-28T07:00:30"} {
		if seen[fix] != 5000 {
			t.Errorf("%s comes %d times", fix, seen[fix])
		}
	}
	var ti, si, decimals int
	for v := range seen {
		switch v[0] {
		case '0':
			ti++
		case '1':
			si++
		case '3':
			if v < "3:40" || v > "3:43" {
				t.Errorf("float %s", v)
			}
		case '4':
			decimals++
		}
	}
	if ti != 8 || si != 2 || decimals < 900 {
		t.Errorf("%d tinyints, %d smallints, %d decimals", ti, si, decimals)
	}
}

func readRows(t testing.TB, s connector.Source) []string {
	t.Helper()
	var out []string
	eachBatch(t, s, func(b batchOf) {
		for i := range b.Rows {
			text := conformance.RowText(b, i)
			out = append(out, text[strings.IndexByte(text, '[')+1:len(text)-1])
		}
	})
	return out
}

func TestCountedKeysAndDefaults(t *testing.T) {
	s := open(t, `{"row.num": 4, "split.num": 2, "auto.increment.enabled": true, "auto.increment.start": 10, "schema": {
		"columns": [{"name": "id", "type": "bigint"}, {"name": "n", "type": "int", "defaultValue": "7"}, {"name": "at", "type": "date", "defaultValue": "2020-01-02"}],
		"primaryKey": {"name": "pk", "columnNames": ["id"]}}}`)
	got := strings.Join(readRows(t, s), "; ")
	if want := "10, 7, 2020-01-02; 11, 7, 2020-01-02; 12, 7, 2020-01-02; 13, 7, 2020-01-02"; got != want {
		t.Fatalf("rows %s, want %s", got, want)
	}
}

func TestSeed(t *testing.T) {
	options := func(seed string) string {
		return `{` + seed + `"row.num": 50, "split.num": 2, "schema": {"fields": {` + everyType + `}}}`
	}
	a, b, other, none := readRows(t, open(t, options(`"seed": 1, `))), readRows(t, open(t, options(`"seed": 1, `))), readRows(t, open(t, options(`"seed": 2, `))), readRows(t, open(t, options("")))
	if strings.Join(a, "\n") != strings.Join(b, "\n") {
		t.Error("the same seed gives other rows")
	}
	if a[0] == other[0] || a[0] == none[0] || a[0] == a[25] {
		t.Errorf("two seeds or two splits give the same row %s", a[0])
	}
	t.Log(a[0])
}

func TestMapsKeepKeysApart(t *testing.T) {
	for _, row := range readRows(t, open(t, `{"seed": 1, "map.size": 3, "string.template": ["x", "y"], "schema": {"fields": {"m": "map<boolean, int>", "n": "map<string, string>"}}}`)) {
		for _, k := range []string{"true=", "false=", "{x=", " x=", "y="} {
			if strings.Count(row, k) > 1 {
				t.Errorf("key %s stands twice in %s", k, row)
			}
		}
	}
}
