package physical

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"strait/plan"
	"strait/plan/config"
	"strait/plan/logical"
)

// randomJob draws the text of a job whose every source and transform is read by somebody.
func randomJob(t *rapid.T) string {
	sources := rapid.IntRange(1, 4).Draw(t, "sources")
	transforms := rapid.IntRange(0, 5).Draw(t, "transforms")
	sinks := rapid.IntRange(1, 3).Draw(t, "sinks")
	parallelism := func() string {
		if n := rapid.IntRange(0, 4).Draw(t, "parallelism"); n > 0 {
			return fmt.Sprintf(", parallelism = %d", n)
		}
		return ""
	}
	var names []string
	read := map[string]bool{}
	inputs := func(last bool) string {
		n := rapid.IntRange(1, min(3, len(names))).Draw(t, "inputs")
		in := rapid.Permutation(names).Draw(t, "order")[:n:n]
		if last { // whoever is left
			for _, name := range names {
				if !read[name] && !slices.Contains(in, name) {
					in = append(in, name)
				}
			}
		}
		for _, name := range in {
			read[name] = true
		}
		return "plugin_input = [" + strings.Join(in, ", ") + "]"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "env { job.mode = STREAMING, parallelism = %d, slot_sharing = %v }\nsource {\n", rapid.IntRange(1, 3).Draw(t, "env"), rapid.Bool().Draw(t, "sharing"))
	for i := range sources {
		key := ""
		if rapid.Bool().Draw(t, "key") {
			key = ", primaryKey { columnNames = [a] }"
		}
		fmt.Fprintf(&b, "  Fake { plugin_output = s%d, changelog = %v, endless = %v, schema { fields { a = int }%s }%s }\n",
			i, rapid.Bool().Draw(t, "changelog"), rapid.Bool().Draw(t, "endless"), key, parallelism())
		names = append(names, "s"+strconv.Itoa(i))
	}
	b.WriteString("}\ntransform {\n")
	for i := range transforms {
		plugin := rapid.SampledFrom([]string{"Copy", "Copy", "Copy", "Join"}).Draw(t, "plugin")
		fmt.Fprintf(&b, "  %s { %s, plugin_output = t%d%s }\n", plugin, inputs(false), i, parallelism())
		names = append(names, "t"+strconv.Itoa(i))
	}
	b.WriteString("}\nsink {\n")
	for i := range sinks {
		fmt.Fprintf(&b, "  Out { %s, aggregated = %v%s }\n", inputs(i == sinks-1), rapid.Bool().Draw(t, "aggregated"), parallelism())
	}
	b.WriteString("}\n")
	return b.String()
}

func planRandom(t *rapid.T, text string) (*logical.Dag, *Plan) {
	job, _, err := config.Parse([]byte(text), config.Options{File: "job.conf"})
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := logical.Build(context.Background(), job, fakeCatalog{}, logical.Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Build(d)
	if err != nil {
		t.Fatal(err)
	}
	return d, p
}

func TestRandomJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := randomJob(t)
		d, p := planRandom(t, text)
		shared, unshared := 0, 0
		for i, pl := range p.Pipelines {
			if pl.ID != plan.PipelineID(i+1) {
				t.Fatalf("pipeline %d has id %d", i, pl.ID)
			}
			checkPipeline(t, d, pl)
			most, sum := 0, 0
			for _, c := range pl.Chains {
				most, sum = max(most, c.Parallelism), sum+c.Parallelism
			}
			shared, unshared = shared+most, unshared+sum
		}
		if p.Slots(true) != shared || p.Slots(false) != unshared {
			t.Fatalf("slots %d and %d, want %d and %d", p.Slots(true), p.Slots(false), shared, unshared)
		}
		checkPaths(t, d, p)
		checkEncoding(t, text, p)
		if Explain(p) == "" || Dot(p) == "" || len(Show(p).Pipelines) != len(p.Pipelines) || logical.Explain(d) == "" {
			t.Fatal("nothing is shown")
		}
	})
}

// checkPipeline holds invariant 1, the rules of fusion and those of the exchanges against one pipeline.
func checkPipeline(t *rapid.T, d *logical.Dag, p *Pipeline) {
	chainOf := map[plan.VertexID]*Chain{}
	for i, c := range p.Chains {
		if int(c.ID) != i || len(c.Vertices) == 0 {
			t.Fatalf("chain %d: %+v", i, c)
		}
		for _, id := range c.Vertices {
			if chainOf[id] != nil {
				t.Fatalf("%s is in two chains", id)
			}
			chainOf[id] = c
		}
	}
	ids := map[plan.VertexID]bool{}
	outputs := map[plan.VertexID]int{}
	for _, v := range p.Vertices {
		if ids[v.ID] || chainOf[v.ID] == nil || chainOf[v.ID].ID != v.Chain || chainOf[v.ID].Parallelism != v.Parallelism {
			t.Fatalf("%s: twice, or in no chain, or in a chain of other parallelism", v.ID)
		}
		ids[v.ID] = true
		for _, in := range v.Inputs {
			if !ids[in] {
				t.Fatalf("%s stands before its input %s", v.ID, in)
			}
			outputs[in]++
		}
	}
	if len(chainOf) != len(ids) {
		t.Fatal("a chain holds a vertex that is not there")
	}
	edges := map[[2]plan.ChainID]int{}
	for i, e := range p.Edges {
		if e.ID != i || e.From >= e.To || !slices.Contains(p.Chains[e.From].Outputs, i) || !slices.Contains(p.Chains[e.To].Inputs, i) {
			t.Fatalf("edge %d: %+v", i, e)
		}
		edges[[2]plan.ChainID{e.From, e.To}]++
	}
	links := 0
	for _, v := range p.Vertices {
		c := chainOf[v.ID]
		at := slices.Index(c.Vertices, v.ID)
		for _, in := range v.Inputs {
			u := p.Vertex(in)
			fused := at > 0 && c.Vertices[at-1] == in
			want := len(v.Inputs) == 1 && outputs[in] == 1 && u.Parallelism == v.Parallelism
			if fused != want {
				t.Fatalf("%s behind %s: fused %v, want %v", v.ID, in, fused, want)
			}
			if fused {
				continue
			}
			links++
			from := chainOf[in]
			if at != 0 || from.Vertices[len(from.Vertices)-1] != in || edges[[2]plan.ChainID{from.ID, c.ID}] != 1 {
				t.Fatalf("the link %s to %s has no edge of its own", in, v.ID)
			}
			e := p.Edges[c.Inputs[slices.IndexFunc(c.Inputs, func(i int) bool { return p.Edges[i].From == from.ID })]]
			changelog := d.Vertex(in).Changelog
			wantExchange := Rebalance
			if u.Parallelism == v.Parallelism {
				wantExchange = Forward
			} else if changelog {
				wantExchange = Hash
			}
			if e.Exchange != wantExchange || !reflect.DeepEqual(e.Tables, u.Out) || e.Why == "" || (e.Exchange == Hash) != (len(e.Keys) > 0) {
				t.Fatalf("edge %+v, want %s", e, wantExchange)
			}
		}
		if at > 0 && len(v.Inputs) != 1 {
			t.Fatalf("%s is inside a chain and has %d inputs", v.ID, len(v.Inputs))
		}
		if v.Section != config.Source && len(v.In) == 0 {
			t.Fatalf("nothing reaches %s", v.ID)
		}
	}
	if links != len(p.Edges) {
		t.Fatalf("%d edges for %d links", len(p.Edges), links)
	}
}

// checkPaths: every path from a source to a sink runs through exactly one pipeline, and a pipeline runs through no
// other, but for what is kept together.
func checkPaths(t *rapid.T, d *logical.Dag, p *Plan) {
	want := map[string]int{}
	together := false
	for _, v := range d.Vertices {
		together = together || v.Together
		if v.Section == config.Sink {
			walkDag(v, string(v.ID), want)
		}
	}
	got := map[string]int{}
	merges := false
	for _, pl := range p.Pipelines {
		for _, v := range pl.Vertices {
			merges = merges || len(v.Inputs) > 1
			if v.Section == config.Sink {
				walkPipeline(pl, v, string(v.ID), got)
			}
		}
	}
	for path := range want {
		if got[path] == 0 || got[path] > 1 && !together {
			t.Fatalf("path %s is in %d pipelines", path, got[path])
		}
	}
	for path := range got {
		if want[path] == 0 {
			t.Fatalf("path %s is in no job", path)
		}
	}
	if merges && !together {
		t.Fatal("a merge without a join was not cut")
	}
}

func walkDag(v *logical.Vertex, path string, paths map[string]int) {
	if len(v.Inputs) == 0 {
		paths[path]++
	}
	for _, in := range v.Inputs {
		walkDag(in, string(in.ID)+" "+path, paths)
	}
}

func walkPipeline(p *Pipeline, v *Vertex, path string, paths map[string]int) {
	if len(v.Inputs) == 0 {
		paths[path]++
	}
	for _, in := range v.Inputs {
		walkPipeline(p, p.Vertex(in), string(in)+" "+path, paths)
	}
}

// checkEncoding: a plan comes back as it was, in the same bytes, and is the same when it is made again.
func checkEncoding(t *rapid.T, text string, p *Plan) {
	data, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p, back) {
		t.Fatal(cmp.Diff(p, back))
	}
	again, err := Encode(back)
	if err != nil || string(again) != string(data) {
		t.Fatal("another encoding", err)
	}
	_, twin := planRandom(t, text)
	if !reflect.DeepEqual(p, twin) {
		t.Fatal(cmp.Diff(p, twin))
	}
}

// TestLargeExchange: a plan does not grow with parallelism (invariant 2).
func TestLargeExchange(t *testing.T) {
	text := `env { parallelism = 10000 }
source { Fake { plugin_output = in, schema { fields { a = int } } } }
transform { Copy { plugin_input = in, plugin_output = out } }
sink { Out { plugin_input = out, parallelism = %d } }`
	measure := func(parallelism int) (allocs, bytes uint64) {
		d := dagOf(t, "job.conf", fmt.Sprintf(text, parallelism))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := Build(d)
		if err != nil {
			t.Fatal(err)
		}
		data, err := Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(data); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if p.Slots(true) != 10000 || p.Slots(false) != 10000+parallelism || len(p.Pipelines[0].Edges) != 1 {
			t.Error(Explain(p))
		}
		return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
	}
	allocs, bytes := measure(9999)
	if allocs > 5000 || bytes > 1<<20 {
		t.Errorf("10,000 x 9,999: %d allocations, %d bytes", allocs, bytes)
	}
	// 10,000 on both sides, kept apart by a branch: two edges.
	branch := planOf(t, `env { parallelism = 10000 }
source { Fake { plugin_output = in, schema { fields { a = int } } } }
sink { Out { plugin_input = in }
Out { plugin_input = in } }`)
	data, err := Encode(branch)
	if err != nil || len(data) > 4<<10 || branch.Pipelines[0].Subtasks() != 30000 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func BenchmarkLargeExchange(b *testing.B) {
	d := dagOf(b, "job.conf", `source { Fake { plugin_output = in, parallelism = 10000, schema { fields { a = int } } } }
sink { Out { plugin_input = in, parallelism = 9999 } }`)
	b.ReportAllocs()
	for b.Loop() {
		p, err := Build(d)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Encode(p); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTooManyPipelines: diamonds in a row double the paths; the limit is found without walking them.
func TestTooManyPipelines(t *testing.T) {
	diamonds := func(n int) string {
		var b strings.Builder
		b.WriteString("source { Fake { plugin_output = x0, schema { fields { a = int } } } }\ntransform {\n")
		for i := range n {
			fmt.Fprintf(&b, "Copy { plugin_input = x%d, plugin_output = l%d }\nCopy { plugin_input = x%d, plugin_output = r%d }\nCopy { plugin_input = [l%d, r%d], plugin_output = x%d }\n", i, i, i, i, i, i, i+1)
		}
		fmt.Fprintf(&b, "}\nsink { Out { plugin_input = x%d } }", n)
		return b.String()
	}
	if n := len(planOf(t, diamonds(8)).Pipelines); n != 256 {
		t.Errorf("%d pipelines, want 256", n)
	}
	_, err := Build(dagOf(t, "job.conf", diamonds(14)))
	if want := "the job falls apart into more than 10000 pipelines, one for each path from a source to a sink; merge fewer inputs, or split the job"; err == nil || err.Error() != want {
		t.Error(err)
	}
	job, _, err := config.Parse([]byte(diamonds(60)), config.Options{File: "job.conf"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = logical.Build(context.Background(), job, fakeCatalog{}, logical.Overrides{})
	if want := "job.conf:50: transform[47] (Copy): more than 50000 tables reach it"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
}
