package file

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/field"
)

// folderWriter gives the partition folder of a row, by partition_dir_expression.
type folderWriter struct {
	o       *output
	pieces  []piece
	b       *batch.Batch
	formats *field.Formats
	buf     []byte
}

// piece is literal text or the value of a column.
type piece struct {
	text string
	col  int // -1: text
}

func newFolderWriter(o *output) *folderWriter {
	w := &folderWriter{o: o, formats: field.DefaultFormats()}
	e := o.dirExpr
	for e != "" {
		i := strings.Index(e, "${")
		if i < 0 {
			w.pieces = append(w.pieces, piece{e, -1})
			break
		}
		if i > 0 {
			w.pieces = append(w.pieces, piece{e[:i], -1})
		}
		j := strings.IndexByte(e[i:], '}')
		name := e[i+2 : i+j]
		for k, c := range o.by {
			switch name {
			case fmt.Sprintf("k%d", k):
				w.pieces = append(w.pieces, piece{string(escapePart(nil, o.table.Columns[c].Name)), -1})
			case fmt.Sprintf("v%d", k):
				w.pieces = append(w.pieces, piece{"", c})
			}
		}
		e = e[i+j+1:]
	}
	return w
}

func (w *folderWriter) bind(b *batch.Batch) { w.b = b }

func (w *folderWriter) append(dst []byte, r int) []byte {
	for i := range w.pieces {
		p := &w.pieces[i]
		if p.col < 0 {
			dst = append(dst, p.text...)
			continue
		}
		a := w.b.Cols[p.col]
		if a.IsNull(r) {
			dst = append(dst, nullPartition...)
			continue
		}
		w.buf = w.value(w.buf[:0], &w.o.table.Columns[p.col].Type, p.col, r)
		if len(w.buf) > 0 && bytes.IndexFunc(w.buf, needsEscape) < 0 && w.buf[0] != '.' {
			dst = append(dst, w.buf...)
		} else {
			dst = escapePart(dst, string(w.buf))
		}
	}
	return dst
}

func needsEscape(c rune) bool {
	return c < 0x20 || c == 0x7f || c == '/' || c == '\\' || c == '%' || c == '='
}

// value is a partition value as SeaTunnel's toString gives it: ISO for times.
func (w *folderWriter) value(dst []byte, t *schema.Type, col, r int) []byte {
	a := w.b.Cols[col]
	if t.Kind == schema.Timestamp {
		return field.AppendISO(dst, int64(a.(*array.Timestamp).Value(r)), t.Scale)
	}
	return field.AppendScalarText(dst, w.formats, t, a, r)
}
