package wire

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
	"strait/transport/batch"
)

// fourColumns is the batch of the speed figures.
func fourColumns(rows int) *batch.Batch {
	s := batch.NewSchema(&schema.Table{Path: schema.Path{Table: "bench"}, Columns: []schema.Column{
		schema.Col("id", schema.Of(schema.BigInt)), schema.Col("price", schema.Of(schema.Double)),
		schema.Col("name", schema.Of(schema.String)), schema.Col("at", schema.Of(schema.Timestamp)),
	}}, 0)
	b := batch.NewBuilder(s)
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.Float64Builder).Append(float64(i%1000) / 7)
		b.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("user-%07d", i*7919%10_000_000))
		b.Field(3).(*array.TimestampBuilder).Append(arrow.Timestamp(1_700_000_000_000_000 + int64(i)*997))
	}
	b.EndRows(rows)
	return b.Finish()
}

// TestAllocations: what encoding and decoding allocate does not depend on the number of rows.
func TestAllocations(t *testing.T) {
	if testing.Short() || poison {
		t.Skip("counts allocations")
	}
	count := func(rows int) (encode, decode float64) {
		in, e := fourColumns(rows), NewEncoder(CodecNone)
		frame, _, err := e.Encode(in, 1)
		if err != nil {
			t.Fatal(err)
		}
		encode = testing.AllocsPerRun(50, func() {
			buf, _, _ := e.Encode(in, 1)
			buf.Release()
		})
		decode = testing.AllocsPerRun(50, func() {
			r := NewReader(bytes.NewReader(frame.B))
			h, _ := r.Next()
			d, _ := r.Data(h)
			if _, err := d.Decode(in.Schema); err != nil {
				t.Fatal(err)
			}
		})
		return encode, decode
	}
	e1, d1 := count(1000)
	e8, d8 := count(8000)
	t.Logf("allocations per batch of 4 columns: %.0f encoding, %.0f decoding", e8, d8)
	if e8 > e1+1 || d8 > d1+1 || e8 > 1 {
		t.Errorf("encoding %v and %v, decoding %v and %v allocations for 1,000 and 8,000 rows", e1, e8, d1, d8)
	}
}
