package csv

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"strait/worker/format/field"
)

// The quick ways of the hot types: loops that read in place and stop at the first value that is not of the usual
// form. Each is written out, since a call for a value would cost more than the value does.

// quickAny tries read on the text as it stands.
func quickAny[T any](read func([]byte) (T, error)) func(*fields, int, []T) int {
	return func(v *fields, r int, out []T) int {
		k := r*v.stride + v.at
		for i := range out {
			sp := v.spans[k]
			k += v.stride
			x, err := read(v.data[sp.start : sp.end&offset])
			if err != nil {
				return i
			}
			out[i] = x
		}
		return len(out)
	}
}

func quickInt64(v *fields, r int, out []int64) int {
	k := r*v.stride + v.at
	for i := range out {
		sp := v.spans[k]
		k += v.stride
		x, ok := digits(v.data, int(sp.start), int(sp.end&offset))
		if !ok {
			return i
		}
		out[i] = x
	}
	return len(out)
}

func quickInt32(v *fields, r int, out []int32) int {
	k := r*v.stride + v.at
	for i := range out {
		sp := v.spans[k]
		k += v.stride
		x, ok := digits(v.data, int(sp.start), int(sp.end&offset))
		if !ok || int64(int32(x)) != x {
			return i
		}
		out[i] = int32(x)
	}
	return len(out)
}

// quickDecimal is for decimals of up to 38 digits; the value is less than 10^precision where that fits.
func quickDecimal(precision, scale int) func(*fields, int, []decimal128.Num) int {
	limit := int64(1)
	for range min(precision, 18) {
		limit *= 10
	}
	return func(v *fields, r int, out []decimal128.Num) int {
		k := r*v.stride + v.at
		for i := range out {
			sp := v.spans[k]
			k += v.stride
			start, end := int(sp.start), int(sp.end&offset)
			x, frac, ok := pointed(v.data, start, end)
			if !ok || frac != scale || x >= limit || x <= -limit {
				if x, ok = field.ShortDecimal(v.data[start:end], precision, scale); !ok {
					return i
				}
			}
			out[i] = decimal128.FromI64(x)
		}
		return len(out)
	}
}

var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7}

// quickFloat64 reads short numbers in place: mantissa and power of ten are exact, and so is their quotient rounded.
func quickFloat64(v *fields, r int, out []float64) int {
	k := r*v.stride + v.at
	for i := range out {
		sp := v.spans[k]
		k += v.stride
		start, end := int(sp.start), int(sp.end&offset)
		x, frac, ok := pointed(v.data, start, end)
		if ok && x != 0 && x < 1<<53 && x > -1<<53 { // -0.0 keeps its sign the other way
			out[i] = float64(x) / pow10[frac]
			continue
		}
		y, err := field.Float(v.data[start:end], 64)
		if err != nil {
			return i
		}
		out[i] = y
	}
	return len(out)
}

// quickDate is for the usual layouts.
func quickDate(f *field.Formats) func(*fields, int, []arrow.Date32) int {
	return func(v *fields, r int, out []arrow.Date32) int {
		k := r*v.stride + v.at
		for i := range out {
			sp := v.spans[k]
			k += v.stride
			x, ok := f.QuickDate(v.data[sp.start : sp.end&offset])
			if !ok {
				return i
			}
			out[i] = arrow.Date32(x)
		}
		return len(out)
	}
}

// quickTimestamp is for the usual layouts and microseconds; nil: there is no quick way.
func quickTimestamp(f *field.Formats, scale int) func(*fields, int, []arrow.Timestamp) int {
	if field.UnitNanos(scale) != 1e3 {
		return nil
	}
	return func(v *fields, r int, out []arrow.Timestamp) int {
		k := r*v.stride + v.at
		for i := range out {
			sp := v.spans[k]
			k += v.stride
			x, ok := f.QuickTimestamp(v.data[sp.start : sp.end&offset])
			if !ok {
				return i
			}
			out[i] = arrow.Timestamp(x * 1e6)
		}
		return len(out)
	}
}
