package text

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/value"
	"strait/worker/transform"
)

func init() {
	transform.Register(transform.Factory{
		Name: "Split",
		Doc:  "Splits the text of a column into columns of type string.",
		Options: option.Spec{Options: []option.Option{
			{Name: "separator", Type: option.TString, Required: true, Doc: "What stands between the parts: a regular expression in Java's syntax, without look-around and back references."},
			{Name: "split_field", Type: option.TString, Required: true, Doc: "The column to split; of a type other than string its text counts."},
			{Name: "output_fields", Type: option.TStrings, Split: true, Required: true, Doc: "Names of the parts. The last one takes the rest; parts that are missing are null. A name that is there already is replaced in its place."},
		}},
		New: newSplit,
	})
}

type split struct {
	options option.Values
	source  string
	names   []string
	cut     func(s string, parts []string) int // fills parts and says how many there are
}

func newSplit(c transform.Config) (transform.Transform, error) {
	v := c.Options
	s := &split{options: v, source: v.String("split_field"), names: v.Strings("output_fields")}
	if len(s.names) == 0 {
		return nil, transform.Mistake(v, "output_fields", "there is no column to split into", `write output_fields = ["a", "b"]`)
	}
	for i, n := range s.names {
		if slices.Contains(s.names[:i], n) {
			return nil, transform.Mistake(v, "output_fields", fmt.Sprintf("column %q stands twice", n), "give one of them another name")
		}
	}
	separator := v.String("separator")
	if separator != "" && regexp.QuoteMeta(separator) == separator {
		s.cut = func(text string, parts []string) int { return cutLiteral(text, separator, parts) }
		return s, nil
	}
	re, err := Compile(separator)
	if err != nil {
		return nil, transform.Mistake(v, "separator", fmt.Sprintf("%q %s", separator, err), "write it another way")
	}
	s.cut = re.cut
	return s, nil
}

func cutLiteral(s, separator string, parts []string) int {
	n := 0
	for ; n < len(parts)-1; n++ {
		before, after, found := strings.Cut(s, separator)
		if !found {
			break
		}
		parts[n], s = before, after
	}
	parts[n] = s
	return n + 1
}

// cut is Java's split with a limit: a match without width at the beginning cuts nothing.
func (r *Regex) cut(s string, parts []string) int {
	n, done := 0, 0
	if len(parts) > 1 {
		r.each(s, func(loc []int) bool {
			if loc[1] == 0 {
				return true
			}
			parts[n] = s[done:loc[0]]
			done = loc[1]
			n++
			return n < len(parts)-1
		})
	}
	parts[n] = s[done:]
	return n + 1
}

// places says where each part goes in the output of a table.
func (s *split) places(in *schema.Table) []int {
	at, end := make([]int, len(s.names)), len(in.Columns)
	for i, n := range s.names {
		if at[i] = in.Index(n); at[i] < 0 {
			at[i] = end
			end++
		}
	}
	return at
}

// Output implements transform.Transform.
func (s *split) Output(in *schema.Table) (*schema.Table, error) {
	if _, err := transform.Column(s.options, "split_field", in, s.source); err != nil {
		return nil, err
	}
	out := in.Clone()
	for i, at := range s.places(in) {
		col := schema.Col(s.names[i], schema.Of(schema.String))
		if at < len(in.Columns) {
			out.Columns[at] = col
		} else {
			out.Columns = append(out.Columns, col)
		}
	}
	return out, nil
}

// Open implements transform.Transform.
func (s *split) Open(in, out *batch.Schema) (transform.Runner, error) {
	from, err := transform.Column(s.options, "split_field", in.Table, s.source)
	if err != nil {
		return nil, err
	}
	r := &splitRunner{split: s, out: out, from: from, typ: in.Table.Columns[from].Type, places: s.places(in.Table), parts: make([]string, len(s.names))}
	for range s.names {
		r.builders = append(r.builders, array.NewStringBuilder(memory.DefaultAllocator))
	}
	return r, nil
}

type splitRunner struct {
	*split
	out      *batch.Schema
	from     int
	typ      schema.Type
	places   []int
	parts    []string // reused: of one value
	builders []*array.StringBuilder
}

// Apply implements transform.Runner.
func (r *splitRunner) Apply(_ context.Context, b *batch.Batch) (*batch.Batch, error) {
	in := b.Cols[r.from]
	str, isString := in.(*array.String)
	for _, o := range r.builders {
		o.Reserve(b.Rows)
	}
	for i := range b.Rows {
		if value.IsNull(in, i) {
			for _, o := range r.builders {
				o.AppendNull()
			}
			continue
		}
		var s string
		if isString {
			s = str.Value(i)
		} else {
			s = value.Text(r.typ, in, i)
		}
		n := r.cut(s, r.parts)
		for p, o := range r.builders {
			if p < n {
				o.Append(r.parts[p])
			} else {
				o.AppendNull()
			}
		}
	}
	cols := make([]arrow.Array, len(r.out.Table.Columns))
	copy(cols, b.Cols)
	for p, at := range r.places {
		cols[at] = r.builders[p].NewArray()
	}
	return batch.New(r.out, cols, b.Rows, b.Kinds), nil
}
