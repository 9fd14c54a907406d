package logical

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
)

const abSchema = `schema { fields { a = int, b = string } }`

func fakeSource(options string) string { return "Fake { " + abSchema + ", " + options + " }\n" }

func TestChain(t *testing.T) {
	job := parse(t, `
env { job.name = "orders", parallelism = 3 }
source { `+fakeSource(`plugin_output = "in"`)+` }
transform { Copy { from = a, to = c }
Copy { parallelism = 5, from = c, to = d } }
sink { Out { column = d } }`)
	d, warnings, err := Build(context.Background(), job, &fakeCatalog{}, Overrides{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := `Dag orders: BATCH, 4 vertices
in = source Fake, parallelism 3: in(a int, b string)
└─ transform.Copy.0 = transform Copy, parallelism 3: in(a int, b string, c int)
   └─ transform.Copy.1 = transform Copy, parallelism 5: in(a int, b string, c int, d int)
      └─ sink.Out.0 = sink Out, parallelism 5, at least once
`
	if got := Explain(d); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	view, err := json.Marshal(Show(d))
	wantView := `{"job":"orders","mode":"BATCH","vertices":[` +
		`{"id":"in","section":"source","plugin":"Fake","path":"source[0] (Fake)","parallelism":3,"bounded":true},` +
		`{"id":"transform.Copy.0","section":"transform","plugin":"Copy","path":"transform[0] (Copy)","parallelism":3,"inputs":["in"]},` +
		`{"id":"transform.Copy.1","section":"transform","plugin":"Copy","path":"transform[1] (Copy)","parallelism":5,"inputs":["transform.Copy.0"]},` +
		`{"id":"sink.Out.0","section":"sink","plugin":"Out","path":"sink[0] (Out)","parallelism":5,"inputs":["transform.Copy.1"],"guarantee":"at least once"}]}`
	if err != nil || string(view) != wantView {
		t.Errorf("got  %s\nwant %s", view, wantView)
	}
	if d.Name != "orders" || d.Vertex("in") == nil || d.Vertex("sink.Out.1") != nil {
		t.Error("names")
	}
}

func TestParallelism(t *testing.T) {
	f := func(want, env, source, transform, sink string, o Overrides) {
		t.Helper()
		job := parse(t, "env { "+env+" }\nsource { "+fakeSource(source)+" }\ntransform { Copy { "+transform+" } }\nsink { Out { "+sink+" } }")
		d, _, err := Build(context.Background(), job, &fakeCatalog{}, o)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			for _, v := range d.Vertices {
				got += fmt.Sprintf("%d ", v.Parallelism)
			}
			got = strings.TrimSpace(got)
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f("1 1 1", "", "", "", "", Overrides{})
	f("4 4 4", "parallelism = 4", "", "", "", Overrides{})
	f("4 4 4", "execution.parallelism = 4", "", "", "", Overrides{})
	f("4 4 4", "execution { parallelism = 4 }", "", "", "", Overrides{})
	f("2 2 2", "parallelism = 4", "parallelism = 2", "", "", Overrides{})
	f("4 8 8", "parallelism = 4", "", "parallelism = 8", "", Overrides{})
	f("4 8 2", "parallelism = 4", "", "parallelism = 8", "parallelism = 2", Overrides{})
	f("7 7 7", "parallelism = 4", "", "", "", Overrides{Parallelism: 7})
	f("4 4 4", "parallelism = 2", "parallelism = 4", "", "", Overrides{Parallelism: 7})
	f("10000 10000 10000", "parallelism = 10000", "", "", "", Overrides{})
	f("job.conf:1: env: parallelism: 0 is below 1, the least allowed; write parallelism = 10", "parallelism = 0", "", "", "", Overrides{})
	f("job.conf:1: env: parallelism: 1000000000 is above 10000, the most allowed; write parallelism = 10", "parallelism = 1000000000", "", "", "", Overrides{})
	f("job.conf:6: transform[0] (Copy): parallelism: -1 is below 1, the least allowed; write parallelism = 10\njob.conf:7: sink[0] (Out): parallelism: 99999 is above 10000, the most allowed; write parallelism = 10",
		"\n\n", "", "parallelism = -1", "parallelism = 99999", Overrides{})
	f("--parallelism: 1000000000 is not from 1 to 10000; give a number in that range", "", "", "", "", Overrides{Parallelism: 1000000000})
	f("--parallelism: -1 is not from 1 to 10000; give a number in that range", "", "", "", "", Overrides{Parallelism: -1})
}

func TestLargestInputCounts(t *testing.T) {
	job := parse(t, "source {\n"+fakeSource(`plugin_output = x, parallelism = 2`)+fakeSource(`plugin_output = y, parallelism = 6`)+"}\nsink { Out { plugin_input = [x, y] } }")
	d, _, err := Build(context.Background(), job, &fakeCatalog{}, Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	s := d.Vertices[2]
	if s.Parallelism != 6 || len(s.In) != 2 || s.From[1] != (TableRef{1, 0}) || s.In[0].Path.Table != "x" {
		t.Errorf("%+v", s)
	}
}

func TestTableNames(t *testing.T) {
	job := parse(t, `source { Fake { tables = [ { table = "db.x", fields { a = int } } ] } }
sink { Out { } }`)
	d, _, err := Build(context.Background(), job, &fakeCatalog{}, Overrides{Name: "given"})
	if err != nil || d.Vertices[0].Out[0].Path.String() != "db.x" || d.Name != "given" {
		t.Error(err)
	}
	job = parse(t, "source { "+fakeSource("")+"}\nsink { Out { } }")
	d, _, err = Build(context.Background(), job, &fakeCatalog{}, Overrides{})
	if err != nil || d.Vertices[0].Out[0].Path != schema.DefaultPath || d.Name != "job" {
		t.Error(err)
	}
}

func TestChangelogSpreads(t *testing.T) {
	job := parse(t, "env { job.mode = streaming }\nsource { "+fakeSource("changelog = true, endless = true")+" }\ntransform { Copy {} }\nsink { Out {} }")
	d, _, err := Build(context.Background(), job, &fakeCatalog{}, Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if v := d.Vertices[1]; !v.Changelog || d.Vertices[0].Bounded || !d.Env.Streaming {
		t.Errorf("%+v", v)
	}
}

// mistakes runs Build and gives errors and warnings, one a line.
func mistakes(t *testing.T, text string) (errs, warns string) {
	t.Helper()
	d, warnings, err := Build(context.Background(), parse(t, text), &fakeCatalog{}, Overrides{})
	if (err == nil) == (d == nil) {
		t.Error("either a Dag or an error")
	}
	return lines(err, warnings)
}

func lines(err error, warnings []*fault.Mistake) (errs, warns string) {
	if err != nil {
		errs = err.Error()
	}
	var w []string
	for _, m := range warnings {
		w = append(w, m.Error())
	}
	return errs, strings.Join(w, "\n")
}

func TestMistakes(t *testing.T) {
	f := func(name, text, errs, warns string) {
		t.Helper()
		gotErrs, gotWarns := mistakes(t, text)
		if d := cmp.Diff(strings.Split(errs, "\n"), strings.Split(gotErrs, "\n")); d != "" {
			t.Errorf("%s: errors: %s", name, d)
		}
		if d := cmp.Diff(strings.Split(warns, "\n"), strings.Split(gotWarns, "\n")); d != "" {
			t.Errorf("%s: warnings: %s", name, d)
		}
	}
	src := func(name string) string { return fakeSource("plugin_output = " + name) }

	f("unknown plugin", "source {\n Fkae {} }\nsink {\n Zzzzzzz { whatever = 1 } }",
		"job.conf:2: source[0] (Fkae): there is no source \"Fkae\"; did you mean Fake?\njob.conf:4: sink[0] (Zzzzzzz): there is no sink \"Zzzzzzz\"; `stctl connector list` lists the plugins", "")
	f("refused", "source {\n"+src("x")+"}\ntransform {\n DynamicCompile { source_code = \"…\" } }\nsink { Out {} }",
		"job.conf:5: transform[0] (DynamicCompile): DynamicCompile is not supported; it runs Java code; use Sql", "")
	f("not in build", "source {\n"+src("x")+"}\nsink {\n Orc { } }",
		"job.conf:5: sink[0] (Orc): Orc is a sink of SeaTunnel that is not in this build", "")
	f("not in build, format", "source {\nFile { path = x, format = orc } }\nsink { Out { } }", "job.conf:2: source[0] (File): format orc: not in this build", "")
	f("one name twice", "source {\n"+src("x")+src("x")+"}\nsink { Out { plugin_input = x } }",
		"job.conf:3: source[1] (Fake): plugin_output \"x\" is also that of source[0] (Fake) on line 2; give each plugin its own name", "")
	f("cycle", "source {\n"+src("x")+"}\ntransform {\n Copy { plugin_input = [x, b], plugin_output = a }\n Copy { plugin_input = a, plugin_output = b } }\nsink { Out { plugin_input = b } }",
		"job.conf:5: transform[0] (Copy): the plugins read each other in a circle: b → a → b; let one of them read a source", "")
	f("itself", "source {\n"+src("x")+"}\ntransform {\n Copy { plugin_input = [x, a], plugin_output = a } }\nsink { Out { plugin_input = a } }",
		"job.conf:5: transform[0] (Copy): the plugins read each other in a circle: a → a; let one of them read a source", "")
	f("unknown input", "source {\n"+src("orders")+src("users")+"}\nsink {\n Out { plugin_input = ordres } }",
		"job.conf:6: sink[0] (Out): plugin_input \"ordres\" names no plugin; did you mean \"orders\"? the names are orders, users", "")
	f("unknown input, no names", "source {\n"+fakeSource("")+"}\nsink {\n Out { source_table_name = x }\n Out { } }",
		"job.conf:5: sink[0] (Out): source_table_name \"x\" names no plugin; no plugin has a name; give the source plugin_output = \"x\"", "")
	f("twice", "source {\n"+src("x")+src("y")+"}\nsink {\n Out { plugin_input = [x, y, x] } }",
		"job.conf:6: sink[0] (Out): plugin_input names \"x\" twice; remove one of them", "")
	f("unread", "source {\n"+src("x")+src("y")+"}\nsink {\n Out { plugin_input = x } }",
		"job.conf:3: source[1] (Fake): nothing reads it; remove it, or name it in a plugin_input", "")
	f("unread without a name", "source {\n"+fakeSource("")+src("y")+"}\nsink {\n Out { } }",
		"job.conf:2: source[0] (Fake): nothing reads it; remove it, or give it a plugin_output and name that in a plugin_input", "")
	f("endless", "source {\n"+fakeSource("endless = true")+"}\nsink { Out { } }",
		"job.conf:2: source[0] (Fake): the source never ends, and job.mode is BATCH; write env { job.mode = \"STREAMING\" }", "")
	f("options", "source {\n"+fakeSource("row.nmu = 1, result_talbe_name = x")+"}\nsink {\n Out { plugin_inptu = x, password = 1, colunm = a } }",
		`job.conf:2: source[0] (Fake): unknown option "row.nmu"; did you mean "row.num"?
job.conf:2: source[0] (Fake): unknown option "result_talbe_name"; did you mean "result_table_name"?
job.conf:5: sink[0] (Out): unknown option "plugin_inptu"; did you mean "plugin_input"?
job.conf:5: sink[0] (Out): unknown option "colunm"; did you mean "column"?`, "")
	f("no effect", "source {\n"+fakeSource("plugin_input = q")+"}\nsink {\n Out { plugin_output = x, multi_table_sink_replica = 2 } }", "",
		`job.conf:2: source[0] (Fake): option "plugin_input" has no effect; a source reads no other plugin
job.conf:5: sink[0] (Out): option "plugin_output" has no effect; nothing reads a sink
job.conf:5: sink[0] (Out): option "multi_table_sink_replica" has no effect; set parallelism of the sink instead`)
	f("schema", "source {\n Fake { schema { fields { a = itn } } } }\ntransform { Copy { from = zz, to = y } }\nsink { Out { } }",
		`job.conf:2: source[0] (Fake): schema.fields.a: "itn" is not a type; did you mean int?`, "")
	f("between plugins, all at once", "source {\n Fake { tables = [ { table = t, fields { a = int } }, { table = u, fields { b = int } } ] } }\ntransform {\n Copy { from = zz, to = y } }\nsink { Out { } }",
		"job.conf:4: transform[0] (Copy): table t has no column \"zz\"; the columns are a\njob.conf:4: transform[0] (Copy): table u has no column \"zz\"; the columns are b", "")
	f("sink", "source {\n"+src("x")+"}\nsink {\n Out { column = q } }", "job.conf:5: sink[0] (Out): there is no column \"q\"", "")
	f("merged", "source {\n"+src("x")+" Fake { plugin_output = y, schema { fields { a = bigint, c = string, d = int } } } }\nsink {\n Out { plugin_input = [x, y] } }",
		`job.conf:5: sink[0] (Out): inputs "x" and "y" do not fit together: column 1 is a int here and a bigint there; bring both into one shape with a transform
job.conf:5: sink[0] (Out): inputs "x" and "y" do not fit together: column 2 is b string here and c string there; bring both into one shape with a transform
job.conf:5: sink[0] (Out): inputs "x" and "y" do not fit together: only "y" has column 3, d int; bring both into one shape with a transform`, "")
	f("merged, several tables", "source {\n Fake { plugin_output = x, tables = [ { table = t, fields { a = int } }, { table = u, fields { a = int } } ] }\n Fake { plugin_output = y, tables = [ { table = u, fields { a = string } }, { table = v, fields { z = int } } ] } }\nsink {\n Out { plugin_input = [x, y] } }",
		`job.conf:5: sink[0] (Out): inputs "x" and "y" do not fit together: column 1 is a int here and a string there; bring both into one shape with a transform`, "")
	f("joined", "source {\n"+src("x")+" Fake { plugin_output = y, schema { fields { c = int } } } }\ntransform { Join { plugin_input = [x, y] } }\nsink { Out { } }", "", "")
	f("unreadable", "source {\nFile { path = missing } }\nsink { Out { } }", "job.conf:2: source[0] (File): open missing: no such file", "")
}

// TestSimpleJob: in a job of one source, at most one transform and one sink SeaTunnel runs wrong names.
func TestSimpleJob(t *testing.T) {
	f := func(name, text, order, warns string) {
		t.Helper()
		d, warnings, err := Build(context.Background(), parse(t, text), &fakeCatalog{}, Overrides{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		var got []string
		for _, v := range d.Vertices {
			for _, in := range v.Inputs {
				got = append(got, fmt.Sprintf("%s→%s", in.ID, v.ID))
			}
		}
		if strings.Join(got, " ") != order {
			t.Errorf("%s: got %s, want %s", name, got, order)
		}
		if _, got := lines(nil, warnings); got != warns {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, warns)
		}
	}
	src := "source {\n" + fakeSource("plugin_output = fake") + "}\n"
	f("sink", src+"sink {\n Out { plugin_input = fake1 } }", "fake→sink.Out.0",
		`job.conf:5: sink[0] (Out): plugin_input "fake1" names no plugin; as in SeaTunnel, a job of one source and one sink reads the plugin before, source[0] (Fake); write plugin_input = "fake"`)
	f("no name", "source {\n"+fakeSource("")+"}\nsink {\n Out { source_table_name = fake } }", "source.Fake.0→sink.Out.0",
		`job.conf:5: sink[0] (Out): source_table_name "fake" names no plugin; as in SeaTunnel, a job of one source and one sink reads the plugin before, source[0] (Fake); remove source_table_name`)
	f("transform and sink", src+"transform {\n Copy { plugin_input = z, plugin_output = t } }\nsink { Out { plugin_input = zz } }", "fake→t t→sink.Out.0",
		`job.conf:5: transform[0] (Copy): plugin_input "z" names no plugin; as in SeaTunnel, a job of one source and one sink reads the plugin before, source[0] (Fake); write plugin_input = "fake"
job.conf:6: sink[0] (Out): plugin_input "zz" names no plugin; as in SeaTunnel, a job of one source and one sink reads the plugin before, transform[0] (Copy); write plugin_input = "t"`)
	f("one of a list", src+"sink {\n Out { plugin_input = [fake, q] } }", "fake→sink.Out.0",
		`job.conf:5: sink[0] (Out): plugin_input "q" names no plugin; as in SeaTunnel, a job of one source and one sink reads the plugin before, source[0] (Fake); write plugin_input = "fake"`)
	f("transform left out", src+"transform {\n Copy { plugin_input = fake, plugin_output = t } }\nsink { Out { plugin_input = fake } }", "fake→sink.Out.0",
		`job.conf:5: transform[0] (Copy): nothing reads it; it is left out, as in SeaTunnel; remove it, or name it in the plugin_input of the sink`)
	f("one name", src+"transform {\n Copy { plugin_input = fake, plugin_output = fake } }\nsink { Out { plugin_input = fake } }", "fake→transform.Copy.0 transform.Copy.0→sink.Out.0",
		`job.conf:5: transform[0] (Copy): plugin_output "fake" is also that of source[0] (Fake); who reads it reads this transform; give each plugin its own name`)
}

func TestOrderOfFileDoesNotMatter(t *testing.T) {
	job := parse(t, "source {\n"+fakeSource("plugin_output = x")+"}\ntransform {\n Copy { plugin_input = b, plugin_output = c, from = b1, to = c1 }\n Copy { plugin_input = x, plugin_output = b, from = a, to = b1 } }\nsink { Out { plugin_input = c, column = c1 } }")
	d, _, err := Build(context.Background(), job, &fakeCatalog{}, Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, v := range d.Vertices {
		ids = append(ids, string(v.ID))
	}
	if got := strings.Join(ids, " "); got != "x b c sink.Out.0" {
		t.Error(got)
	}
}

func TestCheck(t *testing.T) {
	f := func(name, text string, strict bool, errs, warns string, asked ...string) {
		t.Helper()
		cat := &fakeCatalog{}
		warnings, err := Check(context.Background(), parse(t, text), cat, strict)
		gotErrs, gotWarns := lines(err, warnings)
		if gotErrs != errs || gotWarns != warns {
			t.Errorf("%s: errors\n%s\nwant\n%s\nwarnings\n%s\nwant\n%s", name, gotErrs, errs, gotWarns, warns)
		}
		if d := cmp.Diff(asked, cat.asked); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		for _, w := range warnings {
			if !errors.Is(w, ErrNotInBuild) {
				t.Errorf("%s: %v is no ErrNotInBuild", name, w)
			}
		}
	}
	orc := "source {\n Orc { anything = 1 } }\ntransform { Copy { from = zz, to = y } }\nsink {\n Orc { } }"
	f("not in build", orc, false, "",
		"job.conf:2: source[0] (Orc): not in this build, options not checked\njob.conf:5: sink[0] (Orc): not in this build, options not checked")
	f("not in build, strict", orc, true,
		"job.conf:2: source[0] (Orc): Orc is a source of SeaTunnel that is not in this build\njob.conf:5: sink[0] (Orc): Orc is a sink of SeaTunnel that is not in this build", "")
	f("common options of it", "source {\n Orc { parallelism = 0 } }\nsink { Out { } }", false,
		"job.conf:2: source[0] (Orc): parallelism: 0 is below 1, the least allowed; write parallelism = 10",
		"job.conf:2: source[0] (Orc): not in this build, options not checked")
	f("no I/O", "source {\n File { path = missing } }\ntransform { Copy { from = zz, to = y } }\nsink { Out { column = nope } }", false, "", "", "missing")
	f("format", "source {\n File { path = x, format = orc } }\nsink { Out { } }", false, "", "job.conf:2: source[0] (File): format orc: not in this build", "x")
	f("format, strict", "source {\n File { path = x, format = orc } }\nsink { Out { } }", true, "job.conf:2: source[0] (File): format orc: not in this build", "", "x")
	f("options", "source {\n File { } }\nsink { Out { colunm = x } }", false,
		"job.conf:2: source[0] (File): option \"path\" is missing; set path = \"…\"\njob.conf:3: sink[0] (Out): unknown option \"colunm\"; did you mean \"column\"?", "")
	f("known schema", "source {\n"+fakeSource("")+"}\nsink { Out { column = nope } }", false, "job.conf:4: sink[0] (Out): there is no column \"nope\"", "")
	f("unknown", "source {\n Nope { } }\nsink { Out { } }", false, "job.conf:2: source[0] (Nope): there is no source \"Nope\"; `stctl connector list` lists the plugins", "")
}

// TestMarkedMistakes: a plugin's list of mistakes may be not in this build as a whole, or one by one.
func TestMarkedMistakes(t *testing.T) {
	list := func(ms ...*fault.Mistake) error {
		var l fault.List
		for _, m := range ms {
			l.AddError(m)
		}
		return l.Err()
	}
	wrong, later := &fault.Mistake{Found: "wrong"}, &fault.Mistake{Found: "later", Err: ErrNotInBuild}
	f := func(err error, errs, warns string) {
		t.Helper()
		b := &builder{check: true}
		b.took(&Vertex{Path: "p"}, err)
		gotErrs, gotWarns := lines(b.l.Err(), b.l.Warnings())
		if gotErrs != errs || gotWarns != warns {
			t.Errorf("errors %q, want %q; warnings %q, want %q", gotErrs, errs, gotWarns, warns)
		}
	}
	f(list(wrong, later), "p: wrong", "p: later")
	f(fmt.Errorf("%w%w", list(wrong, wrong), silent{ErrNotInBuild}), "", "p: wrong\np: wrong")
	f(fmt.Errorf("x: %w", ErrNotInBuild), "", "p: x: not in this build")
	f(errors.Join(wrong, errors.New("plain"), later), "p: wrong\np: plain", "p: later")
}

type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

func TestRetryableWhenOnlyIO(t *testing.T) {
	_, _, err := Build(context.Background(), parse(t, "source {\nFile { path = missing } }\nsink { Out { } }"), &fakeCatalog{}, Overrides{})
	if err == nil || fault.IsFatal(err) {
		t.Error(err)
	}
	_, _, err = Build(context.Background(), parse(t, "source {\nFile { path = missing } }\nsink { Out { nope = 1 } }"), &fakeCatalog{}, Overrides{})
	if !fault.IsFatal(err) {
		t.Error(err)
	}
}

func TestEnv(t *testing.T) {
	f := func(text string, want Env, errs, warns string) {
		t.Helper()
		job := parse(t, "env {\n"+text+"\n}\nsource { Fake { } }\nsink { Out { } }")
		var l fault.List
		got := ReadEnv(job.Env, &l)
		gotErrs, gotWarns := lines(l.Err(), l.Warnings())
		if gotErrs != errs || gotWarns != warns {
			t.Errorf("%s: errors\n%s\nwant\n%s\nwarnings\n%s\nwant\n%s", text, gotErrs, errs, gotWarns, warns)
		}
		if errs == "" {
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		}
	}
	def := Env{Parallelism: 1, RetryTimes: 3, RetryInterval: 3 * time.Second, SlotSharing: true}
	f("", def, "", "")
	e := def
	e.JobName, e.Streaming, e.Parallelism, e.CheckpointInterval, e.CheckpointTimeout, e.CheckpointMinPause = "x", true, 2, 5*time.Second, time.Minute, time.Second
	e.RetryTimes, e.RetryInterval, e.SlotSharing, e.TagFilter = 0, 10*time.Second, false, []option.Pair{{Key: "group", Value: "a"}, {Key: "team", Value: "b"}}
	f(`job.name = x
job.mode = "streaming"
parallelism = 2
checkpoint.interval = 5000
checkpoint.timeout = 60000
min-pause = 1000
job.retry.times = 0
job.retry.interval.seconds = 10
slot_sharing = false
tag_filter { group = a, team = b }`, e, "", "")
	f(`execution.parallelism = 1
execution.checkpoint.interval = "10s"
execution.time-characteristic = "ProcessingTime"
spark.master = local
flink.table.exec.resource.default-parallelism = 2`, func() Env { e := def; e.CheckpointInterval = 10 * time.Second; return e }(), "", "")
	f("checkpoint.interval = 50", def, "job.conf:2: env: checkpoint.interval: 50 is below 100 ms, the least allowed; write checkpoint.interval = 10000 (milliseconds)", "")
	f("job.mode = BATHC", def, "job.conf:2: env: job.mode: \"BATHC\" is not one of BATCH, STREAMING; did you mean BATCH?", "")
	f("parallelsm = 4\nanything = 1\njars = \"file:///x.jar\"", def, "", `job.conf:2: env: unknown option "parallelsm" has no effect; did you mean "parallelism"?
job.conf:3: env: unknown option "anything" has no effect
job.conf:4: env: option "jars" has no effect; there is no JVM`)
	f("read_limit.rows_per_second = 400\nread_limit.bytes_per_second = 7000000\nerror_handler { mode = LOG }", func() Env { e := def; e.ReadLimitRows, e.ReadLimitBytes = 400, 7000000; return e }(), "", `job.conf:4: env: error_handler: it is not in this build: the first bad row fails the job`)
	if err := EnvSpec.Validate(); err != nil {
		t.Error(err)
	}
	if e := ReadEnv(nil, &fault.List{}); !cmp.Equal(e, def) {
		t.Error(e)
	}
}

// TestNoSourceNoSink: config refuses such files; a Job made elsewhere is refused here.
func TestNoSourceNoSink(t *testing.T) {
	_, _, err := Build(context.Background(), &config.Job{File: "job.conf"}, &fakeCatalog{}, Overrides{})
	want := "job.conf: the job has no source; write source { Name { … } }\njob.conf: the job has no sink; write sink { Name { … } }"
	if err == nil || err.Error() != want {
		t.Error(err)
	}
}

func TestManyPlugins(t *testing.T) {
	job := parse(t, "source { A {} }\nsink { B {} }")
	for len(job.Sinks) <= maxPlugins {
		job.Sinks = append(job.Sinks, job.Sinks[0])
	}
	_, _, err := Build(context.Background(), job, &fakeCatalog{}, Overrides{})
	if want := "job.conf: the job has 10002 plugins; it may have 10000; split it"; err == nil || err.Error() != want {
		t.Error(err)
	}
}
