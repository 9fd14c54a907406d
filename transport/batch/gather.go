package batch

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/schema"
)

// Gatherer collects rows of batches of one table, picked by index, into a new batch. It copies values column by
// column with one type switch per column and batch. One goroutine owns it.
type Gatherer struct {
	schema *Schema
	cols   []column
	kinds  []schema.RowKind // empty while all rows are inserts
	rows   int
	view   View
}

// NewGatherer makes an empty gatherer of a table.
func NewGatherer(s *Schema) *Gatherer {
	g := &Gatherer{schema: s, cols: make([]column, len(s.Table.Columns))}
	for i, f := range s.Arrow.Fields() {
		g.cols[i].init(f.Type)
	}
	return g
}

// Rows is the number of rows collected.
func (g *Gatherer) Rows() int { return g.rows }

// Bytes is the size of what is collected, as Batch.Bytes counts it.
func (g *Gatherer) Bytes() int64 {
	n := int64(len(g.kinds))
	for i := range g.cols {
		n += g.cols[i].bytes()
	}
	return n
}

// Append copies the rows at the indexes, in their order.
func (g *Gatherer) Append(b *Batch, rows []int32) {
	if len(rows) == 0 {
		return
	}
	for i := range g.cols {
		g.cols[i].gather(b.Cols[i].Data(), rows)
	}
	if b.Kinds != nil && len(g.kinds) == 0 {
		g.kinds = append(g.kinds[:0], make([]schema.RowKind, g.rows)...)
	}
	switch {
	case b.Kinds != nil:
		for _, r := range rows {
			g.kinds = append(g.kinds, b.Kinds[r])
		}
	case len(g.kinds) > 0:
		g.kinds = append(g.kinds, make([]schema.RowKind, len(rows))...)
	}
	g.rows += len(rows)
}

// Take gives what is collected as a batch and starts over; nil when there is nothing.
func (g *Gatherer) Take() *Batch {
	b := g.Peek()
	for i := range g.cols {
		g.cols[i].drop()
	}
	g.kinds, g.rows = nil, 0
	return b
}

// Peek gives what is collected as a batch that shares the gatherer's memory: it is good until the next call of
// Append or Reset, and only for callers that copy out of it. nil when there is nothing.
func (g *Gatherer) Peek() *Batch {
	if g.rows == 0 {
		return nil
	}
	b := &Batch{Schema: g.schema, Rows: g.rows, Cols: make([]arrow.Array, len(g.cols))}
	for i := range g.cols {
		b.Cols[i] = array.MakeFromData(g.cols[i].fill(new(array.Data)))
	}
	if len(g.kinds) > 0 {
		b.Kinds = g.kinds
	}
	return b
}

// View is Peek without arrays around the columns, so that nothing is allocated.
func (g *Gatherer) View() View {
	g.view.Schema, g.view.Rows, g.view.Kinds = g.schema, g.rows, nil
	if len(g.kinds) > 0 {
		g.view.Kinds = g.kinds
	}
	g.view.Cols = g.view.Cols[:0]
	for i := range g.cols {
		if g.cols[i].shown == nil {
			g.cols[i].shown = new(array.Data)
		}
		g.view.Cols = append(g.view.Cols, g.cols[i].fill(g.cols[i].shown))
	}
	return g.view
}

// Reset drops what is collected and keeps the memory.
func (g *Gatherer) Reset() {
	for i := range g.cols {
		g.cols[i].reset()
	}
	g.kinds, g.rows = g.kinds[:0], 0
}

// Drop drops what is collected, and the memory with it.
func (g *Gatherer) Drop() {
	for i := range g.cols {
		g.cols[i].drop()
		if g.cols[i].shown != nil {
			g.cols[i].shown, g.cols[i].bufs = nil, [3]*memory.Buffer{}
		}
	}
	g.kinds, g.rows = nil, 0
}

// column is one column, or part of one, being collected.
type column struct {
	dt       arrow.DataType
	layout   layout
	width    int // bytes of a fixed-width value
	n, nulls int
	valid    []byte // bitmap; empty while there is no null
	values   []byte // fixed values, bits of booleans, data of strings
	offsets  []int32
	children []column
	picks    []int32 // scratch: rows of the child

	shown *array.Data       // for View
	bufs  [3]*memory.Buffer // likewise, of shown
}

type layout uint8

const (
	layoutNull layout = iota
	layoutBits
	layoutFixed
	layoutData   // string, binary
	layoutList   // list, map: offsets and one child
	layoutStruct // children
)

func (c *column) init(dt arrow.DataType) {
	c.dt = dt
	switch t := dt.(type) {
	case *arrow.NullType:
		c.layout = layoutNull
	case *arrow.BooleanType:
		c.layout = layoutBits
	case *arrow.StringType, *arrow.BinaryType:
		c.layout = layoutData
	case *arrow.ListType:
		c.layout, c.children = layoutList, make([]column, 1)
		c.children[0].init(t.Elem())
	case *arrow.MapType:
		c.layout, c.children = layoutList, make([]column, 1)
		c.children[0].init(t.Elem())
	case *arrow.StructType:
		c.layout, c.children = layoutStruct, make([]column, t.NumFields())
		for i := range c.children {
			c.children[i].init(t.Field(i).Type)
		}
	case arrow.FixedWidthDataType:
		c.layout, c.width = layoutFixed, t.BitWidth()/8
	default:
		panic(fmt.Sprintf("BUG: no way to gather %s", dt))
	}
}

// drop forgets the memory, which a batch has now.
func (c *column) drop() {
	c.n, c.nulls, c.valid, c.values, c.offsets = 0, 0, nil, nil, nil
	for i := range c.children {
		c.children[i].drop()
	}
}

func (c *column) reset() {
	c.n, c.nulls, c.valid, c.values, c.offsets = 0, 0, c.valid[:0], c.values[:0], c.offsets[:0]
	for i := range c.children {
		c.children[i].reset()
	}
}

func (c *column) bytes() int64 {
	n := int64(len(c.values)) + 4*int64(max(len(c.offsets)-1, 0))
	for i := range c.children {
		n += c.children[i].bytes()
	}
	return n
}

// fill makes d the column. With c.shown the buffers are those of the last time.
func (c *column) fill(d *array.Data) *array.Data {
	reuse := d == c.shown
	var bufs []*memory.Buffer
	if reuse {
		bufs = c.bufs[:0]
	}
	add := func(raw []byte, is bool) {
		i := len(bufs)
		switch {
		case !is:
			bufs = append(bufs, nil)
		case reuse && c.bufs[i] != nil:
			c.bufs[i].Reset(raw)
			bufs = append(bufs, c.bufs[i])
		default:
			bufs = append(bufs, memory.NewBufferBytes(raw))
		}
	}
	nulls := c.nulls
	if c.layout == layoutNull {
		nulls = c.n
	}
	add(c.valid, c.layout != layoutNull && nulls > 0)
	var children []arrow.ArrayData
	switch c.layout {
	case layoutBits, layoutFixed:
		add(c.values, true)
	case layoutData:
		add(c.offsetBytes(), true)
		add(c.values, true)
	case layoutList:
		add(c.offsetBytes(), true)
		children = []arrow.ArrayData{c.children[0].fill(new(array.Data))}
	case layoutStruct:
		for i := range c.children {
			children = append(children, c.children[i].fill(new(array.Data)))
		}
	}
	d.Reset(c.dt, c.n, bufs, children, nulls, 0)
	return d
}

func (c *column) offsetBytes() []byte {
	if len(c.offsets) == 0 {
		c.offsets = append(c.offsets, 0)
	}
	return arrow.Int32Traits.CastToBytes(c.offsets)
}

// gather appends the elements of src at the indexes.
func (c *column) gather(src arrow.ArrayData, rows []int32) {
	c.gatherValid(src, rows)
	at := src.Offset()
	switch c.layout {
	case layoutBits:
		c.values = growBits(c.values, c.n, len(rows))
		bits := buffer(src, 1)
		for i, r := range rows {
			if bitutil.BitIsSet(bits, at+int(r)) {
				bitutil.SetBit(c.values, c.n+i)
			}
		}
	case layoutFixed:
		from := buffer(src, 1)[at*c.width:]
		n := len(c.values)
		c.values = grow(c.values, len(rows)*c.width)
		to := c.values[n:]
		switch c.width {
		case 1:
			pick[uint8](to, from, rows)
		case 2:
			pick[uint16](to, from, rows)
		case 4:
			pick[uint32](to, from, rows)
		case 8:
			pick[uint64](to, from, rows)
		case 16:
			pick[[2]uint64](to, from, rows)
		case 32:
			pick[[4]uint64](to, from, rows)
		default:
			for i, r := range rows {
				copy(to[i*c.width:(i+1)*c.width], from[int(r)*c.width:])
			}
		}
	case layoutData:
		c.gatherData(src, rows)
	case layoutList:
		offsets := offsetsOf(src)
		c.startOffsets(len(rows))
		end := c.offsets[len(c.offsets)-1]
		c.picks = c.picks[:0]
		for _, r := range rows {
			from, to := offsets[r], offsets[r+1]
			for e := from; e < to; e++ {
				c.picks = append(c.picks, e)
			}
			end += to - from
			c.offsets = append(c.offsets, end)
		}
		if len(c.picks) > 0 {
			c.children[0].gather(src.Children()[0], c.picks)
		}
	case layoutStruct:
		picks := rows
		if at > 0 { // the children of a sliced struct are not sliced
			c.picks = c.picks[:0]
			for _, r := range rows {
				c.picks = append(c.picks, r+int32(at))
			}
			picks = c.picks
		}
		for i := range c.children {
			c.children[i].gather(src.Children()[i], picks)
		}
	}
	c.n += len(rows)
}

// gatherValid appends the validity of the elements. Before c.n is moved on.
func (c *column) gatherValid(src arrow.ArrayData, rows []int32) {
	if c.layout == layoutNull {
		return
	}
	nulls := Nulls(src)
	if nulls == 0 && c.nulls == 0 {
		return
	}
	if c.nulls == 0 {
		c.valid = growBits(c.valid[:0], 0, c.n)
		bitutil.SetBitsTo(c.valid, 0, int64(c.n), true)
	}
	c.valid = growBits(c.valid, c.n, len(rows))
	if nulls == 0 {
		bitutil.SetBitsTo(c.valid, int64(c.n), int64(len(rows)), true)
		return
	}
	bits, at := buffer(src, 0), src.Offset()
	for i, r := range rows {
		if bitutil.BitIsSet(bits, at+int(r)) {
			bitutil.SetBit(c.valid, c.n+i)
		} else {
			c.nulls++
		}
	}
}

func (c *column) startOffsets(more int) {
	if cap(c.offsets)-len(c.offsets) < more+1 {
		next := make([]int32, len(c.offsets), max(2*cap(c.offsets), len(c.offsets)+more+1))
		copy(next, c.offsets)
		c.offsets = next
	}
	if len(c.offsets) == 0 {
		c.offsets = append(c.offsets, 0)
	}
}

// gatherData appends strings or bytes.
func (c *column) gatherData(src arrow.ArrayData, rows []int32) {
	offsets := offsetsOf(src)
	c.startOffsets(len(rows))
	n := len(c.offsets)
	c.offsets = c.offsets[:n+len(rows)]
	to := c.offsets[n:]
	start := c.offsets[n-1]
	end := start
	for i, r := range rows {
		end += offsets[r+1] - offsets[r]
		to[i] = end
	}
	c.values = grow(c.values, int(end-start))
	if end == start {
		return
	}
	data, out, at := buffer(src, 2), c.values[:cap(c.values)], int(start)
	for i, r := range rows {
		from, next := int(offsets[r]), int(to[i])
		if next-at <= 16 && from+16 <= len(data) && at+16 <= len(out) {
			// Two words cost less than a call; what is too much of them is overwritten by the next string.
			in, out := data[from:][:16], out[at:][:16]
			a, b := binary.LittleEndian.Uint64(in), binary.LittleEndian.Uint64(in[8:])
			binary.LittleEndian.PutUint64(out, a)
			binary.LittleEndian.PutUint64(out[8:], b)
		} else {
			copy(out[at:next], data[from:])
		}
		at = next
	}
}

// pick copies the values of one width at the indexes.
func pick[T any](to, from []byte, rows []int32) {
	var zero T
	size := int(unsafe.Sizeof(zero))
	out := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(to))), len(to)/size)[:len(rows)]
	in := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(from))), len(from)/size)
	for i, r := range rows {
		out[i] = in[r]
	}
}

// offsetsOf are the offsets of a node from its first element on.
func offsetsOf(d arrow.ArrayData) []int32 {
	return arrow.Int32Traits.CastFromBytes(buffer(d, 1))[d.Offset():]
}

func buffer(d arrow.ArrayData, i int) []byte {
	if b := d.Buffers()[i]; b != nil {
		return b.Bytes()
	}
	return nil
}

// grow makes b longer by n bytes, which the caller fills.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) < n {
		next := make([]byte, len(b), max(2*cap(b), (len(b)+n+63)&^63))
		copy(next, b)
		b = next
	}
	return b[:len(b)+n]
}

// growBits makes a bitmap of n bits longer by more bits, all zero.
func growBits(b []byte, n, more int) []byte {
	old, size := len(b), (n+more+7)/8
	if size <= old {
		return b
	}
	b = grow(b, size-old)
	clear(b[old:])
	return b
}
