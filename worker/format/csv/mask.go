package csv

import "encoding/binary"

const (
	ones = 0x0101010101010101
	high = 0x8080808080808080
	low7 = 0x7f7f7f7f7f7f7f7f
)

// nonzero has the high bit of a byte clear where x's byte is zero, exactly.
func nonzero(x uint64) uint64 { return (x&low7 + low7) | x }

// plainMasks gives one bit for every byte of a block of 64 that is delim, quote or a line feed. It is what
// processors without vectors run, and what the others are tested against.
func plainMasks(dst []uint64, data []byte, delim, quote byte) {
	dp, qp := uint64(delim)*ones, uint64(quote)*ones
	for k := range dst {
		b := (*[64]byte)(data[64*k:])
		var out uint64
		for i := 0; i < 8; i++ {
			w := binary.LittleEndian.Uint64(b[8*i:])
			m := ^(nonzero(w^dp) & nonzero(w^qp) & nonzero(w^'\n'*ones)) & high
			out |= (m >> 7 * 0x0102040810204080 >> 56) << (8 * i)
		}
		dst[k] = out
	}
}
