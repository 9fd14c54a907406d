package value

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// IsNull reports whether row i of a is null. Unlike a.IsNull it is right for a column of type null, which has no
// validity bitmap.
func IsNull(a arrow.Array, i int) bool {
	return a.IsNull(i) || a.DataType().ID() == arrow.NULL
}

// Equal reports whether row i of a and row j of b, which have the same layout, hold the same value. Two nulls
// are equal, maps are compared without regard to order, floats bit by bit except that NaN equals NaN.
func Equal(a arrow.Array, i int, b arrow.Array, j int) bool {
	if IsNull(a, i) || IsNull(b, j) {
		return IsNull(a, i) && IsNull(b, j)
	}
	switch a := a.(type) {
	case *array.String:
		return a.Value(i) == b.(*array.String).Value(j)
	case *array.Binary:
		return bytes.Equal(a.Value(i), b.(*array.Binary).Value(j))
	case *array.Boolean:
		return a.Value(i) == b.(*array.Boolean).Value(j)
	case *array.Int8:
		return a.Value(i) == b.(*array.Int8).Value(j)
	case *array.Int16:
		return a.Value(i) == b.(*array.Int16).Value(j)
	case *array.Int32:
		return a.Value(i) == b.(*array.Int32).Value(j)
	case *array.Int64:
		return a.Value(i) == b.(*array.Int64).Value(j)
	case *array.Float32:
		x, y := a.Value(i), b.(*array.Float32).Value(j)
		return x == y || x != x && y != y
	case *array.Float64:
		x, y := a.Value(i), b.(*array.Float64).Value(j)
		return x == y || x != x && y != y
	case *array.Decimal128:
		return a.Value(i) == b.(*array.Decimal128).Value(j)
	case *array.Decimal256:
		return a.Value(i) == b.(*array.Decimal256).Value(j)
	case *array.Date32:
		return a.Value(i) == b.(*array.Date32).Value(j)
	case *array.Time64:
		return a.Value(i) == b.(*array.Time64).Value(j)
	case *array.Timestamp:
		return a.Value(i) == b.(*array.Timestamp).Value(j)
	case *array.Map:
		return equalMaps(a, i, b.(*array.Map), j)
	case *array.List:
		o := b.(*array.List)
		af, at := a.ValueOffsets(i)
		bf, bt := o.ValueOffsets(j)
		if at-af != bt-bf {
			return false
		}
		for k := range int(at - af) {
			if !Equal(a.ListValues(), int(af)+k, o.ListValues(), int(bf)+k) {
				return false
			}
		}
		return true
	case *array.Struct:
		o := b.(*array.Struct)
		for f := range a.NumField() {
			if !Equal(a.Field(f), i, o.Field(f), j) {
				return false
			}
		}
		return true
	}
	panic(fmt.Sprintf("BUG: no equality for %s", a.DataType()))
}

func equalMaps(a *array.Map, i int, b *array.Map, j int) bool {
	af, at := a.ValueOffsets(i)
	bf, bt := b.ValueOffsets(j)
	if at-af != bt-bf {
		return false
	}
	for x := int(af); x < int(at); x++ {
		found := false
		for y := int(bf); y < int(bt) && !found; y++ {
			found = Equal(a.Keys(), x, b.Keys(), y) && Equal(a.Items(), x, b.Items(), y)
		}
		if !found {
			return false
		}
	}
	return true
}
