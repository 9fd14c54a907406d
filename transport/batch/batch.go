package batch

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"strait/plan/schema"
)

// Target sizes of a batch. Readers hand a batch on when either is reached.
const (
	TargetRows  = 8192
	TargetBytes = 1 << 20
)

// Limit is when a batch that is being filled is full: at so many rows or bytes, whatever comes first. A batch has one
// row at least, whatever its size. Zero stands for a target size.
type Limit struct {
	Rows  int
	Bytes int64
}

// Within gives the limit with the target sizes for what is not set; it is never above them.
func (l Limit) Within() Limit {
	if l.Rows <= 0 || l.Rows > TargetRows {
		l.Rows = TargetRows
	}
	if l.Bytes <= 0 || l.Bytes > TargetBytes {
		l.Bytes = TargetBytes
	}
	return l
}

// Batch is a run of rows of one table.
type Batch struct {
	Schema *Schema
	Cols   []arrow.Array    // one per column of the table, all of length Rows
	Rows   int              // also right for a table without columns
	Kinds  []schema.RowKind // nil: all rows are inserts; else of length Rows
}

// New puts columns together. kinds may be nil. It panics when lengths differ: that is a mistake in the caller.
func New(s *Schema, cols []arrow.Array, rows int, kinds []schema.RowKind) *Batch {
	if len(cols) != len(s.Table.Columns) {
		panic(fmt.Sprintf("BUG: %d arrays for %d columns of %s", len(cols), len(s.Table.Columns), s.Table.Path))
	}
	for i, c := range cols {
		if c.Len() != rows {
			panic(fmt.Sprintf("BUG: column %s has %d rows, the batch %d", s.Table.Columns[i].Name, c.Len(), rows))
		}
	}
	if kinds != nil && len(kinds) != rows {
		panic(fmt.Sprintf("BUG: %d row kinds for %d rows", len(kinds), rows))
	}
	return &Batch{Schema: s, Cols: cols, Rows: rows, Kinds: kinds}
}

// View is what a batch is made of, without arrays around the columns. It is for encoders.
type View struct {
	Schema *Schema
	Rows   int
	Kinds  []schema.RowKind
	Cols   []arrow.ArrayData
}

// View gives the parts of b; the columns are appended to cols.
func (b *Batch) View(cols []arrow.ArrayData) View {
	for _, c := range b.Cols {
		cols = append(cols, c.Data())
	}
	return View{Schema: b.Schema, Rows: b.Rows, Kinds: b.Kinds, Cols: cols}
}

// Kind is what row i does.
func (b *Batch) Kind(i int) schema.RowKind {
	if b.Kinds == nil {
		return schema.Insert
	}
	return b.Kinds[i]
}

// Slice shares rows [from, to) without copying them.
func (b *Batch) Slice(from, to int) *Batch {
	cols := make([]arrow.Array, len(b.Cols))
	for i, c := range b.Cols {
		cols[i] = array.NewSlice(c, int64(from), int64(to))
		settle(cols[i])
	}
	out := &Batch{Schema: b.Schema, Cols: cols, Rows: to - from}
	if b.Kinds != nil {
		out.Kinds = b.Kinds[from:to]
	}
	return out
}

// settle counts the nulls of a sliced array now: Arrow does it at the first question and writes the answer down,
// which is a race when several goroutines share the batch.
func settle(a arrow.Array) {
	a.NullN()
	if s, ok := a.(*array.Struct); ok {
		for f := range s.NumField() {
			settle(s.Field(f))
		}
	}
}

// Nulls is the number of nulls among the elements of d. Unlike d.NullN it is right for slices too.
func Nulls(d arrow.ArrayData) int {
	switch n := d.NullN(); {
	case d.DataType().ID() == arrow.NULL:
		return d.Len()
	case n >= 0:
		return n
	case len(d.Buffers()) == 0 || d.Buffers()[0] == nil:
		return 0
	}
	return d.Len() - bitutil.CountSetBits(d.Buffers()[0].Bytes(), d.Offset(), d.Len())
}

// Bytes is the size of the rows: what counters and queue bounds use. Validity bitmaps are left out.
func (b *Batch) Bytes() int64 {
	n := int64(len(b.Kinds))
	for _, c := range b.Cols {
		n += arrayBytes(c)
	}
	return n
}

func arrayBytes(a arrow.Array) int64 {
	switch t := a.(type) {
	case *array.String:
		return int64(len(t.ValueBytes())) + 4*int64(a.Len())
	case *array.Binary:
		return int64(len(t.ValueBytes())) + 4*int64(a.Len())
	case *array.List:
		return 4*int64(a.Len()) + ranged(t.ListValues(), t.Offsets(), a)
	case *array.Map:
		return 4*int64(a.Len()) + ranged(t.ListValues(), t.Offsets(), a)
	case *array.Struct:
		n := int64(0)
		for i := 0; i < t.NumField(); i++ {
			n += arrayBytes(t.Field(i))
		}
		return n
	case *array.Null:
		return 0
	}
	if f, ok := a.DataType().(arrow.FixedWidthDataType); ok {
		return (int64(a.Len())*int64(f.BitWidth()) + 7) / 8
	}
	return 0
}

// ranged is the size of the child values that a list array of some offsets covers.
func ranged(values arrow.Array, offsets []int32, list arrow.Array) int64 {
	if list.Len() == 0 || values.Len() == 0 {
		return 0
	}
	at := list.Data().Offset()
	from, to := int64(offsets[at]), int64(offsets[at+list.Len()])
	if to <= from {
		return 0
	}
	return arrayBytes(values) * (to - from) / int64(values.Len())
}
