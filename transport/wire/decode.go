package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/schema"
	"strait/transport/batch"
)

// DecodeBatch makes a batch of the table s from its encoded form. The batch keeps body, so body must not be
// pooled or changed, and must begin at a multiple of eight in memory, as all allocations of that size do.
func DecodeBatch(s *batch.Schema, body []byte) (*batch.Batch, error) {
	if len(body) > MaxRaw {
		return nil, fmt.Errorf("%w: batch of %d bytes, at most %d", ErrCorrupt, len(body), MaxRaw)
	}
	d := decoder{rest: body, datas: make([]array.Data, len(s.Table.Columns)), bufs: make([]memory.Buffer, 3*len(s.Table.Columns))}
	head := d.take(batchHead)
	if d.err != nil {
		return nil, d.err
	}
	rows := int(binary.LittleEndian.Uint32(head))
	flags, columns := head[4], int(binary.LittleEndian.Uint16(head[6:]))
	if columns != len(s.Table.Columns) || flags&^flagKinds != 0 || head[5] != 0 || rows > math.MaxInt32 {
		return nil, fmt.Errorf("%w: batch of %d columns with flags %x for %d columns of %s", ErrCorrupt, columns, head[4:6], len(s.Table.Columns), s.Table.Path)
	}
	out := &batch.Batch{Schema: s, Rows: rows, Cols: make([]arrow.Array, columns)}
	if flags&flagKinds != 0 {
		k := d.padded(rows)
		for _, kind := range k {
			if kind > byte(schema.Delete) {
				return nil, fmt.Errorf("%w: row kind %d", ErrCorrupt, kind)
			}
		}
		if d.err == nil && rows > 0 {
			out.Kinds = unsafe.Slice((*schema.RowKind)(unsafe.Pointer(unsafe.SliceData(k))), rows)
		} else {
			out.Kinds = []schema.RowKind{}
		}
	}
	for i := range out.Cols {
		data := d.node(s.Arrow.Field(i).Type, rows)
		if d.err != nil {
			return nil, fmt.Errorf("column %s: %w", s.Table.Columns[i].Name, d.err)
		}
		out.Cols[i] = array.MakeFromData(data)
	}
	if len(d.rest) != 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the last column", ErrCorrupt, len(d.rest))
	}
	return out, nil
}

// decoder walks over the encoded form. After an error everything it gives is empty.
type decoder struct {
	rest []byte
	err  error

	// Memory for what Arrow keeps per column, in one piece.
	datas []array.Data
	bufs  []memory.Buffer
	ptrs  []*memory.Buffer
}

// data makes a node.
func (d *decoder) data(dt arrow.DataType, rows, nulls int, children []arrow.ArrayData, buffers ...*memory.Buffer) *array.Data {
	if len(d.datas) == 0 {
		d.datas = make([]array.Data, 8)
	}
	out := &d.datas[0]
	d.datas = d.datas[1:]
	at := len(d.ptrs)
	d.ptrs = append(d.ptrs, buffers...)
	out.Reset(dt, rows, d.ptrs[at:len(d.ptrs):len(d.ptrs)], children, nulls, 0)
	return out
}

// buffer makes a buffer of raw.
func (d *decoder) buffer(raw []byte) *memory.Buffer {
	if len(d.bufs) == 0 {
		d.bufs = make([]memory.Buffer, 8)
	}
	out := &d.bufs[0]
	d.bufs = d.bufs[1:]
	out.Reset(raw)
	return out
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
	d.rest = nil
}

// take gives the next n bytes, or nil.
func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.fail("%d bytes are missing", n-len(d.rest))
		return nil
	}
	out := d.rest[:n:n]
	d.rest = d.rest[n:]
	return out
}

// padded gives the next n bytes and skips their padding.
func (d *decoder) padded(n int) []byte {
	out := d.take(n)
	for _, b := range d.take(-n & 7) {
		if b != 0 {
			d.fail("padding is not zero")
		}
	}
	if d.err != nil {
		return nil
	}
	return out
}

// node reads one column or part of one.
func (d *decoder) node(dt arrow.DataType, rows int) *array.Data {
	head := d.take(nodeHead)
	if d.err != nil {
		return nil
	}
	flags, width, size := head[0], int(head[1]), int(binary.LittleEndian.Uint32(head[4:]))
	if flags&^flagValidity != 0 || head[2] != 0 || head[3] != 0 {
		d.fail("node head %x", head)
		return nil
	}
	var validity *memory.Buffer
	nulls := 0
	if flags&flagValidity != 0 {
		var valid int
		validity, valid = d.bitmap(rows)
		nulls = rows - valid
	}
	var out *array.Data
	switch t := dt.(type) {
	case *arrow.NullType:
		if flags != 0 {
			d.fail("null column with a validity bitmap")
		}
		d.plain(width, size)
		out = d.data(dt, rows, rows, nil, nil)
	case *arrow.BooleanType:
		d.plain(width, size)
		values, _ := d.bitmap(rows)
		out = d.data(dt, rows, nulls, nil, validity, values)
	case *arrow.StringType, *arrow.BinaryType:
		offsets := d.lengths(rows, width, size)
		values := d.buffer(d.padded(size))
		out = d.data(dt, rows, nulls, nil, validity, offsets, values)
	case *arrow.ListType:
		offsets := d.lengths(rows, width, size)
		out = d.data(dt, rows, nulls, []arrow.ArrayData{d.child(t.Elem(), size)}, validity, offsets)
	case *arrow.MapType:
		offsets := d.lengths(rows, width, size)
		keys, items := d.child(t.KeyType(), size), d.child(t.ItemType(), size)
		if d.err == nil && keys.NullN() > 0 {
			d.fail("map with a null key")
		}
		entries := d.data(t.Elem(), size, 0, []arrow.ArrayData{keys, items}, nil)
		out = d.data(dt, rows, nulls, []arrow.ArrayData{entries}, validity, offsets)
	case *arrow.StructType:
		d.plain(width, size)
		children := make([]arrow.ArrayData, t.NumFields())
		for i := range children {
			children[i] = d.child(t.Field(i).Type, rows)
		}
		out = d.data(dt, rows, nulls, children, validity)
	case arrow.FixedWidthDataType:
		d.plain(width, size)
		values := d.buffer(d.padded(rows * (t.BitWidth() / 8)))
		out = d.data(dt, rows, nulls, nil, validity, values)
	default:
		panic(fmt.Sprintf("BUG: no decoding for %s", dt))
	}
	if d.err != nil {
		return nil
	}
	return out
}

// child is node as an interface that is never a typed nil: after an error an empty stand-in keeps callers simple.
func (d *decoder) child(dt arrow.DataType, rows int) arrow.ArrayData {
	if data := d.node(dt, rows); data != nil {
		return data
	}
	return array.NewData(arrow.Null, 0, []*memory.Buffer{nil}, nil, 0, 0)
}

// plain refuses a width or a size where the layout has none.
func (d *decoder) plain(width, size int) {
	if width != 0 || size != 0 {
		d.fail("width %d and size %d on a layout without", width, size)
	}
}

// bitmap reads n bits and counts those that are set.
func (d *decoder) bitmap(n int) (*memory.Buffer, int) {
	raw := d.padded((n + 7) / 8)
	if d.err != nil {
		return nil, 0
	}
	if n%8 != 0 && raw[len(raw)-1]>>(n%8) != 0 {
		d.fail("bits behind the end of a bitmap")
		return nil, 0
	}
	set := 0
	for rest := raw; len(rest) > 0; {
		if len(rest) >= 8 {
			set += bits.OnesCount64(binary.LittleEndian.Uint64(rest))
			rest = rest[8:]
		} else {
			set += bits.OnesCount8(rest[0])
			rest = rest[1:]
		}
	}
	return d.buffer(raw), set
}

// lengths reads n lengths and makes offsets of them; their sum must be size. So offsets begin at zero, never
// fall and end at the end of the data.
func (d *decoder) lengths(n, width, size int) *memory.Buffer {
	if width != 1 && width != 2 && width != 4 {
		d.fail("lengths of %d bytes", width)
		return nil
	}
	raw := d.padded(n * width)
	if d.err != nil {
		return nil
	}
	// Every row costs at least one byte of raw, so this allocation is bounded by the batch.
	out := make([]int32, n+1)
	sum := uint64(0)
	to := out[1:]
	switch width {
	case 1:
		for i, v := range raw {
			sum += uint64(v)
			to[i] = int32(sum)
		}
	case 2:
		for i := range to {
			sum += uint64(binary.LittleEndian.Uint16(raw[2*i:]))
			to[i] = int32(sum)
		}
	case 4:
		for i := range to {
			sum += uint64(binary.LittleEndian.Uint32(raw[4*i:]))
			to[i] = int32(sum)
		}
	}
	// Each length is at most 2^32, so sum has not overflown; past MaxRaw the offsets are wrong and not used.
	if sum != uint64(size) || size > MaxRaw {
		d.fail("lengths add up to %d of %d", sum, size)
		return nil
	}
	return d.buffer(arrow.Int32Traits.CastToBytes(out))
}
