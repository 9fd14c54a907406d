package fake

import (
	"math/bits"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/transport/batch"
	"strait/worker/connector"
)

type batchOf = *batch.Batch

// eachBatch reads every split of a source.
func eachBatch(t testing.TB, s connector.Source, f func(b batchOf)) {
	t.Helper()
	e, err := s.NewEnumerator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Discover(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	schemas := batch.Schemas(s.Tables())
	r, err := s.NewReader(t.Context(), connector.ReaderContext{Parallelism: 1, Schemas: schemas})
	if err != nil {
		t.Fatal(err)
	}
	out := connector.NewOutput(schemas, batch.Limit{})
	for _, sp := range d.Splits {
		if err := r.Open(t.Context(), sp, nil); err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			p, err := r.Read(t.Context(), out)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range out.Take() {
				f(b)
			}
			done = p.Done
		}
	}
}

const benchRows = 10 * batch.TargetRows

func BenchmarkFakeSource(b *testing.B) {
	s := open(b, `{"seed": 1, "row.num": 81920, "string.length": 12, "schema": {"fields": {"i": "bigint", "f": "double", "s": "string", "t": "timestamp"}}}`)
	b.ReportAllocs()
	rows := 0
	for b.Loop() {
		eachBatch(b, s, func(x batchOf) { rows += x.Rows })
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
	b.ReportMetric(float64(rows)/batch.TargetRows/float64(b.N), "batches/op")
}

// BenchmarkYardstick fills the same builders with numbers as cheap as can be made.
func BenchmarkYardstick(b *testing.B) {
	s := open(b, `{"schema": {"fields": {"i": "bigint", "f": "double", "s": "string", "t": "timestamp"}}}`)
	bb := batch.NewBuilder(batch.Schemas(s.Tables())[0])
	b.ReportAllocs()
	rows := 0
	for b.Loop() {
		x := uint64(1)
		for range benchRows / batch.TargetRows {
			const n = batch.TargetRows
			bb.Reserve(n)
			i64, f64 := bb.Field(0).(*array.Int64Builder), bb.Field(1).(*array.Float64Builder)
			str, ts := bb.Field(2).(*array.StringBuilder), bb.Field(3).(*array.TimestampBuilder)
			for range n {
				x += golden
				i64.UnsafeAppend(int64(x >> 1))
			}
			for range n {
				x += golden
				f64.UnsafeAppend(float64(x>>11) / (1 << 53))
			}
			str.ReserveData(12 * n)
			var text [12]byte
			for range n {
				x += golden
				y := x
				for k := range text {
					hi, lo := bits.Mul64(y, uint64(len(alphabet)))
					text[k], y = alphabet[hi], lo
				}
				str.BinaryBuilder.Append(text[:])
			}
			for range n {
				x += golden
				ts.UnsafeAppend(arrow.Timestamp(x >> 14))
			}
			bb.EndRows(n)
			rows += bb.Finish().Rows
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
