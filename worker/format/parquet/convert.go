package parquet

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/field"
)

// converter turns an array of the file into one of the table's layout. The error names the first value that does
// not fit.
type converter func(arrow.Array) (arrow.Array, error)

var errRange = errors.New("does not fit the type")

// valueError is a value that does not fit, with its row within the batch.
type valueError struct {
	row  int
	text string
	err  error
}

func (e *valueError) Error() string { return fmt.Sprintf("%q %v", e.text, e.err) }
func (e *valueError) Unwrap() error { return e.err }

// convert plans the way from an Arrow type to a table's type; nil where there is none.
func (f *File) convert(from arrow.DataType, to *schema.Type) converter {
	want := batch.DataType(*to)
	if ext, ok := from.(arrow.ExtensionType); ok {
		inner := f.convert(ext.StorageType(), to)
		if inner == nil {
			return nil
		}
		return func(a arrow.Array) (arrow.Array, error) { return inner(a.(array.ExtensionArray).Storage()) }
	}
	switch to.Kind {
	case schema.Array, schema.FloatVector:
		return f.convertList(from, to, want)
	case schema.Map, schema.SparseFloatVector:
		return f.convertMap(from, to, want)
	case schema.Row:
		return f.convertStruct(from, to, want)
	}
	if arrow.TypeEqual(from, want) {
		return func(a arrow.Array) (arrow.Array, error) { return a, nil }
	}
	if _, ok := from.(*arrow.NullType); ok || to.Kind == schema.Null {
		return func(a arrow.Array) (arrow.Array, error) {
			b := array.NewBuilder(memory.DefaultAllocator, want)
			b.AppendNulls(a.Len())
			return b.NewArray(), nil
		}
	}
	put := f.scalar(from, to)
	if put == nil {
		return nil
	}
	return func(a arrow.Array) (arrow.Array, error) {
		b := array.NewBuilder(memory.DefaultAllocator, want)
		b.Reserve(a.Len())
		for i := range a.Len() {
			if a.IsNull(i) {
				b.AppendNull()
				continue
			}
			if err := put(b, a, i); err != nil {
				return nil, &valueError{i, a.ValueStr(i), err}
			}
		}
		return b.NewArray(), nil
	}
}

type putter func(b array.Builder, a arrow.Array, i int) error

// scalar plans the conversion of one value.
func (f *File) scalar(from arrow.DataType, to *schema.Type) putter {
	switch to.Kind {
	case schema.TinyInt, schema.SmallInt, schema.Int, schema.BigInt:
		if read := intOf(from); read != nil {
			return putInt(read, to.Kind)
		}
	case schema.Float, schema.Double:
		return putFloat(from, to.Kind)
	case schema.Decimal:
		return putDecimal(from, to)
	case schema.String:
		return f.putText(from)
	case schema.Bytes, schema.BinaryVector, schema.Float16Vector, schema.BFloat16Vector:
		if read := bytesOf(from); read != nil {
			return func(b array.Builder, a arrow.Array, i int) error {
				b.(*array.BinaryBuilder).Append(read(a, i))
				return nil
			}
		}
	case schema.Date:
		if _, ok := from.(*arrow.Date64Type); ok {
			return func(b array.Builder, a arrow.Array, i int) error {
				b.(*array.Date32Builder).Append(arrow.Date32(floorDiv(int64(a.(*array.Date64).Value(i)), 86400000)))
				return nil
			}
		}
	case schema.Time:
		return putTime(from, to)
	case schema.Timestamp, schema.TimestampTZ:
		return putTimestamp(from, to)
	}
	return nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// intOf reads whole numbers; uint64 above the range of int64 is reported as an error.
func intOf(from arrow.DataType) func(arrow.Array, int) (int64, error) {
	switch from.ID() {
	case arrow.INT8:
		return func(a arrow.Array, i int) (int64, error) { return int64(a.(*array.Int8).Value(i)), nil }
	case arrow.INT16:
		return func(a arrow.Array, i int) (int64, error) { return int64(a.(*array.Int16).Value(i)), nil }
	case arrow.INT32:
		return func(a arrow.Array, i int) (int64, error) { return int64(a.(*array.Int32).Value(i)), nil }
	case arrow.INT64:
		return func(a arrow.Array, i int) (int64, error) { return a.(*array.Int64).Value(i), nil }
	case arrow.UINT8:
		return func(a arrow.Array, i int) (int64, error) { return int64(a.(*array.Uint8).Value(i)), nil }
	case arrow.UINT16:
		return func(a arrow.Array, i int) (int64, error) { return int64(a.(*array.Uint16).Value(i)), nil }
	case arrow.UINT32:
		return func(a arrow.Array, i int) (int64, error) { return int64(a.(*array.Uint32).Value(i)), nil }
	case arrow.UINT64:
		return func(a arrow.Array, i int) (int64, error) {
			v := a.(*array.Uint64).Value(i)
			if v > math.MaxInt64 {
				return 0, errRange
			}
			return int64(v), nil
		}
	}
	return nil
}

func putInt(read func(arrow.Array, int) (int64, error), k schema.Kind) putter {
	return func(b array.Builder, a arrow.Array, i int) error {
		v, err := read(a, i)
		if err != nil {
			return err
		}
		switch d := b.(type) {
		case *array.Int64Builder:
			d.Append(v)
		case *array.Int32Builder:
			if v != int64(int32(v)) {
				return errRange
			}
			d.Append(int32(v))
		case *array.Int16Builder:
			if v != int64(int16(v)) {
				return errRange
			}
			d.Append(int16(v))
		case *array.Int8Builder:
			if v != int64(int8(v)) {
				return errRange
			}
			d.Append(int8(v))
		default:
			panic("BUG: " + k.String())
		}
		return nil
	}
}

func putFloat(from arrow.DataType, k schema.Kind) putter {
	var read func(arrow.Array, int) (float64, error)
	switch from.ID() {
	case arrow.FLOAT16:
		read = func(a arrow.Array, i int) (float64, error) {
			return float64(a.(*array.Float16).Value(i).Float32()), nil
		}
	case arrow.FLOAT32:
		read = func(a arrow.Array, i int) (float64, error) { return float64(a.(*array.Float32).Value(i)), nil }
	case arrow.FLOAT64:
		read = func(a arrow.Array, i int) (float64, error) { return a.(*array.Float64).Value(i), nil }
	default:
		whole := intOf(from)
		if whole == nil {
			return nil
		}
		read = func(a arrow.Array, i int) (float64, error) {
			v, err := whole(a, i)
			if int64(float64(v)) != v {
				return 0, errRange
			}
			return float64(v), err
		}
	}
	return func(b array.Builder, a arrow.Array, i int) error {
		v, err := read(a, i)
		if err != nil {
			return err
		}
		if k == schema.Double {
			b.(*array.Float64Builder).Append(v)
			return nil
		}
		n := float32(v)
		if math.IsInf(float64(n), 0) && !math.IsInf(v, 0) {
			return errRange
		}
		b.(*array.Float32Builder).Append(n)
		return nil
	}
}

// putDecimal goes through text where scales differ: it is the rare way.
func putDecimal(from arrow.DataType, to *schema.Type) putter {
	switch t := from.(type) {
	case *arrow.Decimal128Type:
		if to.Precision <= 38 && t.Scale == int32(to.Scale) {
			return func(b array.Builder, a arrow.Array, i int) error {
				v := a.(*array.Decimal128).Value(i)
				if !v.FitsInPrecision(int32(to.Precision)) {
					return errRange
				}
				b.(*array.Decimal128Builder).Append(v)
				return nil
			}
		}
	case *arrow.Decimal32Type, *arrow.Decimal64Type, *arrow.Decimal256Type:
	case *arrow.Uint64Type:
		if to.Precision <= 38 && to.Scale == 0 {
			return func(b array.Builder, a arrow.Array, i int) error {
				v := decimal128.New(0, a.(*array.Uint64).Value(i))
				if !v.FitsInPrecision(int32(to.Precision)) {
					return errRange
				}
				b.(*array.Decimal128Builder).Append(v)
				return nil
			}
		}
	default:
		if intOf(from) == nil {
			return nil
		}
	}
	codec := field.Codec{Formats: field.DefaultFormats()}
	return func(b array.Builder, a arrow.Array, i int) error {
		return codec.AppendScalar(b, to, []byte(a.ValueStr(i)))
	}
}

func bytesOf(from arrow.DataType) func(arrow.Array, int) []byte {
	switch from.ID() {
	case arrow.BINARY:
		return func(a arrow.Array, i int) []byte { return a.(*array.Binary).Value(i) }
	case arrow.LARGE_BINARY:
		return func(a arrow.Array, i int) []byte { return a.(*array.LargeBinary).Value(i) }
	case arrow.FIXED_SIZE_BINARY:
		return func(a arrow.Array, i int) []byte { return a.(*array.FixedSizeBinary).Value(i) }
	case arrow.STRING:
		return func(a arrow.Array, i int) []byte { return []byte(a.(*array.String).Value(i)) }
	case arrow.LARGE_STRING:
		return func(a arrow.Array, i int) []byte { return []byte(a.(*array.LargeString).Value(i)) }
	}
	return nil
}

// putText reads any value without parts as its text.
func (f *File) putText(from arrow.DataType) putter {
	if read := bytesOf(from); read != nil {
		return func(b array.Builder, a arrow.Array, i int) error {
			b.(*array.StringBuilder).BinaryBuilder.Append(read(a, i))
			return nil
		}
	}
	t, err := f.typeOf(from)
	if err != nil {
		return nil
	}
	to := f.convert(from, &t)
	switch t.Kind {
	case schema.Array, schema.Map, schema.Row, schema.Bytes:
		return nil
	}
	if to == nil {
		return nil
	}
	formats := field.DefaultFormats()
	var buf []byte
	return func(b array.Builder, a arrow.Array, i int) error {
		one, err := to(array.NewSlice(a, int64(i), int64(i+1)))
		if err != nil {
			return err
		}
		buf = field.AppendScalarText(buf[:0], formats, &t, one, 0)
		b.(*array.StringBuilder).BinaryBuilder.Append(buf)
		return nil
	}
}

var unitNanos = map[arrow.TimeUnit]int64{arrow.Second: 1e9, arrow.Millisecond: 1e6, arrow.Microsecond: 1e3, arrow.Nanosecond: 1}

// rescale changes the unit of a time; it fails where the value leaves the range.
func rescale(v, from, to int64) (int64, error) {
	if from >= to {
		k := from / to
		if v > math.MaxInt64/k || v < math.MinInt64/k {
			return 0, errRange
		}
		return v * k, nil
	}
	return floorDiv(v, to/from), nil
}

func putTime(from arrow.DataType, to *schema.Type) putter {
	unit := field.UnitNanos(to.Scale)
	switch t := from.(type) {
	case *arrow.Time32Type:
		return func(b array.Builder, a arrow.Array, i int) error {
			v, err := rescale(int64(a.(*array.Time32).Value(i)), unitNanos[t.Unit], unit)
			b.(*array.Time64Builder).Append(arrow.Time64(v))
			return err
		}
	case *arrow.Time64Type:
		return func(b array.Builder, a arrow.Array, i int) error {
			v, err := rescale(int64(a.(*array.Time64).Value(i)), unitNanos[t.Unit], unit)
			b.(*array.Time64Builder).Append(arrow.Time64(v))
			return err
		}
	}
	return nil
}

// putTimestamp takes marked and unmarked timestamps for either type: the clock in UTC counts.
func putTimestamp(from arrow.DataType, to *schema.Type) putter {
	t, ok := from.(*arrow.TimestampType)
	if !ok {
		return nil
	}
	unit := field.UnitNanos(to.Scale)
	return func(b array.Builder, a arrow.Array, i int) error {
		v, err := rescale(int64(a.(*array.Timestamp).Value(i)), unitNanos[t.Unit], unit)
		if err != nil {
			return err
		}
		b.(*array.TimestampBuilder).Append(arrow.Timestamp(v))
		return nil
	}
}

// rebuild puts a converted child under the offsets of a list or map. In a damaged file levels and values may
// disagree, so the offsets are checked.
func rebuild(a array.ListLike, want arrow.DataType, child arrow.Array) (arrow.Array, error) {
	last := int64(0)
	for i := range a.Len() {
		from, to := a.ValueOffsets(i)
		if from < last || to < from {
			return nil, errors.New("the lengths of lists are damaged")
		}
		last = to
	}
	if last > int64(child.Len()) {
		return nil, fmt.Errorf("lists have %d elements and the file %d", last, child.Len())
	}
	d := a.Data()
	return array.MakeFromData(array.NewData(want, d.Len(), d.Buffers(), []arrow.ArrayData{child.Data()}, d.NullN(), d.Offset())), nil
}

func (f *File) convertList(from arrow.DataType, to *schema.Type, want arrow.DataType) converter {
	t, ok := from.(*arrow.ListType)
	if !ok {
		return nil
	}
	inner := f.convert(t.Elem(), field.Elem(to))
	if inner == nil {
		return nil
	}
	return func(a arrow.Array) (arrow.Array, error) {
		child, err := inner(a.(*array.List).ListValues())
		if err != nil {
			return nil, err
		}
		return rebuild(a.(*array.List), want, child)
	}
}

func (f *File) convertMap(from arrow.DataType, to *schema.Type, want arrow.DataType) converter {
	t, ok := from.(*arrow.MapType)
	if !ok {
		return nil
	}
	keys, items := f.convert(t.KeyType(), field.Key(to)), f.convert(t.ItemType(), field.Elem(to))
	if keys == nil || items == nil {
		return nil
	}
	entries := want.(*arrow.MapType).Elem()
	return func(a arrow.Array) (arrow.Array, error) {
		m := a.(*array.Map)
		k, err := keys(m.Keys())
		if err != nil {
			return nil, err
		}
		if k.NullBitmapBytes() != nil { // a damaged file may have nulls that are not counted
			for i := range k.Len() {
				if k.IsNull(i) {
					return nil, errors.New("a map has a key that is null")
				}
			}
		}
		v, err := items(m.Items())
		if err != nil {
			return nil, err
		}
		if k.Len() != v.Len() {
			return nil, fmt.Errorf("a map has %d keys and %d values", k.Len(), v.Len())
		}
		st := array.NewData(entries, k.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{k.Data(), v.Data()}, 0, 0)
		return rebuild(m, want, array.MakeFromData(st))
	}
}

func (f *File) convertStruct(from arrow.DataType, to *schema.Type, want arrow.DataType) converter {
	t, ok := from.(*arrow.StructType)
	if !ok {
		return nil
	}
	at := make([]int, len(to.Fields))
	inner := make([]converter, len(to.Fields))
	for i := range to.Fields {
		k, ok := t.FieldIdx(to.Fields[i].Name)
		if !ok {
			return nil
		}
		at[i] = k
		if inner[i] = f.convert(t.Field(k).Type, &to.Fields[i].Type); inner[i] == nil {
			return nil
		}
	}
	return func(a arrow.Array) (arrow.Array, error) {
		s := a.(*array.Struct)
		children := make([]arrow.ArrayData, len(at))
		for i, k := range at {
			c, err := inner[i](s.Field(k))
			if err != nil {
				return nil, fmt.Errorf("field %s: %w", to.Fields[i].Name, err)
			}
			if c.Len() != s.Len() {
				return nil, fmt.Errorf("field %s has %d values for %d rows", to.Fields[i].Name, c.Len(), s.Len())
			}
			children[i] = c.Data()
		}
		valid := s.Data().Buffers()[0]
		if off := s.Data().Offset(); off != 0 && valid != nil { // children are cut already
			bits := make([]byte, (s.Len()+7)/8)
			for i := range s.Len() {
				if s.IsValid(i) {
					bits[i/8] |= 1 << (i % 8)
				}
			}
			valid = memory.NewBufferBytes(bits)
		}
		return array.MakeFromData(array.NewData(want, s.Len(), []*memory.Buffer{valid}, children, s.NullN(), 0)), nil
	}
}
