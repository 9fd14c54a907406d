package value

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/field"
)

// AppendText appends the text of row i of a, a column of type t. A null is "null".
func AppendText(dst []byte, t schema.Type, a arrow.Array, i int) []byte {
	if t.Kind == schema.Null || a.IsNull(i) {
		return append(dst, "null"...)
	}
	switch t.Kind { // a switch by the array's type would cost as much as the one behind it
	case schema.Date:
		return field.AppendJavaDate(dst, int32(a.(*array.Date32).Value(i)))
	case schema.Time:
		return field.AppendJavaTime(dst, int64(a.(*array.Time64).Value(i)), t.Scale)
	case schema.Timestamp, schema.TimestampTZ:
		dst = field.AppendJavaTimestamp(dst, int64(a.(*array.Timestamp).Value(i)), t.Scale)
		if t.Kind == schema.TimestampTZ {
			dst = append(dst, 'Z')
		}
		return dst
	case schema.Bytes, schema.BinaryVector, schema.Float16Vector, schema.BFloat16Vector:
		return appendBytes(dst, t, a.(*array.Binary).Value(i))
	case schema.Array, schema.Map, schema.Row, schema.FloatVector, schema.SparseFloatVector:
		return appendNested(dst, t, a, i)
	}
	return field.AppendScalarText(dst, nil, &t, a, i)
}

// Text is AppendText as a string.
func Text(t schema.Type, a arrow.Array, i int) string { return string(AppendText(nil, t, a, i)) }

// AppendRow appends the values of row i of a batch: [1, a].
func AppendRow(dst []byte, b *batch.Batch, i int) []byte {
	dst = append(dst, '[')
	for c, a := range b.Cols {
		if c > 0 {
			dst = append(dst, ", "...)
		}
		dst = AppendText(dst, b.Schema.Table.Columns[c].Type, a, i)
	}
	return append(dst, ']')
}

func appendNested(dst []byte, t schema.Type, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.Map:
		key, elem := *field.Key(&t), *field.Elem(&t)
		from, to := a.ValueOffsets(i)
		dst = append(dst, '{')
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, ", "...)
			}
			dst = AppendText(dst, key, a.Keys(), int(j))
			dst = append(dst, '=')
			dst = AppendText(dst, elem, a.Items(), int(j))
		}
		return append(dst, '}')
	case *array.List:
		elem := *field.Elem(&t)
		from, to := a.ValueOffsets(i)
		dst = append(dst, '[')
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, ", "...)
			}
			dst = AppendText(dst, elem, a.ListValues(), int(j))
		}
		return append(dst, ']')
	case *array.Struct:
		dst = append(dst, '[')
		for f := range t.Fields {
			if f > 0 {
				dst = append(dst, ", "...)
			}
			dst = AppendText(dst, t.Fields[f].Type, a.Field(f), i)
		}
		return append(dst, ']')
	}
	panic(fmt.Sprintf("BUG: no text form for %s", a.DataType()))
}

func appendBytes(dst []byte, t schema.Type, v []byte) []byte {
	dst = append(dst, '[')
	half := t.Kind == schema.Float16Vector || t.Kind == schema.BFloat16Vector
	step := 1
	if half {
		step = 2
	}
	for j := 0; j+step <= len(v); j += step {
		if j > 0 {
			dst = append(dst, ", "...)
		}
		if half {
			bits := uint16(v[j]) | uint16(v[j+1])<<8
			dst = field.AppendFloat(dst, float64(halfToFloat(bits, t.Kind)), 32)
			continue
		}
		dst = strconv.AppendInt(dst, int64(int8(v[j])), 10)
	}
	return append(dst, ']')
}
