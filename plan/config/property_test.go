package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"strait/plan/option"
)

// model is a value as a test wants to have it read.
type model struct {
	kind   option.Kind
	text   string
	list   []*model
	fields []modelField
}

type modelField struct {
	key   string
	value *model
}

var words = []string{"a", "int", "decimal(10,2)", "x.y.z", "/tmp/a b", "2024-01-02", "127.0.0.1", "it's", "grün", "5d", "array<int>", "http://h:80/p", "null", "true"}

func drawModel(t *rapid.T, depth int) *model {
	kind := rapid.IntRange(0, 7).Draw(t, "kind")
	if depth == 0 && kind > 5 {
		kind -= 2
	}
	switch kind {
	case 0:
		return &model{kind: option.Number, text: rapid.SampledFrom([]string{"0", "-1.5", "12", "1e5", "9223372036854775807", "007"}).Draw(t, "number")}
	case 1:
		return &model{kind: option.Bool, text: rapid.SampledFrom([]string{"true", "false"}).Draw(t, "bool")}
	case 2:
		return &model{kind: option.Null}
	case 3:
		return &model{kind: option.String, text: rapid.SampledFrom(words).Draw(t, "word")}
	case 4, 5:
		return &model{kind: option.String, text: strings.ReplaceAll(rapid.String().Draw(t, "text"), "${", "")}
	case 6:
		m := &model{kind: option.List}
		for range rapid.IntRange(0, 4).Draw(t, "elements") {
			m.list = append(m.list, drawModel(t, depth-1))
		}
		return m
	}
	return drawObject(t, depth)
}

func drawObject(t *rapid.T, depth int) *model {
	m := &model{kind: option.Object}
	seen := map[string]bool{"source": true, "transform": true, "sink": true}
	for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
		key := rapid.SampledFrom([]string{"a", "a.b", "row.num", "quoted key", "\"", "schema", "grün", ""}).Draw(t, "key") + strconv.Itoa(i%2)
		if !seen[key] {
			seen[key] = true
			m.fields = append(m.fields, modelField{key, drawModel(t, depth-1)})
		}
	}
	return m
}

// writer writes a model in one of the many ways HOCON has.
type writer struct {
	t *rapid.T
	b strings.Builder
}

func (w *writer) oneOf(label string, choices ...string) string {
	return rapid.SampledFrom(choices).Draw(w.t, label)
}

func (w *writer) value(m *model) {
	switch m.kind {
	case option.Null:
		w.b.WriteString("null")
	case option.String:
		w.b.WriteString(w.text(m.text))
	case option.List:
		w.b.WriteString("[" + w.gap())
		for i, e := range m.list {
			if i > 0 {
				w.b.WriteString(w.oneOf("comma", ",", " , ", "\n", " # x\n", ",\n// y\n"))
			}
			w.value(e)
		}
		w.b.WriteString(w.oneOf("end", "]", "\n]", " ]"))
	case option.Object:
		w.b.WriteString("{" + w.gap())
		w.fields(m.fields)
		w.b.WriteString(w.oneOf("end", "}", "\n}", " // z\n}"))
	default:
		w.b.WriteString(m.text)
	}
}

func (w *writer) gap() string { return w.oneOf("gap", "", " ", "\n", " # http://x/{\n", "\r\n\t") }

// text writes a string without quotes where that gives the same, else in one kind of quotes.
func (w *writer) text(s string) string {
	plain := len(s) > 0 && s != "null" && s != "true"
	for _, word := range words {
		if s == word && plain && rapid.Bool().Draw(w.t, "plain") {
			return s
		}
	}
	if !strings.ContainsAny(s, "\"\x00") && rapid.Bool().Draw(w.t, "triple") {
		return `"""` + s + `"""`
	}
	return jsonText(s)
}

func jsonText(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

func (w *writer) fields(fields []modelField) {
	for i, f := range fields {
		if i > 0 {
			w.b.WriteString(w.oneOf("comma", ",", "\n", " # {\n", ", // [\n"))
		}
		key := jsonText(f.key)
		if !strings.ContainsAny(f.key, "\" ") && rapid.Bool().Draw(w.t, "plain key") {
			key = f.key
		}
		if n := len(f.value.fields); f.value.kind == option.Object && n > 1 && rapid.Bool().Draw(w.t, "split") { // a { … } a { … }
			w.b.WriteString(key)
			w.value(&model{kind: option.Object, fields: f.value.fields[:n/2]})
			w.b.WriteString(w.oneOf("between", "\n", ","))
			w.b.WriteString(key)
			w.value(&model{kind: option.Object, fields: f.value.fields[n/2:]})
			continue
		}
		if f.value.kind == option.Object && rapid.Bool().Draw(w.t, "no separator") {
			w.b.WriteString(key + w.gap())
		} else {
			w.b.WriteString(key + w.oneOf("separator", "=", " : ", " =\n "))
		}
		w.value(f.value)
	}
}

func (m *model) String() string {
	var b strings.Builder
	switch m.kind {
	case option.List:
		for _, e := range m.list {
			fmt.Fprintf(&b, "%v,", e)
		}
		return "[" + b.String() + "]"
	case option.Object:
		for _, f := range m.fields {
			fmt.Fprintf(&b, "%q=%v,", f.key, f.value)
		}
		return "{" + b.String() + "}"
	}
	return fmt.Sprintf("%v %q", m.kind, m.text)
}

func modelOf(n *option.Node) *model {
	m := &model{kind: n.Kind, text: n.Text}
	for _, e := range n.List {
		m.list = append(m.list, modelOf(e))
	}
	for _, f := range n.Fields {
		m.fields = append(m.fields, modelField{f.Key, modelOf(f.Value)})
	}
	return m
}

// TestAnySpelling writes random values in random spellings and reads the same values back.
func TestAnySpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawObject(t, 4)
		w := &writer{t: t}
		w.b.WriteString("env ")
		w.value(want)
		w.b.WriteString("\nsource { Src" + w.gap())
		w.value(want)
		w.b.WriteString("}\n" + "sink { Console { } }")
		job, _, err := Parse([]byte(w.b.String()), Options{File: "x.conf"})
		if err != nil {
			t.Fatalf("%s\n%v", w.b.String(), err)
		}
		for _, got := range []*option.Node{job.Env, job.Sources[0].Options} {
			if diff := cmp.Diff(want.String(), modelOf(got).String()); diff != "" {
				t.Fatalf("%s\n%s", w.b.String(), diff)
			}
		}
	})
}

// TestJSONAgrees reads random JSON as encoding/json does.
func TestJSONAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawObject(t, 5)
		w := &jsonWriter{rng: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "spaces")))}
		w.value(m)
		text := `{"env":` + w.b.String() + `,"source":[{"plugin_name":"S"}],"sink":[{"plugin_name":"T"}]}`
		if !json.Valid([]byte(text)) {
			return // 007 is no JSON number
		}
		job, _, err := Parse([]byte(text), Options{File: "x.json"})
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		var got strings.Builder
		w2 := &jsonWriter{}
		w2.value(modelOf(job.Env))
		got.WriteString(w2.b.String())
		var a, b any
		if err := json.Unmarshal([]byte(w.b.String()), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(got.String()), &b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("%s\n%s", text, diff)
		}
	})
}

type jsonWriter struct {
	b   bytes.Buffer
	rng *rand.Rand
}

func (w *jsonWriter) space() {
	if w.rng != nil {
		w.b.WriteString([]string{"", " ", "\n", "\t", "\r\n"}[w.rng.IntN(5)])
	}
}

func (w *jsonWriter) value(m *model) {
	w.space()
	switch m.kind {
	case option.Null:
		w.b.WriteString("null")
	case option.String:
		w.b.WriteString(jsonText(m.text))
	case option.List:
		w.b.WriteByte('[')
		for i, e := range m.list {
			if i > 0 {
				w.b.WriteByte(',')
			}
			w.value(e)
		}
		w.b.WriteByte(']')
	case option.Object:
		w.b.WriteByte('{')
		for i, f := range m.fields {
			if i > 0 {
				w.b.WriteByte(',')
			}
			w.space()
			w.b.WriteString(jsonText(f.key))
			w.space()
			w.b.WriteByte(':')
			w.value(f.value)
		}
		w.b.WriteByte('}')
	default:
		w.b.WriteString(m.text)
	}
	w.space()
}

// TestVariableValuesAreData puts any value into quotes, triple quotes and a joined value: it comes out as it is.
func TestVariableValuesAreData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ "'=$^\\{}\[\]#:,\n$a-c]*`)).Draw(t, "value")
		if len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
			v += "x" // quotes around the whole value are taken off
		}
		text := "env { a = \"<${x}>\", b = \"\"\"<${x}>\"\"\", c = '\"\"${x}\"\"', d = <${x}>, e = [\"${x}\"] }\n" + sourceAndSink
		job, _, err := Parse([]byte(text), Options{Vars: map[string]string{"x": v}})
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{"a": "<" + v + ">", "b": "<" + v + ">", "c": "'" + v + "'", "d": "<" + v + ">"} {
			if got := job.Env.Child(key); got.Kind != option.String || got.Text != want {
				t.Fatalf("%s: got %v %q, want %q", key, got.Kind, got.Text, want)
			}
		}
		if got := job.Env.Child("e").List[0].Text; got != v {
			t.Fatalf("e: got %q, want %q", got, v)
		}
	})
}
