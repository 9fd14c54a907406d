package wire

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffer is a pooled frame. Whoever got it last owns it and calls Release once; Retain adds an owner.
type Buffer struct {
	B     []byte
	refs  atomic.Int32
	class int
}

// Pooled are buffers of 1 KiB to 4 MiB in powers of two; larger ones are left to the collector.
const (
	leastClass    = 10
	greatestClass = 22
)

var pools [greatestClass + 1]sync.Pool

// GetBuffer gives an empty buffer with room for n bytes. What is behind its length is not zeroed.
func GetBuffer(n int) *Buffer {
	class := max(bits.Len(uint(max(n, 1)-1)), leastClass)
	if class > greatestClass {
		b := &Buffer{B: make([]byte, 0, n), class: class}
		b.refs.Store(1)
		return b
	}
	b, _ := pools[class].Get().(*Buffer)
	if b == nil {
		b = &Buffer{B: make([]byte, 0, 1<<class), class: class}
	}
	b.B = b.B[:0]
	b.refs.Store(1)
	return b
}

// Retain adds an owner.
func (b *Buffer) Retain() { b.refs.Add(1) }

// Release gives an owner's share up; with the last one the buffer goes back to the pool.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("BUG: a frame buffer was released twice")
	}
	if poison {
		all := b.B[:cap(b.B)]
		for i := range all {
			all[i] = 0xDB
		}
	}
	if b.class <= greatestClass && cap(b.B) == 1<<b.class {
		pools[b.class].Put(b)
	}
}
