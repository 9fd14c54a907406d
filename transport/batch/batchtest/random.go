package batchtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"strait/plan/schema"
	"strait/transport/batch"
)

// Rand is a source of that seed.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// Every is a table with one column of every kind of type, nested ones included.
func Every() *schema.Table {
	t := &schema.Table{Path: schema.Path{Database: "db", Table: "every"}}
	for k := schema.Null; k <= schema.SparseFloatVector; k++ {
		typ := schema.Of(k)
		switch k {
		case schema.Decimal:
			typ = schema.DecimalOf(20, 4)
		case schema.Array:
			typ = schema.ArrayOf(schema.Of(schema.String))
		case schema.Map:
			typ = schema.MapOf(schema.Of(schema.String), schema.ArrayOf(schema.Of(schema.Int)))
		case schema.Row:
			typ = schema.RowOf(schema.Col("a", schema.Of(schema.BigInt)), schema.Col("b", schema.RowOf(schema.Col("c", schema.Of(schema.String)))))
		}
		t.Columns = append(t.Columns, schema.Col(k.String(), typ))
	}
	nano := schema.Of(schema.Timestamp)
	nano.Scale = 9
	t.Columns = append(t.Columns, schema.Col("wide_decimal", schema.DecimalOf(60, 10)), schema.Col("nano", nano),
		schema.Col("rows", schema.ArrayOf(schema.RowOf(schema.Col("x", schema.Of(schema.Boolean)), schema.Col("y", schema.Of(schema.Null))))))
	return t
}

// Table makes a random table of up to six columns.
func Table(r *rand.Rand) *schema.Table {
	t := &schema.Table{Path: schema.Path{Table: fmt.Sprintf("t%d", r.IntN(100))}}
	for i := range 1 + r.IntN(6) {
		t.Columns = append(t.Columns, schema.Col(fmt.Sprintf("c%d", i), Type(r, 2)))
	}
	return t
}

// Type makes a random type that nests at most so deep.
func Type(r *rand.Rand, depth int) schema.Type {
	k := schema.Kind(r.IntN(int(schema.SparseFloatVector) + 1))
	if depth == 0 && k >= schema.Array && k <= schema.Row {
		k = schema.String
	}
	switch k {
	case schema.Decimal:
		p := 1 + r.IntN(76)
		return schema.DecimalOf(p, r.IntN(p+1))
	case schema.Time, schema.Timestamp, schema.TimestampTZ:
		return schema.Type{Kind: k, Scale: r.IntN(10)}
	case schema.Array:
		return schema.ArrayOf(Type(r, depth-1))
	case schema.Map:
		return schema.MapOf(schema.Of(schema.String), Type(r, depth-1))
	case schema.Row:
		var fields []schema.Column
		for i := range 1 + r.IntN(3) {
			fields = append(fields, schema.Col(fmt.Sprintf("f%d", i), Type(r, depth-1)))
		}
		return schema.RowOf(fields...)
	}
	return schema.Of(k)
}

// Batch fills a batch of exactly that many rows: about one value in six is null in half of the columns, and half
// of the batches have row kinds.
func Batch(r *rand.Rand, s *batch.Schema, rows int) *batch.Batch {
	b := batch.NewBuilder(s)
	nulls := make([]bool, len(s.Table.Columns))
	for i := range nulls {
		nulls[i] = r.IntN(2) == 0
	}
	kinds := r.IntN(2) == 0
	for range rows {
		for i := range nulls {
			Append(r, b.Field(i), nulls[i])
		}
		kind := schema.Insert
		if kinds {
			kind = schema.RowKind(r.IntN(4))
		}
		b.EndRow(kind)
	}
	return b.Finish()
}

// Sliced is Batch as a slice of a longer one, so that offsets are not zero.
func Sliced(r *rand.Rand, s *batch.Schema, rows int) *batch.Batch {
	before, after := r.IntN(20), r.IntN(20)
	return Batch(r, s, before+rows+after+1).Slice(before, before+rows)
}

// Append appends a random value.
func Append(r *rand.Rand, b array.Builder, nulls bool) {
	if nulls && r.IntN(6) == 0 {
		b.AppendNull()
		return
	}
	few := r.IntN(4)
	switch t := b.(type) {
	case *array.NullBuilder:
		t.AppendNull()
	case *array.BooleanBuilder:
		t.Append(r.IntN(2) == 0)
	case *array.Int8Builder:
		t.Append(int8(r.Uint32()))
	case *array.Int16Builder:
		t.Append(int16(r.Uint32()))
	case *array.Int32Builder:
		t.Append(int32(r.Uint32()))
	case *array.Int64Builder:
		t.Append(int64(r.Uint64()))
	case *array.Float32Builder:
		t.Append(r.Float32())
	case *array.Float64Builder:
		t.Append(r.NormFloat64())
	case *array.Decimal128Builder:
		t.Append(decimal128.FromI64(r.Int64()))
	case *array.Decimal256Builder:
		t.Append(decimal256.FromI64(r.Int64()))
	case *array.StringBuilder:
		t.Append(text(r))
	case *array.BinaryBuilder:
		t.Append([]byte(text(r)))
	case *array.Date32Builder:
		t.Append(arrow.Date32(r.IntN(20000)))
	case *array.Time64Builder:
		t.Append(arrow.Time64(r.Int64N(86400_000_000)))
	case *array.TimestampBuilder:
		t.Append(arrow.Timestamp(r.Int64N(1 << 50)))
	case *array.MapBuilder:
		t.Append(true)
		for i := range few {
			switch k := t.KeyBuilder().(type) {
			case *array.StringBuilder:
				k.Append(fmt.Sprintf("k%d", i))
			case *array.Int32Builder:
				k.Append(int32(i))
			}
			Append(r, t.ItemBuilder(), nulls)
		}
	case *array.ListBuilder:
		t.Append(true)
		for range few {
			Append(r, t.ValueBuilder(), nulls)
		}
	case *array.StructBuilder:
		t.Append(true)
		for f := range t.NumField() {
			Append(r, t.FieldBuilder(f), nulls)
		}
	default:
		panic(fmt.Sprintf("BUG: no random value for %T", b))
	}
}

func text(r *rand.Rand) string {
	n := r.IntN(12)
	switch r.IntN(200) {
	case 0:
		n = 300
	case 1:
		n = 70_000
	}
	return string(bytes.Repeat([]byte{byte('a' + r.IntN(26))}, n))
}

// Equal says how two batches differ, or nil.
func Equal(a, b *batch.Batch) error {
	if a.Rows != b.Rows || len(a.Cols) != len(b.Cols) {
		return fmt.Errorf("%d rows in %d columns, and %d in %d", a.Rows, len(a.Cols), b.Rows, len(b.Cols))
	}
	if a.Kinds != nil || b.Kinds != nil {
		for i := range a.Rows {
			if a.Kind(i) != b.Kind(i) {
				return fmt.Errorf("row %d is %s, and %s", i, a.Kind(i), b.Kind(i))
			}
		}
	}
	for i := range a.Cols {
		if !array.Equal(a.Cols[i], b.Cols[i]) {
			return fmt.Errorf("column %s: %v, and %v", a.Schema.Table.Columns[i].Name, a.Cols[i], b.Cols[i])
		}
	}
	return nil
}

// Pick is what picking rows must give, value by value.
func Pick(b *batch.Batch, rows []int32) *batch.Batch {
	out := batch.NewBuilder(b.Schema)
	for _, row := range rows {
		for c := range b.Cols {
			batch.AppendRow(out.Field(c), b.Cols[c], int(row))
		}
		out.EndRow(b.Kind(int(row)))
	}
	return out.Finish()
}

// Concat puts batches of one table behind each other, value by value.
func Concat(batches ...*batch.Batch) *batch.Batch {
	batches = slices.DeleteFunc(slices.Clone(batches), func(b *batch.Batch) bool { return b == nil })
	if len(batches) == 0 {
		return nil
	}
	out := batch.NewBuilder(batches[0].Schema)
	for _, b := range batches {
		for row := range b.Rows {
			for c := range b.Cols {
				batch.AppendRow(out.Field(c), b.Cols[c], row)
			}
			out.EndRow(b.Kind(row))
		}
	}
	return out.Finish()
}
