package json

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format"
	"strait/worker/format/field"
	"strait/worker/format/formattest"
)

func encode(t testing.TB, b *batch.Batch) []byte {
	t.Helper()
	out, err := NewEncoder(b.Schema.Table, nil, "").Encode(nil, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// decode reads in blocks; a block that holds no whole line grows.
func decode(s *batch.Schema, data []byte, block int) (*batch.Batch, error) {
	d := NewDecoder(s, field.DefaultFormats())
	var all []*batch.Batch
	for at, size := 0, block; at < len(data); {
		end := min(at+size, len(data))
		n, err := d.Decode(data[at:end], end == len(data))
		if err != nil {
			return nil, err
		}
		at += n
		if n == 0 {
			size *= 2
		}
		if d.Full() {
			all = append(all, d.Finish())
		}
	}
	if b := d.Finish(); b != nil {
		all = append(all, b)
	}
	return formattest.Concat(all), nil
}

func TestRoundTrip(t *testing.T) {
	s := batch.NewSchema(formattest.All(), 0)
	for seed, alphabet := range []string{"", "ab\"\\/\n\r\t\b\f\x01é\U0001F600 "} {
		want := formattest.Rand(s, 300, uint64(seed), alphabet)
		data := encode(t, want)
		for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			if !stdjson.Valid([]byte(line)) {
				t.Fatalf("not JSON: %s", line)
			}
		}
		for _, block := range []int{1 << 20, 1000, 17} {
			got, err := decode(s, data, block)
			if err != nil {
				t.Fatal(err)
			}
			if d := formattest.Diff(got, want); d != "" {
				t.Fatalf("blocks of %d: %s", block, d)
			}
		}
	}
}

// What SeaTunnel writes for a value of each type.
func TestWritten(t *testing.T) {
	tb := formattest.Table("s", "string", "b", "boolean", "d", "double", "m", "decimal(10, 2)", "x", "bytes", "day", "date", "at", "timestamp", "tm", "time", "n", "int", "a", "array<int>", "o", "map<int, string>")
	s := batch.NewSchema(tb, 0)
	in := `{"s":"a\"\u00e9\u0001","b":true,"d":1e10,"m":1.5,"x":"AQI=","day":"2024-02-29","at":"2024-02-29 01:02:03.25","tm":"01:02:03","n":null,"a":[1,null],"o":{"7":"x"}}`
	b, err := decode(s, []byte(in), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"s":"a\"é\u0001","b":true,"d":1.0E10,"m":1.50,"x":"AQI=","day":"2024-02-29","at":"2024-02-29T01:02:03.25","tm":"01:02:03","n":null,"a":[1,null],"o":{"7":"x"}}` + "\n"
	if got := string(encode(t, b)); got != want {
		t.Fatalf("%s, want\n%s", got, want)
	}
}

func TestRead(t *testing.T) {
	s := batch.NewSchema(formattest.Table("id", "int", "name", "string", "r", "row<x int, y string>"), 0)
	f := func(in, want string) {
		t.Helper()
		b, err := decode(s, []byte(in), 1<<20)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			for i := range b.Rows {
				got += fmt.Sprintf("%s|%s|%s;", b.Cols[0].ValueStr(i), b.Cols[1].ValueStr(i), b.Cols[2].ValueStr(i))
			}
		}
		if got != want {
			t.Fatalf("%s:\n%s, want\n%s", in, got, want)
		}
	}
	f("{\"id\":1,\"name\":\"a\"}\r\n\n {\"name\":\"b\",\"id\":2}", "1|a|(null);2|b|(null);")
	f(`{"other":[1,{"id":9}],"id":"7","id":8,"name":12.50}`, "8|12.50|(null);")
	f(`{"id":"","name":""}`, "(null)||(null);")
	f(`{"name":{"a":[1, 2]}}`, `(null)|{"a":[1,2]}|(null);`)
	f(`{"r":{"y":"q","x":3}}`, `(null)|(null)|{"x":3,"y":"q"};`)
	f(`{"id":1.5}`, `column id: "1.5" is not a whole number`)
	f(`{"id":true}`, `column id: "true" is a boolean, want int`)
	f(`{"id":3000000000}`, `column id: "3000000000" does not fit the type`)
	f(`{"r":{"x":"z"}}`, `column r: "{\"x\":\"z\"}" field x is not a whole number`)
	f(`{"r":[1]}`, `column r: "[1]" is a list, want an object`)
	f(`{"id":1}{"id":2}`, `"{\"id\":1}{\"id\":2}" is not JSON: unexpected tail: "{\"id\":2}"`)
	f("{\"id\":1}\n{\"name\":\"\xff\"}", `"{\"name\":\"?\"}" is not UTF-8 text; convert the file`)
}

func TestErrorOffset(t *testing.T) {
	s := batch.NewSchema(formattest.Table("id", "int"), 0)
	d := NewDecoder(s, field.DefaultFormats())
	_, err := d.Decode([]byte("{\"id\":1}\n\n{\"id\":x}\n"), true)
	var re *format.RowError
	if !errors.As(err, &re) || re.Offset != 10 || d.Rows() != 1 {
		t.Fatalf("%v, %d rows", err, d.Rows())
	}
	if b := d.Finish(); b.Rows != 1 || b.Cols[0].Len() != 1 {
		t.Fatal("the row before the error is not whole")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"c_string":"x","c_int":1,"c_row":{"c_int":2},"c_array":[1],"c_map":{"a":"b"},"c_deep":{"a":[1]}}`))
	f.Add([]byte("{\"c_bytes\":\"AQI=\",\"c_decimal\":1.5,\"c_timestamp\":\"2024-01-01T00:00:00\"}\n{}"))
	s := batch.NewSchema(formattest.All(), 0)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decode(s, data, 1<<20)
		if err != nil || b == nil {
			return
		}
		text := encode(t, b)
		again, err := decode(s, text, 64)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if second := encode(t, again); string(second) != string(text) {
			t.Fatalf("%s, then\n%s", text, second)
		}
	})
}

func flatTable() *schema.Table {
	return formattest.Table("id", "bigint", "name", "string", "score", "double", "amount", "decimal(10, 2)", "at", "timestamp", "flag", "boolean")
}

func BenchmarkDecode(b *testing.B) {
	s := batch.NewSchema(flatTable(), 0)
	data := encode(b, formattest.Rand(s, 8000, 1, ""))
	d := NewDecoder(s, field.DefaultFormats())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(data, true); err != nil {
			b.Fatal(err)
		}
		if d.Finish().Rows != 8000 {
			b.Fatal("rows")
		}
	}
	b.ReportMetric(8000*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkEncode(b *testing.B) {
	s := batch.NewSchema(flatTable(), 0)
	rows := formattest.Rand(s, 8000, 1, "")
	e := NewEncoder(s.Table, nil, "")
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = e.Encode(buf[:0], rows, nil)
	}
	b.SetBytes(int64(len(buf)))
	b.ReportMetric(8000*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
