package fake

import (
	"encoding/binary"
	"math/big"
	"math/bits"
	"sort"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/value"
)

// decimals makes numbers of up to precision digits.
func decimals(dt arrow.DataType, key uint64, precision int) column {
	const half = 19 // digits that fit into 64 bits
	if precision > 2*half {
		return wideDecimals(dt, key, precision)
	}
	low, high := power(min(precision, half)), power(max(0, precision-half))
	return func(from, n int) arrow.Array {
		vals := make([]decimal128.Num, n)
		at := start(key, 2*from)
		for i := range vals {
			lo := below(mix(at), low)
			at += golden
			hi := below(mix(at), high)
			at += golden
			if high == 1 {
				vals[i] = decimal128.New(0, lo)
				continue
			}
			h, l := bits.Mul64(hi, low)
			l, carry := bits.Add64(l, lo, 0)
			vals[i] = decimal128.New(int64(h+carry), l)
		}
		return fixed(dt, vals)
	}
}

func power(n int) uint64 {
	p := uint64(1)
	for range n {
		p *= 10
	}
	return p
}

func wideDecimals(dt arrow.DataType, key uint64, precision int) column {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	return func(from, n int) arrow.Array {
		vals := make([]decimal256.Num, n)
		at := start(key, 5*from)
		var raw [40]byte
		for i := range vals {
			for w := range 5 {
				binary.BigEndian.PutUint64(raw[8*w:], mix(at))
				at += golden
			}
			x := new(big.Int).SetBytes(raw[:])
			vals[i] = decimal256.FromBigInt(x.Mod(x, limit))
		}
		return fixed(dt, vals)
	}
}

// times makes dates and times from their parts, each value from one random number.
func (g maker) times(t schema.Type, dt arrow.DataType, key uint64) column {
	parts := [6]partRange{{g.year, 1, g.parts[0]}, {1, 12, g.parts[1]}, {1, 28, g.parts[2]}, {0, 24, g.parts[3]}, {0, 60, g.parts[4]}, {0, 60, g.parts[5]}}
	perSecond := int64(1e6)
	if batch.Unit(t.Scale) == arrow.Nanosecond {
		perSecond = 1e9
	}
	days := func(x uint64) (int64, uint64) {
		y, x := parts[0].take(x)
		m, x := parts[1].take(x)
		d, x := parts[2].take(x)
		return daysSince1970(y, m, d), x
	}
	seconds := func(x uint64) int64 {
		h, x := parts[3].take(x)
		m, x := parts[4].take(x)
		s, _ := parts[5].take(x)
		return h*3600 + m*60 + s
	}
	switch t.Kind {
	case schema.Date:
		return each(dt, key, func(x uint64) arrow.Date32 {
			d, _ := days(x)
			return arrow.Date32(d)
		})
	case schema.Time:
		return each(dt, key, func(x uint64) arrow.Time64 { return arrow.Time64(seconds(x) * perSecond) })
	}
	return each(dt, key, func(x uint64) arrow.Timestamp {
		d, x := days(x)
		return arrow.Timestamp((d*86400 + seconds(x)) * perSecond)
	})
}

// each makes values of a fixed width out of random numbers.
func each[T arrow.FixedWidthType](dt arrow.DataType, key uint64, f func(x uint64) T) column {
	return func(from, n int) arrow.Array {
		vals := make([]T, n)
		at := start(key, from)
		for i := range vals {
			vals[i] = f(mix(at))
			at += golden
		}
		return fixed(dt, vals)
	}
}

// partRange is what one part of a date-time may be: count values from first on, or those of a template.
type partRange struct {
	first, count int64
	template     []int64
}

// take uses up a little of a random number.
func (p *partRange) take(x uint64) (int64, uint64) {
	if len(p.template) > 0 {
		hi, lo := bits.Mul64(x, uint64(len(p.template)))
		return p.template[hi], lo
	}
	hi, lo := bits.Mul64(x, uint64(p.count))
	return p.first + int64(hi), lo
}

// daysSince1970 counts days; a day behind the end of its month is the last one of it.
func daysSince1970(y, m, d int64) int64 {
	if d > 28 {
		last := int64(time.Date(int(y), time.Month(m)+1, 0, 0, 0, 0, 0, time.UTC).Day())
		d = min(d, last)
	}
	if m <= 2 {
		y--
		m += 12
	}
	era := y / 400
	yearOfEra := y - era*400
	dayOfYear := (153*(m-3)+2)/5 + d - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

// list makes arrays of one size.
func list(dt arrow.DataType, size int, elem column) column {
	return func(from, n int) arrow.Array {
		values := elem(from*size, n*size)
		offsets := memory.NewBufferBytes(arrow.GetBytes(steps(n, size)))
		return array.NewListData(array.NewData(dt, n, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{values.Data()}, 0, 0))
	}
}

func (g maker) rows(t schema.Type, dt arrow.DataType, key uint64) column {
	fields := make([]column, len(t.Fields))
	for i, f := range t.Fields {
		fields[i] = g.column(f.Type, derive(key, uint64(i)))
	}
	return func(from, n int) arrow.Array {
		children := make([]arrow.ArrayData, len(fields))
		for i, f := range fields {
			children[i] = f(from, n).Data()
		}
		return array.NewStructData(array.NewData(dt, n, []*memory.Buffer{nil}, children, 0, 0))
	}
}

// maps makes maps of one size, or of fewer entries where keys turn out equal.
func (g maker) maps(t schema.Type, dt arrow.DataType, key uint64) column {
	keys, items, size := g.column(*t.Key, derive(key, 0)), g.column(*t.Elem, derive(key, 1)), g.mapSize
	return func(from, n int) arrow.Array {
		k, v, offsets := keys(from*size, n*size), items(from*size, n*size), steps(n, size)
		if rows, shorter := distinct(k, n, size, offsets); shorter {
			kb, vb := array.NewBuilder(memory.DefaultAllocator, k.DataType()), array.NewBuilder(memory.DefaultAllocator, v.DataType())
			batch.Gather(kb, k, rows)
			batch.Gather(vb, v, rows)
			k, v = kb.NewArray(), vb.NewArray()
		}
		return mapArray(dt, k, v, offsets)
	}
}

func mapArray(dt arrow.DataType, k, v arrow.Array, offsets []int32) arrow.Array {
	entries := array.NewData(dt.(*arrow.MapType).Elem(), k.Len(), []*memory.Buffer{nil}, []arrow.ArrayData{k.Data(), v.Data()}, 0, 0)
	bufs := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(offsets))}
	return array.NewMapData(array.NewData(dt, len(offsets)-1, bufs, []arrow.ArrayData{entries}, 0, 0))
}

// distinct finds the first of equal keys in each map and moves the offsets; shorter: there were equal ones.
func distinct(keys arrow.Array, n, size int, offsets []int32) (rows []int32, shorter bool) {
	rows = make([]int32, 0, n*size)
	for i := range n {
		first := len(rows)
		for j := i * size; j < (i+1)*size; j++ {
			again := false
			for _, r := range rows[first:] {
				if value.Equal(keys, int(r), keys, j) {
					again = true
					break
				}
			}
			if !again {
				rows = append(rows, int32(j))
			}
		}
		offsets[i+1] = int32(len(rows))
	}
	return rows, len(rows) < n*size
}

func (g maker) vector(t schema.Type, dt arrow.DataType, key uint64) column {
	elements := floatRange{min: g.vecMin, max: g.vecMax}
	switch t.Kind {
	case schema.FloatVector:
		return list(dt, g.dimension, floats[float32](arrow.PrimitiveTypes.Float32, key, elements))
	case schema.BinaryVector:
		size := g.binaryDimension / 8
		return func(from, n int) arrow.Array {
			data := make([]byte, n*size)
			at := start(key, from*size)
			for i := range data {
				data[i] = byte(mix(at))
				at += golden
			}
			return variable(dt, steps(n, size), data)
		}
	case schema.SparseFloatVector:
		return g.sparse(dt, key, elements)
	}
	values := floats[float32](arrow.PrimitiveTypes.Float32, key, elements)
	return func(from, n int) arrow.Array {
		f := values(from*g.dimension, n*g.dimension).(*array.Float32).Float32Values()
		data := make([]byte, 0, 2*len(f))
		for _, x := range f {
			data = binary.LittleEndian.AppendUint16(data, value.FloatToHalf(x, t.Kind))
		}
		return variable(dt, steps(n, 2*g.dimension), data)
	}
}

// sparse makes sparse vectors: indexes are in order and stand once.
func (g maker) sparse(dt arrow.DataType, key uint64, elements floatRange) column {
	size := g.dimension
	values := floats[float32](arrow.PrimitiveTypes.Float32, derive(key, 1), elements)
	return func(from, n int) arrow.Array {
		index := make([]int32, n*size)
		at := start(key, from*size)
		for i := range n {
			row := index[i*size : (i+1)*size]
			for j := range row {
				row[j] = int32(mix(at) >> 34) // 30 bits leave room to step aside
				at += golden
			}
			sort.Slice(row, func(a, b int) bool { return row[a] < row[b] })
			for j := 1; j < size; j++ {
				if row[j] <= row[j-1] {
					row[j] = row[j-1] + 1
				}
			}
		}
		return mapArray(dt, fixed(arrow.PrimitiveTypes.Int32, index), values(from*size, n*size), steps(n, size))
	}
}

// constant repeats the default of a column.
func constant(col schema.Column) column {
	one := array.NewBuilder(memory.DefaultAllocator, batch.DataType(col.Type))
	if err := appendDefault(one, col); err != nil {
		panic("BUG: " + err.Error()) // checked by New
	}
	v := one.NewArray()
	return func(_, n int) arrow.Array {
		b := array.NewBuilder(memory.DefaultAllocator, v.DataType())
		batch.Gather(b, v, make([]int32, n))
		return b.NewArray()
	}
}

func appendDefault(b array.Builder, col schema.Column) error {
	return value.Reader{Now: time.Now()}.Append(b, col.Type, &option.Node{Kind: option.String, Text: *col.Default, Quoted: true})
}
