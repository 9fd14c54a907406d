package wire

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/transport/batch"
)

// A batch as bytes:
//
//	rows u32 | flags u8 | 0 u8 | columns u16      (batchHead)
//	row kinds, a byte each, if flagged            padded to 8
//	one node per column:
//	  flags u8 | width u8 | 0 u16 | size u32      (nodeHead)
//	  validity bitmap, if flagged                 padded to 8
//	  by layout:
//	    fixed width    values                                              padded to 8
//	    string, bytes  lengths, width bytes each, padded; size bytes of data padded to 8
//	    list           lengths, width bytes each, padded; node of size children
//	    map            as list; the children are a node of keys and a node of items
//	    row            a node per field
//	    null           nothing
//
// Bits and bytes of padding are zero.
const (
	batchHead = 8
	nodeHead  = 8

	flagKinds    = 1 // in batchHead
	flagValidity = 1 // in nodeHead
)

// AppendBatch appends the encoded form of b.
func AppendBatch(dst []byte, b *batch.Batch) []byte { return appendView(dst, b.View(nil)) }

func appendView(dst []byte, b batch.View) []byte {
	flags := byte(0)
	if b.Kinds != nil {
		flags = flagKinds
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.Rows))
	dst = append(dst, flags, 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(b.Cols)))
	if b.Kinds != nil {
		kinds := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b.Kinds))), len(b.Kinds)) // RowKind is a byte
		dst = pad(append(dst, kinds...), len(kinds))
	}
	for _, c := range b.Cols {
		dst = appendNode(dst, c)
	}
	return dst
}

// EncodedBound is the most that AppendBatch may append for b.
func EncodedBound(b *batch.Batch) int64 { return viewBound(b.View(nil)) }

func viewBound(b batch.View) int64 {
	n := int64(batchHead + len(b.Kinds) + 8)
	for _, c := range b.Cols {
		n += nodeBound(c)
	}
	return n
}

func nodeBound(d arrow.ArrayData) int64 {
	rows, n := int64(d.Len()), int64(nodeHead)
	if batch.Nulls(d) > 0 {
		n += rows/8 + 9
	}
	switch dt := d.DataType().(type) {
	case *arrow.NullType:
	case *arrow.StringType, *arrow.BinaryType:
		from, to := span(d)
		n += 4*rows + 16 + int64(to-from)
	case *arrow.ListType:
		from, to := span(d)
		n += 4*rows + 16 + partBound(d.Children()[0], from, to)
	case *arrow.MapType:
		from, to := span(d)
		entries := d.Children()[0]
		n += 4*rows + 16 + partBound(entries.Children()[0], entries.Offset()+from, entries.Offset()+to) +
			partBound(entries.Children()[1], entries.Offset()+from, entries.Offset()+to)
	case *arrow.StructType:
		for _, c := range d.Children() {
			n += partBound(c, d.Offset(), d.Offset()+d.Len())
		}
	case arrow.FixedWidthDataType:
		n += (rows*int64(dt.BitWidth())+7)/8 + 8
	}
	return n
}

// partBound bounds elements [from, to) of d.
func partBound(d arrow.ArrayData, from, to int) int64 {
	if from == 0 && to == d.Len() {
		return nodeBound(d)
	}
	return nodeBound(array.NewSliceData(d, int64(from), int64(to)))
}

// span is the range of child elements, or data bytes, that a node of some offsets covers.
func span(d arrow.ArrayData) (from, to int) {
	if d.Len() == 0 {
		return 0, 0
	}
	o := offsets(d)
	return int(o[0]), int(o[d.Len()])
}

// offsets are the Len()+1 offsets of a node of one element or more.
func offsets(d arrow.ArrayData) []int32 {
	all := arrow.Int32Traits.CastFromBytes(d.Buffers()[1].Bytes())
	return all[d.Offset() : d.Offset()+d.Len()+1]
}

func appendNode(dst []byte, d arrow.ArrayData) []byte {
	rows, flags, head := d.Len(), byte(0), len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	if _, null := d.DataType().(*arrow.NullType); !null && batch.Nulls(d) > 0 {
		flags = flagValidity
		dst = appendBits(dst, d.Buffers()[0].Bytes(), d.Offset(), rows)
	}
	width, size := 0, 0
	switch dt := d.DataType().(type) {
	case *arrow.NullType:
	case *arrow.BooleanType:
		dst = appendBits(dst, bytesOf(d, 1), d.Offset(), rows)
	case *arrow.StringType, *arrow.BinaryType:
		from, to := span(d)
		size = to - from
		dst, width = appendLengths(dst, d)
		if size > 0 {
			dst = pad(append(dst, d.Buffers()[2].Bytes()[from:to]...), size)
		}
	case *arrow.ListType:
		from, to := span(d)
		size = to - from
		dst, width = appendLengths(dst, d)
		dst = appendPart(dst, d.Children()[0], from, to)
	case *arrow.MapType:
		from, to := span(d)
		size = to - from
		dst, width = appendLengths(dst, d)
		entries := d.Children()[0]
		for _, c := range entries.Children() {
			dst = appendPart(dst, c, entries.Offset()+from, entries.Offset()+to)
		}
	case *arrow.StructType:
		for _, c := range d.Children() {
			dst = appendPart(dst, c, d.Offset(), d.Offset()+rows)
		}
	case arrow.FixedWidthDataType:
		w := dt.BitWidth() / 8
		raw := bytesOf(d, 1)
		dst = pad(append(dst, raw[d.Offset()*w:(d.Offset()+rows)*w]...), rows*w)
	default:
		panic(fmt.Sprintf("BUG: no encoding for %s", d.DataType()))
	}
	dst[head], dst[head+1] = flags, byte(width)
	binary.LittleEndian.PutUint32(dst[head+4:], uint32(size))
	return dst
}

// appendPart appends elements [from, to) of d as a node.
func appendPart(dst []byte, d arrow.ArrayData, from, to int) []byte {
	if from == 0 && to == d.Len() {
		return appendNode(dst, d)
	}
	return appendNode(dst, array.NewSliceData(d, int64(from), int64(to)))
}

// bytesOf is a buffer that may be missing where there are no elements.
func bytesOf(d arrow.ArrayData, i int) []byte {
	if b := d.Buffers()[i]; b != nil {
		return b.Bytes()
	}
	return nil
}

// appendLengths appends the lengths of the elements in the least width of 1, 2 and 4 bytes that holds them all.
func appendLengths(dst []byte, d arrow.ArrayData) ([]byte, int) {
	n := d.Len()
	if n == 0 {
		return dst, 1
	}
	o := offsets(d)
	at := len(dst)
	dst = extend(dst, n)
	out, longest, last := dst[at:][:n], uint32(0), uint32(o[0])
	for i, to := range o[1:][:n] { // most are short: written in one pass, and again where one was not
		length := uint32(to) - last
		out[i] = byte(length)
		longest |= length
		last = uint32(to)
	}
	switch {
	case longest < 1<<8:
		return pad(dst, n), 1
	case longest < 1<<16:
		dst = dst[:at]
		for i := range n {
			dst = binary.LittleEndian.AppendUint16(dst, uint16(o[i+1]-o[i]))
		}
		return pad(dst, 2*n), 2
	}
	dst = dst[:at]
	for i := range n {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(o[i+1]-o[i]))
	}
	return pad(dst, 4*n), 4
}

// extend makes dst n bytes longer; the new bytes are for the caller to fill.
func extend(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst[:len(dst)+n]
	}
	return append(dst, make([]byte, n)...)
}

var zeros [8]byte

// pad appends zeros so that n bytes become a multiple of eight.
func pad(dst []byte, n int) []byte { return append(dst, zeros[:-n&7]...) }

// appendBits appends n bits of a bitmap from bit at on, padded with zeros to a multiple of eight bytes.
func appendBits(dst, bits []byte, at, n int) []byte {
	bytes := (n + 7) / 8
	if bytes == 0 {
		return dst
	}
	start := len(dst)
	if at%8 == 0 {
		dst = append(dst, bits[at/8:at/8+bytes]...)
	} else {
		dst = extend(dst, bytes)
		out, shift := dst[start:], uint(at%8)
		in := bits[at/8:]
		for i := range out {
			v := in[i] >> shift
			if i+1 < len(in) {
				v |= in[i+1] << (8 - shift)
			}
			out[i] = v
		}
	}
	if n%8 != 0 {
		dst[start+bytes-1] &= 1<<(n%8) - 1
	}
	return pad(dst, bytes)
}
