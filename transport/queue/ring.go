package queue

// Ring is a FIFO that grows as needed and gives its memory back when it was large and ran empty. The zero
// value is ready. It is not safe for concurrent use.
type Ring[T any] struct {
	buf  []T // its length is a power of two, or zero
	head int
	n    int
}

// ringKeep is the largest buffer that an empty ring keeps.
const ringKeep = 1024

// Len is the number of elements.
func (r *Ring[T]) Len() int { return r.n }

// Push appends v.
func (r *Ring[T]) Push(v T) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = v
	r.n++
}

// PushFront puts v before all others.
func (r *Ring[T]) PushFront(v T) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.head = (r.head - 1) & (len(r.buf) - 1)
	r.buf[r.head] = v
	r.n++
}

// Peek is the oldest element; ok is false when there is none.
func (r *Ring[T]) Peek() (v T, ok bool) {
	if r.n == 0 {
		return v, false
	}
	return r.buf[r.head], true
}

// Pop takes the oldest element; ok is false when there is none.
func (r *Ring[T]) Pop() (v T, ok bool) {
	if r.n == 0 {
		return v, false
	}
	var zero T
	v = r.buf[r.head]
	r.buf[r.head] = zero // the ring pins nothing that has left it
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	if r.n == 0 && len(r.buf) > ringKeep {
		r.buf, r.head = nil, 0
	}
	return v, true
}

// Clear drops everything.
func (r *Ring[T]) Clear() { *r = Ring[T]{} }

func (r *Ring[T]) grow() {
	size := max(2*len(r.buf), 1) // a wide exchange has very many rings with one element at most
	buf := make([]T, size)
	n := copy(buf, r.buf[r.head:])
	copy(buf[n:], r.buf[:r.head])
	r.buf, r.head = buf, 0
}
