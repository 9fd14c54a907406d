package csv

import "golang.org/x/sys/cpu"

var vectors = cpu.X86.HasAVX2

//go:noescape
func masksAVX2(dst *uint64, src *byte, blocks int, delim, quote uint8)

// masks looks at whole blocks of 64 bytes; see plainMasks.
func masks(dst []uint64, data []byte, delim, quote byte) {
	n := min(len(dst), len(data)/64)
	if n == 0 {
		return
	}
	if vectors {
		masksAVX2(&dst[0], &data[0], n, delim, quote)
		return
	}
	plainMasks(dst[:n], data, delim, quote)
}
