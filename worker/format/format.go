package format

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"strait/transport/batch"
)

// Decoder turns records into rows of one table. One goroutine uses it.
type Decoder interface {
	// Decode reads whole records from the head of data until the open batch is full, and says how many bytes they
	// took. final: data is the end of the input, so its last record may lack its delimiter. Zero bytes with a
	// batch that is not full mean that the first record is longer than data. It keeps nothing of data.
	Decode(data []byte, final bool) (int, error)
	// Rows is the number of rows in the open batch.
	Rows() int
	// Limit says when batches are full; without it they are at the target sizes of transport/batch.
	Limit(l batch.Limit)
	// Full says that the open batch has reached its limit.
	Full() bool
	// Finish hands over the open batch, nil when it has no rows, and opens another.
	Finish() *batch.Batch
}

// Encoder writes rows as records.
type Encoder interface {
	// Header appends what stands before the first record of a file; often nothing.
	Header(dst []byte) []byte
	// Encode appends the rows at the indexes, or all when rows is nil.
	Encode(dst []byte, b *batch.Batch, rows []int32) ([]byte, error)
}

// RowError is a record that does not fit the table. Who knows the file adds its name and the row's number.
type RowError struct {
	Offset int64  // of the record's first byte, counted from the data given to Decode
	Column string // empty: the record as a whole
	Text   string // what was found, shortened
	Err    error
}

// Error gives column, text and reason.
func (e *RowError) Error() string {
	var b strings.Builder
	if e.Column != "" {
		fmt.Fprintf(&b, "column %s: ", e.Column)
	}
	if e.Text != "" {
		fmt.Fprintf(&b, "%q ", e.Text)
	}
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap gives the reason.
func (e *RowError) Unwrap() error { return e.Err }

// Fatal says that reading it again gives the same error.
func (e *RowError) Fatal() bool { return true }

// ErrUTF8 is a text that is not UTF-8.
var ErrUTF8 = errors.New("is not UTF-8 text; convert the file")

// Short is text for a message: its first 60 bytes, cut at a character.
func Short(b []byte) string {
	if len(b) <= 60 {
		return string(b)
	}
	cut := 57
	for cut > 50 && !utf8.RuneStart(b[cut]) {
		cut--
	}
	return string(b[:cut]) + "..."
}
