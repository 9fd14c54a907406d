package csv

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"strait/transport/batch"
	"strait/worker/format"
	"strait/worker/format/field"
)

// Decoder reads records into the columns of a table.
type Decoder struct {
	o      *Options
	schema *batch.Schema
	cols   []column
	from   []int // field of each column
	split  splitter
	fast   bool
	block  block
	view   fields
	step   int // rows of a block
	limit  batch.Limit
	rows   int
}

// NewDecoder reads records of fields fields. from gives the field of each column of s; nil: field i is column i
// and there are no others.
func NewDecoder(s *batch.Schema, o Options, from []int, count int) (*Decoder, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if from == nil {
		count = len(s.Table.Columns)
		from = make([]int, count)
		for i := range from {
			from[i] = i
		}
	}
	d := &Decoder{o: &o, schema: s, from: from, fast: o.simple(), limit: batch.Limit{}.Within()}
	d.split = splitter{o: d.o, fields: count}
	d.step = min(max(8192/max(count, 1), 16), 512)
	d.view = fields{o: d.o, stride: count}
	codec := &field.Codec{Formats: o.Formats, Separators: field.Levels(o.Delimiter), Null: o.Null, HasNull: o.HasNull}
	for i := range s.Table.Columns {
		if from[i] < 0 || from[i] >= count {
			return nil, fmt.Errorf("BUG: column %d is field %d of %d", i, from[i], count)
		}
		d.cols = append(d.cols, newColumn(&s.Table.Columns[i].Type, d.o, codec))
	}
	return d, nil
}

// Decode implements format.Decoder.
func (d *Decoder) Decode(data []byte, final bool) (int, error) {
	if len(data) > maxData {
		data, final = data[:maxData], false
	}
	used := 0
	for used < len(data) && !d.Full() {
		rest := data[used:]
		step := min(d.step, d.limit.Rows-d.rows)
		if d.fast {
			d.split.fast(&d.block, rest, final, step)
		} else {
			d.split.general(&d.block, rest, final, step)
		}
		if err := d.parse(rest); err != nil {
			err.Offset += int64(used)
			return used, err
		}
		used += d.block.used
		if d.block.used == 0 || d.block.rows < step {
			break
		}
	}
	return used, nil
}

// parse reads the columns of the block. The error is that of the first bad row.
func (d *Decoder) parse(data []byte) *format.RowError {
	n := d.block.rows
	var first *format.RowError
	d.view.data, d.view.spans = data, d.block.spans
	for i, c := range d.cols {
		d.view.at = d.from[i]
		ok, err := c.parse(&d.view, n)
		if err != nil {
			n = ok // columns to the right only count before that row
			text, _ := d.view.text(ok)
			first = &format.RowError{Offset: int64(d.block.starts[ok]), Column: d.schema.Table.Columns[i].Name, Text: format.Short(text), Err: err}
		}
	}
	if first == nil && d.block.err != nil {
		first = &format.RowError{Offset: int64(d.block.errAt), Err: d.block.err}
	}
	d.rows += n
	if first != nil {
		for _, c := range d.cols {
			c.cut(d.rows)
		}
	}
	return first
}

// Rows implements format.Decoder.
func (d *Decoder) Rows() int { return d.rows }

// Limit implements format.Decoder.
func (d *Decoder) Limit(l batch.Limit) { d.limit = l.Within() }

// Full implements format.Decoder.
func (d *Decoder) Full() bool {
	if d.rows >= d.limit.Rows {
		return true
	}
	size := 0
	for _, c := range d.cols {
		size += c.bytes()
	}
	return int64(size) >= d.limit.Bytes
}

// Finish implements format.Decoder.
func (d *Decoder) Finish() *batch.Batch {
	if d.rows == 0 {
		return nil
	}
	cols := make([]arrow.Array, len(d.cols))
	for i, c := range d.cols {
		cols[i] = c.finish()
	}
	b := batch.New(d.schema, cols, d.rows, nil)
	d.rows = 0
	return b
}

// Record reads the first record of data as text, such as a header. ok is false when data ends inside it.
func (o *Options) Record(data []byte, final bool) (text []string, used int, ok bool, err error) {
	sc := scanner{o: o}
	for fs := 0; ; {
		f, state := sc.field(data, fs, final)
		switch state {
		case stateMore:
			return nil, 0, false, nil
		case stateAfterQuote:
			return nil, 0, false, errAfterQuote
		case stateOpenQuote:
			return nil, 0, false, errOpenQuote
		}
		b := data[f.start : f.end&offset]
		if f.end&escaped != 0 {
			b = o.unescape(nil, b, f.end&quoted != 0)
		}
		text = append(text, string(b))
		if state == stateRecord {
			return text, f.next, true, nil
		}
		fs = f.next
	}
}
