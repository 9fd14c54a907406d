package fake

import (
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/schema"
	"strait/transport/batch"
)

// column makes values [from, from+n) of one endless stream of values.
type column func(from, n int) arrow.Array

func arrays(cols []column, from, n int) []arrow.Array {
	out := make([]arrow.Array, len(cols))
	for i, c := range cols {
		out[i] = c(from, n)
	}
	return out
}

// The streams are splitmix64: number i of stream k is mix(k + i × golden).
const golden = 0x9E3779B97F4A7C15

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// derive is the key of a stream below another one.
func derive(key, part uint64) uint64 { return mix(mix(key+golden) ^ mix(part*golden+1)) }

func start(key uint64, from int) uint64 { return key + uint64(from)*golden }

// below maps a random number to [0, n); n = 0 gives 0.
func below(x, n uint64) uint64 {
	hi, _ := bits.Mul64(x, n)
	return hi
}

// columns sets up the columns of one split.
func (c *config) columns(p part) []column {
	root := derive(derive(p.Seed, uint64(p.Table)), uint64(p.Number))
	out := make([]column, len(c.table.Columns))
	for i, col := range c.table.Columns {
		g := maker{config: c, year: p.Year, dimension: c.dimension, binaryDimension: c.binaryDimension}
		if col.Scale > 0 {
			g.dimension, g.binaryDimension = col.Scale, col.Scale
		}
		switch {
		case c.counted[i]:
			out[i] = counted(batch.DataType(col.Type), col.Type.Kind, c.start+p.First)
		case col.Default != nil:
			out[i] = constant(col)
		default:
			out[i] = g.column(col.Type, derive(root, uint64(i)))
		}
	}
	return out
}

// maker makes the columns of one split.
type maker struct {
	*config
	year                       int64
	dimension, binaryDimension int
}

func (g maker) column(t schema.Type, key uint64) column {
	dt := batch.DataType(t)
	switch t.Kind {
	case schema.Null:
		return func(_, n int) arrow.Array { return array.NewNull(n) }
	case schema.Boolean:
		return booleans(key)
	case schema.TinyInt:
		return whole[int8](dt, key, g.ints[t.Kind])
	case schema.SmallInt:
		return whole[int16](dt, key, g.ints[t.Kind])
	case schema.Int:
		return whole[int32](dt, key, g.ints[t.Kind])
	case schema.BigInt:
		return whole[int64](dt, key, g.ints[t.Kind])
	case schema.Float:
		return floats[float32](dt, key, g.floats[t.Kind])
	case schema.Double:
		return floats[float64](dt, key, g.floats[t.Kind])
	case schema.Decimal:
		return decimals(dt, key, t.Precision)
	case schema.String:
		if len(g.strings) > 0 {
			return chosen(key, g.strings)
		}
		return letters(dt, key, g.stringLength)
	case schema.Bytes:
		return letters(dt, key, g.bytesLength)
	case schema.Date, schema.Time, schema.Timestamp, schema.TimestampTZ:
		return g.times(t, dt, key)
	case schema.Array:
		return list(dt, g.arraySize, g.column(*t.Elem, derive(key, 0)))
	case schema.Map:
		return g.maps(t, dt, key)
	case schema.Row:
		return g.rows(t, dt, key)
	}
	return g.vector(t, dt, key)
}

// fixed wraps values of a fixed width, none of them null.
func fixed[T arrow.FixedWidthType](dt arrow.DataType, vals []T) arrow.Array {
	buf := memory.NewBufferBytes(arrow.GetBytes(vals))
	return array.MakeFromData(array.NewData(dt, len(vals), []*memory.Buffer{nil, buf}, nil, 0, 0))
}

type wholeNumber interface {
	int8 | int16 | int32 | int64
	arrow.FixedWidthType
}

func whole[T wholeNumber](dt arrow.DataType, key uint64, r intRange) column {
	if len(r.template) > 0 {
		list := make([]T, len(r.template))
		for i, x := range r.template {
			list[i] = T(x)
		}
		return pick(dt, key, list)
	}
	span := uint64(r.max - r.min)
	return func(from, n int) arrow.Array {
		vals := make([]T, n)
		at := start(key, from)
		for i := range vals {
			vals[i] = T(r.min + int64(below(mix(at), span)))
			at += golden
		}
		return fixed(dt, vals)
	}
}

// pick takes values from a list at random.
func pick[T arrow.FixedWidthType](dt arrow.DataType, key uint64, list []T) column {
	return each(dt, key, func(x uint64) T { return list[below(x, uint64(len(list)))] })
}

func counted(dt arrow.DataType, k schema.Kind, first int64) column {
	switch k {
	case schema.TinyInt:
		return count[int8](dt, first)
	case schema.SmallInt:
		return count[int16](dt, first)
	case schema.Int:
		return count[int32](dt, first)
	}
	return count[int64](dt, first)
}

func count[T wholeNumber](dt arrow.DataType, first int64) column {
	return func(from, n int) arrow.Array {
		vals := make([]T, n)
		for i := range vals {
			vals[i] = T(first + int64(from+i))
		}
		return fixed(dt, vals)
	}
}

// unit is a number in [0, 1).
func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }

type floatNumber interface {
	float32 | float64
	arrow.FixedWidthType
}

func floats[T floatNumber](dt arrow.DataType, key uint64, r floatRange) column {
	if len(r.template) > 0 {
		list := make([]T, len(r.template))
		for i, x := range r.template {
			list[i] = T(x)
		}
		return pick(dt, key, list)
	}
	return func(from, n int) arrow.Array {
		vals := make([]T, n)
		at := start(key, from)
		for i := range vals {
			u := unit(mix(at))
			vals[i] = T(r.min*(1-u) + r.max*u) // a difference could overflow
			at += golden
		}
		return fixed(dt, vals)
	}
}

func booleans(key uint64) column {
	return func(from, n int) arrow.Array {
		bitmap := make([]byte, (n+7)/8)
		for i := range n {
			j := from + i
			if mix(start(key, j>>6))>>(j&63)&1 == 1 {
				bitmap[i>>3] |= 1 << (i & 7)
			}
		}
		return array.NewBooleanData(array.NewData(arrow.FixedWidthTypes.Boolean, n, []*memory.Buffer{nil, memory.NewBufferBytes(bitmap)}, nil, 0, 0))
	}
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// perDraw is how many letters one random number is good for: 52^10 < 2^64.
const perDraw = 10

// letters makes strings or bytes of one length.
func letters(dt arrow.DataType, key uint64, length int) column {
	draws := (length + perDraw - 1) / perDraw
	return func(from, n int) arrow.Array {
		data := make([]byte, n*length)
		at := start(key, from*draws)
		for rest := data; len(rest) > 0; {
			value := rest[:length]
			for len(value) > 0 {
				x := mix(at)
				at += golden
				chunk := value[:min(perDraw, len(value))]
				for i := range chunk {
					hi, lo := bits.Mul64(x, uint64(len(alphabet)))
					chunk[i] = alphabet[hi]
					x = lo
				}
				value = value[len(chunk):]
			}
			rest = rest[length:]
		}
		return variable(dt, steps(n, length), data)
	}
}

// chosen takes strings from a list at random.
func chosen(key uint64, list []string) column {
	return func(from, n int) arrow.Array {
		offsets := make([]int32, n+1)
		size, at := 0, start(key, from)
		for range n {
			size += len(list[below(mix(at), uint64(len(list)))])
			at += golden
		}
		data := make([]byte, 0, size)
		at = start(key, from)
		for i := range n {
			data = append(data, list[below(mix(at), uint64(len(list)))]...)
			offsets[i+1] = int32(len(data))
			at += golden
		}
		return variable(arrow.BinaryTypes.String, offsets, data)
	}
}

func variable(dt arrow.DataType, offsets []int32, data []byte) arrow.Array {
	bufs := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(offsets)), memory.NewBufferBytes(data)}
	return array.MakeFromData(array.NewData(dt, len(offsets)-1, bufs, nil, 0, 0))
}

// steps are the offsets of n values of one size.
func steps(n, size int) []int32 {
	out := make([]int32, n+1)
	for i := range out {
		out[i] = int32(i * size)
	}
	return out
}

// rowsPerBatch keeps a batch near its limit.
func (c *config) rowsPerBatch(l batch.Limit) int64 {
	width := 0.0
	if c.isLit {
		width = float64(c.literal.Bytes()) / float64(max(c.literal.Rows, 1))
	} else {
		width = c.rowWidth()
	}
	return int64(max(1, min(float64(l.Rows), math.Floor(float64(l.Bytes)/max(width, 1)))))
}

// rowWidth is about how many bytes a row has.
func (c *config) rowWidth() float64 {
	size := 0.0
	for _, col := range c.table.Columns {
		size += c.width(col.Type) + 8*float64(col.Scale)
	}
	return size
}

// width is about how many bytes a value of a type has.
func (c *config) width(t schema.Type) float64 {
	switch t.Kind {
	case schema.String:
		longest := c.stringLength
		for _, s := range c.strings {
			longest = max(longest, len(s))
		}
		return float64(longest) + 4
	case schema.Bytes:
		return float64(c.bytesLength) + 4
	case schema.Array:
		return 4 + float64(c.arraySize)*c.width(*t.Elem)
	case schema.Map:
		return 4 + float64(c.mapSize)*(c.width(*t.Key)+c.width(*t.Elem))
	case schema.Row:
		n := 0.0
		for _, f := range t.Fields {
			n += c.width(f.Type)
		}
		return n
	case schema.FloatVector, schema.SparseFloatVector, schema.Float16Vector, schema.BFloat16Vector, schema.BinaryVector:
		return 4 + 8*float64(c.dimension) + float64(c.binaryDimension)/8
	}
	return 8
}
