package wire

import (
	"strings"
	"unsafe"
)

// uninitialised gives n bytes of fresh memory that is not zeroed, for callers that fill all of it before anybody
// reads: zeroing costs a tenth of the receiving side. A strings.Builder is the way that the library offers to
// such memory; the builder is dropped, so nobody else refers to it.
func uninitialised(n int) []byte {
	if n < 1024 {
		return make([]byte, n)
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0) // so that the string has a pointer
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}
