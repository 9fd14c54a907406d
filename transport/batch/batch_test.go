package batch_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"pgregory.net/rapid"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/transport/batch/batchtest"
)

// TestGathererPicks: a gatherer fed from several batches, sliced or not, gives what picking value by value gives.
func TestGathererPicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := batchtest.Rand(rapid.Uint64().Draw(t, "seed"))
		tab := batchtest.Table(r)
		if rapid.Bool().Draw(t, "every type") {
			tab = batchtest.Every()
		}
		s := batch.NewSchema(tab, 0)
		g := batch.NewGatherer(s)
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			var parts []*batch.Batch
			for range rapid.IntRange(0, 3).Draw(t, "batches") {
				b := batchtest.Batch(r, s, 1+r.IntN(40))
				if r.IntN(2) == 0 {
					b = batchtest.Sliced(r, s, 1+r.IntN(40))
				}
				var rows []int32
				for range r.IntN(60) {
					rows = append(rows, int32(r.IntN(b.Rows)))
				}
				g.Append(b, rows)
				if len(rows) > 0 {
					parts = append(parts, batchtest.Pick(b, rows))
				}
			}
			want := batchtest.Concat(parts...)
			got := g.Peek()
			if (got == nil) != (want == nil) {
				t.Fatalf("got %v, want %v", got, want)
			}
			if got == nil {
				continue
			}
			if err := batchtest.Equal(got, want); err != nil {
				t.Fatal(err)
			}
			if g.Rows() != want.Rows || g.Bytes() != got.Bytes()-int64(len(got.Kinds))+kindBytes(got) {
				t.Fatalf("%d rows, %d bytes; batch %d, %d", g.Rows(), g.Bytes(), want.Rows, got.Bytes())
			}
			if rapid.Bool().Draw(t, "take") {
				got = g.Take()
				g.Append(batchtest.Batch(r, s, 5), []int32{0, 1, 2}) // must not touch what was taken
				g.Reset()
				if err := batchtest.Equal(got, want); err != nil {
					t.Fatalf("after more: %v", err)
				}
			} else {
				g.Reset()
			}
		}
	})
}

func kindBytes(b *batch.Batch) int64 { return int64(len(b.Kinds)) }

func TestSelect(t *testing.T) {
	r := batchtest.Rand(5)
	s := batch.NewSchema(batchtest.Every(), 0)
	b := batchtest.Sliced(r, s, 10)
	if batch.Select(b, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) != b {
		t.Error("all rows in order must be the batch itself")
	}
	if batch.Select(b, nil) != nil {
		t.Error("no rows must be nil")
	}
	rows := []int32{9, 3, 3, 0}
	if err := batchtest.Equal(batch.Select(b, rows), batchtest.Pick(b, rows)); err != nil {
		t.Error(err)
	}
}

// TestGather covers the gatherer's relative that fills an Arrow builder.
func TestGather(t *testing.T) {
	r := batchtest.Rand(6)
	s := batch.NewSchema(batchtest.Every(), 0)
	b := batchtest.Sliced(r, s, 30)
	rows := []int32{29, 0, 7, 7, 12}
	out := batch.NewBuilder(s)
	for c := range b.Cols {
		batch.Gather(out.Field(c), b.Cols[c], rows)
	}
	for _, row := range rows {
		out.EndRow(b.Kind(int(row)))
	}
	if err := batchtest.Equal(out.Finish(), batchtest.Pick(b, rows)); err != nil {
		t.Error(err)
	}
}

// TestHashOfEqualKeys: the hash of a row depends on its key alone: not on its place, the batch, or a slice.
func TestHashOfEqualKeys(t *testing.T) {
	s := batch.NewSchema(batchtest.Every(), 0)
	var all []int
	for i := range s.Table.Columns {
		all = append(all, i)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := batchtest.Rand(rapid.Uint64().Draw(t, "seed"))
		keys := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, 4, rapid.ID).Draw(t, "keys")
		b := batchtest.Sliced(r, s, 20)
		want := batch.Hash(nil, b, keys)
		rows := make([]int32, 30)
		for i := range rows {
			rows[i] = int32(r.IntN(20))
		}
		got := batch.Hash([]uint64{1, 2}, batchtest.Pick(b, rows), keys)
		if !slices.Equal(got[:2], []uint64{1, 2}) {
			t.Fatal("what was there before is gone")
		}
		for i, row := range rows {
			if got[2+i] != want[row] {
				t.Fatalf("keys %v: row %d hashes to %x, its copy to %x", keys, row, want[row], got[2+i])
			}
		}
	})
}

func TestHashOfEqualValues(t *testing.T) {
	one := func(typ schema.Type, add func(array.Builder)) uint64 {
		b := batch.NewBuilder(batch.NewSchema(&schema.Table{Columns: []schema.Column{schema.Col("k", typ)}}, 0))
		add(b.Field(0))
		b.EndRow(schema.Insert)
		return batch.Hash(nil, b.Finish(), []int{0})[0]
	}
	float := func(v float64) uint64 {
		return one(schema.Of(schema.Double), func(b array.Builder) { b.(*array.Float64Builder).Append(v) })
	}
	zero := 0.0
	if float(0) != float(-1*zero) || float(zero/zero) != float(-(zero/zero)) {
		t.Error("0 and -0, or two NaNs, hash apart")
	}
	small := one(schema.Of(schema.TinyInt), func(b array.Builder) { b.(*array.Int8Builder).Append(-3) })
	large := one(schema.Of(schema.BigInt), func(b array.Builder) { b.(*array.Int64Builder).Append(-3) })
	if small != large {
		t.Error("-3 hashes by its width")
	}
	if null := one(schema.Of(schema.BigInt), func(b array.Builder) { b.AppendNull() }); null == one(schema.Of(schema.BigInt), func(b array.Builder) { b.(*array.Int64Builder).Append(0) }) {
		t.Error("null hashes as 0")
	}
}

// TestHashIsForEver: state is placed by these values; a change would move it.
func TestHashIsForEver(t *testing.T) {
	s := batch.NewSchema(batchtest.Every(), 0)
	b := batchtest.Batch(batchtest.Rand(3), s, 50)
	sum := uint64(0)
	for c := range s.Table.Columns {
		for _, h := range batch.Hash(nil, b, []int{c, 0, 5}) {
			sum = sum*31 + h
		}
	}
	if want := uint64(0x581327ee871e5962); sum != want {
		t.Errorf("hashes sum to %#x, in version 1 to %#x", sum, want)
	}
}

func TestGroupsCoverConsumers(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 100, batch.KeyGroups} {
		last := -1
		for g := range batch.KeyGroups {
			o := batch.GroupOwner(g, n)
			if o < last || o > last+1 || o >= n {
				t.Fatalf("group %d of %d consumers belongs to %d after %d", g, n, o, last)
			}
			last = o
		}
		if last != n-1 {
			t.Fatalf("%d consumers, the last with groups is %d", n, last)
		}
	}
	if batch.KeyGroup(0) != 0 || batch.KeyGroup(^uint64(0)) != batch.KeyGroups-1 {
		t.Error("groups do not cover the hashes")
	}
}

func TestRollbackKeepsBuilders(t *testing.T) {
	s := batch.NewSchema(batchtest.Every(), 0)
	b := batch.NewBuilder(s)
	var fields []array.Builder
	for i := range s.Table.Columns {
		fields = append(fields, b.Field(i))
	}
	r, again := batchtest.Rand(8), batchtest.Rand(8)
	want := batch.NewBuilder(s)
	for row := range 20 {
		for i, f := range fields {
			batchtest.Append(r, f, true)
			batchtest.Append(again, want.Field(i), true)
		}
		b.EndRow(schema.Insert)
		want.EndRow(schema.Insert)
		if row%3 == 0 { // half a row that does not parse
			junk := batchtest.Rand(uint64(row))
			for _, f := range fields[:1+junk.IntN(len(fields))] {
				batchtest.Append(junk, f, false)
			}
			b.Rollback()
		}
	}
	if err := batchtest.Equal(b.Finish(), want.Finish()); err != nil {
		t.Error(err)
	}
}

func TestFull(t *testing.T) {
	f := func(name string, typ schema.Type, columns int, text string, least, most int) {
		t.Helper()
		tab := &schema.Table{}
		for range columns {
			tab.Columns = append(tab.Columns, schema.Col("c", typ))
		}
		b := batch.NewBuilder(batch.NewSchema(tab, 0))
		for !b.Full() {
			for i := range columns {
				switch f := b.Field(i).(type) {
				case *array.StringBuilder:
					f.Append(text)
				case *array.Int64Builder:
					f.Append(1)
				}
			}
			b.EndRow(schema.Insert)
		}
		if b.Rows() < least || b.Rows() > most {
			t.Errorf("%s: full with %d rows, want %d to %d", name, b.Rows(), least, most)
		}
		b.Finish()
		if b.Full() {
			t.Errorf("%s: full when empty", name)
		}
	}
	f("narrow", schema.Of(schema.BigInt), 1, "", batch.TargetRows, batch.TargetRows)
	f("wide", schema.Of(schema.BigInt), 1000, "", 131, 195)
	f("one large row", schema.Of(schema.String), 1, strings.Repeat("x", 2<<20), 1, 1)
	f("long rows", schema.Of(schema.String), 1, strings.Repeat("x", 1000), 1000, 1100)
}

// TestBuilderRowByRow: batches that differ in size, kinds that begin in the middle.
func TestBuilderRowByRow(t *testing.T) {
	r := batchtest.Rand(4)
	s := batch.NewSchema(batchtest.Table(r), 0)
	b := batch.NewBuilder(s)
	for _, rows := range []int{1, 3000, 5, 1, 200} {
		for i := range rows {
			for c := range s.Table.Columns {
				batchtest.Append(r, b.Field(c), true)
			}
			kind := schema.Insert
			if i == rows/2 && rows > 100 {
				kind = schema.Delete
			}
			b.EndRow(kind)
		}
		out := b.Finish()
		if out.Rows != rows || (out.Kinds != nil) != (rows > 100) {
			t.Fatalf("%d rows, kinds %v", out.Rows, out.Kinds != nil)
		}
		if rows > 100 && (out.Kind(rows/2) != schema.Delete || out.Kind(rows/2-1) != schema.Insert || out.Kind(rows-1) != schema.Insert) {
			t.Error("kinds are at the wrong rows")
		}
	}
	if b.Finish() != nil {
		t.Error("no rows must be nil")
	}
}

// TestSharedSlices: under the race detector this fails when a slice still counts its nulls lazily.
func TestSharedSlices(t *testing.T) {
	tab := batchtest.Every()
	// Arrow writes the null count of a Null array inside a list whenever the list is sliced, always the same value.
	tab.Columns = slices.DeleteFunc(tab.Columns, func(c schema.Column) bool { return c.Name == "rows" })
	s := batch.NewSchema(tab, 0)
	b := batchtest.Batch(batchtest.Rand(9), s, 200).Slice(3, 190)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, c := range b.Cols {
				c.NullN()
				if st, ok := c.(*array.Struct); ok {
					st.Field(0).NullN()
				}
			}
			b.Slice(5, 100).Bytes()
			batch.Select(b, []int32{1, 5, 7})
		})
	}
	wg.Wait()
}

func TestNulls(t *testing.T) {
	s := batch.NewSchema(batchtest.Every(), 0)
	b := batchtest.Batch(batchtest.Rand(2), s, 100)
	for i, c := range b.Cols {
		if c.DataType().ID() == arrow.NULL {
			continue // all are null, though IsNull of such an array says no
		}
		want := 0
		for row := 10; row < 90; row++ {
			if c.IsNull(row) {
				want++
			}
		}
		if got := batch.Nulls(array.NewSliceData(c.Data(), 10, 90)); got != want {
			t.Errorf("column %s: %d nulls, want %d", s.Table.Columns[i].Name, got, want)
		}
	}
	if batch.Nulls(array.NewData(arrow.PrimitiveTypes.Int8, 0, nil, nil, -1, 0)) != 0 {
		t.Error("nothing has nulls")
	}
}
