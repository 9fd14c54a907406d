package csv

import (
	"encoding/binary"
	"math/bits"
)

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
