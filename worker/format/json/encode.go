package json

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/field"
)

// Encoder writes rows as JSON lines.
type Encoder struct {
	columns []int
	types   []*schema.Type
	names   []string // "name": as it is written
	row     string
	codec   field.Codec
	cols    []arrow.Array
}

// NewEncoder writes columns of batches of the table; nil: all. An empty row delimiter is LF.
func NewEncoder(t *schema.Table, columns []int, rowDelimiter string) *Encoder {
	if columns == nil {
		for i := range t.Columns {
			columns = append(columns, i)
		}
	}
	if rowDelimiter == "" {
		rowDelimiter = "\n"
	}
	e := &Encoder{columns: columns, row: rowDelimiter, cols: make([]arrow.Array, len(columns))}
	e.codec = field.Codec{Formats: field.DefaultFormats()}
	for _, c := range columns {
		e.types = append(e.types, &t.Columns[c].Type)
		e.names = append(e.names, string(append(appendString(nil, t.Columns[c].Name), ':')))
	}
	return e
}

// Header implements format.Encoder: there is none.
func (e *Encoder) Header(dst []byte) []byte { return dst }

// Encode implements format.Encoder.
func (e *Encoder) Encode(dst []byte, b *batch.Batch, rows []int32) ([]byte, error) {
	for i, c := range e.columns {
		e.cols[i] = b.Cols[c]
	}
	if rows != nil {
		for _, r := range rows {
			dst = e.record(dst, int(r))
		}
		return dst, nil
	}
	for r := range b.Rows {
		dst = e.record(dst, r)
	}
	return dst, nil
}

func (e *Encoder) record(dst []byte, r int) []byte {
	dst = append(dst, '{')
	for i, a := range e.cols {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, e.names[i]...)
		dst = e.value(dst, e.types[i], a, r)
	}
	dst = append(dst, '}')
	return append(dst, e.row...)
}

func (e *Encoder) value(dst []byte, t *schema.Type, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(dst, "null"...)
	}
	switch a := a.(type) {
	case *array.String:
		return appendString(dst, a.Value(i))
	case *array.Int64:
		return strconv.AppendInt(dst, a.Value(i), 10)
	case *array.Int32:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10)
	case *array.Int16, *array.Int8, *array.Boolean, *array.Decimal128, *array.Decimal256:
		return field.AppendScalarText(dst, e.codec.Formats, t, a, i)
	case *array.Float64:
		return appendFloat(dst, a.Value(i), 64)
	case *array.Float32:
		return appendFloat(dst, float64(a.Value(i)), 32)
	case *array.Binary:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, a.Value(i))
		return append(dst, '"')
	case *array.Date32:
		return append(field.AppendISODate(append(dst, '"'), int32(a.Value(i))), '"')
	case *array.Time64:
		return append(field.AppendISOTime(append(dst, '"'), int64(a.Value(i)), t.Scale), '"')
	case *array.Timestamp:
		dst = field.AppendISO(append(dst, '"'), int64(a.Value(i)), t.Scale)
		if t.Kind == schema.TimestampTZ {
			dst = append(dst, 'Z')
		}
		return append(dst, '"')
	}
	return e.nested(dst, t, a, i)
}

func (e *Encoder) nested(dst []byte, t *schema.Type, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.Map:
		key, elem := field.Key(t), field.Elem(t)
		dst = append(dst, '{')
		from, to := a.ValueOffsets(i)
		var buf []byte
		for j := int(from); j < int(to); j++ {
			if j > int(from) {
				dst = append(dst, ',')
			}
			if s, ok := a.Keys().(*array.String); ok {
				dst = appendString(dst, s.Value(j))
			} else {
				buf = e.codec.AppendText(buf[:0], key, a.Keys(), j, 0)
				dst = appendString(dst, string(buf))
			}
			dst = append(dst, ':')
			dst = e.value(dst, elem, a.Items(), j)
		}
		return append(dst, '}')
	case *array.List:
		elem := field.Elem(t)
		dst = append(dst, '[')
		from, to := a.ValueOffsets(i)
		for j := int(from); j < int(to); j++ {
			if j > int(from) {
				dst = append(dst, ',')
			}
			dst = e.value(dst, elem, a.ListValues(), j)
		}
		return append(dst, ']')
	case *array.Struct:
		dst = append(dst, '{')
		for f := range t.Fields {
			if f > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, t.Fields[f].Name)
			dst = append(dst, ':')
			dst = e.value(dst, &t.Fields[f].Type, a.Field(f), i)
		}
		return append(dst, '}')
	}
	panic(fmt.Sprintf("BUG: no JSON for %s", a.DataType()))
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	if field.NotFinite(f) {
		return append(field.AppendFloat(append(dst, '"'), f, bits), '"')
	}
	return field.AppendFloat(dst, f, bits)
}

const hex = "0123456789ABCDEF"

// appendString writes s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			dst = append(dst, s[from:i]...)
			dst = append(dst, "\uFFFD"...)
			i++
			from = i
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
