package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/schema"
)

// Builder fills a batch column by column or row by row. One goroutine owns it.
//
// Row by row: append one value to every Field, then EndRow. Columnar: append n values to every Field, then
// EndRows(n). Finish starts over.
type Builder struct {
	schema *Schema
	fields []array.Builder
	kinds  []schema.RowKind // empty while all rows so far are inserts
	limit  Limit
	rows   int
	bytes  int64 // of all rows, as of the last look
	looked int
	width  int64 // bytes of a row in columns of fixed width

	lastRows int   // of the batch before: room is made for as many once a first row shows that more come
	lastData []int // likewise, bytes of data per string or binary column
}

// NewBuilder makes an empty builder. From the second batch on it makes room for as many rows as the last had.
func NewBuilder(s *Schema) *Builder {
	b := &Builder{schema: s, limit: Limit{}.Within(), fields: make([]array.Builder, len(s.Table.Columns)), lastData: make([]int, len(s.Table.Columns))}
	for i, f := range s.Arrow.Fields() {
		b.fields[i] = array.NewBuilder(memory.DefaultAllocator, f.Type)
		if w, ok := f.Type.(arrow.FixedWidthDataType); ok {
			b.width += int64(w.BitWidth()+7) / 8
		} else {
			b.width += 4 // an offset
		}
	}
	return b
}

// Limit says when the builder is full, instead of at the target sizes.
func (b *Builder) Limit(l Limit) { b.limit = l.Within() }

// Schema is the table the builder fills.
func (b *Builder) Schema() *Schema { return b.schema }

// Field is the builder of column i; type-assert it once per batch, not per row. The concrete types are those
// of array.NewBuilder for DataType.
func (b *Builder) Field(i int) array.Builder { return b.fields[i] }

// Reserve makes room for n more rows in every column.
func (b *Builder) Reserve(n int) {
	for _, f := range b.fields {
		f.Reserve(n)
	}
}

// EndRow closes a row that every field has received a value for.
func (b *Builder) EndRow(kind schema.RowKind) {
	if kind != schema.Insert && len(b.kinds) == 0 {
		b.kinds = append(b.kinds[:0], make([]schema.RowKind, b.rows)...)
	}
	if kind != schema.Insert || len(b.kinds) > 0 {
		b.kinds = append(b.kinds, kind)
	}
	if b.rows++; b.rows == 1 && b.lastRows > 1 {
		b.reserveLikeLast()
	}
}

// reserveLikeLast spares a batch that becomes like the last one the growing in steps.
func (b *Builder) reserveLikeLast() {
	for i, f := range b.fields {
		f.Reserve(b.lastRows - 1)
		switch t := f.(type) {
		case *array.StringBuilder:
			t.ReserveData(max(b.lastData[i]-t.DataLen(), 0))
		case *array.BinaryBuilder:
			t.ReserveData(max(b.lastData[i]-t.DataLen(), 0))
		}
	}
}

// EndRows closes n rows, all inserts.
func (b *Builder) EndRows(n int) {
	if len(b.kinds) > 0 {
		b.kinds = append(b.kinds, make([]schema.RowKind, n)...)
	}
	b.rows += n
}

// Rows is the number of closed rows.
func (b *Builder) Rows() int { return b.rows }

// Full says that the batch has reached its limit. It is cheap enough to be asked after every row.
func (b *Builder) Full() bool {
	if b.rows >= b.limit.Rows {
		return true
	}
	if b.rows-b.looked >= min(max(b.looked, 1), 32) { // after rows 1, 2, 4 … 32, then every 32: rows may be large
		b.looked = b.rows
		b.bytes = int64(b.rows) * b.width
		for _, f := range b.fields {
			b.bytes += variableBytes(f)
		}
	}
	return b.bytes >= b.limit.Bytes
}

func variableBytes(f array.Builder) int64 {
	switch t := f.(type) {
	case *array.StringBuilder:
		return int64(t.DataLen())
	case *array.BinaryBuilder:
		return int64(t.DataLen())
	case *array.ListBuilder:
		return fixedBytes(t.ValueBuilder()) + variableBytes(t.ValueBuilder())
	case *array.MapBuilder:
		return variableBytes(t.KeyBuilder()) + variableBytes(t.ItemBuilder()) + fixedBytes(t.ItemBuilder())
	case *array.StructBuilder:
		n := int64(0)
		for i := 0; i < t.NumField(); i++ {
			n += variableBytes(t.FieldBuilder(i))
		}
		return n
	}
	return 0
}

func fixedBytes(f array.Builder) int64 { return 8 * int64(f.Len()) }

// Rollback drops values appended since the last closed row, so that a row that does not parse leaves nothing
// behind. It copies the open batch and is meant for the error path only. The builders of Field stay valid.
func (b *Builder) Rollback() {
	for _, f := range b.fields {
		if f.Len() <= b.rows {
			continue
		}
		whole := f.NewArray() // leaves f empty
		AppendRange(f, whole, 0, b.rows)
	}
}

// Finish returns the closed rows as a batch and starts over. With no rows it returns nil.
func (b *Builder) Finish() *Batch {
	if b.rows == 0 {
		return nil
	}
	cols := make([]arrow.Array, len(b.fields))
	for i, f := range b.fields {
		switch t := f.(type) {
		case *array.StringBuilder:
			b.lastData[i] = t.DataLen()
		case *array.BinaryBuilder:
			b.lastData[i] = t.DataLen()
		}
		cols[i] = f.NewArray()
	}
	b.lastRows = b.rows
	out := New(b.schema, cols, b.rows, nil)
	if len(b.kinds) > 0 {
		out.Kinds = b.kinds
		b.kinds = nil
	}
	b.rows, b.bytes, b.looked = 0, 0, 0
	return out
}
