package field

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
)

// What is wrong with a value. They are values, not types: callers only print them.
var (
	errInt     = errors.New("is not a whole number")
	errRange   = errors.New("does not fit the type")
	errFloat   = errors.New("is not a number")
	errDecimal = errors.New("is not a decimal number")
	ErrDigits  = errors.New("has more digits than the decimal type holds")
	errBool    = errors.New("is neither true nor false")
)

// Int reads a decimal whole number with an optional sign.
func Int(b []byte) (int64, error) {
	s := b
	neg := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg = s[0] == '-'
		s = s[1:]
	}
	if len(s) == 0 {
		return 0, errInt
	}
	var n uint64
	if len(s) < 19 { // cannot overflow
		for _, c := range s {
			c -= '0'
			if c > 9 {
				return 0, errInt
			}
			n = n*10 + uint64(c)
		}
		if neg {
			return -int64(n), nil
		}
		return int64(n), nil
	}
	for _, c := range s {
		c -= '0'
		if c > 9 {
			return 0, errInt
		}
		if n > (math.MaxUint64-9)/10 {
			return 0, overflow(s)
		}
		n = n*10 + uint64(c)
	}
	if neg {
		if n > 1<<63 {
			return 0, errRange
		}
		return -int64(n), nil
	}
	if n > math.MaxInt64 {
		return 0, errRange
	}
	return int64(n), nil
}

// overflow tells a number that is too long from text that is no number.
func overflow(s []byte) error {
	for _, c := range s {
		if c < '0' || c > '9' {
			return errInt
		}
	}
	return errRange
}

// IntOf reads a whole number that fits bits.
func IntOf(b []byte, bits int) (int64, error) {
	n, err := Int(b)
	if err != nil {
		return 0, err
	}
	if shift := 64 - bits; n<<shift>>shift != n {
		return 0, errRange
	}
	return n, nil
}

var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// Float reads a number in decimal or scientific form, and NaN, Infinity and -Infinity as Java writes them.
func Float(b []byte, bits int) (float64, error) {
	if bits == 64 {
		if f, ok := shortFloat(b); ok {
			return f, nil
		}
	}
	if len(b) == 0 {
		return 0, errFloat
	}
	for _, c := range b { // Go also reads hexadecimal floats and underscores
		if c == 'x' || c == 'X' || c == '_' || c == 'p' || c == 'P' {
			return 0, errFloat
		}
	}
	f, err := strconv.ParseFloat(view(b), bits)
	if err != nil {
		if errors.Is(err, strconv.ErrRange) {
			return 0, errRange
		}
		return 0, errFloat
	}
	return f, nil
}

// shortFloat reads up to 15 digits with a point: mantissa and power of ten are exact, so is their quotient.
func shortFloat(b []byte) (float64, bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) > 16 {
		return 0, false
	}
	m, digits, frac, ok := plain(b)
	if !ok || digits > 15 {
		return 0, false
	}
	f := float64(m) / pow10[frac]
	if neg {
		f = -f
	}
	return f, true
}

// plain reads up to 19 bytes of digits, one at least, and at most one point; frac of the digits stand behind it.
func plain(b []byte) (m uint64, digits, frac int, ok bool) {
	point := -1
	for i, c := range b {
		c -= '0'
		if c > 9 {
			if b[i] == '.' && point < 0 {
				point = i
				continue
			}
			return 0, 0, 0, false
		}
		m = m*10 + uint64(c)
	}
	digits = len(b)
	if point >= 0 {
		digits--
		frac = digits - point
	}
	return m, digits, frac, digits > 0
}

var pow10u = [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19}

// Decimal128 reads a decimal number into the scale, rounding half up what lies behind it. It fails when the
// result has more digits than precision.
func Decimal128(b []byte, precision, scale int) (decimal128.Num, error) {
	if n, ok := ShortDecimal(b, precision, scale); ok {
		return decimal128.FromI64(n), nil
	}
	v, _, err := Unscaled(b, precision, scale)
	if err != nil {
		return decimal128.Num{}, err
	}
	return decimal128.FromBigInt(v), nil
}

// Decimal256 is Decimal128 for precisions above 38.
func Decimal256(b []byte, precision, scale int) (decimal256.Num, error) {
	v, _, err := Unscaled(b, precision, scale)
	if err != nil {
		return decimal256.Num{}, err
	}
	return decimal256.FromBigInt(v), nil
}

// ShortDecimal reads a decimal of up to 18 digits, after scaling, that needs no rounding. Others go through
// Decimal128.
func ShortDecimal(b []byte, precision, scale int) (int64, bool) {
	neg := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg, b = b[0] == '-', b[1:]
	}
	if len(b) > 19 {
		return 0, false
	}
	m, digits, frac, ok := plain(b)
	up := scale - frac
	if !ok || up < 0 || digits+up > 18 {
		return 0, false
	}
	m *= pow10u[up]
	if precision < 18 && m >= pow10u[precision] {
		return 0, false
	}
	n := int64(m)
	if neg {
		n = -n
	}
	return n, true
}

// Unscaled reads a decimal number of any form and length as a whole number of units of the scale. rounded says that
// digits were lost, half of a unit up and away from zero; it also holds when there are more digits than precision
// (ErrDigits).
func Unscaled(b []byte, precision, scale int) (v *big.Int, rounded bool, err error) {
	s := b
	neg := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		neg, s = s[0] == '-', s[1:]
	}
	mant := make([]byte, 0, len(s))
	frac, point, exp := 0, false, 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			mant = append(mant, c)
			if point {
				frac++
			}
		case c == '.' && !point:
			point = true
		case (c == 'e' || c == 'E') && len(mant) > 0:
			e, err := Int(s[i+1:])
			if err != nil {
				return nil, false, errDecimal
			}
			if e > 1000 || e < -100000 {
				switch {
				case allZero(mant):
					return new(big.Int), false, nil
				case e > 0:
					return nil, false, ErrDigits
				}
				return new(big.Int), true, nil
			}
			exp = int(e)
			i = len(s)
		default:
			return nil, false, errDecimal
		}
	}
	if len(mant) == 0 {
		return nil, false, errDecimal
	}
	up := scale - frac + exp // digits to append; negative: to round off
	round := false
	if up < 0 {
		cut := len(mant) + up
		rounded = !allZero(mant[max(cut, 0):])
		if cut < 0 {
			mant = append(mant[:0], '0')
		} else {
			round = mant[cut] >= '5'
			mant = mant[:cut]
		}
		up = 0
	}
	for len(mant) > 1 && mant[0] == '0' {
		mant = mant[1:]
	}
	if len(mant) == 0 {
		mant = append(mant, '0')
	}
	if !allZero(mant) && len(mant)+up > precision {
		return nil, rounded, ErrDigits
	}
	var ok bool
	v, ok = new(big.Int).SetString(string(mant), 10)
	if !ok {
		return nil, false, errDecimal
	}
	if up > 0 && v.Sign() != 0 {
		v.Mul(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(up)), nil))
	}
	if round {
		v.Add(v, big.NewInt(1))
		if v.Cmp(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)) >= 0 {
			return nil, rounded, ErrDigits
		}
	}
	if neg {
		v.Neg(v)
	}
	return v, rounded, nil
}

func allZero(digits []byte) bool {
	for _, c := range digits {
		if c != '0' {
			return false
		}
	}
	return true
}

// Bool reads true or false without regard to case.
func Bool(b []byte) (bool, error) {
	switch len(b) {
	case 4:
		if b[0]|0x20 == 't' && b[1]|0x20 == 'r' && b[2]|0x20 == 'u' && b[3]|0x20 == 'e' {
			return true, nil
		}
	case 5:
		if b[0]|0x20 == 'f' && b[1]|0x20 == 'a' && b[2]|0x20 == 'l' && b[3]|0x20 == 's' && b[4]|0x20 == 'e' {
			return false, nil
		}
	}
	return false, errBool
}

// AppendFloat writes a float as Java's Double.toString and Float.toString do: 1.0, 1.0E10, NaN, Infinity.
func AppendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case f != f:
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
	if a := math.Abs(f); a >= 1e-3 && a < 1e7 {
		at := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
		for _, c := range dst[at:] {
			if c == '.' {
				return dst
			}
		}
		return append(dst, ".0"...)
	}
	var buf [32]byte
	e := strconv.AppendFloat(buf[:0], f, 'e', -1, bits) // d.ddde±dd
	i := 0
	for e[i] != 'e' {
		i++
	}
	at := len(dst)
	dst = append(dst, e[:i]...)
	if i-boolInt(dst[at] == '-') == 1 {
		dst = append(dst, ".0"...)
	}
	dst = append(dst, 'E')
	exp := e[i+1:]
	if exp[0] == '-' {
		dst = append(dst, '-')
	}
	exp = exp[1:]
	for len(exp) > 1 && exp[0] == '0' {
		exp = exp[1:]
	}
	return append(dst, exp...)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// appendDecimal128 writes a decimal in plain form with all digits of its scale.
func appendDecimal128(dst []byte, n decimal128.Num, scale int) []byte {
	if n.HighBits() == 0 || n.HighBits() == -1 {
		if low := n.LowBits(); n.HighBits() == 0 && low <= math.MaxInt64 || n.HighBits() == -1 && low > math.MaxInt64 {
			return appendScaled(dst, int64(low), scale)
		}
	}
	return appendBig(dst, n.BigInt(), scale)
}

// appendDecimal256 is appendDecimal128 for precisions above 38.
func appendDecimal256(dst []byte, n decimal256.Num, scale int) []byte {
	return appendBig(dst, n.BigInt(), scale)
}

func appendScaled(dst []byte, n int64, scale int) []byte {
	if scale <= 0 {
		return strconv.AppendInt(dst, n, 10)
	}
	u := uint64(n)
	if n < 0 {
		dst = append(dst, '-')
		u = -u
	}
	var buf [20]byte
	digits := strconv.AppendUint(buf[:0], u, 10)
	return point(dst, digits, scale)
}

func appendBig(dst []byte, v *big.Int, scale int) []byte {
	if scale <= 0 {
		return v.Append(dst, 10)
	}
	if v.Sign() < 0 {
		dst = append(dst, '-')
		v = new(big.Int).Neg(v)
	}
	return point(dst, v.Append(nil, 10), scale)
}

// point writes digits with the point scale digits from the right.
func point(dst, digits []byte, scale int) []byte {
	if len(digits) <= scale {
		dst = append(dst, '0', '.')
		for i := len(digits); i < scale; i++ {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	cut := len(digits) - scale
	dst = append(dst, digits[:cut]...)
	dst = append(dst, '.')
	return append(dst, digits[cut:]...)
}

// view is b as a string for the length of one call.
func view(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}
