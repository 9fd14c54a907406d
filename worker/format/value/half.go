package value

import (
	"math"

	"strait/plan/schema"
)

// FloatToHalf cuts a float down to the 16 bits of a Float16Vector (what is too large becomes infinite, what is
// too small zero) or a BFloat16Vector.
func FloatToHalf(f float32, k schema.Kind) uint16 {
	bits := math.Float32bits(f)
	if k == schema.BFloat16Vector {
		return uint16(bits >> 16)
	}
	sign := uint16(bits>>16) & 0x8000
	exp := int(bits>>23&0xff) - 112
	switch {
	case exp <= 0:
		return sign
	case exp >= 0x1f:
		return sign | 0x7c00
	}
	return sign | uint16(exp)<<10 | uint16(bits>>13)&0x3ff
}

// halfToFloat is the inverse of FloatToHalf.
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
