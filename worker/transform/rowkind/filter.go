package rowkind

import (
	"context"
	"fmt"

	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/transform"
)

func init() {
	transform.Register(transform.Factory{
		Name: "FilterRowKind",
		Doc:  "Keeps or drops rows by what they do.",
		Options: option.Spec{
			Options: []option.Option{
				{Name: "include_kinds", Type: option.TStrings, Split: true, Doc: "The kinds to keep: INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE or +I, -U, +U, -D."},
				{Name: "exclude_kinds", Type: option.TStrings, Split: true, Doc: "The kinds to drop."},
			},
			Rules: []option.Rule{{Kind: option.ExactlyOne, Of: []string{"include_kinds", "exclude_kinds"}}},
		},
		New: newFilter,
	})
}

// filter keeps the rows of some kinds.
type filter struct{ keep [4]bool }

func newFilter(c transform.Config) (transform.Transform, error) {
	v := c.Options
	name, keep := "include_kinds", true
	if v.Has("exclude_kinds") {
		name, keep = "exclude_kinds", false
	}
	f := &filter{}
	for i := range f.keep {
		f.keep[i] = !keep
	}
	for _, s := range v.Strings(name) {
		k, err := schema.ParseRowKind(s)
		if err != nil {
			return nil, transform.Mistake(v, name, fmt.Sprintf("%q is not a row kind", s), "write INSERT, UPDATE_BEFORE, UPDATE_AFTER or DELETE")
		}
		f.keep[k] = keep
	}
	return f, nil
}

// Output implements transform.Transform.
func (f *filter) Output(in *schema.Table) (*schema.Table, error) { return in, nil }

// Open implements transform.Transform.
func (f *filter) Open(_, out *batch.Schema) (transform.Runner, error) {
	return &filterRunner{filter: f, out: out}, nil
}

type filterRunner struct {
	*filter
	out  *batch.Schema
	rows []int32 // reused: the rows of the batch in hand that stay
}

// Apply implements transform.Runner.
func (r *filterRunner) Apply(_ context.Context, b *batch.Batch) (*batch.Batch, error) {
	if b.Kinds == nil {
		if !r.keep[schema.Insert] {
			return nil, nil
		}
		return batch.New(r.out, b.Cols, b.Rows, nil), nil
	}
	r.rows = r.rows[:0]
	for i, k := range b.Kinds {
		if r.keep[k] {
			r.rows = append(r.rows, int32(i))
		}
	}
	out := batch.Select(b, r.rows)
	if out == nil || out.Rows == 0 {
		return nil, nil
	}
	return batch.New(r.out, out.Cols, out.Rows, out.Kinds), nil
}
