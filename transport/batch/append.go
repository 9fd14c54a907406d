package batch

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// AppendRange appends rows [from, to) of src, which has dst's type, to dst. Values are copied, so dst pins
// nothing of src.
func AppendRange(dst array.Builder, src arrow.Array, from, to int) {
	if to <= from {
		return
	}
	switch d := dst.(type) {
	case *array.Int64Builder:
		appendFixed(d, src, src.(*array.Int64).Int64Values()[from:to], from)
	case *array.Int32Builder:
		appendFixed(d, src, src.(*array.Int32).Int32Values()[from:to], from)
	case *array.Float64Builder:
		appendFixed(d, src, src.(*array.Float64).Float64Values()[from:to], from)
	case *array.TimestampBuilder:
		appendFixed(d, src, src.(*array.Timestamp).TimestampValues()[from:to], from)
	case *array.Date32Builder:
		appendFixed(d, src, src.(*array.Date32).Date32Values()[from:to], from)
	default:
		dst.Reserve(to - from)
		for i := from; i < to; i++ {
			AppendRow(dst, src, i)
		}
	}
}

type fixedBuilder[T any] interface{ AppendValues([]T, []bool) }

func appendFixed[T any](d fixedBuilder[T], src arrow.Array, values []T, from int) {
	if src.NullN() == 0 {
		d.AppendValues(values, nil)
		return
	}
	valid := make([]bool, len(values))
	for i := range valid {
		valid[i] = src.IsValid(from + i)
	}
	d.AppendValues(values, valid)
}

// AppendRow appends row i of src, which has dst's type, to dst. It is for gathering by row where columns
// differ in type; hot loops over one column use Gather or typed builders instead.
func AppendRow(dst array.Builder, src arrow.Array, i int) {
	if src.IsNull(i) {
		dst.AppendNull()
		return
	}
	switch d := dst.(type) {
	case *array.NullBuilder:
		d.AppendNull()
	case *array.BooleanBuilder:
		d.Append(src.(*array.Boolean).Value(i))
	case *array.Int8Builder:
		d.Append(src.(*array.Int8).Value(i))
	case *array.Int16Builder:
		d.Append(src.(*array.Int16).Value(i))
	case *array.Int32Builder:
		d.Append(src.(*array.Int32).Value(i))
	case *array.Int64Builder:
		d.Append(src.(*array.Int64).Value(i))
	case *array.Float32Builder:
		d.Append(src.(*array.Float32).Value(i))
	case *array.Float64Builder:
		d.Append(src.(*array.Float64).Value(i))
	case *array.Decimal128Builder:
		d.Append(src.(*array.Decimal128).Value(i))
	case *array.Decimal256Builder:
		d.Append(src.(*array.Decimal256).Value(i))
	case *array.StringBuilder:
		d.Append(src.(*array.String).Value(i))
	case *array.BinaryBuilder:
		d.Append(src.(*array.Binary).Value(i))
	case *array.Date32Builder:
		d.Append(src.(*array.Date32).Value(i))
	case *array.Time64Builder:
		d.Append(src.(*array.Time64).Value(i))
	case *array.TimestampBuilder:
		d.Append(src.(*array.Timestamp).Value(i))
	case *array.MapBuilder: // before ListBuilder: a map is a list of entries
		s := src.(*array.Map)
		from, to := s.ValueOffsets(i)
		d.Append(true)
		AppendRange(d.KeyBuilder(), s.Keys(), int(from), int(to))
		AppendRange(d.ItemBuilder(), s.Items(), int(from), int(to))
	case *array.ListBuilder:
		s := src.(*array.List)
		from, to := s.ValueOffsets(i)
		d.Append(true)
		AppendRange(d.ValueBuilder(), s.ListValues(), int(from), int(to))
	case *array.StructBuilder:
		s := src.(*array.Struct)
		d.Append(true)
		for f := 0; f < d.NumField(); f++ {
			AppendRow(d.FieldBuilder(f), s.Field(f), i)
		}
	default:
		panic(fmt.Sprintf("BUG: no way to append %s", src.DataType()))
	}
}

// Select returns the rows at the indexes, in their order, as a new batch. All rows in order give b itself, none
// gives nil.
func Select(b *Batch, rows []int32) *Batch {
	if len(rows) == b.Rows && inOrder(rows) {
		return b
	}
	g := NewGatherer(b.Schema)
	g.Append(b, rows)
	return g.Take()
}

func inOrder(rows []int32) bool {
	for i, r := range rows {
		if int(r) != i {
			return false
		}
	}
	return true
}

// Gather appends the rows of src at the indexes to dst, which has src's type.
func Gather(dst array.Builder, src arrow.Array, rows []int32) {
	dst.Reserve(len(rows))
	switch d := dst.(type) {
	case *array.Int64Builder:
		gatherFixed(d, src, src.(*array.Int64).Int64Values(), rows)
	case *array.Int32Builder:
		gatherFixed(d, src, src.(*array.Int32).Int32Values(), rows)
	case *array.Float64Builder:
		gatherFixed(d, src, src.(*array.Float64).Float64Values(), rows)
	case *array.TimestampBuilder:
		gatherFixed(d, src, src.(*array.Timestamp).TimestampValues(), rows)
	case *array.Date32Builder:
		gatherFixed(d, src, src.(*array.Date32).Date32Values(), rows)
	case *array.StringBuilder:
		s, n := src.(*array.String), 0
		for _, r := range rows {
			n += s.ValueLen(int(r))
		}
		d.ReserveData(n)
		for _, r := range rows {
			if s.IsNull(int(r)) {
				d.AppendNull()
			} else {
				d.Append(s.Value(int(r)))
			}
		}
	default:
		for _, r := range rows {
			AppendRow(dst, src, int(r))
		}
	}
}

type unsafeBuilder[T any] interface {
	UnsafeAppend(T)
	UnsafeAppendBoolToBitmap(bool)
}

func gatherFixed[T any](d unsafeBuilder[T], src arrow.Array, values []T, rows []int32) {
	if src.NullN() == 0 {
		for _, r := range rows {
			d.UnsafeAppend(values[r])
		}
		return
	}
	for _, r := range rows {
		if src.IsNull(int(r)) {
			d.UnsafeAppendBoolToBitmap(false)
		} else {
			d.UnsafeAppend(values[r])
		}
	}
}
