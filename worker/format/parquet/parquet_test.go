package parquet

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/formattest"
)

func encode(t testing.TB, tb *schema.Table, o Options, batches ...*batch.Batch) []byte {
	t.Helper()
	columns := make([]int, len(tb.Columns))
	for i := range columns {
		columns[i] = i
	}
	l, err := NewLayout(tb, columns, o)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w, err := l.NewWriter(&buf, GroupBytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := w.Write(b, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func decode(data []byte, s *batch.Schema, from int64) (*batch.Batch, error) {
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	groups := make([]int, len(f.Groups()))
	for i := range groups {
		groups[i] = i
	}
	r, err := f.NewReader(context.Background(), s, groups, from, false)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []*batch.Batch
	for {
		b, err := r.Next()
		if err != nil {
			return nil, err
		}
		if b == nil {
			return formattest.Concat(all), nil
		}
		all = append(all, b)
	}
}

func TestRoundTrip(t *testing.T) {
	tb := formattest.All()
	tb.Columns = append(tb.Columns, formattest.Table("c_wide", "decimal(60, 5)", "c_null", "null", "c_nano", "timestamp(9)", "c_times", "array<timestamp>").Columns...)
	s := batch.NewSchema(tb, 0)
	want := formattest.Rand(s, 500, 1, "")
	for _, codec := range []string{"none", "snappy", "gzip", "zstd", "lz4", "brotli"} {
		got, err := decode(encode(t, tb, Options{Codec: codec}, want.Slice(0, 200), want.Slice(200, 500)), s, 0)
		if err != nil {
			t.Fatalf("%s: %v", codec, err)
		}
		if d := formattest.Diff(got, want); d != "" {
			t.Fatalf("%s: %s", codec, d)
		}
	}
	data := encode(t, tb, Options{Codec: "none"}, want)
	for _, from := range []int64{1, 255, 499, 500} {
		got, err := decode(data, s, from)
		if err != nil {
			t.Fatal(err)
		}
		var rest *batch.Batch
		if from < 500 {
			rest = want.Slice(int(from), 500)
		}
		if d := formattest.Diff(got, rest); d != "" {
			t.Fatalf("from row %d: %s", from, d)
		}
	}
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	cols, err := f.Columns()
	if err != nil {
		t.Fatal(err)
	}
	if got := (&schema.Table{Columns: cols}); !got.SameRow(tb) {
		t.Fatalf("inferred\n%v, want\n%v", cols, tb.Columns)
	}
}

func TestGather(t *testing.T) {
	tb := formattest.All()
	s := batch.NewSchema(tb, 0)
	b := formattest.Rand(s, 100, 2, "")
	columns := make([]int, len(tb.Columns))
	for i := range columns {
		columns[i] = i
	}
	l, err := NewLayout(tb, columns, Options{Codec: "none"})
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w, err := l.NewWriter(&buf, GroupBytes)
	if err != nil {
		t.Fatal(err)
	}
	rows := []int32{3, 1, 99}
	if err := w.Write(b, rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := decode(buf.Bytes(), s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := formattest.Diff(got, batch.Select(b, rows)); d != "" {
		t.Fatal(d)
	}
}

func TestInt96(t *testing.T) {
	tb := formattest.Table("at", "timestamp(9)")
	s := batch.NewSchema(tb, 0)
	want := formattest.Rand(s, 50, 3, "")
	got, err := decode(encode(t, tb, Options{Codec: "none", Int96: true}, want), s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := formattest.Diff(got, want); d != "" {
		t.Fatal(d)
	}
}

// Field case F24: an instant is marked UTC with microseconds, a wall clock is not, and both keep their value over
// the whole calendar.
func TestInstants(t *testing.T) {
	tb := formattest.Table("id", "int", "at", "timestamp_tz", "wall", "timestamp", "d", "date")
	s := batch.NewSchema(tb, 0)
	b := batch.NewBuilder(s)
	for _, line := range [][]string{{"1", "2024-06-30T15:30:00.000001Z", "2024-07-01 00:30:00.000001", "1969-12-31"}, {"2", "0001-01-01T00:00:00Z", "", ""}} {
		for i, text := range line {
			if text == "" {
				b.Field(i).AppendNull()
			} else if err := b.Field(i).AppendValueFromString(text); err != nil {
				t.Fatal(err)
			}
		}
		b.EndRow(schema.Insert)
	}
	want := b.Finish()
	data := encode(t, tb, Options{Codec: "none"}, want)
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	text := f.r.MetaData().Schema.String()
	for _, part := range []string{"at (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds", "wall (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds"} {
		if !strings.Contains(text, part) {
			t.Fatalf("%s\nlacks %s", text, part)
		}
	}
	got, err := decode(data, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := formattest.Diff(got, want); d != "" {
		t.Fatal(d)
	}
}

// Values read as another type: widened, checked, or refused when the file is opened.
func TestConvert(t *testing.T) {
	from := formattest.Table("n", "bigint", "d", "decimal(10, 2)", "s", "string", "f", "float", "t", "timestamp")
	s := batch.NewSchema(from, 0)
	b := batch.NewBuilder(s)
	for i, text := range []string{"7", "1.25", "x", "0.5", "2024-02-29 01:02:03.5"} {
		if err := b.Field(i).AppendValueFromString(text); err != nil {
			t.Fatal(err)
		}
	}
	b.EndRow(schema.Insert)
	data := encode(t, from, Options{Codec: "none"}, b.Finish())
	f := func(col, as, want string) {
		t.Helper()
		got, err := decode(data, batch.NewSchema(formattest.Table(col, as), 0), 0)
		text := ""
		if err != nil {
			text = err.Error()
		} else {
			text = got.Cols[0].ValueStr(0)
		}
		if !strings.Contains(text, want) {
			t.Fatalf("%s as %s: %q, want %q", col, as, text, want)
		}
	}
	f("n", "tinyint", "7")
	f("n", "int", "7")
	f("n", "double", "7")
	f("n", "decimal(5, 1)", "7")
	f("n", "string", "7")
	f("n", "date", "is int64 in the file and cannot be read as date")
	f("d", "decimal(12, 4)", "1.25")
	f("d", "decimal(2, 2)", `row 1: column d: "1.25" does not fit`)
	f("d", "string", "1.25")
	f("s", "bytes", "eA==")
	f("s", "int", "is utf8 in the file and cannot be read as int")
	f("f", "double", "0.5")
	f("t", "timestamp(9)", "2024-02-29T01:02:03.5")
	f("t", "timestamp_tz", "2024-02-29T01:02:03.5")
	f("t", "string", "2024-02-29 01:02:03")
	f("gone", "int", `has no column "gone"; it has n, d, s, f, t`)
	b = batch.NewBuilder(s)
	for i, text := range []string{"300", "1.25", "x", "0.5", "2024-02-29 01:02:03.5"} {
		if err := b.Field(i).AppendValueFromString(text); err != nil {
			t.Fatal(err)
		}
	}
	b.EndRow(schema.Insert)
	data = encode(t, from, Options{Codec: "none"}, b.Finish())
	f("n", "tinyint", `row 1: column n: "300" does not fit the type; the schema says tinyint`)
}

func TestDamaged(t *testing.T) {
	tb := formattest.All()
	s := batch.NewSchema(tb, 0)
	data := encode(t, tb, Options{Codec: "snappy"}, formattest.Rand(s, 300, 4, ""))
	for _, c := range []struct {
		data []byte
		want string
	}{
		{data[:len(data)/2], "the file is cut off"},
		{nil, "is not a parquet file"},
		{[]byte("id,name\n1,Ann\n2,Bo\n"), "is not a parquet file"},
	} {
		if _, err := decode(c.data, s, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Fatalf("error %v, want %q", err, c.want)
		}
	}
	r := rand.New(rand.NewPCG(5, 5))
	for range 100 { // any error or none, never a panic
		bad := bytes.Clone(data)
		for range 1 + r.IntN(4) {
			bad[r.IntN(len(bad))] ^= byte(1 + r.IntN(255))
		}
		_, _ = decode(bad, s, 0)
	}
}

// A file of SeaTunnel's: timestamps marked UTC are wall clocks, lists have two levels.
func TestSeaTunnelFile(t *testing.T) {
	const name = "../../../../shared/seatunnel-e2e/seatunnel-connector-v2-e2e/connector-file-local-e2e/src/test/resources/parquet/e2e.parquet"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Skip("the SeaTunnel fixtures are not here")
	}
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	cols, err := f.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, c := range cols {
		types = append(types, c.Name+" "+c.Type.String())
	}
	want := "[c_map map<string, string> c_array array<int> c_string string c_boolean boolean c_tinyint int c_smallint int c_int int c_bigint bigint c_float float c_double double c_bytes bytes c_date date c_decimal decimal(38, 18) c_timestamp timestamp"
	if got := fmt.Sprint(types); !strings.HasPrefix(got, want) {
		t.Fatalf("columns\n%s, want\n%s", got, want)
	}
	got, err := decode(data, batch.NewSchema(&schema.Table{Columns: cols}, 0), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got.Rows != 5 || got.Cols[2].ValueStr(0) != "GAnQV" || got.Cols[1].ValueStr(0) != "[829627748,715507997,121372532,526167221,191320370]" {
		t.Fatalf("%d rows, %s, %s", got.Rows, got.Cols[2].ValueStr(0), got.Cols[1].ValueStr(0))
	}
	narrow := formattest.Table("c_tinyint", "tinyint", "c_timestamp", "timestamp(3)")
	if got, err = decode(data, batch.NewSchema(narrow, 0), 0); err != nil || got.Cols[0].ValueStr(2) != "-105" {
		t.Fatalf("%v %v", got, err)
	}
}

func BenchmarkRead(b *testing.B) {
	tb := formattest.Flat()
	s := batch.NewSchema(tb, 0)
	data := encode(b, tb, Options{Codec: "snappy"}, formattest.Rand(s, 100000, 1, ""))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			b.Fatal(err)
		}
		r, err := f.NewReader(context.Background(), s, []int{0}, 0, false)
		if err != nil {
			b.Fatal(err)
		}
		for !r.Done() {
			if _, err := r.Next(); err != nil {
				b.Fatal(err)
			}
		}
		r.Close()
	}
	b.ReportMetric(100000*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkWrite(b *testing.B) {
	tb := formattest.Flat()
	s := batch.NewSchema(tb, 0)
	rows := formattest.Rand(s, 8192, 1, "")
	b.ReportAllocs()
	for b.Loop() {
		encode(b, tb, Options{Codec: "snappy"}, rows, rows, rows, rows)
	}
	b.ReportMetric(4*8192*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
