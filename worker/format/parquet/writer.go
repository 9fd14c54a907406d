package parquet

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"strait/plan/schema"
	"strait/transport/batch"
)

// GroupBytes is about how much a row group holds before encoding, where memory allows.
const GroupBytes = 64 << 20

// Options of a Writer.
type Options struct {
	Codec string // none, snappy, gzip, zstd, lz4, brotli
	Int96 bool   // write timestamps as INT96
}

var codecs = map[string]compress.Compression{"none": compress.Codecs.Uncompressed, "snappy": compress.Codecs.Snappy,
	"gzip": compress.Codecs.Gzip, "zstd": compress.Codecs.Zstd, "lz4": compress.Codecs.Lz4Raw, "brotli": compress.Codecs.Brotli}

// Layout is how a table's columns are written; it is made once for all files.
type Layout struct {
	columns []int
	schema  *arrow.Schema
	props   *pq.WriterProperties
	arrow   pqarrow.ArrowWriterProperties
}

// NewLayout checks that columns of the table can be written.
func NewLayout(t *schema.Table, columns []int, o Options) (*Layout, error) {
	codec, ok := codecs[o.Codec]
	if !ok {
		return nil, fmt.Errorf("compression %q is not known", o.Codec)
	}
	l := &Layout{columns: columns}
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		if t.Columns[c].Type.Kind == schema.Row && len(t.Columns[c].Type.Fields) == 0 {
			return nil, fmt.Errorf("column %s is a row without fields, which parquet does not have", t.Columns[c].Name)
		}
		fields[i] = arrow.Field{Name: t.Columns[c].Name, Type: batch.DataType(t.Columns[c].Type), Nullable: true}
	}
	l.schema = arrow.NewSchema(fields, nil)
	l.props = pq.NewWriterProperties(pq.WithCompression(codec), pq.WithCreatedBy("strait"), pq.WithMaxRowGroupLength(1<<40))
	opts := []pqarrow.WriterOption{pqarrow.WithAllocator(memory.DefaultAllocator)}
	if o.Int96 {
		opts = append(opts, pqarrow.WithDeprecatedInt96Timestamps(true))
	}
	l.arrow = pqarrow.NewArrowWriterProperties(opts...)
	if _, err := pqarrow.ToParquet(l.schema, l.props, l.arrow); err != nil {
		return nil, fmt.Errorf("parquet cannot hold the table: %w", err)
	}
	return l, nil
}

// Writer writes one file.
type Writer struct {
	l    *Layout
	w    *pqarrow.FileWriter
	most int64 // of held
	held int64 // bytes in the open row group, before encoding
}

// NewWriter begins a file. It does not close out. Row groups end at group bytes, at GroupBytes at the latest.
func (l *Layout) NewWriter(out io.Writer, group int64) (w *Writer, err error) {
	defer guard(&err)
	fw, err := pqarrow.NewFileWriter(l.schema, noClose{out}, l.props, l.arrow)
	if err != nil {
		return nil, err
	}
	return &Writer{l: l, w: fw, most: min(max(group, 1), GroupBytes)}, nil
}

type noClose struct{ io.Writer }

// Write adds the rows at the indexes, or all when rows is nil.
func (w *Writer) Write(b *batch.Batch, rows []int32) (err error) {
	defer guard(&err)
	cols := make([]arrow.Array, len(w.l.columns))
	n := b.Rows
	if rows != nil {
		n = len(rows)
	}
	var size int64
	for i, c := range w.l.columns {
		cols[i] = b.Cols[c]
		if rows != nil {
			dst := array.NewBuilder(memory.DefaultAllocator, b.Cols[c].DataType())
			batch.Gather(dst, b.Cols[c], rows)
			cols[i] = dst.NewArray()
		}
	}
	part := batch.Batch{Cols: cols, Rows: n}
	size = part.Bytes()
	if w.held > 0 && w.held+size > w.most {
		if err := w.w.NewBufferedRowGroupChecked(); err != nil {
			return err
		}
		w.held = 0
	}
	if err := w.w.WriteBuffered(array.NewRecordBatch(w.l.schema, cols, int64(n))); err != nil {
		return err
	}
	w.held += size
	return nil
}

// Held is about how many bytes the writer keeps in memory.
func (w *Writer) Held() int64 { return w.held }

// Close writes the footer.
func (w *Writer) Close() (err error) {
	defer guard(&err)
	w.held = 0
	return w.w.Close()
}
