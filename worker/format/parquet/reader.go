package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"strait/plan/fault"
	"strait/transport/batch"
)

// Reader reads row groups of a file as rows of a table.
type Reader struct {
	s    *batch.Schema
	cols []readColumn
	rr   pqarrow.RecordReader
	row  int64 // read so far, counted over the chosen groups
	rows int64 // of all of them
}

// readColumn is where a column of the table comes from.
type readColumn struct {
	at int // column of the record; -1: the file lacks it, all null
	to converter
}

// NewReader reads the columns of s from the groups, beginning with row from of them together. lenient leaves columns
// that the file lacks null.
func (f *File) NewReader(ctx context.Context, s *batch.Schema, groups []int, from int64, lenient bool) (r *Reader, err error) {
	defer guard(&err)
	r = &Reader{s: s, row: from}
	var bytes int64
	for _, g := range groups {
		r.rows += f.groups[g].Rows
		bytes += f.groups[g].Bytes
	}
	var leaves []int
	seen := map[int]int{} // field of the file → column of the record
	for i := range s.Table.Columns {
		c := &s.Table.Columns[i]
		at := f.arrow.FieldIndices(c.Name)
		if len(at) == 0 {
			if !lenient {
				return nil, fault.Fatalf("the file has no column %q; it has %s", c.Name, f.names())
			}
			r.cols = append(r.cols, readColumn{at: -1})
			continue
		}
		to := f.convert(f.arrow.Field(at[0]).Type, &c.Type)
		if to == nil {
			return nil, fault.Fatalf("column %s is %s in the file and cannot be read as %s; change the schema", c.Name, f.arrow.Field(at[0]).Type, c.Type)
		}
		if _, ok := seen[at[0]]; !ok {
			seen[at[0]] = 0
			leaves = append(leaves, f.leaves(at[0])...)
		}
		r.cols = append(r.cols, readColumn{at: at[0], to: to})
	}
	// The record has its columns in the file's order.
	next := 0
	for i := range f.arrow.NumFields() {
		if _, ok := seen[i]; ok {
			seen[i] = next
			next++
		}
	}
	for i := range r.cols {
		if r.cols[i].at >= 0 {
			r.cols[i].at = seen[r.cols[i].at]
		}
	}
	if r.rows == 0 || len(leaves) == 0 {
		return r, nil
	}
	// A batch of rows is about TargetBytes, whatever the width of a row.
	per := max(bytes/r.rows, 1)
	f.fr.Props.BatchSize = min(max(batch.TargetBytes*2/per, 64), batch.TargetRows)
	if r.rr, err = f.fr.GetRecordReader(ctx, leaves, groups); err != nil {
		return nil, fmt.Errorf("read row groups: %w", err)
	}
	if from > 0 && from < r.rows {
		if err := r.rr.SeekToRow(from); err != nil {
			return nil, fmt.Errorf("go to row %d: %w", from, err)
		}
	}
	return r, nil
}

func (f *File) names() string {
	names := make([]string, f.arrow.NumFields())
	for i := range names {
		names[i] = f.arrow.Field(i).Name
	}
	return strings.Join(names, ", ")
}

// leaves are the column chunks below a field of the file.
func (f *File) leaves(fieldIndex int) []int {
	var out []int
	var collect func(*pqarrow.SchemaField)
	collect = func(sf *pqarrow.SchemaField) {
		if sf.IsLeaf() {
			out = append(out, sf.ColIndex)
		}
		for i := range sf.Children {
			collect(&sf.Children[i])
		}
	}
	collect(&f.fr.Manifest.Fields[fieldIndex])
	return out
}

// Next gives the next rows, nil at the end. Row is then the position behind them.
func (r *Reader) Next() (b *batch.Batch, err error) {
	defer guard(&err)
	if r.row >= r.rows {
		return nil, nil
	}
	if r.rr == nil { // no column of the table stands in the file
		n := int(min(r.rows-r.row, batch.TargetRows))
		r.row += int64(n)
		return r.build(nil, n)
	}
	rec, err := r.rr.Read()
	if errors.Is(err, io.EOF) {
		return nil, fault.Fatalf("the file is damaged: its footer promises %d rows and it ends after %d", r.rows, r.row)
	}
	if err != nil {
		return nil, fault.Fatalf("row %d cannot be read, the file is damaged: %w", r.row+1, err)
	}
	b, err = r.build(rec, int(rec.NumRows()))
	if err != nil {
		return nil, err
	}
	r.row += rec.NumRows()
	return b, nil
}

// Row is the number of rows read.
func (r *Reader) Row() int64 { return r.row }

// Done says that no row follows.
func (r *Reader) Done() bool { return r.row >= r.rows }

func (r *Reader) build(rec arrow.RecordBatch, n int) (*batch.Batch, error) {
	cols := make([]arrow.Array, len(r.cols))
	for i, c := range r.cols {
		if c.at < 0 {
			b := array.NewBuilder(memory.DefaultAllocator, batch.DataType(r.s.Table.Columns[i].Type))
			b.AppendNulls(n)
			cols[i] = b.NewArray()
			continue
		}
		a := rec.Column(c.at)
		if a.Len() != n {
			return nil, fault.Fatalf("the file is damaged: column %s has %d values for %d rows", r.s.Table.Columns[i].Name, a.Len(), n)
		}
		a.Retain() // the reader releases its record, and the batch lives on
		out, err := c.to(a)
		if err != nil {
			return nil, r.explain(i, err)
		}
		cols[i] = out
	}
	return batch.New(r.s, cols, n, nil), nil
}

func (r *Reader) explain(col int, err error) error {
	name := r.s.Table.Columns[col].Name
	var ve *valueError
	if errors.As(err, &ve) {
		return fault.Fatalf("row %d: column %s: %w; the schema says %s", r.row+int64(ve.row)+1, name, err, r.s.Table.Columns[col].Type)
	}
	return fault.Fatalf("column %s: %w", name, err)
}

// Close releases the reader.
func (r *Reader) Close() {
	if r.rr != nil {
		r.rr.Release()
		r.rr = nil
	}
}
