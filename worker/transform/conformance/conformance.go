package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"strait/plan/option/optiontest"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/value"
	"strait/worker/transform"
)

// Case is one configured transform and what goes in.
type Case struct {
	Plugin  string
	Options string // JSON
	In      *schema.Table
	Batch   func(s *batch.Schema) *batch.Batch
	// Out is the table that must come out; nil: not compared.
	Out *schema.Table
	// Want are the rows that must come out, as kind and values: +I [1, a].
	Want []string
	// Kinds says that the transform changes or drops by row kind; otherwise kinds must stay.
	Kinds bool
}

// Run runs every check.
func Run(t *testing.T, c Case) {
	t.Helper()
	tr := open(t, c)
	before := text(c.In)
	out, err := tr.Output(c.In)
	if err != nil {
		t.Fatalf("output: %v", err)
	}
	again, err := open(t, c).Output(c.In)
	if err != nil || text(again) != text(out) {
		t.Fatalf("output is %s, then %s, %v", text(out), text(again), err)
	}
	if text(c.In) != before {
		t.Fatalf("output has changed the table that goes in: %s, before %s", text(c.In), before)
	}
	if c.Out != nil {
		if d := cmp.Diff(c.Out, out); d != "" {
			t.Fatalf("the table that comes out (-want +got):\n%s", d)
		}
	}
	r := &run{Case: c, t: tr, in: batch.NewSchema(c.In, 0), out: batch.NewSchema(out, 0)}
	whole := c.Batch(r.in)
	rows := r.apply(t, whole)
	if !slices.Equal(rows, c.Want) {
		t.Fatalf("the rows that come out are\n%q, want\n%q", rows, c.Want)
	}
	for at := 0; at <= whole.Rows; at++ {
		cut := slices.Concat(r.apply(t, whole.Slice(0, at)), r.apply(t, whole.Slice(at, whole.Rows)))
		if !slices.Equal(cut, rows) {
			t.Fatalf("cut at row %d the rows are\n%q, want\n%q", at, cut, rows)
		}
	}
	var single []string
	for i := range whole.Rows {
		single = append(single, r.apply(t, whole.Slice(i, i+1))...)
	}
	if !slices.Equal(single, rows) {
		t.Fatalf("one by one the rows are\n%q, want\n%q", single, rows)
	}
	plain := &batch.Batch{Schema: r.in, Cols: whole.Cols, Rows: whole.Rows}
	inserts := &batch.Batch{Schema: r.in, Cols: whole.Cols, Rows: whole.Rows, Kinds: make([]schema.RowKind, whole.Rows)}
	if a, b := r.apply(t, plain), r.apply(t, inserts); !slices.Equal(a, b) {
		t.Fatalf("without row kinds the rows are\n%q, with all of them inserts\n%q", a, b)
	}
	r.apply(t, nulls(r.in, 9))
}

func text(table *schema.Table) string {
	b, err := json.Marshal(table)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func open(t testing.TB, c Case) transform.Transform {
	t.Helper()
	f := transform.Find(c.Plugin)
	if f == nil {
		t.Fatalf("no transform %q is registered", c.Plugin)
	}
	tr, err := f.New(transform.Config{Options: optiontest.Values(t, f.Options, c.Options), Inputs: []string{"in"}})
	if err != nil {
		t.Fatalf("new transform: %v", err)
	}
	return tr
}

// Open gives a runner of the case's transform and a batch of the rows for it (see Batch).
func Open(t testing.TB, c Case, rows ...string) (transform.Runner, *batch.Batch) {
	t.Helper()
	tr := open(t, c)
	out, err := tr.Output(c.In)
	if err != nil {
		t.Fatalf("output: %v", err)
	}
	in := batch.NewSchema(c.In, 0)
	r, err := tr.Open(in, batch.NewSchema(out, 0))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return r, Batch(t, rows...)(in)
}

// Mistake checks that options, or the table that goes in, are refused with an error that holds want.
func Mistake(t *testing.T, plugin, options string, in *schema.Table, want string) {
	t.Helper()
	f := transform.Find(plugin)
	v, err := optiontest.Decode(t, f.Options, options)
	var tr transform.Transform
	if err == nil {
		tr, err = f.New(transform.Config{Options: v})
	}
	if err == nil {
		_, err = tr.Output(in)
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s %s: error %v, want %q", plugin, options, err, want)
	}
}

type run struct {
	Case
	t       transform.Transform
	in, out *batch.Schema
}

// apply runs one batch through a new runner and gives the rows as text.
func (r *run) apply(t *testing.T, b *batch.Batch) []string {
	t.Helper()
	if b.Rows == 0 {
		return nil // no empty batch is handed on
	}
	runner, err := r.t.Open(r.in, r.out)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	before := rows(b)
	out, err := runner.Apply(t.Context(), b)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if after := rows(b); !slices.Equal(before, after) {
		t.Fatalf("apply has changed its input:\n%q, before\n%q", after, before)
	}
	if out == nil {
		return nil
	}
	if out.Rows == 0 || out.Schema != r.out || len(out.Cols) != len(r.out.Table.Columns) || out.Kinds != nil && len(out.Kinds) != out.Rows {
		t.Fatalf("a batch of %d rows, %d columns and %d kinds comes out", out.Rows, len(out.Cols), len(out.Kinds))
	}
	for i, a := range out.Cols {
		if a.Len() != out.Rows || !arrow.TypeEqual(a.DataType(), r.out.Arrow.Field(i).Type) {
			t.Fatalf("column %s is %s with %d rows, want %s with %d", r.out.Table.Columns[i].Name, a.DataType(), a.Len(), r.out.Arrow.Field(i).Type, out.Rows)
		}
	}
	if !r.Kinds {
		for i := range out.Rows {
			if out.Rows == b.Rows && out.Kind(i) != b.Kind(i) {
				t.Fatalf("row %d was %s and is %s", i, b.Kind(i), out.Kind(i))
			}
		}
	}
	return rows(out)
}

func rows(b *batch.Batch) []string {
	out := make([]string, b.Rows)
	for i := range out {
		out[i] = fmt.Sprintf("%s %s", b.Kind(i), value.AppendRow(nil, b, i))
	}
	return out
}

// nulls is a batch of rows that are null in every column.
func nulls(s *batch.Schema, n int) *batch.Batch {
	b := batch.NewBuilder(s)
	for range n {
		for c := range s.Table.Columns {
			b.Field(c).AppendNull()
		}
		b.EndRow(schema.Insert)
	}
	return b.Finish()
}

// Batch makes a batch from rows of JSON: a kind and a list of values, such as `"+I", [1, "a"]`.
func Batch(t testing.TB, texts ...string) func(s *batch.Schema) *batch.Batch {
	return func(s *batch.Schema) *batch.Batch {
		t.Helper()
		b := batch.NewBuilder(s)
		for _, text := range texts {
			n := optiontest.Node(t, "["+text+"]")
			kind, err := schema.ParseRowKind(n.List[0].Text)
			if err != nil {
				t.Fatal(err)
			}
			for c, col := range s.Table.Columns {
				if err := (value.Reader{}).Append(b.Field(c), col.Type, n.List[1].List[c]); err != nil {
					t.Fatalf("row %s, column %s: %v", text, col.Name, err)
				}
			}
			b.EndRow(kind)
		}
		return b.Finish()
	}
}
