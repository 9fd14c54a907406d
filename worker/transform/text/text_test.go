package text

import (
	"strings"
	"testing"

	"strait/plan/schema"
	"strait/worker/transform/conformance"
)

var table = &schema.Table{
	Path: schema.ParsePath("t"),
	Columns: []schema.Column{schema.Col("id", schema.Of(schema.Int)), schema.Col("name", schema.Of(schema.String)), schema.Col("d", schema.Of(schema.Timestamp)),
		schema.Col("s", schema.Of(schema.String))},
	PrimaryKey: &schema.PrimaryKey{Columns: []string{"id"}},
}

var rows = []string{
	`"+I", [1213, "a-b-c", "2024-01-02 03:04:00", "x"]`,
	`"-U", [null, null, null, null]`,
	`"+U", [7, "", "2024-01-02 03:04:05", "a.b"]`,
	`"-D", [1, "no dash", null, "-"]`,
}

func TestConformance(t *testing.T) {
	with := func(cols ...schema.Column) *schema.Table {
		out := table.Clone()
		out.Columns = append(out.Columns, cols...)
		return out
	}
	str := func(name string) schema.Column { return schema.Col(name, schema.Of(schema.String)) }
	for name, c := range map[string]conformance.Case{
		"replace": {Plugin: "Replace", Options: `{"replace_field": "name", "pattern": "-", "replacement": "+"}`, Out: table,
			Want: []string{"+I [1213, a+b+c, 2024-01-02T03:04, x]", "-U [null, null, null, null]", "+U [7, , 2024-01-02T03:04:05, a.b]", "-D [1, no dash, null, -]"}},
		"replace in several": {Plugin: "Replace", Options: `{"replace_field": ["name", "s"], "pattern": "[-.](.?)", "replacement": "<$1>", "is_regex": true}`,
			Want: []string{"+I [1213, a<b><c>, 2024-01-02T03:04, x]", "-U [null, null, null, null]", "+U [7, , 2024-01-02T03:04:05, a<b>]", "-D [1, no dash, null, <>]"}},
		"replace first": {Plugin: "Replace", Options: `{"replace_field": "name", "pattern": "-", "replacement": "", "is_regex": true, "replace_first": true}`,
			Want: []string{"+I [1213, ab-c, 2024-01-02T03:04, x]", "-U [null, null, null, null]", "+U [7, , 2024-01-02T03:04:05, a.b]", "-D [1, no dash, null, -]"}},
		"split": {Plugin: "Split", Options: `{"split_field": "name", "separator": "-", "output_fields": ["a", "s"]}`,
			Out:  with(str("a")),
			Want: []string{"+I [1213, a-b-c, 2024-01-02T03:04, b-c, a]", "-U [null, null, null, null, null]", "+U [7, , 2024-01-02T03:04:05, null, ]", "-D [1, no dash, null, null, no dash]"}},
		"split a number": {Plugin: "Split", Options: `{"split_field": "id", "separator": "1", "output_fields": ["f1", "f2", "f3", "f4"]}`,
			Out: with(str("f1"), str("f2"), str("f3"), str("f4")),
			Want: []string{"+I [1213, a-b-c, 2024-01-02T03:04, x, , 2, 3, null]", "-U [null, null, null, null, null, null, null, null]",
				"+U [7, , 2024-01-02T03:04:05, a.b, 7, null, null, null]", "-D [1, no dash, null, -, , , null, null]"}},
		"split a timestamp": {Plugin: "Split", Options: `{"split_field": "d", "separator": "[T:]", "output_fields": "day,hour"}`,
			Want: []string{"+I [1213, a-b-c, 2024-01-02T03:04, x, 2024-01-02, 03:04]", "-U [null, null, null, null, null, null]",
				"+U [7, , 2024-01-02T03:04:05, a.b, 2024-01-02, 03:04:05]", "-D [1, no dash, null, -, null, null]"}},
		"split into itself": {Plugin: "Split", Options: `{"split_field": "name", "separator": "-", "output_fields": ["name"]}`, Out: table,
			Want: []string{"+I [1213, a-b-c, 2024-01-02T03:04, x]", "-U [null, null, null, null]", "+U [7, , 2024-01-02T03:04:05, a.b]", "-D [1, no dash, null, -]"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.In, c.Batch = table, conformance.Batch(t, rows...)
			conformance.Run(t, c)
		})
	}
}

// TestReplaceAsJava has outcomes of Java's String.replaceAll.
func TestReplaceAsJava(t *testing.T) {
	f := func(pattern, replacement, in, want string) {
		t.Helper()
		re, err := Compile(pattern)
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
			return
		}
		parts, err := re.template(replacement)
		if err != nil {
			t.Errorf("%q: %v", replacement, err)
			return
		}
		if got := string(re.replace(nil, in, parts, false)); got != want {
			t.Errorf("%q.replaceAll(%q, %q) = %q, want %q", in, pattern, replacement, got, want)
		}
	}
	f(".+", "b", "abc", "b")
	f(".*", "b", "abc", "bb")
	f("a*", "x", "baac", "xbxxcx")
	f("^.*$", "b", "abc", "b")
	f("x*$", "-", "abxx", "ab--")
	f("", "-", "añb", "-a-ñ-b-")
	f(`(\d+)-(\d+)`, "$2/$1", "12-34 5-6", "34/12 6/5")
	f(`(a)(b)?`, "[$1$2]", "ac", "[a]c")
	f(`(a)`, "$10", "a", "a0")
	f(`(?<x>a)b`, "${x}\\$\\\\", "ab", `a$\`)
	f(`\s+`, " ", "a \t\u000b\nb", "a b")
	f(`\S`, "x", "a b", "x x")
	f(`[\s,]+`, ";", "a , b", "a;b")
	f(`.`, "x", "a\r\nb", "x\r\nx")
	f(`(?s).`, "x", "a\r\n", "xxx")
	f(`\R`, "|", "a\r\nb\nc", "a|b|c")
	f(`\h`, "_", "a\u00a0b\tc", "a_b_c")
	f(`\Qa.b\E+`, "x", "a.bb", "x")
	f(`\u0041\x42\0103\x{44}`, "x", "ABCD", "x")
	f(`\p{Alpha}+`, "x", "ab1é", "x1é")
	f(`[\p{Lower}\d]+`, "x", "aB1", "xBx")
	f(`\P{Alpha}`, "x", "a1b", "axb")
	f(`\p{L}+`, "x", "aé1", "x1")
	f(`\p{IsAlphabetic}+`, "x", "aé1", "x1")
	f(`\p{IsHan}`, "x", "漢a", "xa")
	f(`(?i)AB`, "x", "ab", "x")
	f(`(?iu:AB)`, "x", "ab", "x")
	f(`a+?`, "x", "aa", "xx")
	f(`a{2}`, "x", "aaa", "xa")
	f(`[^\d]`, "", "a1b2", "12")
	f(`\.`, "x", "a.b", "axb")
	f(`\bfoo\b`, "x", "foo food", "x food")
	f(`[]a]`, "x", "]a", "xx")
}

func TestRefusedPatterns(t *testing.T) {
	f := func(pattern, want string) {
		t.Helper()
		if _, err := Compile(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", pattern, err, want)
		}
	}
	f(`a(?=b)`, "uses look-ahead (?=…), which this engine does not have")
	f(`a(?!b)`, "look-ahead (?!…)")
	f(`(?<=a)b`, "look-behind (?<=…)")
	f(`(?<!a)b`, "look-behind (?<!…)")
	f(`(?>a)b`, "an atomic group")
	f(`(a)\1`, `a back reference (\1)`)
	f(`(?<n>a)\k<n>`, `a back reference (\k)`)
	f(`a*+`, "a possessive quantifier")
	f(`a{2}+`, "a possessive quantifier")
	f(`[a-z&&[^b]]`, "an intersection of classes")
	f(`[a[b]]`, "a class within a class")
	f(`\G`, `\G`)
	f(`a\Z`, `\Z`)
	f(`(?x)a`, "the flag (?x)")
	f(`\p{InGreek}`, `the property \p{InGreek}`)
	f(`(a`, "missing closing )")
	f(`[a`, "a class is not closed")
	f(`a\`, `ends with \`)
	f(`*a`, "missing argument to repetition operator")
}

func TestSplitAsJava(t *testing.T) {
	f := func(separator string, limit int, in, want string) {
		t.Helper()
		re, err := Compile(separator)
		if err != nil {
			t.Errorf("%q: %v", separator, err)
			return
		}
		parts := make([]string, limit)
		n := re.cut(in, parts)
		if got := strings.Join(parts[:n], "|"); got != want {
			t.Errorf("%q.split(%q, %d) = %q, want %q", in, separator, limit, got, want)
		}
	}
	f(",", 3, "a,b", "a|b")
	f(",", 2, "a,b,c", "a|b,c")
	f(",", 3, ",a,", "|a|")
	f(",", 1, "a,b", "a,b")
	f(",", 2, "", "")
	f("", 3, "abc", "a|b|c")
	f("", 2, "abc", "a|bc")
	f(",*", 4, "a,b", "a||b|")
	f("[,;]", 9, "a;b,c", "a|b|c")
}

func TestMistakes(t *testing.T) {
	f := func(plugin, options, want string) {
		t.Helper()
		conformance.Mistake(t, plugin, options, table, want)
	}
	replacing := func(rest string) string {
		return `{"replace_field": "name", "pattern": "a(b)", "replacement": "x"` + rest + `}`
	}
	f("Replace", `{"replace_field": "nmae", "pattern": "a", "replacement": "b"}`, `no column "nmae"; did you mean "name"?`)
	f("Replace", `{"replace_field": "id", "pattern": "a", "replacement": "b"}`, `column "id" of table "t" is of type int, not string`)
	f("Replace", `{"replace_field": "name", "pattern": "a"}`, `option "replacement" is missing`)
	f("Replace", replacing(`, "is_rgex": true`), `did you mean "is_regex"?`)
	f("Replace", `{"replace_field": "name", "pattern": "a(?=b)", "replacement": "b", "is_regex": true}`, `"a(?=b)" uses look-ahead`)
	f("Replace", `{"replace_field": "name", "pattern": "a(b)", "replacement": "$2", "is_regex": true}`, `has $2, the pattern only 1 groups`)
	f("Replace", `{"replace_field": "name", "pattern": "a", "replacement": "${n}", "is_regex": true}`, `has ${n}, the pattern no group of that name`)
	f("Replace", `{"replace_field": "name", "pattern": "a", "replacement": "5$", "is_regex": true}`, `a $ without a group behind it`)
	f("Split", `{"split_field": "nane", "separator": ",", "output_fields": ["a"]}`, `did you mean "name"?`)
	f("Split", `{"split_field": "name", "separator": "(?<=a)", "output_fields": ["a"]}`, `look-behind`)
	f("Split", `{"split_field": "name", "separator": ",", "output_fields": []}`, `no column to split into`)
	f("Split", `{"split_field": "name", "separator": ",", "output_fields": ["a", "a"]}`, `column "a" stands twice`)
	f("Split", `{"split_feild": "name", "separator": ",", "output_fields": ["a"]}`, `did you mean "split_field"?`)
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{`a(?i)b[^\s]\p{L}\Qx\E`, `[]-a]`, `\`, `(?`, `\c`, `\0`, `\u12`, `[\`, `\p`, `\p{`} {
		f.Add(s, "aXb\n")
	}
	f.Fuzz(func(t *testing.T, pattern, in string) {
		re, err := Compile(pattern)
		if err != nil {
			return
		}
		re.replace(nil, in, []part{{"x", -1}}, false)
		re.cut(in, make([]string, 3))
	})
}

func BenchmarkReplace(b *testing.B) {
	for name, options := range map[string]string{
		"text":  `{"replace_field": "s", "pattern": "5", "replacement": "five"}`,
		"regex": `{"replace_field": "s", "pattern": "[56]+", "replacement": "<$0>", "is_regex": true}`,
	} {
		b.Run(name, func(b *testing.B) {
			in := &schema.Table{Columns: []schema.Column{schema.Col("s", schema.Of(schema.String))}}
			texts := make([]string, 0, 1000)
			for range 1000 {
				texts = append(texts, `"+I", ["some text with 55 and 6 in it"]`)
			}
			r, x := conformance.Open(b, conformance.Case{Plugin: "Replace", Options: options, In: in}, texts...)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Apply(b.Context(), x); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}
