package csv

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format"
	"strait/worker/format/field"
)

// texts is a string or bytes column.
type texts struct {
	off  []int32
	data []byte
	null validity
	dt   arrow.DataType
	utf8 bool
}

func (c *texts) parse(v *fields, n int) (int, error) {
	empty := !v.o.Raw // an empty text without quotes is null
	if len(c.off) == 0 {
		c.off = append(c.off, 0)
	}
	at, from := len(c.off)-1, len(c.data)
	data, off := c.data, c.off
	k := v.at
	for r := range n {
		sp := v.spans[k]
		k += v.stride
		start, end := int(sp.start), int(sp.end&offset)
		size := end - start
		switch {
		case sp.end&escaped != 0:
			data = v.o.unescape(data, v.data[start:end], sp.end&quoted != 0)
		case size == 0:
			if empty && sp.end&quoted == 0 {
				c.null.null(at + r)
			}
		case v.o.HasNull && v.null(v.data[start:end], sp):
			c.null.null(at + r)
		case size <= 16 && start+16 <= len(v.data) && len(data)+16 <= cap(data):
			// A fixed number of bytes is moved faster than the right one; the rest is overwritten by the next.
			n := len(data)
			data = data[:n+16]
			*(*[16]byte)(data[n:]) = *(*[16]byte)(v.data[start:])
			data = data[:n+size]
		default:
			data = append(data, v.data[start:end]...)
		}
		off = append(off, int32(len(data)))
	}
	c.data, c.off = data, off
	if c.utf8 && !ascii(data[from:]) {
		for r := range n {
			if !utf8.Valid(data[off[at+r]:off[at+r+1]]) {
				c.data, c.off = data[:off[at+r]], off[:at+r+1]
				return r, format.ErrUTF8
			}
		}
	}
	return n, nil
}

// ascii says that no byte has its high bit set.
func ascii(b []byte) bool {
	var m uint64
	for len(b) >= 32 {
		m |= binary.LittleEndian.Uint64(b) | binary.LittleEndian.Uint64(b[8:]) | binary.LittleEndian.Uint64(b[16:]) | binary.LittleEndian.Uint64(b[24:])
		b = b[32:]
	}
	for _, c := range b {
		m |= uint64(c)
	}
	return m&high == 0
}

func (c *texts) cut(n int) {
	if len(c.off) > 0 {
		c.off = c.off[:n+1]
		c.data = c.data[:c.off[n]]
	}
	c.null.cut(n)
}

func (c *texts) finish() arrow.Array {
	if len(c.off) == 0 {
		c.off = append(c.off, 0)
	}
	n := len(c.off) - 1
	valid, nulls := c.null.take(n)
	a := makeArray(c.dt, n, nulls, valid, exact(arrow.Int32Traits.CastToBytes(c.off)), exact(c.data))
	c.off, c.data = c.off[:0], c.data[:0]
	return a
}

func (c *texts) bytes() int { return len(c.data) }

// built is a column of any other type, filled through an Arrow builder.
type built struct {
	b     array.Builder
	t     *schema.Type
	dt    arrow.DataType
	codec *field.Codec
	size  int
}

func (c *built) parse(v *fields, n int) (int, error) {
	for r := range n {
		b, null := v.text(r)
		if null || blank(b) && !nested(c.t.Kind) {
			c.b.AppendNull()
			continue
		}
		c.size += len(b)
		if err := c.codec.Append(c.b, c.t, b, 0); err != nil {
			return r, err
		}
	}
	return n, nil
}

func nested(k schema.Kind) bool { return k == schema.Array || k == schema.Map || k == schema.Row }

func (c *built) cut(n int) {
	whole := c.b.NewArray()
	c.b = array.NewBuilder(memory.DefaultAllocator, c.dt)
	batch.AppendRange(c.b, whole, 0, n)
}

func (c *built) finish() arrow.Array {
	c.size = 0
	return c.b.NewArray()
}

func (c *built) bytes() int { return c.size }

// newColumn makes the column of a type.
func newColumn(t *schema.Type, o *Options, codec *field.Codec) column {
	dt := batch.DataType(*t)
	f, scale := o.Formats, t.Scale
	switch t.Kind {
	case schema.BigInt:
		return &fixed[int64]{dt: dt, raw: arrow.Int64Traits.CastToBytes, quick: quickInt64, read: field.Int}
	case schema.Int:
		return &fixed[int32]{dt: dt, raw: arrow.Int32Traits.CastToBytes, quick: quickInt32, read: func(b []byte) (int32, error) {
			n, err := field.IntOf(b, 32)
			return int32(n), err
		}}
	case schema.SmallInt:
		return general(dt, arrow.Int16Traits.CastToBytes, func(b []byte) (int16, error) {
			n, err := field.IntOf(b, 16)
			return int16(n), err
		})
	case schema.TinyInt:
		return general(dt, arrow.Int8Traits.CastToBytes, func(b []byte) (int8, error) {
			n, err := field.IntOf(b, 8)
			return int8(n), err
		})
	case schema.Double:
		return &fixed[float64]{dt: dt, raw: arrow.Float64Traits.CastToBytes, quick: quickFloat64, read: func(b []byte) (float64, error) { return field.Float(b, 64) }}
	case schema.Float:
		return general(dt, arrow.Float32Traits.CastToBytes, func(b []byte) (float32, error) {
			x, err := field.Float(b, 32)
			return float32(x), err
		})
	case schema.Date:
		return &fixed[arrow.Date32]{dt: dt, raw: arrow.Date32Traits.CastToBytes, quick: quickDate(f), read: func(b []byte) (arrow.Date32, error) {
			n, err := f.Date(b)
			return arrow.Date32(n), err
		}}
	case schema.Time:
		return general(dt, arrow.Time64Traits.CastToBytes, func(b []byte) (arrow.Time64, error) {
			n, err := f.Time(b, scale)
			return arrow.Time64(n), err
		})
	case schema.Timestamp, schema.TimestampTZ:
		read := f.Timestamp
		if t.Kind == schema.TimestampTZ {
			read = f.TimestampTZ
		}
		return &fixed[arrow.Timestamp]{dt: dt, raw: arrow.TimestampTraits.CastToBytes, quick: quickTimestamp(f, scale), read: func(b []byte) (arrow.Timestamp, error) {
			n, err := read(b, scale)
			return arrow.Timestamp(n), err
		}}
	case schema.Decimal:
		if t.Precision > 38 {
			break
		}
		p := t.Precision
		return &fixed[decimal128.Num]{dt: dt, raw: arrow.Decimal128Traits.CastToBytes, quick: quickDecimal(p, scale), read: func(b []byte) (decimal128.Num, error) {
			return field.Decimal128(b, p, scale)
		}}
	case schema.String:
		return &texts{dt: dt, utf8: true}
	case schema.Bytes, schema.BinaryVector, schema.Float16Vector, schema.BFloat16Vector:
		return &texts{dt: dt}
	}
	return &built{b: array.NewBuilder(memory.DefaultAllocator, dt), t: t, dt: dt, codec: codec}
}

// general is a column whose values are all read one way.
func general[T arrow.FixedWidthType](dt arrow.DataType, raw func([]T) []byte, read func([]byte) (T, error)) column {
	return &fixed[T]{dt: dt, raw: raw, quick: quickAny(read), read: read}
}
