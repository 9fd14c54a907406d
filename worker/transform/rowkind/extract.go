package rowkind

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/transform"
)

func init() {
	transform.Register(transform.Factory{
		Name: "RowKindExtractor",
		Doc:  "Writes what a row does into a column and makes every row an insert.",
		Options: option.Spec{Options: []option.Option{
			{Name: "custom_field_name", Type: option.TString, Default: "row_kind", Doc: "Name of the new column, which goes behind the others."},
			{Name: "transform_type", Type: option.TEnum, Enum: []string{"SHORT", "FULL"}, Default: "SHORT", Doc: "SHORT writes +I, -U, +U and -D, FULL writes INSERT, UPDATE_BEFORE, UPDATE_AFTER and DELETE."},
		}},
		New: newExtractor,
	})
}

type extractor struct {
	options option.Values
	column  string
	texts   [4]string
}

func newExtractor(c transform.Config) (transform.Transform, error) {
	x := &extractor{options: c.Options, column: c.Options.String("custom_field_name")}
	if x.column == "" {
		return nil, transform.Mistake(c.Options, "custom_field_name", "the name is empty", "")
	}
	for k := range x.texts {
		x.texts[k] = schema.RowKind(k).String()
		if c.Options.String("transform_type") == "FULL" {
			x.texts[k] = schema.RowKind(k).Long()
		}
	}
	return x, nil
}

// Output implements transform.Transform.
func (x *extractor) Output(in *schema.Table) (*schema.Table, error) {
	if in.Index(x.column) >= 0 {
		return nil, transform.Mistake(x.options, "custom_field_name", fmt.Sprintf("table %q has a column %q already", in.Path, x.column), "choose another name")
	}
	out := in.Clone()
	out.Columns = append(out.Columns, schema.Column{Name: x.column, Type: schema.Of(schema.String), Length: 13, Comment: "What the row does"})
	return out, nil
}

// Open implements transform.Transform.
func (x *extractor) Open(_, out *batch.Schema) (transform.Runner, error) {
	return &extractRunner{extractor: x, out: out}, nil
}

type extractRunner struct {
	*extractor
	out *batch.Schema
}

// Apply implements transform.Runner.
func (r *extractRunner) Apply(_ context.Context, b *batch.Batch) (*batch.Batch, error) {
	offsets := make([]int32, b.Rows+1)
	data := make([]byte, 0, b.Rows*len(r.texts[0]))
	for i := range b.Rows {
		data = append(data, r.texts[b.Kind(i)]...)
		offsets[i+1] = int32(len(data))
	}
	bufs := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(offsets)), memory.NewBufferBytes(data)}
	kinds := array.NewStringData(array.NewData(arrow.BinaryTypes.String, b.Rows, bufs, nil, 0, 0))
	return batch.New(r.out, append(slices.Clone(b.Cols), kinds), b.Rows, nil), nil
}
