package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/fault"
	"strait/plan/schema"
	"strait/plan/units"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/format"
	"strait/worker/format/csv"
	jsonformat "strait/worker/format/json"
	"strait/worker/format/text"
)

const (
	blockSize = 256 << 10
	maxRecord = 64 << 20
	yieldTime = 80 * time.Millisecond
)

// NewReader implements connector.Source.
func (s *source) NewReader(_ context.Context, rc connector.ReaderContext) (connector.Reader, error) {
	r := &reader{s: s, schemas: rc.Schemas, files: make([]*batch.Schema, len(s.inputs)), most: maxRecord}
	if rc.MostRow > 0 {
		r.most = min(r.most, max(rc.MostRow, blockSize))
	}
	for i, in := range s.inputs {
		r.files[i] = batch.NewSchema(in.fileTable(rc.Schemas[i].Table), i)
	}
	return r, nil
}

// fileTable is the part of the planned table that stands in the files.
func (in *input) fileTable(planned *schema.Table) *schema.Table {
	t := planned.Clone()
	t.Columns = t.Columns[:min(len(in.cols), len(t.Columns))]
	return t
}

// reader reads one split at a time.
type reader struct {
	s       *source
	schemas []*batch.Schema // as handed on
	files   []*batch.Schema // the part that stands in the files
	open    *openSplit
	pq      *parquetSplit
	buf     []byte
	most    int64 // bytes of a record
}

// position is where a reader stands in a split.
type position struct {
	Version int   `json:"v"`
	Offset  int64 `json:"offset"` // of the next record, or parquet: of the next row
}

// openSplit is a split of a file of records.
type openSplit struct {
	in     *input
	data   splitData
	f      Input
	dec    format.Decoder
	at     int64 // offset of the byte behind the window
	window []byte
	consts []constant
}

// constant is a partition column.
type constant struct {
	value string
	null  bool
	a     arrow.Array
}

// Open implements connector.Reader.
func (r *reader) Open(ctx context.Context, s connector.Split, pos []byte) error {
	if err := r.Close(); err != nil {
		return err
	}
	d := splitData{}
	if err := json.Unmarshal(s.Data, &d); err != nil || d.Version != splitVersion || d.Table >= len(r.s.inputs) || d.Table < 0 {
		return fault.Fatalf("split %s is not one of this source (version %d)", s.ID, splitVersion)
	}
	p := position{Version: splitVersion, Offset: -1}
	if len(pos) > 0 {
		if err := json.Unmarshal(pos, &p); err != nil || p.Version != splitVersion {
			return fault.Fatalf("split %s: position %q is not of version %d", s.ID, pos, splitVersion)
		}
	}
	in := r.s.inputs[d.Table]
	info, err := in.fs.Stat(d.Path)
	if err != nil {
		return in.openError(d.Path, err)
	}
	if info.Size < d.End || in.format == formatParquet && info.Size != d.Size {
		return fault.Fatalf("file %s was changed while the job ran: it had %d bytes and has %d; start the job anew", d.Path, d.Size, info.Size)
	}
	f, err := in.fs.Open(d.Path)
	if err != nil {
		return in.openError(d.Path, err)
	}
	o := &openSplit{in: in, data: d, f: f, consts: in.constants(d.Path, r.schemas[d.Table].Table)}
	if in.format == formatParquet {
		if r.pq, err = in.openParquet(ctx, o, r.files[d.Table], p.Offset); err != nil {
			_ = f.Close()
		}
		return err
	}
	if err := o.begin(r.files[d.Table], p.Offset); err != nil {
		_ = f.Close()
		return err
	}
	r.open = o
	return nil
}

// constants are the values of the partition columns for one file.
func (in *input) constants(path string, planned *schema.Table) []constant {
	var out []constant
	parts := partitionsOf(path)
	for _, c := range planned.Columns[min(len(in.cols), len(planned.Columns)):] {
		k := constant{null: true}
		for _, p := range parts {
			if p.key == c.Name && p.value != nullPartition {
				k.value, k.null = p.value, false
			}
		}
		out = append(out, k)
	}
	return out
}

// begin finds the first record and makes the decoder.
func (o *openSplit) begin(s *batch.Schema, at int64) error {
	in := o.in
	var header []string
	start := o.data.Start
	if start == 0 || in.header || in.skip > 0 { // a small split may begin inside the head
		h, end, err := o.head()
		if err != nil {
			return err
		}
		header = h
		start = max(start, end)
	}
	o.at = start
	if at >= 0 {
		o.at = at
	}
	var err error
	switch {
	case in.content:
		o.dec, err = text.NewLineDecoder(s, in.csv.RowDelimiter)
	case in.format == formatJSON:
		o.dec = jsonformat.NewDecoder(s, in.formats)
	default:
		err = o.delimited(s, header)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.data.Path, err)
	}
	return nil
}

// delimited makes the decoder of csv and text: which field is which column.
func (o *openSplit) delimited(s *batch.Schema, header []string) error {
	in := o.in
	names := in.given.Names()
	if in.header {
		names = header
	}
	from := make([]int, len(in.cols))
	for i, name := range in.cols {
		from[i] = -1
		for k, n := range names {
			if n == name {
				from[i] = k
				break
			}
		}
		if from[i] < 0 {
			return fault.Fatalf("the header has no column %q; it has %s", name, strings.Join(names, ", "))
		}
	}
	var err error
	if in.format == formatText {
		o.dec, err = text.NewDecoder(s, text.Options{Delimiter: in.csv.Delimiter, RowDelimiter: in.csv.RowDelimiter, Null: in.csv.Null, HasNull: in.csv.HasNull, Formats: in.formats}, from, len(names))
	} else {
		o.dec, err = csv.NewDecoder(s, in.csv, from, len(names))
	}
	return err
}

// head reads what stands before the first row of the file: a byte order mark, rows to skip, the header.
func (o *openSplit) head() (header []string, end int64, err error) {
	in := o.in
	opts := in.csv
	if in.content || in.format == formatJSON {
		opts = csv.Options{RowDelimiter: in.csv.RowDelimiter}
	}
	buf := make([]byte, 0, 64<<10)
	final := false
	load := func() error {
		if len(buf) >= maxRecord {
			return fault.Fatalf("file %s: the header is longer than %s", o.data.Path, units.FormatBytes(maxRecord))
		}
		grown := make([]byte, min(int64(max(2*len(buf), 64<<10)), o.data.Size))
		n, err := o.f.ReadAt(grown, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", o.data.Path, err)
		}
		buf = grown[:n]
		final = int64(n) >= o.data.Size
		return nil
	}
	if err := load(); err != nil {
		return nil, 0, err
	}
	used := 0
	if len(buf) >= 3 && buf[0] == 0xEF && buf[1] == 0xBB && buf[2] == 0xBF {
		used = 3
	}
	if len(buf) >= 2 && (buf[0] == 0xFF && buf[1] == 0xFE || buf[0] == 0xFE && buf[1] == 0xFF) {
		return nil, 0, fault.Fatalf("file %s: it is UTF-16; other encodings than UTF-8 are not in this build, convert it", o.data.Path)
	}
	want := in.skip
	if in.header {
		want++
	}
	for n := int64(0); n < want; n++ {
		for {
			if used == len(buf) && final {
				return nil, int64(used), o.shortHead(n)
			}
			text, k, ok, err := opts.Record(buf[used:], final)
			if err != nil {
				return nil, 0, fault.Fatalf("file %s: row %d: %v", o.data.Path, n+1, err)
			}
			if ok {
				used += k
				header = text
				break
			}
			if err := load(); err != nil {
				return nil, 0, err
			}
		}
	}
	return header, int64(used), nil
}

// shortHead is for a file that ends inside its header: no rows, but with a header line expected that is a mistake.
func (o *openSplit) shortHead(rows int64) error {
	if o.in.header {
		return fault.Fatalf("file %s has no header line: it ends after %d rows", o.data.Path, rows)
	}
	return nil
}

// Read implements connector.Reader.
func (r *reader) Read(ctx context.Context, out *connector.Output) (connector.Progress, error) {
	if r.pq != nil {
		return r.pq.read(ctx, r, out)
	}
	o := r.open
	if o == nil {
		return connector.Progress{}, errors.New("BUG: Read without Open")
	}
	if r.buf == nil {
		r.buf = make([]byte, blockSize)
	}
	o.dec.Limit(out.Limit())
	began := time.Now()
	done := false
	for !o.dec.Full() && !done {
		if err := ctx.Err(); err != nil {
			return connector.Progress{}, err
		}
		last := o.at+int64(len(o.window)) >= o.data.End
		n, err := o.dec.Decode(o.window, last)
		if err != nil {
			return connector.Progress{}, o.explain(ctx, err)
		}
		o.window, o.at = o.window[n:], o.at+int64(n)
		switch {
		case last && len(o.window) == 0:
			done = true
		case n > 0 && len(o.window) > 0 && o.dec.Full():
		case n == 0 && last:
			return connector.Progress{}, fault.Fatalf("BUG: file %s: the decoder leaves %d bytes at %d", o.data.Path, len(o.window), o.at)
		case n == 0 || len(o.window) < blockSize/4:
			if err := r.fill(o); err != nil {
				return connector.Progress{}, err
			}
		}
		if time.Since(began) > yieldTime {
			break
		}
	}
	if b := o.dec.Finish(); b != nil {
		out.Emit(r.complete(o, b))
	}
	pos, err := json.Marshal(position{splitVersion, o.at})
	return connector.Progress{Position: pos, Done: done}, err
}

// fill moves the rest of the window to the head of the buffer and reads on behind it.
func (r *reader) fill(o *openSplit) error {
	if len(o.window) == len(r.buf) {
		if int64(len(r.buf)) >= r.most {
			if r.most < maxRecord {
				return fault.Fatalf("file %s: the row at byte %d is longer than %s, which is what the memory of this job takes on its worker; is a quote not closed? Else give the job more (env.slot.memory) or the worker (worker.memory)",
					o.data.Path, o.at, units.FormatBytes(r.most))
			}
			return fault.Fatalf("file %s: the row at byte %d is longer than %s; is a quote not closed?", o.data.Path, o.at, units.FormatBytes(maxRecord))
		}
		grown := make([]byte, min(2*int64(len(r.buf)), r.most))
		copy(grown, o.window)
		r.buf = grown
	} else {
		copy(r.buf, o.window)
	}
	n := len(o.window)
	from := o.at + int64(n)
	want := min(int64(len(r.buf)-n), o.data.End-from)
	k, err := o.f.ReadAt(r.buf[n:n+int(want)], from)
	if k == 0 && want > 0 {
		if err == nil || errors.Is(err, io.EOF) {
			return fault.Fatalf("file %s was cut off while it was read: it ends at byte %d of %d", o.data.Path, from, o.data.Size)
		}
		return fmt.Errorf("read %s at byte %d: %w", o.data.Path, from, err)
	}
	o.window = r.buf[:n+k]
	return nil
}

// complete adds the partition columns.
func (r *reader) complete(o *openSplit, b *batch.Batch) *batch.Batch {
	s := r.schemas[o.data.Table]
	cols := b.Cols[:len(b.Cols):len(b.Cols)]
	for i := range o.consts {
		cols = append(cols, o.consts[i].column(b.Rows))
	}
	return batch.New(s, cols, b.Rows, nil)
}

// column gives n times the value. Batches share the array while n stays the same.
func (c *constant) column(n int) arrow.Array {
	if c.a != nil && c.a.Len() >= n {
		if c.a.Len() == n {
			return c.a
		}
		return array.NewSlice(c.a, 0, int64(n))
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.Reserve(n)
	if !c.null {
		b.ReserveData(n * len(c.value))
	}
	for range n {
		if c.null {
			b.AppendNull()
		} else {
			b.Append(c.value)
		}
	}
	c.a = b.NewArray()
	return c.a
}

// explain adds file and row to the error of a record. The row number is counted only now.
func (o *openSplit) explain(ctx context.Context, err error) error {
	var re *format.RowError
	if !errors.As(err, &re) {
		return err
	}
	at := o.at + re.Offset
	opts := o.in.csv
	if o.in.content || o.in.format == formatJSON {
		opts = csv.Options{Blank: true}
	} else if o.in.format == formatText && len(o.in.given.Columns) == 1 {
		opts.Blank = true
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	rows, lines, cerr := csv.NewScanner(o.f, &opts, o.data.Size).Count(0, at)
	if cerr != nil {
		return fault.Fatalf("file %s: the row at byte %d: %w", o.data.Path, at, err)
	}
	where := fmt.Sprintf("row %d", rows+1)
	if lines != rows {
		where += fmt.Sprintf(" (line %d)", lines+1)
	}
	return fault.Fatalf("file %s: %s: %w", o.data.Path, where, err)
}

// Close implements connector.Reader.
func (r *reader) Close() error {
	var err error
	if r.open != nil {
		err = r.open.f.Close()
		r.open = nil
	}
	if r.pq != nil {
		err = r.pq.close()
		r.pq = nil
	}
	return err
}
