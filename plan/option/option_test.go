package option

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"strait/plan/fault"
)

// text makes a node the way plan/config does from a small JSON-like notation: obj and list nest, other values
// are scalars. Each field gets its own line.
func obj(kv ...any) *Node {
	n := &Node{Kind: Object, Pos: fault.Position{Line: 1}}
	for i := 0; i < len(kv); i += 2 {
		pos := fault.Position{Line: i/2 + 2}
		v := scalar(kv[i+1])
		if v.Pos.IsZero() {
			v.Pos = pos
		}
		n.Fields = append(n.Fields, Field{Key: kv[i].(string), Value: v, Pos: pos})
	}
	return n
}

func list(items ...any) *Node {
	n := &Node{Kind: List}
	for _, it := range items {
		n.List = append(n.List, scalar(it))
	}
	return n
}

// num is a number as it is written.
type num string

func scalar(v any) *Node {
	switch v := v.(type) {
	case *Node:
		return v
	case nil:
		return &Node{Kind: Null}
	case num:
		return &Node{Kind: Number, Text: string(v)}
	case bool:
		return &Node{Kind: Bool, Text: map[bool]string{true: "true", false: "false"}[v]}
	}
	return &Node{Kind: String, Text: v.(string)}
}

var spec = &Spec{
	Options: []Option{
		{Name: "path", Type: TString, Required: true, Doc: "Where it lies."},
		{Name: "row.num", Type: TInt, Default: "5", Min: Bound(1), Max: Bound(1 << 40)},
		{Name: "ratio", Type: TFloat, Default: "0.5"},
		{Name: "header", Type: TBool, Default: "false"},
		{Name: "every", Aliases: []string{"interval"}, Type: TDuration, Default: "1s"},
		{Name: "idle", Type: TDuration, Unit: "s"},
		{Name: "chunk", Type: TBytes, Default: "64KiB"},
		{Name: "mode", Type: TEnum, Enum: []string{"RANGE", "TEMPLATE"}, Default: "range"},
		{Name: "columns", Type: TStrings},
		{Name: "hosts", Type: TStrings, Split: true},
		{Name: "labels", Type: TStringMap},
		{Name: "items", Type: TList},
		{Name: "any", Type: TAny},
		{Name: "raw", Type: TObject},
		{Name: "inner", Type: TObject, Sub: &Spec{Options: []Option{{Name: "x", Type: TInt, Default: "7"}, {Name: "must", Type: TString, Required: true}}}},
		{Name: "loose", Type: TObject, Open: true, Sub: &Spec{Options: []Option{{Name: "x", Type: TInt}}}},
		{Name: "tables", Type: TObjects, Sub: &Spec{Options: []Option{{Name: "name", Type: TString, Required: true}}}},
		{Name: "objects", Type: TObjects},
		{Name: "password", Type: TStringMap, Secret: true},
		{Name: "test.switch", Type: TBool, Hidden: true},
	},
	Ignored: map[string]string{"jvm.heap": "there is no JVM", "spark.*": ""},
}

func decode(t *testing.T, s *Spec, n *Node) (Values, *fault.List) {
	t.Helper()
	var l fault.List
	v := s.Decode(n, "source[0] (X)", &l)
	return v, &l
}

func TestSpecIsValid(t *testing.T) {
	if err := spec.Validate(); err != nil {
		t.Error(err)
	}
}

func TestDefaults(t *testing.T) {
	v, l := decode(t, spec, obj("path", "/x"))
	if l.Err() != nil || len(l.Warnings()) > 0 {
		t.Fatal(l.Err(), l.Warnings())
	}
	if v.String("path") != "/x" || v.Int("row.num") != 5 || v.Float("ratio") != 0.5 || v.Bool("header") || v.Duration("every") != time.Second ||
		v.Duration("idle") != 0 || v.Int("chunk") != 64<<10 || v.String("mode") != "RANGE" || v.Strings("columns") != nil || v.Pairs("labels") != nil ||
		v.Node("raw") != nil || v.Sub("inner").Int("x") != 7 || v.Subs("tables") != nil {
		t.Errorf("%+v", v)
	}
	if !v.Has("path") || v.Has("row.num") || v.Has("inner") {
		t.Error("Has")
	}
}

func TestDecode(t *testing.T) {
	f := func(name string, value any, read func(Values) any, want any) {
		t.Helper()
		v, l := decode(t, spec, obj("path", "/x", name, value))
		if err := l.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if d := cmp.Diff(want, read(v)); d != "" {
			t.Errorf("%s = %v: %s", name, value, d)
		}
		if len(l.Warnings()) > 0 {
			t.Error(l.Warnings())
		}
	}
	str := func(n string) func(Values) any { return func(v Values) any { return v.String(n) } }
	i64 := func(n string) func(Values) any { return func(v Values) any { return v.Int(n) } }
	dur := func(n string) func(Values) any { return func(v Values) any { return v.Duration(n) } }
	strs := func(n string) func(Values) any { return func(v Values) any { return v.Strings(n) } }
	pairs := func(v Values) any { return v.Pairs("labels") }

	f("mode", "template", str("mode"), "TEMPLATE")
	f("row.num", num("10"), i64("row.num"), int64(10))
	f("row.num", " 10 ", i64("row.num"), int64(10))
	f("row.num", num("47.0"), i64("row.num"), int64(47))
	f("row.num", num("1e3"), i64("row.num"), int64(1000))
	f("row", obj("num", num("10")), i64("row.num"), int64(10)) // row { num = 10 }
	f("ratio", "0.25", func(v Values) any { return v.Float("ratio") }, 0.25)
	f("header", true, func(v Values) any { return v.Bool("header") }, true)
	f("header", "True", func(v Values) any { return v.Bool("header") }, true)
	f("every", num("1500"), dur("every"), 1500*time.Millisecond)
	f("every", "2m", dur("every"), 2*time.Minute)
	f("interval", num("20"), dur("every"), 20*time.Millisecond)
	f("idle", num("2"), dur("idle"), 2*time.Second)
	f("chunk", "1MiB", i64("chunk"), int64(1<<20))
	f("columns", list("a", num("2")), strs("columns"), []string{"a", "2"})
	f("columns", "a,b", strs("columns"), []string{"a,b"})
	f("hosts", "a, b,", strs("hosts"), []string{"a", "b"})
	f("hosts", list("a", "b"), strs("hosts"), []string{"a", "b"})
	f("labels", obj("b", num("1"), "a", obj("x", true, "y.z", "q")), pairs, []Pair{{"b", "1"}, {"a.x", "true"}, {"a.y.z", "q"}})
	f("items", list(obj(), num("1")), func(v Values) any { return len(v.Node("items").List) }, 2)
	f("any", num("1"), func(v Values) any { return v.Node("any").Text }, "1")
	f("raw", obj("whatever", "x"), func(v Values) any { return v.Node("raw").Child("whatever").Text }, "x")
	f("inner", obj("must", "m"), func(v Values) any { return v.Sub("inner").String("must") }, "m")
	f("loose", obj("x", num("3"), "y", "?"), func(v Values) any { return v.Sub("loose").Int("x") }, int64(3))
	f("tables", list(obj("name", "a"), obj("name", "b")), func(v Values) any { return v.Subs("tables")[1].String("name") }, "b")
	f("tables", obj("name", "alone"), func(v Values) any { return v.Subs("tables")[0].String("name") }, "alone")
	f("row.num", nil, i64("row.num"), int64(5)) // null: not set
	f("test.switch", true, func(v Values) any { return v.Bool("test.switch") }, true)
	f("spark.master", "local", str("path"), "/x")
}

func TestMistakes(t *testing.T) {
	f := func(want string, kv ...any) {
		t.Helper()
		_, l := decode(t, spec, obj(append([]any{"path", "/x"}, kv...)...))
		got := ""
		if err := l.Err(); err != nil {
			got = err.Error()
		}
		if d := cmp.Diff(want, strings.ReplaceAll(got, "source[0] (X)", "S")); d != "" {
			t.Error(d)
		}
	}
	f(`line 3: S: row.num: "many" is not a whole number; write row.num = 10`, "row.num", "many")
	f(`line 3: S: row.num: 0x10 is not a whole number; write row.num = 10`, "row.num", num("0x10"))
	f(`line 3: S: row.num: 1.5 is not a whole number; write row.num = 10`, "row.num", num("1.5"))
	f(`line 3: S: row.num: 1e300 is not a whole number; write row.num = 10`, "row.num", num("1e300"))
	f(`line 3: S: row.num: 99999999999999999999 does not fit into 64 bits; write row.num = 10`, "row.num", num("99999999999999999999"))
	f(`line 3: S: row.num: 0 is below 1, the least allowed; write row.num = 10`, "row.num", num("0"))
	f(`line 3: S: row.num: 1099511627777 is above 1099511627776, the most allowed; write row.num = 10`, "row.num", num("1099511627777"))
	f(`line 3: S: row.num: a list is not a single value; write row.num = 10`, "row.num", list())
	f(`line 3: S: ratio: "NaN" is not a number; write ratio = 1.5`, "ratio", "NaN")
	f(`line 3: S: header: "si" is not a boolean; write header = true`, "header", "si")
	f(`line 3: S: every: "soon" is not a duration; write every = 10s`, "every", "soon")
	f(`line 3: S: interval: "soon" is not a duration; write interval = 10s`, "interval", "soon")
	f(`line 3: S: chunk: "big" is not a size; write chunk = 64MiB`, "chunk", "big")
	f(`line 3: S: mode: "templat" is not one of RANGE, TEMPLATE; did you mean TEMPLATE?`, "mode", "templat")
	f(`line 3: S: mode: "xyz" is not one of RANGE, TEMPLATE; write mode = RANGE or TEMPLATE`, "mode", "xyz")
	f(`line 1: S: columns: an object is not a list of strings; write columns = ["a", "b"]`, "columns", obj())
	f(`line 3: S: columns: a list is not a list of strings; write columns = ["a", "b"]`, "columns", list(obj()))
	f(`line 3: S: labels: "x" is not an object; write labels = { … }`, "labels", "x")
	f(`line 1: S: labels: an object holds a list under "k"; write a single value for "k"`, "labels", obj("k", list()))
	f(`line 1: S: items: an object is not a list; write items = [ … ]`, "items", obj())
	f(`line 3: S: raw: "x" is not an object; write raw = { … }`, "raw", "x")
	f(`line 3: S: objects: a list is not a list of objects; write objects = [ … ]`, "objects", list("x"))
	f(`line 3: S: tables: "x" is not a list of objects; write tables = [ … ]`, "tables", "x")
	f(`S: tables[0]: found "x" where an object of options belongs; write { option = value … }`, "tables", list("x"))
	f(`line 1: S: inner: option "must" is missing; set must = "…"`, "inner", obj("x", num("1")))
	f("line 1: S: inner: option \"must\" is missing; set must = \"…\"\nline 2: S: inner: unknown option \"mustt\"; did you mean \"must\"?", "inner", obj("mustt", "1"))
	f(`line 3: S: password: the string (not shown) is not an object; write password = { … }`, "password", "hunter2")
	f(`line 3: S: unknown option "ptah"; did you mean "path"?`, "ptah", "/y")
	f(`line 3: S: unknown option "ro.wnum"; did you mean "row.num"?`, "ro.wnum", num("1"))
	f(`line 2: S: unknown option "row.nmu"; did you mean "row.num"?`, "row", obj("nmu", num("1")))
	f("line 3: S: unknown option \"intreval\"; did you mean \"interval\"?", "intreval", num("1"))
	f("line 3: S: unknown option \"quite_different\"; `stctl connector show` lists the options", "quite_different", num("1"))
	f("line 3: S: unknown option \"test.swicth\"; `stctl connector show` lists the options", "test.swicth", true)

	f(`line 3: S: row.num: "${rows}" is a variable without a value; give it one with -i rows=…`, "row.num", "${rows}")

	// All of them at once, and the missing one.
	_, l := decode(t, spec, obj("header", "si", "ratio", "much", "chnuk", "1"))
	if l.Len() != 4 {
		t.Error(l.Err())
	}
	_, l = decode(t, spec, list())
	if want := "source[0] (X): found a list where an object of options belongs; write { option = value … }"; l.Err() == nil || l.Err().Error() != want {
		t.Error(l.Err())
	}
}

func TestWarnings(t *testing.T) {
	f := func(want []string, kv ...any) {
		t.Helper()
		_, l := decode(t, spec, obj(append([]any{"path", "/x"}, kv...)...))
		var got []string
		for _, w := range l.Warnings() {
			got = append(got, w.Error())
		}
		if d := cmp.Diff(want, got); d != "" || l.Err() != nil {
			t.Error(d, l.Err())
		}
	}
	f([]string{`line 3: source[0] (X): option "jvm.heap" has no effect; there is no JVM`}, "jvm.heap", "1g")
	f([]string{`line 2: source[0] (X): option "jvm.heap" has no effect; there is no JVM`}, "jvm", obj("heap", "1g"))
	f(nil, "spark.executor.memory", "1g")
	f(nil, "spark", obj("executor", obj("memory", "1g")))
	f(nil, "every", num("5"), "interval", num("5"))
	f([]string{`line 4: source[0] (X): "every" and "interval" are two spellings of one option; "every" counts; remove "interval"`}, "every", num("5"), "interval", num("6"))
}

func TestRules(t *testing.T) {
	opts := []Option{{Name: "a"}, {Name: "b"}, {Name: "c", Type: TInt}, {Name: "kind", Type: TEnum, Enum: []string{"csv", "json"}, Default: "csv"}}
	f := func(r Rule, want string, kv ...any) {
		t.Helper()
		s := &Spec{Options: opts, Rules: []Rule{r}}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		_, l := decode(t, s, obj(kv...))
		got := ""
		if err := l.Err(); err != nil {
			got = strings.ReplaceAll(err.Error(), "line 1: source[0] (X): ", "")
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	ab := []string{"a", "b"}
	f(Rule{Kind: ExactlyOne, Of: ab}, `none of "a", "b" is set; set one of them`)
	f(Rule{Kind: ExactlyOne, Of: ab}, `more than one of "a", "b" is set; keep one of them`, "a", "1", "b", "2")
	f(Rule{Kind: ExactlyOne, Of: ab}, "", "b", "2")
	f(Rule{Kind: AtMostOne, Of: ab}, "")
	f(Rule{Kind: AtMostOne, Of: ab}, `more than one of "a", "b" is set; keep one of them`, "a", "1", "b", "2")
	f(Rule{Kind: AtLeastOne, Of: ab}, `none of "a", "b" is set; set at least one of them`)
	f(Rule{Kind: AtLeastOne, Of: ab}, "", "a", "1", "b", "2")
	f(Rule{Kind: Together, Of: ab}, `only some of "a", "b" are set; set all of them or none`, "a", "1")
	f(Rule{Kind: Together, Of: ab}, "")
	f(Rule{Kind: Conditional, When: "kind", Is: []string{"CSV"}, Of: []string{"a"}}, `option "a" is missing, it is needed where kind = csv; set a = "…"`)
	f(Rule{Kind: Conditional, When: "kind", Is: []string{"csv"}, Of: []string{"a"}}, "", "kind", "json")
	f(Rule{Kind: Conditional, When: "b", Of: []string{"a", "c"}}, "option \"a\" is missing, it is needed where b is set; set a = \"…\"\noption \"c\" is missing, it is needed where b is set; set c = 10", "b", "1")
	f(Rule{Kind: Conditional, When: "b", Of: []string{"a"}}, "")
	// A value that does not parse is set all the same: one mistake, not two.
	f(Rule{Kind: AtLeastOne, Of: []string{"c"}}, `line 2: source[0] (X): c: "x" is not a whole number; write c = 10`, "c", "x")
}

func TestNullDoesNotHideAlias(t *testing.T) {
	v, l := decode(t, spec, obj("path", "/x", "every", nil, "interval", num("9")))
	if l.Err() != nil || v.Duration("every") != 9*time.Millisecond || v.Node("every").Text != "9" {
		t.Error(l.Err(), v.Duration("every"))
	}
}

func TestCommonOptions(t *testing.T) {
	var l fault.List
	s := &Spec{Options: []Option{{Name: "parallelism", Type: TString}}}
	v := s.Decode(obj("parallelism", "many", "plugin_output", "t"), "p", &l,
		Option{Name: "parallelism", Type: TInt}, Option{Name: "plugin_output", Aliases: []string{"result_table_name"}})
	if l.Err() != nil || v.String("parallelism") != "many" || v.String("plugin_output") != "t" {
		t.Error(l.Err())
	}
	s.Decode(obj("result_talbe_name", "t"), "p", &l, Option{Name: "plugin_output", Aliases: []string{"result_table_name"}})
	if want := `line 2: p: unknown option "result_talbe_name"; did you mean "result_table_name"?`; l.Err() == nil || l.Err().Error() != want {
		t.Error(l.Err())
	}
	if len(s.Options) != 1 {
		t.Error("the spec was changed")
	}
}

func TestUndeclaredPanics(t *testing.T) {
	v, _ := decode(t, spec, obj("path", "/x"))
	defer func() {
		if r := recover(); r != "BUG: option pathh is read but not declared" {
			t.Error(r)
		}
	}()
	v.String("pathh")
}

func TestValidate(t *testing.T) {
	bad := &Spec{Options: []Option{
		{Name: "a"}, {Name: "b", Aliases: []string{"a"}}, {Name: "n", Type: TInt, Default: "x"}, {Name: "e", Type: TEnum},
		{Name: "r", Required: true, Default: "1"}, {Name: "s", Sub: &Spec{}},
		{Name: "o", Type: TObject, Sub: &Spec{Options: []Option{{Name: "i", Type: TBool, Default: "x"}}}},
	}, Rules: []Rule{{Kind: Together, Of: []string{"zz"}}, {Kind: AtMostOne}}}
	want := `b: "a" is empty or declared twice
n: the default x is not a whole number
e: Enum belongs to TEnum and to nothing else
r: a required option has no use for a default
s: Sub belongs to TObject and TObjects
o: i: the default x is not a boolean
zz: a rule names an option that is not declared
a rule is about no option`
	got := bad.Validate().Error()
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); d != "" {
		t.Error(d)
	}
}

func TestDescribe(t *testing.T) {
	s := &Spec{
		Options: []Option{
			{Name: "path", Required: true, Doc: "Where."},
			{Name: "n", Type: TInt, Default: "5", Min: Bound(1), Max: Bound(9), Aliases: []string{"m"}},
			{Name: "every", Type: TDuration, Unit: "s", Secret: true},
			{Name: "mode", Type: TEnum, Enum: []string{"A", "B"}},
			{Name: "hosts", Type: TStrings, Split: true},
			{Name: "in", Type: TObject, Open: true, Sub: &Spec{Options: []Option{{Name: "x"}}}},
			{Name: "hidden", Hidden: true},
		},
		Rules:   []Rule{{Kind: Conditional, When: "mode", Is: []string{"A"}, Of: []string{"n", "every"}}, {Kind: ExactlyOne, Of: []string{"n", "path"}}},
		Ignored: map[string]string{"z": "no", "b": "none"},
	}
	want := &Reference{
		Options: []Entry{
			{Name: "path", Type: "string", Required: true, Doc: "Where."},
			{Name: "n", Type: "int, 1 to 9", Default: "5", Aliases: []string{"m"}},
			{Name: "every", Type: "duration, a bare number is s", Secret: true},
			{Name: "mode", Type: "enum", Values: []string{"A", "B"}},
			{Name: "hosts", Type: "list of strings, or one string with commas"},
			{Name: "in", Type: "object", Inside: &Reference{Options: []Entry{{Name: "x", Type: "string"}}, Open: true}},
			{Name: "common", Type: "boolean"},
		},
		Rules:   []string{`"n", "every" are required where "mode" is A`, `exactly one of "n", "path"`},
		Ignored: []Pair{{"b", "none"}, {"z", "no"}},
	}
	if d := cmp.Diff(want, s.Describe(Option{Name: "common", Type: TBool})); d != "" {
		t.Error(d)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"result_table_name", "plugin_output", "row.num", "file_format_type", "field_rules", "rule_type", "bootstrap.servers",
		"generate_sink_sql", "table-names", "base-url", "startup.mode", "database", "query", "path", "schema", "schema_save_mode", "database-names"}
	for _, name := range names[:15] { // any two neighbours swapped
		for i := 1; i < len(name); i++ {
			wrong := name[:i-1] + string(name[i]) + string(name[i-1]) + name[i+1:]
			if got := Nearest(wrong, names); wrong != name && got != name {
				t.Errorf("%s: got %q, want %s", wrong, got, name)
			}
		}
	}
	f := func(wrong, want string) {
		t.Helper()
		if got := Nearest(wrong, names); got != want {
			t.Errorf("%q: got %q, want %q", wrong, got, want)
		}
	}
	f("", "")
	f("x", "")
	f("Path", "path")
	f("fieldrules", "field_rules")
	f("startup", "startup.mode")
	f("something_else", "")
	f(strings.Repeat("x", 1000), "")
}
