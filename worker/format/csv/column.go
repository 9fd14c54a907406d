package csv

import (
	"encoding/binary"
	"math/bits"
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

// column collects the values of one column of the open batch.
type column interface {
	// parse appends field at of the block's rows [0, n). It stops at a value that does not parse and gives its row.
	parse(v *fields, n int) (int, error)
	// cut drops all rows from n on; a row before that did not parse.
	cut(n int)
	// finish hands the values over and starts over.
	finish() arrow.Array
	bytes() int // of variable length
}

// fields is the view of a block that a column reads.
type fields struct {
	o      *Options
	data   []byte
	spans  []span
	stride int
	at     int
	buf    []byte // for unescaped text
}

// text is field at of row r, unescaped. The second result says whether it is null for a type whose empty text
// has no meaning.
func (v *fields) text(r int) ([]byte, bool) {
	sp := v.spans[r*v.stride+v.at]
	b := v.data[sp.start : sp.end&offset]
	if sp.end&escaped != 0 {
		v.buf = v.o.unescape(v.buf[:0], b, sp.end&quoted != 0)
		b = v.buf
	}
	return b, v.null(b, sp)
}

func (v *fields) null(b []byte, sp span) bool {
	if len(b) == 0 {
		return !v.o.Raw && sp.end&quoted == 0
	}
	return v.o.HasNull && sp.end&quoted == 0 && string(b) == v.o.Null
}

// blank says that text stands for null where it cannot be a value: a number, a date.
func blank(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' {
			return false
		}
	}
	return true
}

// validity is a bitmap that exists once there is a null.
type validity struct {
	bits  []byte
	nulls int
}

// null marks row i, of at most room rows, as null.
func (m *validity) null(i int) {
	for len(m.bits) <= i>>3 {
		m.bits = append(m.bits, 0xff)
	}
	m.bits[i>>3] &^= 1 << (i & 7)
	m.nulls++
}

// cut forgets the rows from n on.
func (m *validity) cut(n int) {
	if m.nulls == 0 {
		return
	}
	for i := n; i < 8*len(m.bits); i++ {
		if m.bits[i>>3]>>(i&7)&1 == 0 {
			m.bits[i>>3] |= 1 << (i & 7)
			m.nulls--
		}
	}
}

func (m *validity) take(rows int) (*memory.Buffer, int) {
	if m.nulls == 0 {
		return nil, 0
	}
	for len(m.bits) < (rows+7)/8 {
		m.bits = append(m.bits, 0xff)
	}
	b, n := memory.NewBufferBytes(m.bits), m.nulls
	*m = validity{}
	return b, n
}

// exact copies what a column collected into memory of its own: the collecting buffer stays warm and is used again,
// and a batch holds no more than its rows.
func exact(b []byte) *memory.Buffer { return memory.NewBufferBytes(append([]byte(nil), b...)) }

func makeArray(dt arrow.DataType, rows, nulls int, buffers ...*memory.Buffer) arrow.Array {
	d := array.NewData(dt, rows, buffers, nil, nulls, 0)
	a := array.MakeFromData(d)
	d.Release()
	return a
}

// fixed is a column of fixed-width values. read is the general way; the hot types have a parse of their own.
type fixed[T arrow.FixedWidthType | decimal128.Num] struct {
	v    []T
	null validity
	dt   arrow.DataType
	read func([]byte) (T, error)
	raw  func([]T) []byte
}

func (c *fixed[T]) grow(n int) []T {
	at := len(c.v)
	if cap(c.v)-at < n {
		c.v = append(make([]T, 0, max(2*cap(c.v), at+n)), c.v...)
	}
	c.v = c.v[:at+n]
	return c.v[at:]
}

func (c *fixed[T]) parse(v *fields, n int) (int, error) {
	if v.o.HasNull {
		return c.careful(v, n)
	}
	at := len(c.v)
	out := c.grow(n)
	for r := range out {
		sp := v.spans[r*v.stride+v.at]
		b := v.data[sp.start : sp.end&offset]
		x, err := c.read(b)
		if err != nil {
			if x, err = c.slow(v, r, at+r); err != nil {
				c.v = c.v[:at+r]
				return r, err
			}
		}
		out[r] = x
	}
	return n, nil
}

// careful looks for the text of null first: it may be a number, too.
func (c *fixed[T]) careful(v *fields, n int) (int, error) {
	at := len(c.v)
	out := c.grow(n)
	for r := range out {
		x, err := c.slow(v, r, at+r)
		if err != nil {
			c.v = c.v[:at+r]
			return r, err
		}
		out[r] = x
	}
	return n, nil
}

// slow is for what read does not take at once: null, escaped text.
func (c *fixed[T]) slow(v *fields, r, row int) (x T, err error) {
	b, null := v.text(r)
	if null || blank(b) {
		c.null.null(row)
		return x, nil
	}
	return c.read(b)
}

func (c *fixed[T]) cut(n int) {
	c.v = c.v[:n]
	c.null.cut(n)
}

func (c *fixed[T]) finish() arrow.Array {
	n := len(c.v)
	valid, nulls := c.null.take(n)
	a := makeArray(c.dt, n, nulls, valid, exact(c.raw(c.v)))
	c.v = c.v[:0]
	return a
}

func (c *fixed[T]) bytes() int { return 0 }

// int64s is fixed[int64] with the digits read in place.
type int64s struct{ fixed[int64] }

func (c *int64s) parse(v *fields, n int) (int, error) {
	if v.o.HasNull {
		return c.careful(v, n)
	}
	at := len(c.v)
	out := c.grow(n)
	k := v.at
	for r := range out {
		sp := v.spans[k]
		k += v.stride
		x, ok := digits(v.data, int(sp.start), int(sp.end&offset))
		if !ok {
			var err error
			if x, err = c.slow(v, r, at+r); err != nil {
				c.v = c.v[:at+r]
				return r, err
			}
		}
		out[r] = x
	}
	return n, nil
}

// int32s is fixed[int32] with the digits read in place.
type int32s struct{ fixed[int32] }

func (c *int32s) parse(v *fields, n int) (int, error) {
	if v.o.HasNull {
		return c.careful(v, n)
	}
	at := len(c.v)
	out := c.grow(n)
	k := v.at
	for r := range out {
		sp := v.spans[k]
		k += v.stride
		x, ok := digits(v.data, int(sp.start), int(sp.end&offset))
		y := int32(x)
		if !ok || int64(y) != x {
			var err error
			if y, err = c.slow(v, r, at+r); err != nil {
				c.v = c.v[:at+r]
				return r, err
			}
		}
		out[r] = y
	}
	return n, nil
}

// digits reads data[start:end], up to 16 digits with an optional minus, eight at a time and without a loop.
func digits(data []byte, start, end int) (int64, bool) {
	neg := false
	if start < end && data[start] == '-' {
		neg = true
		start++
	}
	n := end - start
	if uint(n-1) > 15 || end < 16 {
		return plainDigits(data[start:end], neg)
	}
	v, ok := eight(data[end-8:end], min(n, 8))
	if n > 8 {
		hi, ok2 := eight(data[end-16:end-8], n-8)
		v, ok = v+hi*100000000, ok && ok2
	}
	if neg {
		v = -v
	}
	return v, ok
}

// eight reads the last n of eight bytes as digits.
func eight(b []byte, n int) (int64, bool) {
	keep := ^uint64(0) << (64 - 8*n)
	x := (binary.LittleEndian.Uint64(b) ^ 0x3030303030303030) & keep
	return number(x), ((x+0x7676767676767676)|x)&high == 0
}

// number combines eight digits, the first in the lowest byte.
func number(x uint64) int64 {
	x = x*10 + x>>8
	return int64((x&0x000000FF000000FF*0x000F424000000064 + x>>16&0x000000FF000000FF*0x0000271000000001) >> 32)
}

// plainDigits is digits byte by byte, for the start of a block and up to 18 digits.
func plainDigits(b []byte, neg bool) (int64, bool) {
	if uint(len(b)-1) > 17 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		c -= '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	if neg {
		n = -n
	}
	return n, true
}

// pointed reads data[start:end], up to 16 digits with a point among the last eight, as digits and the number of those
// behind the point.
func pointed(data []byte, start, end int) (v int64, frac int, ok bool) {
	neg := false
	if start < end && data[start] == '-' {
		neg = true
		start++
	}
	n := end - start
	if uint(n-2) > 14 || end < 16 {
		return 0, 0, false
	}
	keep := ^uint64(0)
	if n < 8 {
		keep <<= 64 - 8*n
	}
	x := (binary.LittleEndian.Uint64(data[end-8:end]) ^ 0x3030303030303030) & keep
	// '.' is 0x2e: it has become 0x1e.
	m := ^nonzero(x^0x1e1e1e1e1e1e1e1e) & high
	if m == 0 {
		return 0, 0, false
	}
	k := bits.TrailingZeros64(m) >> 3 // the byte of the point
	below := uint64(1)<<(8*k) - 1
	x = x&below<<8 | x&^(below<<8|0xff)
	frac = 7 - k
	if ((x+0x7676767676767676)|x)&high != 0 {
		return 0, 0, false
	}
	v = number(x)
	if n > 8 {
		hi, ok := eight(data[end-16:end-8], n-8)
		if !ok {
			return 0, 0, false
		}
		v += hi * 10000000
	} else if n == 1 {
		return 0, 0, false
	}
	if neg {
		v = -v
	}
	return v, frac, true
}

// decimals is a decimal column of up to 38 digits.
type decimals struct {
	fixed[decimal128.Num]
	precision, scale int
	limit            int64 // 10^precision where it fits
}

func (c *decimals) parse(v *fields, n int) (int, error) {
	if v.o.HasNull {
		return c.careful(v, n)
	}
	at := len(c.v)
	out := c.grow(n)
	k := v.at
	for r := range out {
		sp := v.spans[k]
		k += v.stride
		start, end := int(sp.start), int(sp.end&offset)
		x, frac, ok := pointed(v.data, start, end)
		if ok && frac == c.scale && x < c.limit && x > -c.limit {
			out[r] = decimal128.FromI64(x)
			continue
		}
		if x, ok = field.ShortDecimal(v.data[start:end], c.precision, c.scale); ok {
			out[r] = decimal128.FromI64(x)
			continue
		}
		y, err := c.slow(v, r, at+r)
		if err != nil {
			c.v = c.v[:at+r]
			return r, err
		}
		out[r] = y
	}
	return n, nil
}

// doubles is fixed[float64] with short numbers read in place: mantissa and power of ten are exact, and so is
// their quotient rounded.
type doubles struct{ fixed[float64] }

var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7}

func (c *doubles) parse(v *fields, n int) (int, error) {
	if v.o.HasNull {
		return c.careful(v, n)
	}
	at := len(c.v)
	out := c.grow(n)
	k := v.at
	for r := range out {
		sp := v.spans[k]
		k += v.stride
		start, end := int(sp.start), int(sp.end&offset)
		x, frac, ok := pointed(v.data, start, end)
		if ok && x != 0 && x < 1<<53 && x > -1<<53 { // -0.0 keeps its sign the other way
			out[r] = float64(x) / pow10[frac]
			continue
		}
		y, err := c.read(v.data[start:end])
		if err != nil {
			if y, err = c.slow(v, r, at+r); err != nil {
				c.v = c.v[:at+r]
				return r, err
			}
		}
		out[r] = y
	}
	return n, nil
}

// dates is fixed[arrow.Date32] for the usual layouts.
type dates struct {
	fixed[arrow.Date32]
	f *field.Formats
}

func (c *dates) parse(v *fields, n int) (int, error) {
	if v.o.HasNull {
		return c.careful(v, n)
	}
	at := len(c.v)
	out := c.grow(n)
	k := v.at
	for r := range out {
		sp := v.spans[k]
		k += v.stride
		x, ok := c.f.QuickDate(v.data[sp.start : sp.end&offset])
		if ok {
			out[r] = arrow.Date32(x)
			continue
		}
		y, err := c.slow(v, r, at+r)
		if err != nil {
			c.v = c.v[:at+r]
			return r, err
		}
		out[r] = y
	}
	return n, nil
}

// stamps is fixed[arrow.Timestamp] for the usual layouts; per is the units of a second.
type stamps struct {
	fixed[arrow.Timestamp]
	f   *field.Formats
	per int64
}

func (c *stamps) parse(v *fields, n int) (int, error) {
	if v.o.HasNull || c.per != 1e6 {
		return c.careful(v, n)
	}
	at := len(c.v)
	out := c.grow(n)
	k := v.at
	for r := range out {
		sp := v.spans[k]
		k += v.stride
		x, ok := c.f.QuickTimestamp(v.data[sp.start : sp.end&offset])
		if ok {
			out[r] = arrow.Timestamp(x * 1e6)
			continue
		}
		y, err := c.slow(v, r, at+r)
		if err != nil {
			c.v = c.v[:at+r]
			return r, err
		}
		out[r] = y
	}
	return n, nil
}

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
		return &int64s{fixed[int64]{dt: dt, raw: arrow.Int64Traits.CastToBytes, read: field.Int}}
	case schema.Int:
		return &int32s{fixed[int32]{dt: dt, raw: arrow.Int32Traits.CastToBytes, read: func(b []byte) (int32, error) {
			n, err := field.IntOf(b, 32)
			return int32(n), err
		}}}
	case schema.SmallInt:
		return &fixed[int16]{dt: dt, raw: arrow.Int16Traits.CastToBytes, read: func(b []byte) (int16, error) {
			n, err := field.IntOf(b, 16)
			return int16(n), err
		}}
	case schema.TinyInt:
		return &fixed[int8]{dt: dt, raw: arrow.Int8Traits.CastToBytes, read: func(b []byte) (int8, error) {
			n, err := field.IntOf(b, 8)
			return int8(n), err
		}}
	case schema.Double:
		return &doubles{fixed[float64]{dt: dt, raw: arrow.Float64Traits.CastToBytes, read: func(b []byte) (float64, error) { return field.Float(b, 64) }}}
	case schema.Float:
		return &fixed[float32]{dt: dt, raw: arrow.Float32Traits.CastToBytes, read: func(b []byte) (float32, error) {
			x, err := field.Float(b, 32)
			return float32(x), err
		}}
	case schema.Date:
		return &dates{fixed[arrow.Date32]{dt: dt, raw: arrow.Date32Traits.CastToBytes, read: func(b []byte) (arrow.Date32, error) {
			n, err := f.Date(b)
			return arrow.Date32(n), err
		}}, f}
	case schema.Time:
		return &fixed[arrow.Time64]{dt: dt, raw: arrow.Time64Traits.CastToBytes, read: func(b []byte) (arrow.Time64, error) {
			n, err := f.Time(b, scale)
			return arrow.Time64(n), err
		}}
	case schema.Timestamp, schema.TimestampTZ:
		read := f.Timestamp
		if t.Kind == schema.TimestampTZ {
			read = f.TimestampTZ
		}
		return &stamps{fixed[arrow.Timestamp]{dt: dt, raw: arrow.TimestampTraits.CastToBytes, read: func(b []byte) (arrow.Timestamp, error) {
			n, err := read(b, scale)
			return arrow.Timestamp(n), err
		}}, f, 1e9 / field.UnitNanos(scale)}
	case schema.Decimal:
		if t.Precision > 38 {
			break
		}
		p, limit := t.Precision, int64(1)
		for range min(p, 18) {
			limit *= 10
		}
		return &decimals{fixed[decimal128.Num]{dt: dt, raw: arrow.Decimal128Traits.CastToBytes, read: func(b []byte) (decimal128.Num, error) {
			return field.Decimal128(b, p, scale)
		}}, p, scale, limit}
	case schema.String:
		return &texts{dt: dt, utf8: true}
	case schema.Bytes, schema.BinaryVector, schema.Float16Vector, schema.BFloat16Vector:
		return &texts{dt: dt}
	}
	return &built{b: array.NewBuilder(memory.DefaultAllocator, dt), t: t, dt: dt, codec: codec}
}
