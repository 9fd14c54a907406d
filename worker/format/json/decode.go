package json

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/valyala/fastjson"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format"
	"strait/worker/format/field"
)

// Decoder reads JSON lines into the columns of a table.
type Decoder struct {
	schema *batch.Schema
	out    *batch.Builder
	p      fastjson.Parser
	row    *rowPlan
	c      conv
}

// rowPlan finds the columns of an object. Objects of one source mostly have their keys in one order, so the place
// behind the last hit is looked at first.
type rowPlan struct {
	names []string
	at    map[string]int
	vals  []*fastjson.Value // of the object at hand; a type does not hold itself, so there is one at a time
}

func planRow(cols []schema.Column) *rowPlan {
	p := &rowPlan{at: make(map[string]int, len(cols)), vals: make([]*fastjson.Value, len(cols))}
	for i, c := range cols {
		p.names = append(p.names, c.Name)
		p.at[c.Name] = i
	}
	return p
}

// NewDecoder reads rows of s.
func NewDecoder(s *batch.Schema, f *field.Formats) *Decoder {
	d := &Decoder{schema: s, out: batch.NewBuilder(s), row: planRow(s.Table.Columns)}
	d.c = conv{codec: field.Codec{Formats: f}, plans: map[*schema.Column]*rowPlan{}}
	return d
}

var (
	errObject = errors.New("is not an object")
)

// Decode implements format.Decoder.
func (d *Decoder) Decode(data []byte, final bool) (int, error) {
	used := 0
	for used < len(data) && !d.out.Full() {
		line := data[used:]
		next := len(data)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line, next = line[:i], used+i+1
		} else if !final {
			break
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := d.Append(line); err != nil {
				err.Offset = int64(used)
				return used, err
			}
		}
		used = next
	}
	return used, nil
}

// Append reads one object as one row.
func (d *Decoder) Append(doc []byte) *format.RowError {
	if !utf8.Valid(doc) {
		return &format.RowError{Text: format.Short(bytes.ToValidUTF8(doc, []byte("?"))), Err: format.ErrUTF8}
	}
	v, err := d.p.ParseBytes(doc)
	if err != nil {
		return &format.RowError{Text: format.Short(doc), Err: fmt.Errorf("is not JSON: %w", brief(err))}
	}
	if v.Type() != fastjson.TypeObject {
		return &format.RowError{Text: format.Short(doc), Err: errObject}
	}
	d.row.find(v)
	for i, v := range d.row.vals {
		col := &d.schema.Table.Columns[i]
		if err := d.c.append(d.out.Field(i), &col.Type, v); err != nil {
			d.out.Rollback()
			return &format.RowError{Column: col.Name, Text: d.c.show(v), Err: err}
		}
	}
	d.out.EndRow(schema.Insert)
	return nil
}

// brief cuts the unparsed tail out of fastjson's message, and what every message begins with.
func brief(err error) error {
	s := err.Error()
	if i := bytes.IndexByte([]byte(s), ';'); i > 0 {
		s = s[:i]
	}
	for {
		rest, ok := strings.CutPrefix(s, "cannot parse JSON: ")
		if !ok {
			rest, ok = strings.CutPrefix(s, "cannot parse object: ")
		}
		if !ok {
			return errors.New(format.Short([]byte(s)))
		}
		s = rest
	}
}

func (p *rowPlan) find(v *fastjson.Value) {
	out := p.vals
	clear(out)
	o, err := v.Object()
	if err != nil {
		return
	}
	next := 0
	o.Visit(func(key []byte, v *fastjson.Value) {
		if next < len(p.names) && string(key) == p.names[next] {
			out[next] = v
			next++
			return
		}
		if i, ok := p.at[string(key)]; ok {
			out[i] = v
			next = i + 1
		}
	})
}

// Rows implements format.Decoder.
func (d *Decoder) Rows() int { return d.out.Rows() }

// Limit implements format.Decoder.
func (d *Decoder) Limit(l batch.Limit) { d.out.Limit(l) }

// Full implements format.Decoder.
func (d *Decoder) Full() bool { return d.out.Full() }

// Finish implements format.Decoder.
func (d *Decoder) Finish() *batch.Batch { return d.out.Finish() }

// conv turns JSON values into values of columns.
type conv struct {
	codec field.Codec
	plans map[*schema.Column]*rowPlan // of nested rows, by their first field
	buf   []byte
}

func (c *conv) show(v *fastjson.Value) string {
	if v == nil {
		return ""
	}
	return format.Short(c.text(v))
}

// text is the value as SeaTunnel's asText gives it: a string's text, any other value as written.
func (c *conv) text(v *fastjson.Value) []byte {
	if v.Type() == fastjson.TypeString {
		b, _ := v.StringBytes()
		return b
	}
	c.buf = v.MarshalTo(c.buf[:0])
	return c.buf
}

func (c *conv) append(b array.Builder, t *schema.Type, v *fastjson.Value) error {
	if v == nil || v.Type() == fastjson.TypeNull {
		b.AppendNull()
		return nil
	}
	switch t.Kind {
	case schema.Array, schema.FloatVector:
		return c.list(b.(*array.ListBuilder), t, v)
	case schema.Map, schema.SparseFloatVector:
		return c.dict(b.(*array.MapBuilder), t, v)
	case schema.Row:
		return c.nested(b.(*array.StructBuilder), t, v)
	case schema.String:
		b.(*array.StringBuilder).BinaryBuilder.Append(c.text(v))
		return nil
	case schema.Bytes, schema.BinaryVector, schema.Float16Vector, schema.BFloat16Vector:
		return c.bytes(b.(*array.BinaryBuilder), v)
	}
	switch v.Type() {
	case fastjson.TypeObject, fastjson.TypeArray:
		return fmt.Errorf("is %s, want %s", word(v), t)
	case fastjson.TypeTrue, fastjson.TypeFalse:
		if t.Kind != schema.Boolean && t.Kind != schema.Null {
			return fmt.Errorf("is a boolean, want %s", t)
		}
	}
	text := bytes.TrimSpace(c.text(v))
	if len(text) == 0 { // "" for a number or a date
		b.AppendNull()
		return nil
	}
	return c.codec.AppendScalar(b, t, text)
}

func word(v *fastjson.Value) string {
	switch v.Type() {
	case fastjson.TypeObject:
		return "an object"
	case fastjson.TypeArray:
		return "a list"
	case fastjson.TypeString:
		return "a string"
	case fastjson.TypeNumber:
		return "a number"
	}
	return "a boolean"
}

func (c *conv) bytes(b *array.BinaryBuilder, v *fastjson.Value) error {
	if v.Type() != fastjson.TypeString {
		return fmt.Errorf("is %s, want base64 text", word(v))
	}
	s, _ := v.StringBytes()
	out, err := base64.StdEncoding.AppendDecode(c.buf[:0], s)
	if err != nil {
		return errors.New("is not base64")
	}
	c.buf = out
	b.Append(out)
	return nil
}

func (c *conv) list(b *array.ListBuilder, t *schema.Type, v *fastjson.Value) error {
	items, err := v.Array()
	if err != nil {
		return fmt.Errorf("is %s, want a list", word(v))
	}
	elem := field.Elem(t)
	b.Append(true)
	for i, item := range items {
		if err := c.append(b.ValueBuilder(), elem, item); err != nil {
			return fmt.Errorf("element %d %w", i, err)
		}
	}
	return nil
}

func (c *conv) dict(b *array.MapBuilder, t *schema.Type, v *fastjson.Value) error {
	o, err := v.Object()
	if err != nil {
		return fmt.Errorf("is %s, want an object", word(v))
	}
	key, elem := field.Key(t), field.Elem(t)
	b.Append(true)
	o.Visit(func(k []byte, v *fastjson.Value) {
		if err != nil {
			return
		}
		if key.Kind == schema.String {
			b.KeyBuilder().(*array.StringBuilder).BinaryBuilder.Append(k)
		} else if err = c.codec.Append(b.KeyBuilder(), key, k, 0); err != nil {
			err = fmt.Errorf("key %q %w", format.Short(k), err)
			return
		}
		if err = c.append(b.ItemBuilder(), elem, v); err != nil {
			err = fmt.Errorf("value of %q %w", format.Short(k), err)
		}
	})
	return err
}

func (c *conv) nested(b *array.StructBuilder, t *schema.Type, v *fastjson.Value) error {
	if v.Type() != fastjson.TypeObject {
		return fmt.Errorf("is %s, want an object", word(v))
	}
	if len(t.Fields) == 0 {
		b.Append(true)
		return nil
	}
	plan := c.plans[&t.Fields[0]]
	if plan == nil {
		plan = planRow(t.Fields)
		c.plans[&t.Fields[0]] = plan
	}
	plan.find(v)
	b.Append(true)
	for i := range t.Fields {
		if err := c.append(b.FieldBuilder(i), &t.Fields[i].Type, plan.vals[i]); err != nil {
			return fmt.Errorf("field %s %w", t.Fields[i].Name, err)
		}
	}
	return nil
}
