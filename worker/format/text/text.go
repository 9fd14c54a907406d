package text

import (
	"fmt"
	"strings"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/csv"
	"strait/worker/format/field"
)

// DefaultDelimiter separates fields unless the job says otherwise.
const DefaultDelimiter = "\x01"

// Options of the format.
type Options struct {
	Delimiter    string // empty: a line is one field
	RowDelimiter string // empty: LF, with or without CR
	Null         string
	HasNull      bool
	Formats      *field.Formats
}

func (o Options) csv() csv.Options {
	return csv.Options{Delimiter: o.Delimiter, RowDelimiter: o.RowDelimiter, Null: o.Null, HasNull: o.HasNull, Formats: o.Formats, Ragged: true}
}

// CSV gives the options under which package csv reads the same records.
func (o Options) CSV() *csv.Options {
	c := o.csv()
	return &c
}

// NewDecoder reads lines of count fields; from is as in csv.NewDecoder.
func NewDecoder(s *batch.Schema, o Options, from []int, count int) (*csv.Decoder, error) {
	c := o.csv()
	c.Blank = from == nil && len(s.Table.Columns) == 1 || count == 1
	return csv.NewDecoder(s, c, from, count)
}

// NewLineDecoder reads every line as it is into the only column of s.
func NewLineDecoder(s *batch.Schema, rowDelimiter string) (*csv.Decoder, error) {
	return csv.NewDecoder(s, csv.Options{RowDelimiter: rowDelimiter, Formats: field.DefaultFormats(), Raw: true, Blank: true}, nil, 0)
}

// NewEncoder writes lines.
func NewEncoder(t *schema.Table, columns []int, o Options, header bool) (*csv.Encoder, error) {
	return csv.NewEncoder(t, columns, o.csv(), csv.QuoteNone, header)
}

// Delimiter reads the option field_delimiter of a source. SeaTunnel takes it as a regular expression, so an escaped
// character such as \\| or \t stands for itself; expressions that match more than one text are refused.
func Delimiter(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u', 'x':
			n := 2
			if c == 'u' {
				n = 4
			}
			var r rune
			if len(s) < i+1+n {
				return "", fmt.Errorf("delimiter %q: \\%c needs %d hexadecimal digits", s, c, n)
			}
			if _, err := fmt.Sscanf(s[i+1:i+1+n], "%x", &r); err != nil {
				return "", fmt.Errorf("delimiter %q: \\%c needs %d hexadecimal digits", s, c, n)
			}
			b.WriteRune(r)
			i += n
		default:
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '1' && c <= '9' {
				return "", fmt.Errorf("delimiter %q: \\%c is a class of a regular expression; write the delimiter itself", s, c)
			}
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}
