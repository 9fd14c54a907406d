package physical

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/schema"
)

func TestDecodeRefuses(t *testing.T) {
	text, err := os.ReadFile("testdata/plans/changelog.conf")
	if err != nil {
		t.Fatal(err)
	}
	f := func(want string, change func(p *Plan)) {
		t.Helper()
		p := planOf(t, string(text))
		change(p)
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Decode(data)
		if err == nil || !strings.Contains(err.Error(), want) || !fault.IsFatal(err) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f("the plan has format 2, this build reads up to 1; use the version of Strait that wrote it, or a newer one", func(p *Plan) { p.Version = 2 })
	f("it has no format version", func(p *Plan) { p.Version = 0 })
	f("pipeline 1 is missing", func(p *Plan) { p.Pipelines[0] = nil })
	f("pipeline 1 is missing", func(p *Plan) { p.Pipelines[0].ID = 7 })
	one := func(change func(p *Pipeline)) func(*Plan) { return func(p *Plan) { change(p.Pipelines[0]) } }
	f("it has no vertices", one(func(p *Pipeline) { p.Vertices = nil }))
	f("vertex 1 is missing or named twice", one(func(p *Pipeline) { p.Vertices[1].ID = "in" }))
	f(`vertex in is of section "sauce"`, one(func(p *Pipeline) { p.Vertices[0].Section = "sauce" }))
	f("sink sink.Out.0 says nothing of itself", one(func(p *Pipeline) { p.Vertices[2].Sink = nil }))
	f("vertex in is in chain 9", one(func(p *Pipeline) { p.Vertices[0].Chain = 9 }))
	f("vertex in is in chain -1", one(func(p *Pipeline) { p.Vertices[0].Chain = -1 }))
	f("vertex in has no options", one(func(p *Pipeline) { p.Vertices[0].Options = nil }))
	f("the inputs of vertex out do not fit", one(func(p *Pipeline) { p.Vertices[1].InputNames = nil }))
	f("the inputs of vertex out do not fit", one(func(p *Pipeline) { p.Vertices[1].Inputs, p.Vertices[1].InputNames = nil, nil }))
	f("the tables of vertex out do not fit", one(func(p *Pipeline) { p.Vertices[1].Out = nil }))
	f("vertex out reads nobody, which is not before it", one(func(p *Pipeline) { p.Vertices[1].Inputs[0] = "nobody" }))
	f("vertex in: a table is missing", one(func(p *Pipeline) { p.Vertices[0].Out[0] = nil }))
	f("type array has the wrong parts", one(func(p *Pipeline) { p.Vertices[0].Out[0].Columns[0].Type = schema.Type{Kind: schema.Array} }))
	f("edge 0 is missing", one(func(p *Pipeline) { p.Edges[0].ID = 4 }))
	f("edge 0 goes from chain 0 to chain 0", one(func(p *Pipeline) { p.Edges[0].To = 0 }))
	f("edge 0 goes from chain 0 to chain 3", one(func(p *Pipeline) { p.Edges[0].To = 3 }))
	f(`edge 0 has exchange "smoke"`, one(func(p *Pipeline) { p.Edges[0].Exchange = "smoke" }))
	f("edge 0 has 0 keys for 1 tables", one(func(p *Pipeline) { p.Edges[0].Keys = nil }))
	f("the key of table shop.orders is column 3", one(func(p *Pipeline) { p.Edges[0].Keys[0][0] = 3 }))
	f("chain 1 is missing or empty", one(func(p *Pipeline) { p.Chains[1].Vertices = nil }))
	f("chain 1 is missing or empty, or its parallelism is out of range", one(func(p *Pipeline) { p.Chains[1].Parallelism = 1e9 }))
	f("chain 1 and its vertex out do not fit", one(func(p *Pipeline) { p.Chains[1].Parallelism = 5 }))
	f("chain 1 and its edge 1 do not fit", one(func(p *Pipeline) { p.Chains[1].Inputs[0] = 1 }))
	f("chain 0 and its edge 7 do not fit", one(func(p *Pipeline) { p.Chains[0].Outputs[0] = 7 }))
	f("chain 1 and its vertex sink.Out.0 do not fit", one(func(p *Pipeline) { p.Chains[1].Vertices = append(p.Chains[1].Vertices, "sink.Out.0") }))

	for _, garbage := range []string{"", "null", "[]", "{", `{"version":"x"}`, `{"version":1,"pipelines":{}}`, "\x00\xff"} {
		if _, err := Decode([]byte(garbage)); err == nil {
			t.Errorf("%q is read", garbage)
		}
	}
	if _, err := Encode(&Plan{Version: 3}); err == nil {
		t.Error("a plan of another format is written")
	}
}

// TestCheckedDagIsNoPlan: what a check left open cannot be planned.
func TestCheckedDagIsNoPlan(t *testing.T) {
	d := dagOf(t, "job.conf", "source { Fake { schema { fields { a = int } } } }\nsink { Out { } }")
	d.Vertices[0].Known = false
	if _, err := Build(d); err == nil || !strings.HasPrefix(err.Error(), "BUG: the tables of source[0] (Fake) are not known") {
		t.Error(err)
	}
}

// TestOverriddenParallelism: the plan has the numbers that count, not those of the file.
func TestOverriddenParallelism(t *testing.T) {
	job, _, err := config.Parse([]byte("env { parallelism = 2 }\nsource { Fake { schema { fields { a = int } } } }\nsink { Out { } }"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := logical.Build(context.Background(), job, fakeCatalog{}, logical.Overrides{Parallelism: 5, Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Build(d)
	if err != nil || p.Slots(true) != 5 || p.JobName != "x" || p.Pipeline(1) == nil || p.Pipeline(2) != nil {
		t.Error(err, Explain(p))
	}
	if pl := p.Pipeline(1); len(pl.Sources()) != 1 || len(pl.Sinks()) != 1 || pl.Vertex("nobody") != nil {
		t.Error("lookups")
	}
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/v*/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		if err != nil {
			return
		}
		p.Version = Version
		first, err := Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(first)
		if err != nil {
			t.Fatalf("%v: %s", err, first)
		}
		second, err := Encode(back)
		if err != nil || string(first) != string(second) {
			t.Fatalf("another encoding: %v\n%s\n%s", err, first, second)
		}
		_, _, _ = Explain(p), Dot(p), Show(p)
	})
}
