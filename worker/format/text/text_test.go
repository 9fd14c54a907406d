package text

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"strait/transport/batch"
	"strait/worker/format/field"
	"strait/worker/format/formattest"
)

func TestRoundTrip(t *testing.T) {
	formats, err := field.NewFormats("yyyy/MM/dd", "HH:mm:ss.SSSSSS", "yyyy/MM/dd'T'HH:mm:ss.SSSSSS")
	if err != nil {
		t.Fatal(err)
	}
	s := batch.NewSchema(formattest.All(), 0)
	for _, o := range []Options{
		{Delimiter: DefaultDelimiter, Formats: formats},
		{Delimiter: ";;", RowDelimiter: "\r", Formats: formats},
		{Delimiter: "\t", Null: `\N`, HasNull: true, Formats: formats},
	} {
		want := formattest.Rand(s, 300, 5, "")
		e, err := NewEncoder(s.Table, nil, o, false)
		if err != nil {
			t.Fatal(err)
		}
		data, err := e.Encode(nil, want, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewDecoder(s, o, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := d.Decode(data, true); err != nil || n != len(data) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
		if diff := formattest.Diff(d.Finish(), want); diff != "" {
			t.Fatalf("%+v: %s", o, diff)
		}
	}
}

// A hundred columns, of which two are read.
func TestWide(t *testing.T) {
	var words []string
	for i := range 100 {
		words = append(words, fmt.Sprintf("c%d", i), []string{"int", "string", "double", "date"}[i%4])
	}
	s := batch.NewSchema(formattest.Table(words...), 0)
	want := formattest.Rand(s, 3000, 5, "")
	o := Options{Delimiter: "|", Formats: field.DefaultFormats()}
	e, err := NewEncoder(s.Table, nil, o, true)
	if err != nil {
		t.Fatal(err)
	}
	data := e.Header(nil)
	head := len(data)
	if !strings.HasPrefix(string(data), "c0|c1|c2|") {
		t.Fatalf("header %q", data)
	}
	if data, err = e.Encode(data, want, nil); err != nil {
		t.Fatal(err)
	}
	two := batch.NewSchema(formattest.Table("c97", "string", "c0", "int"), 0)
	d, err := NewDecoder(two, o, []int{97, 0}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var all []*batch.Batch
	for at := head; at < len(data); {
		n, err := d.Decode(data[at:], true)
		if err != nil {
			t.Fatal(err)
		}
		at += n
		all = append(all, d.Finish())
	}
	got := formattest.Concat(all)
	ref := batch.New(two, []arrow.Array{want.Cols[97], want.Cols[0]}, want.Rows, nil)
	if diff := formattest.Diff(got, ref); diff != "" {
		t.Fatal(diff)
	}
}

func TestDelimiter(t *testing.T) {
	for in, want := range map[string]string{`\|`: "|", `\t`: "\t", `\u0001`: "\x01", `\x01`: "\x01", "|": "|", ";;": ";;", `\\`: `\`, `a\.b`: "a.b", "\x01": "\x01", `\`: `\`} {
		if got, err := Delimiter(in); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{`\s+`, `\u00`, `\xzz`, `\d`} {
		if got, err := Delimiter(in); err == nil {
			t.Errorf("%q: %q, want an error", in, got)
		}
	}
}
