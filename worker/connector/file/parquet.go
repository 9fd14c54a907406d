package file

import (
	"context"
	"encoding/json"
	"fmt"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/format/parquet"
)

// Buffers implements connector.Buffering. Parquet holds row groups until they are encoded; all open files of a writer
// hold that much together, then the biggest one is closed. The other formats hold bytes that are not written yet.
func (s *sink) Buffers() (least, most int64) {
	least, most = 256<<10, 512<<10
	for _, o := range s.outputs {
		if o.parquet != nil {
			return 2 << 20, 96 << 20
		}
		if len(o.by) > 0 {
			most = 16 << 20
		}
	}
	return least, most
}

// learnParquet takes the columns from the first file, or checks that they are there.
func (in *input) learnParquet(ctx context.Context, first string, l *fault.List) error {
	if first == "" { // no files, no rows: any table will do
		if in.table == nil {
			in.cols = []string{contentColumn}
			in.table = &schema.Table{Path: in.given.Path, Columns: []schema.Column{schema.Col(contentColumn, schema.Of(schema.String))}}
		}
		return nil
	}
	in.first = first
	i, err := in.fs.Stat(first)
	if err != nil {
		return in.openError(first, err)
	}
	f, err := in.fs.Open(first)
	if err != nil {
		return in.openError(first, err)
	}
	defer f.Close()
	pf, err := parquet.Open(f, i.Size)
	if err != nil {
		return fmt.Errorf("file %s: %w", first, err)
	}
	if in.table == nil {
		cols, err := pf.Columns()
		if err != nil {
			return fmt.Errorf("file %s: %w", first, err)
		}
		in.given.Columns = cols
		if in.table = in.project(in.given, l, in.at+": read_columns", in.pos); l.Len() > 0 {
			return nil
		}
	}
	r, err := pf.NewReader(ctx, batch.NewSchema(in.table, 0), nil, 0, false)
	if err != nil {
		return &fault.Mistake{Pos: in.pos, Path: in.at + ": schema", Found: fmt.Sprintf("file %s: %v", first, err)}
	}
	r.Close()
	return nil
}

// parquetBorders cuts a file at row groups into parts of about size bytes.
func parquetBorders(f Input, file found, size int64) ([]int64, error) {
	pf, err := parquet.Open(f, file.size)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", file.name, err)
	}
	borders := []int64{0}
	for _, g := range pf.Groups() {
		if g.Offset-borders[len(borders)-1] >= size {
			borders = append(borders, g.Offset)
		}
	}
	return append(borders, file.size), nil
}

// parquetSplit reads the row groups that begin in a split.
type parquetSplit struct {
	o    *openSplit
	r    *parquet.Reader
	rest *batch.Batch // read from the file and not handed on
}

func (in *input) openParquet(ctx context.Context, o *openSplit, s *batch.Schema, at int64) (*parquetSplit, error) {
	f, err := parquet.Open(o.f, o.data.Size)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", o.data.Path, err)
	}
	var groups []int
	for i, g := range f.Groups() {
		if g.Offset >= o.data.Start && g.Offset < o.data.End {
			groups = append(groups, i)
		}
	}
	r, err := f.NewReader(ctx, s, groups, max(at, 0), o.data.Path != in.first)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", o.data.Path, err)
	}
	return &parquetSplit{o: o, r: r}, nil
}

func (p *parquetSplit) read(ctx context.Context, r *reader, out *connector.Output) (connector.Progress, error) {
	if err := ctx.Err(); err != nil {
		return connector.Progress{}, err
	}
	b := p.rest
	if b == nil {
		var err error
		if b, err = p.r.Next(); err != nil {
			return connector.Progress{}, fmt.Errorf("file %s: %w", p.o.data.Path, err)
		}
	}
	p.rest = nil
	row := p.r.Row()
	if b != nil {
		if n := fit(b, out.Limit()); n < b.Rows {
			p.rest = b.Slice(n, b.Rows)
			b = b.Slice(0, n)
			row -= int64(p.rest.Rows)
		}
		out.Emit(r.complete(p.o, b))
	}
	pos, err := json.Marshal(position{splitVersion, row})
	return connector.Progress{Position: pos, Done: p.rest == nil && p.r.Done()}, err
}

// fit is how many rows of a batch to hand on at once. A page of a file is decoded as a whole, so a batch may be some
// times the limit; little above it is as good.
func fit(b *batch.Batch, l batch.Limit) int {
	n := b.Rows
	if n > l.Rows {
		n = l.Rows
	}
	if size := b.Bytes(); size > 4*l.Bytes {
		n = min(n, int(int64(b.Rows)*l.Bytes/size))
	}
	return max(n, 1)
}

func (p *parquetSplit) close() error {
	p.r.Close()
	return p.o.f.Close()
}

func (s *sink) parquet(v option.Values, o *output, l *fault.List) {
	layout, err := parquet.NewLayout(o.table, o.columns, parquet.Options{Codec: v.String("compress_codec"), Int96: v.Bool("parquet_avro_write_timestamp_as_int96")})
	if err != nil {
		l.Add(posOf(v, "file_format_type"), v.Path("file_format_type"), err.Error(), "choose another format, or other sink_columns")
	}
	o.parquet = layout
}

// parquetFile is the file of one part.
type parquetFile struct{ w *parquet.Writer }

func newParquetFile(p *part, o *output, memory int64) (sinkFile, error) {
	w, err := o.parquet.NewWriter(p, memory*2/3)
	if err != nil {
		return nil, err
	}
	return parquetFile{w}, nil
}

func (f parquetFile) write(b *batch.Batch, rows []int32) error { return f.w.Write(b, rows) }
func (f parquetFile) buffered() int64                          { return f.w.Held() }
func (f parquetFile) finish() error                            { return f.w.Close() }
