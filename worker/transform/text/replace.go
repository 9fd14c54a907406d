package text

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/transform"
)

func init() {
	transform.Register(transform.Factory{
		Name: "Replace",
		Doc:  "Replaces text in columns of type string.",
		Options: option.Spec{Options: []option.Option{
			{Name: "replace_field", Aliases: []string{"replace_fields"}, Type: option.TStrings, Split: true, Required: true, Doc: "The column, or several of them."},
			{Name: "pattern", Type: option.TString, Required: true, Doc: "What to replace: a text, or a regular expression with is_regex."},
			{Name: "replacement", Type: option.TString, Required: true, Doc: "What to put in its place; with is_regex $1 and ${name} stand for groups, and \\ takes the meaning of the next character away."},
			{Name: "is_regex", Type: option.TBool, Default: "false", Doc: "The pattern is a regular expression in Java's syntax, without look-around and back references."},
			{Name: "replace_first", Type: option.TBool, Default: "false", Doc: "Replace only the first match; counts with is_regex."},
		}},
		New: newReplace,
	})
}

type replace struct {
	options option.Values
	columns []string
	rewrite func(dst []byte, s string) []byte
}

func newReplace(c transform.Config) (transform.Transform, error) {
	v := c.Options
	r := &replace{options: v, columns: v.Strings("replace_field")}
	if len(r.columns) == 0 {
		return nil, transform.Mistake(v, "replace_field", "no column is named", `write replace_field = "name"`)
	}
	pattern, replacement := v.String("pattern"), v.String("replacement")
	if !v.Bool("is_regex") {
		r.rewrite = func(dst []byte, s string) []byte { return appendReplaced(dst, s, pattern, replacement) }
		return r, nil
	}
	re, err := Compile(pattern)
	if err != nil {
		return nil, transform.Mistake(v, "pattern", fmt.Sprintf("%q %s", pattern, err), "write it another way")
	}
	parts, err := re.template(replacement)
	if err != nil {
		return nil, transform.Mistake(v, "replacement", fmt.Sprintf("%q %s", replacement, err), `write \$ for a dollar sign`)
	}
	first := v.Bool("replace_first")
	r.rewrite = func(dst []byte, s string) []byte { return re.replace(dst, s, parts, first) }
	return r, nil
}

func appendReplaced(dst []byte, s, old, new string) []byte {
	if old == "" {
		return append(dst, strings.ReplaceAll(s, old, new)...)
	}
	for {
		i := strings.Index(s, old)
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		dst = append(dst, new...)
		s = s[i+len(old):]
	}
}

// part is a piece of a replacement: a text, or what a group matched.
type part struct {
	text  string
	group int // -1: a text
}

// template reads a replacement as Java does.
func (r *Regex) template(s string) ([]part, error) {
	var parts []part
	var text strings.Builder
	group := func(n int) {
		parts = append(parts, part{text.String(), -1}, part{"", n})
		text.Reset()
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i == len(s) {
				return nil, fmt.Errorf(`ends with \`)
			}
			text.WriteByte(s[i])
		case '$':
			n, used, err := r.reference(s[i+1:])
			if err != nil {
				return nil, err
			}
			group(n)
			i += used
		default:
			text.WriteByte(s[i])
		}
	}
	return append(parts, part{text.String(), -1}), nil
}

// reference reads a group behind a $ and says how many bytes it took.
func (r *Regex) reference(s string) (group, used int, err error) {
	if strings.HasPrefix(s, "{") {
		name, _, ok := strings.Cut(s[1:], "}")
		if !ok {
			return 0, 0, fmt.Errorf("has a ${ that is not closed")
		}
		if group = r.re.SubexpIndex(name); group < 0 {
			return 0, 0, fmt.Errorf("has ${%s}, the pattern no group of that name", name)
		}
		return group, len(name) + 2, nil
	}
	for used < len(s) && s[used] >= '0' && s[used] <= '9' {
		n := group*10 + int(s[used]-'0')
		if n > r.re.NumSubexp() {
			if used == 0 {
				return 0, 0, fmt.Errorf("has $%c, the pattern only %d groups", s[0], r.re.NumSubexp())
			}
			break // Java: the digit belongs to the text
		}
		group, used = n, used+1
	}
	if used == 0 {
		return 0, 0, fmt.Errorf("has a $ without a group behind it")
	}
	return group, used, nil
}

func (r *Regex) replace(dst []byte, s string, parts []part, first bool) []byte {
	done := 0
	r.each(s, func(loc []int) bool {
		dst = append(dst, s[done:loc[0]]...)
		for _, p := range parts {
			if p.group < 0 {
				dst = append(dst, p.text...)
			} else if from := loc[2*p.group]; from >= 0 {
				dst = append(dst, s[from:loc[2*p.group+1]]...)
			}
		}
		done = loc[1]
		return !first
	})
	return append(dst, s[done:]...)
}

// Output implements transform.Transform.
func (r *replace) Output(in *schema.Table) (*schema.Table, error) {
	_, err := r.indexes(in)
	return in, err
}

func (r *replace) indexes(in *schema.Table) ([]int, error) {
	var out []int
	for _, name := range r.columns {
		i, err := transform.Column(r.options, "replace_field", in, name)
		if err != nil {
			return nil, err
		}
		if t := in.Columns[i].Type; t.Kind != schema.String {
			return nil, transform.Mistake(r.options, "replace_field", fmt.Sprintf("column %q of table %q is of type %s, not string", name, in.Path, t), "")
		}
		out = append(out, i)
	}
	return out, nil
}

// Open implements transform.Transform.
func (r *replace) Open(in, out *batch.Schema) (transform.Runner, error) {
	at, err := r.indexes(in.Table)
	return &replaceRunner{replace: r, out: out, at: at}, err
}

type replaceRunner struct {
	*replace
	out *batch.Schema
	at  []int
	buf []byte // reused: one value
}

// Apply implements transform.Runner.
func (r *replaceRunner) Apply(_ context.Context, b *batch.Batch) (*batch.Batch, error) {
	cols := slices.Clone(b.Cols)
	for _, c := range r.at {
		in := cols[c].(*array.String)
		out := array.NewStringBuilder(memory.DefaultAllocator)
		out.Reserve(b.Rows)
		out.ReserveData(len(in.ValueBytes()))
		for i := range b.Rows {
			if in.IsNull(i) {
				out.AppendNull()
				continue
			}
			r.buf = r.rewrite(r.buf[:0], in.Value(i))
			out.BinaryBuilder.Append(r.buf)
		}
		cols[c] = out.NewArray()
	}
	return batch.New(r.out, cols, b.Rows, b.Kinds), nil
}
