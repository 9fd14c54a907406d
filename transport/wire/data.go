package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/s2"

	"strait/transport/batch"
)

// dataPrefix stands before the body of a data frame: raw length u32 | table u32.
const dataPrefix = 8

// Encoder makes data frames. It keeps a scratch buffer and has one owner.
type Encoder struct {
	codec   Codec
	scratch []byte
	skip    int // frames to send as they are because the last one did not shrink
	skipped int // how many the last skip was
	cols    []arrow.ArrayData
}

// scratchKeep is the largest scratch buffer that an idle encoder keeps.
const scratchKeep = 4 << 20

// NewEncoder makes an encoder for a codec.
func NewEncoder(c Codec) *Encoder { return &Encoder{codec: c} }

// Encode gives a whole data frame for a channel, and the bytes that it costs of the channel's credit: the size
// of the batch before compression. The caller owns the buffer. A batch over MaxRaw is refused.
func (e *Encoder) Encode(b *batch.Batch, channel uint32) (*Buffer, int64, error) {
	v := b.View(e.cols[:0])
	buf, raw, err := e.EncodeView(v, channel)
	clear(v.Cols)
	e.cols = v.Cols
	return buf, raw, err
}

// EncodeView is Encode of a view.
func (e *Encoder) EncodeView(b batch.View, channel uint32) (*Buffer, int64, error) {
	bound := viewBound(b)
	if bound > MaxRaw {
		return nil, 0, fmt.Errorf("%d rows of %s are up to %d bytes encoded, a frame holds %d", b.Rows, b.Schema.Table.Path, bound, MaxRaw)
	}
	codec := e.codec
	if e.skip > 0 {
		e.skip--
		codec = CodecNone
	}
	if codec == CodecNone {
		buf := GetBuffer(HeaderLen + dataPrefix + int(bound))
		buf.B = appendView(buf.B[:HeaderLen+dataPrefix], b)
		raw := len(buf.B) - HeaderLen - dataPrefix
		sealData(buf, CodecNone, b.Schema.Index, raw, channel)
		return buf, int64(raw), nil
	}
	if int64(cap(e.scratch)) < bound {
		e.scratch = make([]byte, 0, bound+bound/4)
	}
	src := appendView(e.scratch[:0], b)
	if cap(src) <= scratchKeep {
		e.scratch = src[:0]
	}
	room := codec.bound(len(src))
	buf := GetBuffer(HeaderLen + dataPrefix + room)
	buf.B = buf.B[:HeaderLen+dataPrefix+room]
	n := codec.compress(buf.B[HeaderLen+dataPrefix:], src)
	if n >= len(src) {
		n, codec = copy(buf.B[HeaderLen+dataPrefix:], src), CodecNone
		e.skipped = min(2*e.skipped+1, 31)
		e.skip = e.skipped
	} else {
		e.skipped = 0
	}
	buf.B = buf.B[:HeaderLen+dataPrefix+n]
	sealData(buf, codec, b.Schema.Index, len(src), channel)
	return buf, int64(len(src)), nil
}

func sealData(buf *Buffer, codec Codec, table, raw int, channel uint32) {
	payload := buf.B[HeaderLen:]
	binary.LittleEndian.PutUint32(payload, uint32(raw))
	binary.LittleEndian.PutUint32(payload[4:], uint32(table))
	PutHeader(buf.B, Header{Kind: KindData, Codec: codec, Channel: channel, Length: uint32(len(payload)), Sum: Sum(payload)})
}

// Readdress gives the header of the same data frame on another channel: the payload of a broadcast is made once.
func Readdress(frame []byte, channel uint32) [HeaderLen]byte {
	var h [HeaderLen]byte
	copy(h[:], frame)
	binary.LittleEndian.PutUint32(h[4:], channel)
	binary.LittleEndian.PutUint32(h[16:], Sum(h[:16]))
	return h
}

// Data is a data frame as it was received, its checksum verified. It is decoded by whoever takes it from the
// queue, not by the connection's reader.
type Data struct {
	Table int
	Raw   int64 // bytes of credit that it costs
	codec Codec
	body  []byte  // for codec none: owned, the batch keeps it
	buf   *Buffer // else pooled, body points into it
}

// newData takes a frame apart. prefix is its first dataPrefix bytes, body the rest.
func newData(codec Codec, prefix, body []byte, buf *Buffer) (*Data, error) {
	d := &Data{
		Raw:   int64(binary.LittleEndian.Uint32(prefix)),
		Table: int(binary.LittleEndian.Uint32(prefix[4:])),
		codec: codec, body: body, buf: buf,
	}
	if d.Raw > MaxRaw {
		return nil, fmt.Errorf("%w: batch of %d bytes, at most %d", ErrCorrupt, d.Raw, MaxRaw)
	}
	return d, nil
}

// Decode gives the batch of the table s and gives the frame's buffer back. It is called once.
func (d *Data) Decode(s *batch.Schema) (*batch.Batch, error) {
	defer d.Drop()
	body := d.body
	switch d.codec {
	case CodecNone:
		if int64(len(body)) != d.Raw {
			return nil, fmt.Errorf("%w: %d bytes where %d were announced", ErrCorrupt, len(body), d.Raw)
		}
	case CodecS2: // looked at before memory is taken for it
		if n, err := s2.DecodedLen(body); err != nil || int64(n) != d.Raw {
			return nil, fmt.Errorf("%w: s2 block of %d bytes where %d were announced (%v)", ErrCorrupt, n, d.Raw, err)
		}
		fallthrough
	default:
		body = uninitialised(int(d.Raw))
		if err := d.codec.decompress(body, d.body); err != nil {
			return nil, err
		}
	}
	return DecodeBatch(s, body)
}

// Drop gives the buffer of a frame back that is not going to be decoded. It is idempotent.
func (d *Data) Drop() {
	if d.buf != nil {
		d.buf.Release()
		d.buf = nil
	}
	d.body = nil
}
