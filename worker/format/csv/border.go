package csv

import (
	"bytes"
	"errors"
	"io"
)

// Splittable says that Border can find where records begin. Row delimiters of several bytes may overlap themselves
// and escapes reach over any distance, so such files are read in one piece.
func (o *Options) Splittable() bool { return o.simple() }

const scanSize = 1 << 18

// Scanner finds borders between records from the start of a file on. It follows quotes as the decoder does, so a
// line end inside a quoted field is never taken for one: the offsets it gives are exact for any input, and where
// the input breaks the grammar the reader of that part fails.
type Scanner struct {
	o   *Options
	r   io.ReaderAt
	end int64
	buf []byte
	lo  int64 // offset of buf[0]
	n   int   // valid bytes of buf
}

// NewScanner scans r up to end.
func NewScanner(r io.ReaderAt, o *Options, end int64) *Scanner {
	return &Scanner{o: o, r: r, end: end, buf: make([]byte, min(scanSize, max(end, 1)))}
}

// load brings the bytes from offset at into the buffer and returns them; none at the end.
func (s *Scanner) load(at int64) ([]byte, error) {
	if at >= s.lo && at < s.lo+int64(s.n) {
		return s.buf[at-s.lo : s.n], nil
	}
	if at >= s.end {
		return nil, nil
	}
	want := min(int64(len(s.buf)), s.end-at)
	n, err := s.r.ReadAt(s.buf[:want], at)
	if n == 0 && err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	s.lo, s.n = at, n
	return s.buf[:n], nil
}

// Border gives the offset of the first record that begins at target or behind it; end when there is none. from is
// an offset at which a record begins, at or before target.
func (s *Scanner) Border(from, target int64) (int64, error) {
	if target <= from {
		return from, nil
	}
	if s.o.Quote == 0 { // every line end is a border
		from = max(from, target-1)
	}
	at, within := from, false
	prev := byte('\n') // a record begins at from
	for {
		b, err := s.load(at)
		if err != nil {
			return 0, err
		}
		if len(b) == 0 {
			return s.end, nil
		}
		// Up to the target only quotes matter; behind it, also line ends outside quotes.
		lineAt := -1
		if !within {
			skip := 0
			if t := target - 1 - at; t > 0 {
				skip = int(min(t, int64(len(b))))
			}
			if i := bytes.IndexByte(b[skip:], '\n'); i >= 0 {
				lineAt = skip + i
			}
		}
		q := -1
		if s.o.Quote != 0 {
			limit := len(b)
			if lineAt >= 0 {
				limit = lineAt
			}
			q = bytes.IndexByte(b[:limit], s.o.Quote)
		}
		switch {
		case q < 0 && lineAt >= 0:
			return at + int64(lineAt) + 1, nil
		case q < 0:
			prev = b[len(b)-1]
			at += int64(len(b))
		case within:
			// closing, or the first of a doubled quote
			next, err := s.load(at + int64(q) + 1)
			if err != nil {
				return 0, err
			}
			at += int64(q) + 1
			prev = s.o.Quote
			if len(next) > 0 && next[0] == s.o.Quote {
				at++
			} else {
				within = false
			}
		default:
			if q > 0 {
				prev = b[q-1]
			}
			at += int64(q) + 1
			if prev == '\n' || s.o.Delimiter != "" && prev == s.o.Delimiter[0] {
				within = true
			}
			prev = s.o.Quote
		}
	}
}

// Count gives the number of records, blank lines left out, and of line ends in [from, to): for the message about
// the record at to.
func (s *Scanner) Count(from, to int64) (records, lines int64, err error) {
	sc := scanner{o: s.o}
	data := make([]byte, 0, len(s.buf))
	at := from // of data[0]
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		room := cap(data) - len(data)
		n, rerr := s.r.ReadAt(data[len(data):len(data)+int(min(int64(room), to-at-int64(len(data))))], at+int64(len(data)))
		if rerr != nil && !errors.Is(rerr, io.EOF) {
			return 0, 0, rerr
		}
		data = data[:len(data)+n]
		final := at+int64(len(data)) >= to || n == 0
		used := 0
		for used < len(data) {
			fs, first := used, true
			for {
				f, state := sc.field(data, fs, final)
				if state == stateField {
					fs, first = f.next, false
					continue
				}
				if state != stateRecord {
					fs = -1
					if state != stateMore { // broken: nothing can be counted behind it
						return records, lines, nil
					}
					break
				}
				if !first || f.start != f.end || s.o.Blank {
					records++
				}
				lines += int64(bytes.Count(data[used:f.next], []byte{'\n'}))
				used = f.next
				break
			}
			if fs < 0 {
				break
			}
		}
		at += int64(used)
		data = data[:copy(data, data[used:])]
		if final {
			return records, lines, nil
		}
	}
}
