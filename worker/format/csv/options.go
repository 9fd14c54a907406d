package csv

import (
	"fmt"
	"strings"

	"strait/worker/format/field"
)

// Options say how records are written.
type Options struct {
	Delimiter    string // between fields; empty: a record is one field
	RowDelimiter string // between records; empty or "\n": LF, with or without CR before it
	Quote        byte   // encloses a field; 0: none
	Escape       byte   // takes the next byte's meaning away; 0: none
	Null         string // an unquoted field of that text is null, besides the empty one
	HasNull      bool
	Formats      *field.Formats
	// Ragged takes records as SeaTunnel's text format does: missing fields are null, further ones are left out.
	Ragged bool
	// Blank keeps empty lines: they are records of one empty field.
	Blank bool
	// Raw takes an empty text as itself and not as null.
	Raw bool
}

// Check returns an error for settings that cannot work together.
func (o *Options) Check() error {
	row := o.RowDelimiter
	if row == "" {
		row = "\n"
	}
	switch {
	case o.Delimiter == row:
		return fmt.Errorf("fields and rows have the same delimiter %q", row)
	case o.Delimiter != "" && strings.Contains(o.Delimiter, row):
		return fmt.Errorf("the field delimiter %q holds the row delimiter", o.Delimiter)
	case o.Delimiter != "" && strings.Contains(row, o.Delimiter):
		return fmt.Errorf("the row delimiter %q holds the field delimiter", row)
	case o.Quote != 0 && (strings.IndexByte(o.Delimiter, o.Quote) >= 0 || strings.IndexByte(row, o.Quote) >= 0):
		return fmt.Errorf("the quote character %q stands in a delimiter", o.Quote)
	case o.Escape != 0 && (strings.IndexByte(o.Delimiter, o.Escape) >= 0 || strings.IndexByte(row, o.Escape) >= 0):
		return fmt.Errorf("the escape character %q stands in a delimiter", o.Escape)
	case o.Escape != 0 && o.Escape == o.Quote:
		return fmt.Errorf("the escape character is the quote character; doubled quotes need no escape_char")
	case o.Quote == '\r' || o.Quote == '\n' || o.Escape == '\r' || o.Escape == '\n':
		return fmt.Errorf("quote and escape character may not be a line end")
	case o.Delimiter == "\r" && row == "\n":
		return fmt.Errorf("a carriage return cannot separate fields: it belongs to the line end")
	}
	return nil
}

// simple says that the fast splitter knows these options.
func (o *Options) simple() bool {
	return len(o.Delimiter) <= 1 && (o.RowDelimiter == "" || o.RowDelimiter == "\n") && o.Escape == 0
}
