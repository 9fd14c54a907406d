package wire

import (
	"errors"
	"io"
)

// Reader takes frames from a connection. It reads ahead in small steps only, so that the payload of a large
// frame goes straight into its own buffer. One goroutine uses it.
type Reader struct {
	src    io.Reader
	buf    []byte
	at, to int
	small  []byte
}

const readAhead = 16 << 10

// NewReader makes a reader of src.
func NewReader(src io.Reader) *Reader { return &Reader{src: src, buf: make([]byte, readAhead)} }

// Next reads the header of the next frame. io.EOF means that the stream ended between frames. The payload is
// then read with Small, or with Data for a data frame.
func (r *Reader) Next() (Header, error) {
	if r.at > 0 && r.to-r.at < HeaderLen {
		r.to = copy(r.buf, r.buf[r.at:r.to])
		r.at = 0
	}
	for r.to-r.at < HeaderLen {
		n, err := r.src.Read(r.buf[r.to:])
		r.to += n
		if err != nil && r.to-r.at < HeaderLen {
			if r.to > r.at {
				err = noEOF(err)
			}
			return Header{}, err
		}
	}
	h, err := ParseHeader(r.buf[r.at:r.to])
	r.at += HeaderLen
	return h, err
}

// read fills p.
func (r *Reader) read(p []byte) error {
	n := copy(p, r.buf[r.at:r.to])
	r.at += n
	for len(p)-n > 0 && len(p)-n < len(r.buf) { // the rest is small: take what comes after it along
		m, err := r.src.Read(r.buf)
		r.at, r.to = 0, m
		c := copy(p[n:], r.buf[:m])
		n, r.at = n+c, c
		if err != nil && n < len(p) {
			return noEOF(err)
		}
	}
	if n < len(p) {
		_, err := io.ReadFull(r.src, p[n:])
		return noEOF(err)
	}
	return nil
}

// Small reads and checks the payload of any frame but a data frame. It is valid until the next call.
func (r *Reader) Small(h Header) ([]byte, error) {
	if h.Kind == KindData {
		return nil, errors.New("BUG: the payload of a data frame is read with Data")
	}
	if cap(r.small) < int(h.Length) {
		r.small = make([]byte, h.Length)
	}
	p := r.small[:h.Length]
	if cap(r.small) > readAhead {
		r.small = nil
	}
	if err := r.read(p); err != nil {
		return nil, err
	}
	return p, h.Check(p)
}

// Data reads and checks the payload of a data frame.
func (r *Reader) Data(h Header) (*Data, error) {
	if h.Codec == CodecNone {
		// The batch is going to own these bytes. They begin behind the prefix, which keeps them aligned.
		p := uninitialised(int(h.Length))
		if err := r.read(p); err != nil {
			return nil, err
		}
		if err := h.Check(p); err != nil {
			return nil, err
		}
		return newData(h.Codec, p[:dataPrefix], p[dataPrefix:], nil)
	}
	buf := GetBuffer(int(h.Length))
	buf.B = buf.B[:h.Length]
	err := r.read(buf.B)
	if err == nil {
		err = h.Check(buf.B)
	}
	var d *Data
	if err == nil {
		d, err = newData(h.Codec, buf.B[:dataPrefix], buf.B[dataPrefix:], buf)
	}
	if err != nil {
		buf.Release()
		return nil, err
	}
	return d, nil
}
