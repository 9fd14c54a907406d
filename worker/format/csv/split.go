package csv

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// span is one field of a block: data[start:end&offset] and two flags on top of end.
type span struct{ start, end uint32 }

const (
	quoted  = 1 << 31 // stood in quotes, which are not part of the span
	escaped = 1 << 30 // holds doubled quotes or escapes
	offset  = 1<<30 - 1
	maxData = offset
)

// Mistakes in the form of a record.
var (
	errAfterQuote = errors.New("has text behind a closing quote; double the quotes inside a field, or set escape_char")
	errOpenQuote  = errors.New("has a quote that is never closed")
)

// block is a run of records cut into fields, row after row.
type block struct {
	spans  []span   // rows × fields
	starts []uint32 // of each record
	rows   int
	used   int   // bytes of whole records, blank lines included
	err    error // of the record that begins at errAt, behind the rows
	errAt  int
}

func (b *block) reset(rows, fields int) {
	if need := rows * fields; cap(b.spans) < need {
		b.spans = make([]span, need)
	} else {
		b.spans = b.spans[:need]
	}
	if cap(b.starts) < rows {
		b.starts = make([]uint32, rows)
	} else {
		b.starts = b.starts[:rows]
	}
	b.rows, b.used, b.err = 0, 0, nil
}

func (b *block) fail(at int, err error) { b.err, b.errAt = err, at }

// splitter cuts records into fields. Every record has fields of them unless the options say Ragged.
type splitter struct {
	o      *Options
	fields int
	masks  [16]uint64 // of the kilobyte at hand
}

func countError(have, want int) error {
	if have < want {
		return fmt.Errorf("the row has %d of %d fields", have, want)
	}
	return fmt.Errorf("the row has more than %d fields", want)
}

// fast is the splitter for one-byte delimiters, lines and no escape character: it visits only delimiters, quotes
// and line ends.
func (s *splitter) fast(b *block, data []byte, final bool, maxRows int) {
	b.reset(maxRows, s.fields)
	const none = 256
	delim, quote := none, none
	if s.o.Delimiter != "" {
		delim = int(s.o.Delimiter[0])
	}
	if s.o.Quote != 0 {
		quote = int(s.o.Quote)
	}
	d8, q8 := mark(delim), mark(quote)
	var (
		n      = len(data)
		fields = s.fields
		spans  = b.spans
		si     = 0 // spans of whole records
		fc     = 0 // fields of the open record
		rs, fs = 0, 0
		within = false // a quoted field
		close  = -1    // its closing quote
		ignore = -1    // second quote of a doubled one
		flag   = uint32(0)
	)
	have, used := 0, 0 // masks
	for at := 0; at < n; at += 64 {
		if used == have {
			have, used = s.look(data[at:], d8, q8), 0
		}
		m := s.masks[used]
		used++
		for ; m != 0; m &= m - 1 {
			p := at + bits.TrailingZeros64(m)
			c := int(data[p])
			if within {
				if c != quote || p == ignore {
					continue
				}
				if p+1 < n {
					switch next := data[p+1]; {
					case int(next) == quote:
						ignore, flag = p+1, flag|escaped
						continue
					case int(next) == delim || next == '\n':
					case next == '\r':
						if p+2 == n && !final {
							b.used = rs
							return
						}
						if p+2 < n && data[p+2] != '\n' {
							b.fail(rs, errAfterQuote)
							return
						}
					default:
						b.fail(rs, errAfterQuote)
						return
					}
				} else if !final {
					b.used = rs
					return
				}
				within, close = false, p
				continue
			}
			if c == delim {
				if fc < fields {
					sp := span{uint32(fs), uint32(p)}
					if close >= 0 {
						sp = span{uint32(fs + 1), uint32(close) | flag}
						close, flag = -1, 0
					}
					spans[si+fc] = sp
				} else if !s.o.Ragged {
					b.fail(rs, countError(fc+1, fields))
					return
				} else {
					close, flag = -1, 0
				}
				fc++
				fs = p + 1
				continue
			}
			if c == '\n' {
				end := p
				if end > fs && data[end-1] == '\r' {
					end--
				}
				sp := span{uint32(fs), uint32(end)}
				if close >= 0 {
					sp = span{uint32(fs + 1), uint32(close) | flag}
					close, flag = -1, 0
				}
				if fc == fields-1 && fc > 0 { // the usual record
					spans[si+fc] = sp
					b.starts[b.rows] = uint32(rs)
					b.rows++
					si += fields
					fc = 0
				} else if !s.end(b, &si, &fc, rs, sp) {
					return
				}
				rs, fs = p+1, p+1
				if b.rows == maxRows {
					b.used = rs
					return
				}
				continue
			}
			if p == fs && close < 0 { // a quote at the start of a field; elsewhere it is text
				within, flag = true, quoted
			}
		}
	}
	b.used = rs
	if !final || rs == n {
		return
	}
	if within {
		b.fail(rs, errOpenQuote)
		return
	}
	end := n
	if end > fs && data[end-1] == '\r' {
		end--
	}
	sp := span{uint32(fs), uint32(end)}
	if close >= 0 {
		sp = span{uint32(fs + 1), uint32(close) | flag}
	}
	if s.end(b, &si, &fc, rs, sp) {
		b.used = n
	}
}

// mark is the byte to look for: a line feed, which is looked for anyway, where there is none.
func mark(c int) byte {
	if c > 255 {
		return '\n'
	}
	return byte(c)
}

// look fills the masks with what follows and says how many there are; behind the end no bit is set.
func (s *splitter) look(data []byte, delim, quote byte) int {
	if n := min(len(data)/64, len(s.masks)); n > 0 {
		masks(s.masks[:n], data, delim, quote)
		return n
	}
	var tail [64]byte
	k := copy(tail[:], data)
	masks(s.masks[:1], tail[:], delim, quote)
	s.masks[0] &= 1<<k - 1
	return 1
}

// end closes a record with its last field. It reports false after an error.
func (s *splitter) end(b *block, si, fc *int, rs int, sp span) bool {
	if *fc == 0 && sp.start == sp.end && !s.o.Blank {
		return true // an empty line
	}
	if *fc < s.fields {
		b.spans[*si+*fc] = sp
	} else if !s.o.Ragged && s.fields > 0 {
		b.fail(rs, countError(*fc+1, s.fields))
		return false
	}
	*fc++
	if *fc < s.fields {
		if !s.o.Ragged {
			b.fail(rs, countError(*fc, s.fields))
			return false
		}
		for k := *fc; k < s.fields; k++ {
			b.spans[*si+k] = span{}
		}
	}
	b.starts[b.rows] = uint32(rs)
	b.rows++
	*si += s.fields
	*fc = 0
	return true
}

// general is the splitter for all options, byte by byte. For those fast knows it gives the same records.
func (s *splitter) general(b *block, data []byte, final bool, maxRows int) {
	b.reset(maxRows, s.fields)
	sc := scanner{o: s.o}
	si, fc, rs := 0, 0, 0
	for rs < len(data) {
		fs := rs
		for {
			f, state := sc.field(data, fs, final)
			switch state {
			case stateMore:
				b.used = rs
				return
			case stateAfterQuote:
				b.fail(rs, errAfterQuote)
				return
			case stateOpenQuote:
				b.fail(rs, errOpenQuote)
				return
			}
			if state == stateField {
				if fc < s.fields {
					b.spans[si+fc] = f.span
				} else if !s.o.Ragged {
					b.fail(rs, countError(fc+1, s.fields))
					return
				}
				fc++
				fs = f.next
				continue
			}
			if !s.end(b, &si, &fc, rs, f.span) {
				return
			}
			rs = f.next
			break
		}
		b.used = rs
		if b.rows == maxRows {
			return
		}
	}
}

// scanner finds the end of one field at a time.
type scanner struct{ o *Options }

type fieldSpan struct {
	span
	next int // behind the delimiter
}

type scanState uint8

const (
	stateField  scanState = iota // another field follows
	stateRecord                  // the record ends
	stateMore                    // data ends inside the field
	stateAfterQuote
	stateOpenQuote
)

// field reads the field that begins at fs.
func (sc scanner) field(data []byte, fs int, final bool) (fieldSpan, scanState) {
	o := sc.o
	i, flag := fs, uint32(0)
	if i < len(data) && o.Quote != 0 && data[i] == o.Quote {
		flag = quoted
		for i++; ; i++ {
			if i >= len(data) {
				if final {
					return fieldSpan{}, stateOpenQuote
				}
				return fieldSpan{}, stateMore
			}
			if o.Escape != 0 && data[i] == o.Escape {
				if i+1 >= len(data) && !final {
					return fieldSpan{}, stateMore
				}
				flag |= escaped
				i++
				continue
			}
			if data[i] != o.Quote {
				continue
			}
			if i+1 >= len(data) {
				if !final {
					return fieldSpan{}, stateMore
				}
				break
			}
			if data[i+1] != o.Quote {
				break
			}
			flag |= escaped
			i++
		}
		f := fieldSpan{span: span{uint32(fs + 1), uint32(i) | flag}}
		n, state := sc.ends(data, i+1, final)
		switch state {
		case stateField, stateRecord:
			f.next = n
			return f, state
		case stateMore:
			return f, stateMore
		}
		return f, stateAfterQuote
	}
	for ; ; i++ {
		if i < len(data) && o.Escape != 0 && data[i] == o.Escape {
			if i+1 >= len(data) && !final {
				return fieldSpan{}, stateMore
			}
			flag |= escaped
			i = min(i+1, len(data)-1)
			continue
		}
		n, state := sc.ends(data, i, final)
		switch state {
		case stateField, stateRecord:
			return fieldSpan{span{uint32(fs), uint32(i) | flag}, n}, state
		case stateMore:
			return fieldSpan{}, stateMore
		}
	}
}

// ends says whether a delimiter or the end of the record stands at i, and what follows it. stateAfterQuote:
// neither does.
func (sc scanner) ends(data []byte, i int, final bool) (int, scanState) {
	o := sc.o
	rest := data[min(i, len(data)):]
	if len(rest) == 0 {
		if final {
			return len(data), stateRecord
		}
		return 0, stateMore
	}
	if o.Delimiter != "" && rest[0] == o.Delimiter[0] {
		switch prefix(rest, o.Delimiter) {
		case 1:
			return i + len(o.Delimiter), stateField
		case -1:
			if !final {
				return 0, stateMore
			}
		}
	}
	if o.RowDelimiter != "" && o.RowDelimiter != "\n" {
		switch prefix(rest, o.RowDelimiter) {
		case 1:
			return i + len(o.RowDelimiter), stateRecord
		case -1:
			if !final {
				return 0, stateMore
			}
		}
		return 0, stateAfterQuote
	}
	if rest[0] == '\n' {
		return i + 1, stateRecord
	}
	if rest[0] == '\r' {
		if len(rest) == 1 {
			if final {
				return i + 1, stateRecord
			}
			return 0, stateMore
		}
		if rest[1] == '\n' {
			return i + 2, stateRecord
		}
	}
	return 0, stateAfterQuote
}

// prefix says whether b begins with s: 1 yes, 0 no, -1 b ends too early to tell.
func prefix(b []byte, s string) int {
	if len(b) >= len(s) {
		if string(b[:len(s)]) == s {
			return 1
		}
		return 0
	}
	if strings.HasPrefix(s, string(b)) {
		return -1
	}
	return 0
}

// unescape writes the text of a flagged field: doubled quotes and escapes resolved.
func (o *Options) unescape(dst, b []byte, inQuotes bool) []byte {
	for i := 0; i < len(b); i++ {
		c := b[i]
		if o.Escape != 0 && c == o.Escape && i+1 < len(b) {
			i++
			dst = o.escape(dst, b[i])
			continue
		}
		dst = append(dst, c)
		if inQuotes && c == o.Quote && i+1 < len(b) && b[i+1] == c {
			i++
		}
	}
	return dst
}

// escape writes what the escape character and c stand for, as commons-csv has it: control letters, the
// characters with a meaning, or both bytes as they are.
func (o *Options) escape(dst []byte, c byte) []byte {
	switch c {
	case 'n':
		return append(dst, '\n')
	case 'r':
		return append(dst, '\r')
	case 't':
		return append(dst, '\t')
	case 'b':
		return append(dst, '\b')
	case 'f':
		return append(dst, '\f')
	case o.Quote, o.Escape, '\n', '\r':
		return append(dst, c)
	}
	if o.Delimiter != "" && c == o.Delimiter[0] {
		return append(dst, c)
	}
	return append(dst, o.Escape, c)
}
