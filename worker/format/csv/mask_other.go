//go:build !amd64

package csv

func masks(dst []uint64, data []byte, delim, quote byte) {
	plainMasks(dst[:min(len(dst), len(data)/64)], data, delim, quote)
}
