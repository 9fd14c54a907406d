package csv

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/field"
)

// QuoteMode says which string fields a writer puts in quotes.
type QuoteMode uint8

// The modes of csv_string_quote_mode.
const (
	QuoteMinimal QuoteMode = iota // those that need it
	QuoteAll
	QuoteNone
)

// Encoder writes rows as records. Columns says which columns of the batches are written; nil: all.
type Encoder struct {
	o       Options
	mode    QuoteMode
	header  bool
	row     string
	table   *schema.Table
	columns []int
	codec   field.Codec
	cells   []cell
	risky   bool // numbers may hold the delimiter
}

// cell writes the values of one column of the batch at hand.
type cell struct {
	t     *schema.Type
	a     arrow.Array
	nulls bool
	str   *array.String
	i64   []int64
	i32   []int32
	check bool // text may need quotes
}

// NewEncoder writes columns of batches of the table.
func NewEncoder(t *schema.Table, columns []int, o Options, mode QuoteMode, header bool) (*Encoder, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if columns == nil {
		for i := range t.Columns {
			columns = append(columns, i)
		}
	}
	e := &Encoder{o: o, mode: mode, header: header, row: o.RowDelimiter, table: t, columns: columns}
	if e.row == "" {
		e.row = "\n"
	}
	if o.Quote == 0 {
		e.mode = QuoteNone
	}
	e.codec = field.Codec{Formats: o.Formats, Separators: field.Levels(o.Delimiter), Null: o.Null, HasNull: o.HasNull}
	e.risky = strings.ContainsAny(o.Delimiter+e.row+string(rune(o.Quote)), "0123456789+-.EINafinlrstuey")
	e.cells = make([]cell, len(columns))
	for i, c := range columns {
		ty := &t.Columns[c].Type
		e.cells[i].t = ty
		switch ty.Kind {
		case schema.Boolean, schema.TinyInt, schema.SmallInt, schema.Int, schema.BigInt, schema.Float, schema.Double, schema.Decimal:
			e.cells[i].check = (e.risky || o.HasNull) && e.mode != QuoteNone
		default:
			e.cells[i].check = e.mode != QuoteNone
		}
	}
	return e, nil
}

// Header implements format.Encoder.
func (e *Encoder) Header(dst []byte) []byte {
	if !e.header {
		return dst
	}
	for i, c := range e.columns {
		if i > 0 {
			dst = append(dst, e.o.Delimiter...)
		}
		from := len(dst)
		dst = append(dst, e.table.Columns[c].Name...)
		if e.mode != QuoteNone {
			dst = e.protect(dst, from, false)
		}
	}
	return append(dst, e.row...)
}

// Encode implements format.Encoder.
func (e *Encoder) Encode(dst []byte, b *batch.Batch, rows []int32) ([]byte, error) {
	for i := range e.cells {
		e.cells[i].bind(b.Cols[e.columns[i]])
	}
	if rows != nil {
		for _, r := range rows {
			dst = e.record(dst, int(r))
		}
		return dst, nil
	}
	for r := range b.Rows {
		dst = e.record(dst, r)
	}
	return dst, nil
}

func (c *cell) bind(a arrow.Array) {
	c.a, c.nulls = a, a.NullN() > 0
	c.str, c.i64, c.i32 = nil, nil, nil
	switch a := a.(type) {
	case *array.String:
		c.str = a
	case *array.Int64:
		c.i64 = a.Int64Values()
	case *array.Int32:
		c.i32 = a.Int32Values()
	}
}

func (e *Encoder) record(dst []byte, r int) []byte {
	start := len(dst)
	for i := range e.cells {
		c := &e.cells[i]
		if i > 0 {
			dst = append(dst, e.o.Delimiter...)
		}
		if c.nulls && c.a.IsNull(r) || c.t.Kind == schema.Null {
			if e.o.HasNull {
				dst = append(dst, e.o.Null...)
			}
			continue
		}
		from := len(dst)
		switch {
		case c.str != nil:
			dst = append(dst, c.str.Value(r)...)
			if c.check {
				dst = e.protect(dst, from, true)
			}
			continue
		case c.i64 != nil:
			dst = strconv.AppendInt(dst, c.i64[r], 10)
		case c.i32 != nil:
			dst = strconv.AppendInt(dst, int64(c.i32[r]), 10)
		default:
			dst = e.codec.AppendText(dst, c.t, c.a, r, 0)
		}
		if c.check {
			dst = e.protect(dst, from, c.t.Kind == schema.Bytes)
		}
	}
	if len(dst) == start && e.o.Quote != 0 && !e.o.Blank { // an empty line would be no record
		dst = append(dst, e.o.Quote, e.o.Quote)
	}
	return append(dst, e.row...)
}

// protect puts dst[from:] in quotes where a reader would not see it as one field, or not as this text.
func (e *Encoder) protect(dst []byte, from int, str bool) []byte {
	b := dst[from:]
	q := e.o.Quote
	need := str && (e.mode == QuoteAll || len(b) == 0) || e.o.HasNull && string(b) == e.o.Null
	quotes := 0
	d := e.o.Delimiter
	for i, c := range b {
		switch {
		case c == q || e.o.Escape != 0 && c == e.o.Escape:
			quotes++
		case c == '\n' || c == '\r' || d != "" && c == d[0] && (len(d) == 1 || prefix(b[i:], d) != 0):
			need = true
		case c == e.row[0] && prefix(b[i:], e.row) != 0:
			need = true
		}
	}
	if !need && quotes == 0 {
		if len(b) > 0 && from == 0 && len(b) >= 3 && b[0] == 0xEF && b[1] == 0xBB && b[2] == 0xBF {
			need = true // else it would be read as a byte order mark
		}
		if !need {
			return dst
		}
	}
	n := len(b)
	for range quotes + 2 {
		dst = append(dst, 0)
	}
	w := len(dst) - 1
	dst[w] = q
	for i := from + n - 1; i >= from; i-- {
		c := dst[i]
		w--
		dst[w] = c
		if c == q || e.o.Escape != 0 && c == e.o.Escape {
			w--
			dst[w] = c
			if c == q && e.o.Escape != 0 {
				dst[w] = e.o.Escape
			}
		}
	}
	w--
	dst[w] = q
	if w != from {
		panic(fmt.Sprintf("BUG: a quoted field begins at %d, not %d", w, from))
	}
	return dst
}
