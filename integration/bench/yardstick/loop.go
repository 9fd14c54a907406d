package yardstick

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"net"
	"time"
	"unsafe"

	"github.com/klauspost/compress/s2"
)

// Columns is a batch of four columns as they lie in memory.
type Columns struct {
	Ints    []int64
	Floats  []float64
	Offsets []int32 // of Strings, one more than rows
	Strings []byte
	Times   []int64
}

// Generate makes n batches of that many rows: rising ids, prices with two decimals, names of 12 bytes, and times
// a few milliseconds apart. It is the same data in every run.
func Generate(n, rows int) []*Columns {
	seed := uint64(1)
	next := func() uint64 { // splitmix64
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	out := make([]*Columns, n)
	id, at := int64(1_000_000), int64(1_700_000_000_000_000)
	for i := range out {
		c := &Columns{Offsets: []int32{0}}
		for range rows {
			id++
			at += int64(next() % 5000)
			c.Ints = append(c.Ints, id)
			c.Floats = append(c.Floats, float64(next()%1_000_000)/100)
			c.Strings = append(c.Strings, fmt.Sprintf("user-%07d", next()%10_000_000)...)
			c.Offsets = append(c.Offsets, int32(len(c.Strings)))
			c.Times = append(c.Times, at)
		}
		out[i] = c
	}
	return out
}

// Options say what a loop does.
type Options struct {
	S2   bool
	To   int // gather rows by hash of Ints into so many destinations, each written as a frame; 0: none
	For  time.Duration
	Data []*Columns
}

var table = crc32.MakeTable(crc32.Castagnoli)

const head = 20 // raw length, length, sum, rows, bytes of strings

// Run runs the loop and returns rows per second.
func Run(o Options) (float64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	sent := make(chan error, 1)
	go func() { sent <- send(l.Addr().String(), o) }()
	conn, err := l.Accept()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	start := time.Now()
	rows, err := receive(conn)
	took := time.Since(start)
	if err2 := <-sent; err2 != nil || err != nil {
		return 0, errors.Join(err, err2)
	}
	return float64(rows) / took.Seconds(), nil
}

func send(addr string, o Options) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := sender{conn: conn, s2: o.S2}
	parts := make([]Columns, o.To)
	for i, end := 0, time.Now().Add(o.For); ; i++ {
		if i%4 == 0 && time.Now().After(end) {
			return nil
		}
		c := o.Data[i%len(o.Data)]
		if o.To == 0 {
			err = s.write(c)
		} else {
			gather(parts, c)
			for p := 0; p < len(parts) && err == nil; p++ {
				err = s.write(&parts[p])
			}
		}
		if err != nil {
			return err
		}
	}
}

// gather deals the rows of c to parts by a hash of the first column.
func gather(parts []Columns, c *Columns) {
	for i := range parts {
		p := &parts[i]
		p.Ints, p.Floats, p.Offsets, p.Strings, p.Times = p.Ints[:0], p.Floats[:0], append(p.Offsets[:0], 0), p.Strings[:0], p.Times[:0]
	}
	n := uint64(len(parts))
	for i, v := range c.Ints {
		hash, _ := bits.Mul64(uint64(v)*0x9e3779b97f4a7c15, n)
		p := &parts[hash]
		p.Ints = append(p.Ints, v)
		p.Floats = append(p.Floats, c.Floats[i])
		p.Strings = append(p.Strings, c.Strings[c.Offsets[i]:c.Offsets[i+1]]...)
		p.Offsets = append(p.Offsets, int32(len(p.Strings)))
		p.Times = append(p.Times, c.Times[i])
	}
}

type sender struct {
	conn net.Conn
	s2   bool
	raw  []byte
	out  []byte
}

func (s *sender) write(c *Columns) error {
	raw := s.raw[:0]
	if !s.s2 {
		raw = append(raw, make([]byte, head)...)
	}
	raw = append(raw, bytesOf(c.Ints)...)
	raw = append(raw, bytesOf(c.Floats)...)
	raw = append(raw, bytesOf(c.Offsets)...)
	raw = append(raw, c.Strings...)
	raw = append(raw, bytesOf(c.Times)...)
	s.raw = raw
	out, size := raw, len(raw)-head
	if s.s2 {
		if need := head + s2.MaxEncodedLen(len(raw)); cap(s.out) < need {
			s.out = make([]byte, need)
		}
		s.out = s.out[:cap(s.out)]
		size = len(raw)
		out = s.out[:head+len(s2.Encode(s.out[head:], raw))]
	}
	binary.LittleEndian.PutUint32(out, uint32(size))
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-head))
	binary.LittleEndian.PutUint32(out[8:], crc32.Checksum(out[head:], table))
	binary.LittleEndian.PutUint32(out[12:], uint32(len(c.Ints)))
	binary.LittleEndian.PutUint32(out[16:], uint32(len(c.Strings)))
	_, err := s.conn.Write(out)
	return err
}

func receive(conn net.Conn) (rows int64, err error) {
	var h [head]byte
	var in, raw []byte
	var c Columns
	for {
		if _, err := io.ReadFull(conn, h[:]); err != nil {
			if err == io.EOF {
				err = nil
			}
			return rows, err
		}
		size, length := int(binary.LittleEndian.Uint32(h[:])), int(binary.LittleEndian.Uint32(h[4:]))
		if cap(in) < length {
			in = make([]byte, length)
		}
		in = in[:length]
		if _, err := io.ReadFull(conn, in); err != nil {
			return rows, err
		}
		if crc32.Checksum(in, table) != binary.LittleEndian.Uint32(h[8:]) {
			return rows, errors.New("checksum")
		}
		body := in
		if size != length {
			if cap(raw) < size {
				raw = make([]byte, size)
			}
			if body, err = s2.Decode(raw[:size], in); err != nil {
				return rows, err
			}
		}
		n := int(binary.LittleEndian.Uint32(h[12:]))
		if err := decode(&c, body, n, int(binary.LittleEndian.Uint32(h[16:]))); err != nil {
			return rows, err
		}
		rows += int64(n)
	}
}

// decode copies the columns into their buffers and checks the offsets.
func decode(c *Columns, body []byte, n, text int) error {
	if len(body) != 8*n*3+4*(n+1)+text {
		return errors.New("length")
	}
	take := func(k int) []byte { p := body[:k]; body = body[k:]; return p }
	c.Ints = fill(c.Ints, take(8*n), n)
	c.Floats = fill(c.Floats, take(8*n), n)
	c.Offsets = fill(c.Offsets, take(4*n+4), n+1)
	c.Strings = append(c.Strings[:0], take(text)...)
	c.Times = fill(c.Times, take(8*n), n)
	last := int32(0)
	for _, o := range c.Offsets {
		if o < last {
			return errors.New("offsets")
		}
		last = o
	}
	if int(last) != text {
		return errors.New("offsets")
	}
	return nil
}

func fill[T any](dst []T, src []byte, n int) []T {
	if cap(dst) < n {
		dst = make([]T, n)
	}
	dst = dst[:n]
	copy(bytesOf(dst), src)
	return dst
}

func bytesOf[T any](v []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(zero)))
}
