package batch_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
	"strait/transport/batch"
)

var benchSchema = batch.NewSchema(&schema.Table{Columns: []schema.Column{
	schema.Col("id", schema.Of(schema.BigInt)), schema.Col("price", schema.Of(schema.Double)),
	schema.Col("name", schema.Of(schema.String)), schema.Col("n", schema.Of(schema.Int)),
}}, 0)

func fillRows(b *batch.Builder, rows int) *batch.Batch {
	id, price := b.Field(0).(*array.Int64Builder), b.Field(1).(*array.Float64Builder)
	name, n := b.Field(2).(*array.StringBuilder), b.Field(3).(*array.Int32Builder)
	for i := range rows {
		id.Append(int64(i))
		price.Append(float64(i))
		name.Append("user-0000001")
		n.Append(int32(i))
		b.EndRow(schema.Insert)
	}
	return b.Finish()
}

func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkBuilder(b *testing.B) {
	b.ReportAllocs()
	builder := batch.NewBuilder(benchSchema)
	for range b.N {
		fillRows(builder, batch.TargetRows)
	}
	perRow(b, batch.TargetRows)
}

func BenchmarkHash(b *testing.B) {
	in := fillRows(batch.NewBuilder(benchSchema), batch.TargetRows)
	for _, keys := range [][]int{{0}, {2}, {0, 2}} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			b.ReportAllocs()
			var out []uint64
			for range b.N {
				out = batch.Hash(out[:0], in, keys)
			}
			perRow(b, in.Rows)
		})
	}
}

func BenchmarkGatherer(b *testing.B) {
	b.ReportAllocs()
	in := fillRows(batch.NewBuilder(benchSchema), batch.TargetRows)
	var rows []int32
	for i := 0; i < in.Rows; i += 8 {
		rows = append(rows, int32(i))
	}
	g := batch.NewGatherer(benchSchema)
	for range b.N {
		g.Append(in, rows)
		g.Reset()
	}
	perRow(b, len(rows))
}
