package value

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
	"strait/transport/batch"
)

// AppendText appends the text of row i of a, a column of type t. A null is "null".
func AppendText(dst []byte, t schema.Type, a arrow.Array, i int) []byte {
	if IsNull(a, i) {
		return append(dst, "null"...)
	}
	switch a := a.(type) {
	case *array.String:
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
		v := a.Value(i)
		if h := v.HighBits(); h == int64(v.LowBits())>>63 {
			return appendUnscaled(dst, strconv.AppendInt(nil, int64(v.LowBits()), 10), t.Scale)
		}
		return appendUnscaled(dst, v.BigInt().Append(nil, 10), t.Scale)
	case *array.Decimal256:
		return appendUnscaled(dst, a.Value(i).BigInt().Append(nil, 10), t.Scale)
	case *array.Date32:
		return appendDate(dst, a.Value(i).ToTime())
	case *array.Time64:
		return appendClock(dst, a.Value(i).ToTime(a.DataType().(*arrow.Time64Type).Unit))
	case *array.Timestamp:
		dt := a.DataType().(*arrow.TimestampType)
		at := a.Value(i).ToTime(dt.Unit)
		dst = appendDate(dst, at)
		dst = append(dst, 'T')
		dst = appendClock(dst, at)
		if dt.TimeZone != "" {
			dst = append(dst, 'Z')
		}
		return dst
	case *array.Binary:
		return appendBytes(dst, t, a.Value(i))
	}
	return appendNested(dst, t, a, i)
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
		key, elem := mapTypes(t)
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
		elem := listType(t)
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

// mapTypes are the types of the entries of a map or a sparse vector.
func mapTypes(t schema.Type) (key, elem schema.Type) {
	if t.Kind == schema.SparseFloatVector {
		return schema.Of(schema.Int), schema.Of(schema.Float)
	}
	return *t.Key, *t.Elem
}

// listType is the type of the elements of an array or a float vector.
func listType(t schema.Type) schema.Type {
	if t.Kind == schema.FloatVector {
		return schema.Of(schema.Float)
	}
	return *t.Elem
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
			dst = AppendFloat(dst, float64(halfToFloat(bits, t.Kind)), 32)
			continue
		}
		dst = strconv.AppendInt(dst, int64(int8(v[j])), 10)
	}
	return append(dst, ']')
}

func halfToFloat(b uint16, k schema.Kind) float32 {
	if k == schema.BFloat16Vector {
		return math.Float32frombits(uint32(b) << 16)
	}
	sign, exp, frac := uint32(b>>15)<<31, uint32(b>>10)&0x1f, uint32(b)&0x3ff
	switch exp {
	case 0:
		f := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// AppendFloat writes a float as Java does: always with a point, in scientific form below 0.001 and from ten
// million on. bits is 32 or 64.
func AppendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0:
		if math.Signbit(f) {
			return append(dst, "-0.0"...)
		}
		return append(dst, "0.0"...)
	}
	if abs := math.Abs(f); abs >= 1e-3 && abs < 1e7 {
		from := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
		for _, c := range dst[from:] {
			if c == '.' {
				return dst
			}
		}
		return append(dst, ".0"...)
	}
	var buf [32]byte
	s := strconv.AppendFloat(buf[:0], f, 'e', -1, bits) // d.ddde±xx
	e := len(s) - 1
	for s[e] != 'e' {
		e--
	}
	mantissa, exp := s[:e], s[e+1:]
	point := false
	for _, c := range mantissa {
		point = point || c == '.'
	}
	dst = append(dst, mantissa...)
	if !point {
		dst = append(dst, ".0"...)
	}
	dst = append(dst, 'E')
	if exp[0] == '-' {
		dst = append(dst, '-')
	}
	exp = exp[1:]
	for len(exp) > 1 && exp[0] == '0' {
		exp = exp[1:]
	}
	return append(dst, exp...)
}

// appendUnscaled puts the point into the digits of an unscaled decimal.
func appendUnscaled(dst, digits []byte, scale int) []byte {
	if digits[0] == '-' {
		dst = append(dst, '-')
		digits = digits[1:]
	}
	if scale <= 0 {
		return append(dst, digits...)
	}
	if len(digits) <= scale {
		dst = append(dst, "0."...)
		for range scale - len(digits) {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	dst = append(dst, '.')
	return append(dst, digits[len(digits)-scale:]...)
}

func appendDate(dst []byte, t time.Time) []byte {
	y, m, d := t.Date()
	switch {
	case y > 9999:
		dst = append(dst, '+')
		dst = strconv.AppendInt(dst, int64(y), 10)
	case y < 0:
		dst = append(dst, '-')
		dst = appendPadded(dst, -y, 4)
	default:
		dst = appendPadded(dst, y, 4)
	}
	dst = append(dst, '-')
	dst = appendPadded(dst, int(m), 2)
	dst = append(dst, '-')
	return appendPadded(dst, d, 2)
}

func appendClock(dst []byte, t time.Time) []byte {
	h, m, s := t.Clock()
	dst = appendPadded(dst, h, 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, m, 2)
	n := t.Nanosecond()
	if s == 0 && n == 0 {
		return dst
	}
	dst = append(dst, ':')
	dst = appendPadded(dst, s, 2)
	switch {
	case n == 0:
		return dst
	case n%1e6 == 0:
		return appendPadded(append(dst, '.'), n/1e6, 3)
	case n%1e3 == 0:
		return appendPadded(append(dst, '.'), n/1e3, 6)
	}
	return appendPadded(append(dst, '.'), n, 9)
}

func appendPadded(dst []byte, n, width int) []byte {
	for p := pow10(width - 1); p > 1 && n < p; p /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

func pow10(n int) int {
	p := 1
	for range n {
		p *= 10
	}
	return p
}

// bigPow10 is 10^n.
func bigPow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
