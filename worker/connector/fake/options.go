package fake

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"strait/plan/option"
)

var (
	docRange    = "%s of %s made up at random: %s; the upper bound is excluded."
	modes       = []string{"RANGE", "TEMPLATE"}
	numberTypes = []struct {
		word, min, max string
	}{
		{"tinyint", "0", "127"},
		{"smallint", "0", "32767"},
		{"int", "0", "2147483647"},
		{"bigint", "0", "9223372036854775807"},
		{"float", "0", strconv.FormatFloat(math.MaxFloat32, 'g', -1, 32)},
		{"double", "0", strconv.FormatFloat(math.MaxFloat64, 'g', -1, 64)},
	}
)

// tableOptions are the options of one table; they stand at the top or in each entry of tables_configs.
func tableOptions() []option.Option {
	size := func(name, def, doc string) option.Option {
		return option.Option{Name: name, Type: option.TInt, Default: def, Min: option.Bound(0), Max: option.Bound(1 << 20), Doc: doc}
	}
	out := []option.Option{
		{Name: "schema", Type: option.TObject, Columns: true, Doc: "Columns and keys of the table."},
		{Name: "rows", Type: option.TObjects, Sub: &rowSpec, Doc: "The rows themselves, instead of made-up ones: a list of { kind = INSERT, fields = [ … ] }. Every subtask produces them once."},
		{Name: "row.num", Type: option.TInt, Default: "5", Min: option.Bound(0), Max: option.Bound(1 << 48), Doc: "Rows of each subtask."},
		{Name: "split.num", Type: option.TInt, Default: "1", Min: option.Bound(1), Max: option.Bound(1 << 20), Doc: "Splits of each subtask."},
		{Name: "split.read-interval", Type: option.TDuration, Default: "1", Doc: "Time between two splits of one reader, in milliseconds; it counts only when it is set."},
		size("map.size", "5", "Entries of a map."),
		size("array.size", "5", "Elements of an array."),
		size("bytes.length", "5", "Length of a value of type bytes."),
		size("string.length", "5", "Length of a string made up of letters."),
		size("vector.dimension", "4", "Dimension of a vector; a columnScale of the column goes before."),
		size("binary.vector.dimension", "8", "Dimension of a binary vector in bits, a multiple of 8; a columnScale of the column goes before."),
		{Name: "vector.float.min", Type: option.TFloat, Default: "0", Doc: "Least element of a vector."},
		{Name: "vector.float.max", Type: option.TFloat, Default: strconv.FormatFloat(math.MaxFloat32, 'g', -1, 32), Doc: "Upper bound of the elements of a vector."},
		{Name: "string.fake.mode", Type: option.TEnum, Enum: modes, Default: "RANGE", Doc: "RANGE makes strings of letters, TEMPLATE takes them from string.template. A template that is set is always used."},
		{Name: "string.template", Type: option.TStrings, Split: true, Doc: "Strings to choose from."},
		{Name: "auto.increment.enabled", Type: option.TBool, Default: "false", Doc: "Whole-number columns of the primary key count up instead of being made up."},
		{Name: "auto.increment.start", Type: option.TInt, Default: "1", Doc: "First value of the counted columns."},
	}
	for _, t := range numberTypes {
		kind := option.TInt
		if t.word == "float" || t.word == "double" {
			kind = option.TFloat
		}
		mode := option.Option{Name: t.word + ".fake.mode", Type: option.TEnum, Enum: modes, Default: "RANGE",
			Doc: fmt.Sprintf("RANGE makes a %s up between %s.min and %s.max, TEMPLATE takes it from %s.template. A template that is set is always used.", t.word, t.word, t.word, t.word)}
		if t.word == "int" {
			mode.Aliases = []string{"int.fake.template"} // as the manual spells it
		}
		out = append(out, mode,
			option.Option{Name: t.word + ".min", Type: kind, Default: t.min, Doc: fmt.Sprintf(docRange, "Least value", t.word, t.word+".min ≤ value < "+t.word+".max")},
			option.Option{Name: t.word + ".max", Type: kind, Default: t.max, Doc: fmt.Sprintf(docRange, "Bound", t.word, t.word+".min ≤ value < "+t.word+".max")},
			option.Option{Name: t.word + ".template", Type: option.TStrings, Split: true, Doc: fmt.Sprintf("Values of type %s to choose from.", t.word)})
	}
	for _, p := range dateParts {
		out = append(out, option.Option{Name: p.option, Type: option.TStrings, Split: true,
			Doc: fmt.Sprintf("Values of the %s of dates and times to choose from; default: %s.", p.name, p.def)})
	}
	return out
}

// dateParts are the parts of a date-time and what a template may hold.
var dateParts = []struct {
	option, name, def string
	min, max          int64
}{
	{"date.year.template", "year", "this year", 1, 9999},
	{"date.month.template", "month", "1 to 12", 1, 12},
	{"date.day.template", "day", "1 to 28; a day the month does not have becomes its last", 1, 31},
	{"time.hour.template", "hour", "0 to 23", 0, 23},
	{"time.minute.template", "minute", "0 to 59", 0, 59},
	{"time.second.template", "second", "0 to 59", 0, 59},
}

var rowSpec = option.Spec{Options: []option.Option{
	{Name: "kind", Type: option.TEnum, Default: "INSERT", Enum: []string{"INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE", "+I", "-U", "+U", "-D"},
		Doc: "What the row does."},
	{Name: "fields", Type: option.TAny, Columns: true, Required: true, Doc: "Values of the columns: a list in their order, or an object by name."},
}}

// ignored are keys that occur in SeaTunnel's job files and have no effect there either.
var ignored = map[string]string{
	"split.row":          "it is no option of FakeSource; row.num and split.num say how many rows a split has",
	"smalling.fake.mode": "it is a misspelling of smallint.fake.mode; a template that is set is used anyway",
	"field_name":         "it was an option of FakeSource before 2.0; the schema names the columns",
}

func spec() option.Spec {
	inner := ignoredIn(map[string]string{
		"parallelism":       "the parallelism of the source counts for all tables",
		"plugin_output":     "tables are named by schema.table",
		"result_table_name": "tables are named by schema.table",
	})
	tables := &option.Spec{Options: tableOptions(), Ignored: inner}
	for i := range tables.Options {
		if tables.Options[i].Name == "schema" {
			tables.Options[i].Required = true
		}
	}
	return option.Spec{
		Options: append(tableOptions(),
			option.Option{Name: "tables_configs", Type: option.TObjects, Sub: tables, Doc: "Several tables: a list of objects with the options of one table each; schema.table names them."},
			option.Option{Name: "seed", Type: option.TInt, Doc: "Makes the data repeatable: the same seed gives the same rows in every run of the same job. Strait only."}),
		Rules:   []option.Rule{{Kind: option.ExactlyOne, Of: []string{"schema", "tables_configs"}}},
		Ignored: ignoredIn(nil),
	}
}

func ignoredIn(more map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range ignored {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// template reads the values of an option NAME.template; nil: it is not set.
func template[T any](p *problems, v option.Values, name string, parse func(string) (T, error)) []T {
	var out []T
	for _, s := range v.Strings(name) {
		x, err := parse(strings.TrimSpace(s))
		if err != nil {
			p.add(v, name, fmt.Sprintf("%q %s", s, err), "")
			return nil
		}
		out = append(out, x)
	}
	return out
}

func wholeIn(word string, min, max int64) func(string) (int64, error) {
	return func(s string) (int64, error) {
		i, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			f, ferr := strconv.ParseFloat(s, 64)
			if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<62 {
				return 0, fmt.Errorf("is not a whole number")
			}
			i = int64(f)
		}
		if i < min || i > max {
			return 0, fmt.Errorf("is outside of %s: %d to %d", word, min, max)
		}
		return i, nil
	}
}

func float(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("is not a number")
	}
	return f, nil
}
