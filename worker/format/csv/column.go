package csv

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// column collects the values of one column of the open batch.
type column interface {
	// parse appends field at of the block's rows [0, n). It stops at a value that does not parse and gives its row.
	parse(v *fields, n int) (int, error)
	// cut drops all rows from n on; a row before that did not parse.
	cut(n int)
	// finish hands the values over and starts over.
	finish() arrow.Array
	bytes() int // of variable length
}

// fields is the view of a block that a column reads.
type fields struct {
	o      *Options
	data   []byte
	spans  []span
	stride int
	at     int
	buf    []byte // for unescaped text
}

// text is field at of row r, unescaped. The second result says whether it is null for a type whose empty text
// has no meaning.
func (v *fields) text(r int) ([]byte, bool) {
	sp := v.spans[r*v.stride+v.at]
	b := v.data[sp.start : sp.end&offset]
	if sp.end&escaped != 0 {
		v.buf = v.o.unescape(v.buf[:0], b, sp.end&quoted != 0)
		b = v.buf
	}
	return b, v.null(b, sp)
}

func (v *fields) null(b []byte, sp span) bool {
	if len(b) == 0 {
		return !v.o.Raw && sp.end&quoted == 0
	}
	return v.o.HasNull && sp.end&quoted == 0 && string(b) == v.o.Null
}

// blank says that text stands for null where it cannot be a value: a number, a date.
func blank(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' {
			return false
		}
	}
	return true
}

// validity is a bitmap that exists once there is a null.
type validity struct {
	bits  []byte
	nulls int
}

// null marks row i, of at most room rows, as null.
func (m *validity) null(i int) {
	for len(m.bits) <= i>>3 {
		m.bits = append(m.bits, 0xff)
	}
	m.bits[i>>3] &^= 1 << (i & 7)
	m.nulls++
}

// cut forgets the rows from n on.
func (m *validity) cut(n int) {
	if m.nulls == 0 {
		return
	}
	for i := n; i < 8*len(m.bits); i++ {
		if m.bits[i>>3]>>(i&7)&1 == 0 {
			m.bits[i>>3] |= 1 << (i & 7)
			m.nulls--
		}
	}
}

func (m *validity) take(rows int) (*memory.Buffer, int) {
	if m.nulls == 0 {
		return nil, 0
	}
	for len(m.bits) < (rows+7)/8 {
		m.bits = append(m.bits, 0xff)
	}
	b, n := memory.NewBufferBytes(m.bits), m.nulls
	*m = validity{}
	return b, n
}

// exact copies what a column collected into memory of its own: the collecting buffer stays warm and is used again,
// and a batch holds no more than its rows.
func exact(b []byte) *memory.Buffer { return memory.NewBufferBytes(append([]byte(nil), b...)) }

func makeArray(dt arrow.DataType, rows, nulls int, buffers ...*memory.Buffer) arrow.Array {
	d := array.NewData(dt, rows, buffers, nil, nulls, 0)
	a := array.MakeFromData(d)
	d.Release()
	return a
}

// fixed is a column of fixed-width values.
type fixed[T arrow.FixedWidthType | decimal128.Num] struct {
	v    []T
	null validity
	dt   arrow.DataType
	// quick reads field at of the rows from r on into out, as long as it can do so in place, and gives their number.
	quick func(v *fields, r int, out []T) int
	read  func([]byte) (T, error) // the general way
	raw   func([]T) []byte
}

func (c *fixed[T]) grow(n int) []T {
	at := len(c.v)
	if cap(c.v)-at < n {
		c.v = append(make([]T, 0, max(2*cap(c.v), at+n)), c.v...)
	}
	c.v = c.v[:at+n]
	return c.v[at:]
}

// parse implements column. The text of null is looked for first where there is one: it may be a number, too.
func (c *fixed[T]) parse(v *fields, n int) (int, error) {
	at := len(c.v)
	out := c.grow(n)
	careful := v.o.HasNull || c.quick == nil
	for r := 0; r < n; r++ {
		if !careful {
			if r += c.quick(v, r, out[r:]); r == n {
				break
			}
		}
		x, err := c.slow(v, r, at+r)
		if err != nil {
			c.v = c.v[:at+r]
			return r, err
		}
		out[r] = x
	}
	return n, nil
}

// slow is for what is not read in place: null, escaped text, rare forms.
func (c *fixed[T]) slow(v *fields, r, row int) (x T, err error) {
	b, null := v.text(r)
	if null || blank(b) {
		c.null.null(row)
		return x, nil
	}
	return c.read(b)
}

func (c *fixed[T]) cut(n int) {
	c.v = c.v[:n]
	c.null.cut(n)
}

func (c *fixed[T]) finish() arrow.Array {
	n := len(c.v)
	valid, nulls := c.null.take(n)
	a := makeArray(c.dt, n, nulls, valid, exact(c.raw(c.v)))
	c.v = c.v[:0]
	return a
}

func (c *fixed[T]) bytes() int { return 0 }
