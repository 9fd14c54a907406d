package field

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
)

// Codec reads and writes values of any type as delimited text. Level 0 separates the columns of a row; arrays,
// maps and rows inside a column use the following levels: a map's entries one, key and value the next.
type Codec struct {
	Formats    *Formats
	Separators []string // by level; Levels() has SeaTunnel's
	Null       string   // text that stands for null besides the empty text
	HasNull    bool
}

// Levels are SeaTunnel's separators with another one between columns.
func Levels(delimiter string) []string {
	return []string{delimiter, "\x02", "\x03", "\x04", "\x05", "\x06", "\x07", "\x08"}
}

var errDeep = errors.New("is nested deeper than delimited text can express")

// IsNull says that text inside a nested value stands for null.
func (c *Codec) IsNull(b []byte) bool {
	return len(b) == 0 || c.HasNull && string(b) == c.Null
}

// Append reads text of type t, which is not null, into b. level is that of the text itself: 0 for a column.
func (c *Codec) Append(b array.Builder, t *schema.Type, text []byte, level int) error {
	switch t.Kind {
	case schema.Array, schema.FloatVector:
		if level+1 >= len(c.Separators) {
			return errDeep
		}
		elem := Elem(t)
		lb := b.(*array.ListBuilder)
		lb.Append(true)
		return c.each(text, c.Separators[level+1], func(part []byte) error {
			return c.orNull(lb.ValueBuilder(), elem, part, level+1)
		})
	case schema.Map, schema.SparseFloatVector:
		if level+2 >= len(c.Separators) {
			return errDeep
		}
		key, elem := Key(t), Elem(t)
		mb := b.(*array.MapBuilder)
		mb.Append(true)
		return c.each(text, c.Separators[level+1], func(part []byte) error {
			k, v, _ := bytes.Cut(part, []byte(c.Separators[level+2]))
			if c.IsNull(k) && key.Kind != schema.String {
				return errors.New("has an entry without a key")
			}
			if err := c.Append(mb.KeyBuilder(), key, k, level+1); err != nil {
				return err
			}
			return c.orNull(mb.ItemBuilder(), elem, v, level+1)
		})
	case schema.Row:
		if level+1 >= len(c.Separators) {
			return errDeep
		}
		sb := b.(*array.StructBuilder)
		sb.Append(true)
		sep := []byte(c.Separators[level+1])
		more := true
		for i := range t.Fields {
			var part []byte
			if more {
				part, text, more = bytes.Cut(text, sep)
			}
			if err := c.orNull(sb.FieldBuilder(i), &t.Fields[i].Type, part, level+1); err != nil {
				return fmt.Errorf("%s: %w", t.Fields[i].Name, err)
			}
		}
		return nil
	}
	return c.AppendScalar(b, t, text)
}

func (c *Codec) orNull(b array.Builder, t *schema.Type, text []byte, level int) error {
	if c.IsNull(text) {
		b.AppendNull()
		return nil
	}
	return c.Append(b, t, text, level)
}

func (c *Codec) each(text []byte, sep string, f func([]byte) error) error {
	for more := true; more; {
		var part []byte
		part, text, more = bytes.Cut(text, []byte(sep))
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}

var (
	float32Type = schema.Of(schema.Float)
	int32Type   = schema.Of(schema.Int)
)

// Elem is the type of the elements of an array or a vector of floats, or of the values of a map.
func Elem(t *schema.Type) *schema.Type {
	if t.Kind == schema.FloatVector || t.Kind == schema.SparseFloatVector {
		return &float32Type
	}
	return t.Elem
}

// Key is the type of the keys of a map or a sparse vector.
func Key(t *schema.Type) *schema.Type {
	if t.Kind == schema.SparseFloatVector {
		return &int32Type
	}
	return t.Key
}

// AppendScalar reads text of a type without parts, which is not null, into b.
func (c *Codec) AppendScalar(b array.Builder, t *schema.Type, text []byte) error {
	switch d := b.(type) {
	case *array.StringBuilder:
		d.BinaryBuilder.Append(text)
	case *array.BinaryBuilder:
		d.Append(text)
	case *array.Int64Builder:
		n, err := Int(text)
		if err != nil {
			return err
		}
		d.Append(n)
	case *array.Int32Builder:
		n, err := IntOf(text, 32)
		if err != nil {
			return err
		}
		d.Append(int32(n))
	case *array.Int16Builder:
		n, err := IntOf(text, 16)
		if err != nil {
			return err
		}
		d.Append(int16(n))
	case *array.Int8Builder:
		n, err := IntOf(text, 8)
		if err != nil {
			return err
		}
		d.Append(int8(n))
	case *array.Float64Builder:
		f, err := Float(text, 64)
		if err != nil {
			return err
		}
		d.Append(f)
	case *array.Float32Builder:
		f, err := Float(text, 32)
		if err != nil {
			return err
		}
		d.Append(float32(f))
	case *array.BooleanBuilder:
		v, err := Bool(text)
		if err != nil {
			return err
		}
		d.Append(v)
	case *array.NullBuilder:
		d.AppendNull()
	default:
		return c.appendScaled(b, t, text)
	}
	return nil
}

// appendScaled reads the types that need more of t than its layout.
func (c *Codec) appendScaled(b array.Builder, t *schema.Type, text []byte) error {
	switch d := b.(type) {
	case *array.Decimal128Builder:
		n, err := Decimal128(text, t.Precision, t.Scale)
		if err != nil {
			return err
		}
		d.Append(n)
	case *array.Decimal256Builder:
		n, err := Decimal256(text, t.Precision, t.Scale)
		if err != nil {
			return err
		}
		d.Append(n)
	case *array.Date32Builder:
		n, err := c.Formats.Date(text)
		if err != nil {
			return err
		}
		d.Append(arrow.Date32(n))
	case *array.Time64Builder:
		n, err := c.Formats.Time(text, t.Scale)
		if err != nil {
			return err
		}
		d.Append(arrow.Time64(n))
	case *array.TimestampBuilder:
		read := c.Formats.Timestamp
		if t.Kind == schema.TimestampTZ {
			read = c.Formats.TimestampTZ
		}
		n, err := read(text, t.Scale)
		if err != nil {
			return err
		}
		d.Append(arrow.Timestamp(n))
	default:
		panic(fmt.Sprintf("BUG: no way to read %s from text", t))
	}
	return nil
}

// AppendText writes row i of a, which is of type t and not null, as text. level is as for Append.
func (c *Codec) AppendText(dst []byte, t *schema.Type, a arrow.Array, i, level int) []byte {
	switch a := a.(type) {
	case *array.Map:
		from, to := a.ValueOffsets(i)
		for j := int(from); j < int(to); j++ {
			if j > int(from) {
				dst = append(dst, c.sep(level+1)...)
			}
			dst = c.OrNull(dst, Key(t), a.Keys(), j, level+1)
			dst = append(dst, c.sep(level+2)...)
			dst = c.OrNull(dst, Elem(t), a.Items(), j, level+1)
		}
		return dst
	case *array.List:
		from, to := a.ValueOffsets(i)
		for j := int(from); j < int(to); j++ {
			if j > int(from) {
				dst = append(dst, c.sep(level+1)...)
			}
			dst = c.OrNull(dst, Elem(t), a.ListValues(), j, level+1)
		}
		return dst
	case *array.Struct:
		for f := range t.Fields {
			if f > 0 {
				dst = append(dst, c.sep(level+1)...)
			}
			dst = c.OrNull(dst, &t.Fields[f].Type, a.Field(f), i, level+1)
		}
		return dst
	}
	return AppendScalarText(dst, c.Formats, t, a, i)
}

// OrNull writes a value or the text for null.
func (c *Codec) OrNull(dst []byte, t *schema.Type, a arrow.Array, i, level int) []byte {
	if a.IsNull(i) {
		if c.HasNull {
			return append(dst, c.Null...)
		}
		return dst
	}
	return c.AppendText(dst, t, a, i, level)
}

func (c *Codec) sep(level int) string {
	if level < len(c.Separators) {
		return c.Separators[level]
	}
	return c.Separators[len(c.Separators)-1]
}

// AppendScalarText writes row i of a, which is not null and has no parts. Bytes are written as they are. f is for dates
// and times only.
func AppendScalarText(dst []byte, f *Formats, t *schema.Type, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.String:
		return append(dst, a.Value(i)...)
	case *array.Binary:
		return append(dst, a.Value(i)...)
	case *array.Int64:
		return strconv.AppendInt(dst, a.Value(i), 10)
	case *array.Int32:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10)
	case *array.Int16:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10)
	case *array.Int8:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10)
	case *array.Float64:
		return AppendFloat(dst, a.Value(i), 64)
	case *array.Float32:
		return AppendFloat(dst, float64(a.Value(i)), 32)
	case *array.Boolean:
		return strconv.AppendBool(dst, a.Value(i))
	case *array.Decimal128:
		return appendDecimal128(dst, a.Value(i), t.Scale)
	case *array.Decimal256:
		return appendDecimal256(dst, a.Value(i), t.Scale)
	case *array.Date32:
		return f.AppendDate(dst, int32(a.Value(i)))
	case *array.Time64:
		return f.AppendTime(dst, int64(a.Value(i)), t.Scale)
	case *array.Timestamp:
		if t.Kind == schema.TimestampTZ {
			return f.AppendTimestampTZ(dst, int64(a.Value(i)), t.Scale)
		}
		return f.AppendTimestamp(dst, int64(a.Value(i)), t.Scale)
	case *array.Null:
		return dst
	}
	panic(fmt.Sprintf("BUG: no text for %s", a.DataType()))
}

// NotFinite says that a float has no number form in JSON.
func NotFinite(f float64) bool { return math.IsNaN(f) || math.IsInf(f, 0) }
