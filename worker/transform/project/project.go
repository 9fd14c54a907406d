package project

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/transform"
)

// pick is one column of the output.
type pick struct {
	from int
	name string
}

// projection is a transform whose columns all come from the input.
type projection struct {
	options option.Values
	name    string // of the option with the columns, for mistakes
	plan    func(in *schema.Table) ([]pick, error)
}

// Output implements transform.Transform.
func (p *projection) Output(in *schema.Table) (*schema.Table, error) {
	picks, err := p.plan(in)
	if err != nil {
		return nil, err
	}
	out := in.Clone()
	out.Columns = make([]schema.Column, len(picks))
	seen := map[string]bool{}
	names := map[string]string{} // old to new; the first of several copies counts
	for i, k := range picks {
		if seen[k.name] {
			return nil, transform.Mistake(p.options, p.name, fmt.Sprintf("two columns of the output are named %q", k.name), "give one of them another name")
		}
		seen[k.name] = true
		out.Columns[i] = in.Columns[k.from]
		out.Columns[i].Name = k.name
		old := in.Columns[k.from].Name
		if _, ok := names[old]; !ok || k.name == old {
			names[old] = k.name
		}
	}
	moveKeys(out, names)
	return out, nil
}

// moveKeys renames the columns of keys and drops keys that have lost one. The slices of out are its own.
func moveKeys(out *schema.Table, names map[string]string) {
	if pk := out.PrimaryKey; pk != nil {
		for i, c := range pk.Columns {
			name, ok := names[c]
			if !ok {
				out.PrimaryKey = nil
				break
			}
			pk.Columns[i] = name
		}
	}
	kept := out.Constraints[:0]
	for _, k := range out.Constraints {
		cols := make([]schema.ConstraintColumn, 0, len(k.Columns))
		for _, c := range k.Columns {
			if name, ok := names[c.Name]; ok {
				c.Name = name
				cols = append(cols, c)
			}
		}
		if len(cols) == len(k.Columns) {
			k.Columns = cols
			kept = append(kept, k)
		}
	}
	out.Constraints = kept
	if len(kept) == 0 {
		out.Constraints = nil
	}
	var partition []string
	for _, c := range out.Partition {
		if name, ok := names[c]; ok {
			partition = append(partition, name)
		}
	}
	out.Partition = partition
}

// Open implements transform.Transform.
func (p *projection) Open(in, out *batch.Schema) (transform.Runner, error) {
	picks, err := p.plan(in.Table)
	if err != nil {
		return nil, err
	}
	r := &runner{out: out, from: make([]int, len(picks))}
	for i, k := range picks {
		r.from[i] = k.from
	}
	return r, nil
}

type runner struct {
	out  *batch.Schema
	from []int
}

// Apply implements transform.Runner.
func (r *runner) Apply(_ context.Context, b *batch.Batch) (*batch.Batch, error) {
	cols := make([]arrow.Array, len(r.from))
	for i, f := range r.from {
		cols[i] = b.Cols[f]
	}
	return batch.New(r.out, cols, b.Rows, b.Kinds), nil
}
