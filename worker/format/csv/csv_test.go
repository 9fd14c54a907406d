package csv

import (
	"bytes"
	stdcsv "encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format"
	"strait/worker/format/field"
	"strait/worker/format/formattest"
)

func texts3(n int) *schema.Table {
	t := &schema.Table{}
	for i := range n {
		t.Columns = append(t.Columns, schema.Col(fmt.Sprintf("c%d", i), schema.Of(schema.String)))
	}
	return t
}

// records decodes data in blocks and gives every row as its fields, NULL for null.
func records(s *batch.Schema, o Options, data []byte, block int, general bool) (out []string, err error) {
	d, err := NewDecoder(s, o, nil, 0)
	if err != nil {
		return nil, err
	}
	if general {
		d.fast = false
	}
	emit := func() {
		b := d.Finish()
		if b == nil {
			return
		}
		for i := range b.Rows {
			var line []string
			for _, c := range b.Cols {
				switch {
				case c.IsNull(i):
					line = append(line, "NULL")
				case c.DataType().Name() == "utf8":
					line = append(line, fmt.Sprintf("%q", c.(*array.String).Value(i)))
				default:
					line = append(line, c.ValueStr(i))
				}
			}
			out = append(out, strings.Join(line, "|"))
		}
	}
	at, size := 0, block
	for {
		end := min(at+size, len(data))
		n, derr := d.Decode(data[at:end], end == len(data))
		if derr != nil {
			var re *format.RowError
			if !errors.As(derr, &re) {
				return out, derr
			}
			re.Offset += int64(at)
			emit()
			return out, re
		}
		at += n
		if d.Full() || n == 0 || at == len(data) {
			emit()
		}
		if at == len(data) {
			return out, nil
		}
		if n == 0 {
			size *= 2
		}
	}
}

func TestGrammar(t *testing.T) {
	three := batch.NewSchema(texts3(3), 0)
	f := func(o Options, in string, want ...string) {
		t.Helper()
		if o.Formats == nil {
			o.Formats = field.DefaultFormats()
		}
		if o.Delimiter == "" {
			o.Delimiter = ","
		}
		for _, general := range []bool{false, true} {
			if !general && !o.simple() {
				continue
			}
			got, err := records(three, o, []byte(in), 1<<20, general)
			if err != nil {
				got = append(got, err.Error())
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("general %v, %q:\n%q, want\n%q", general, in, got, want)
			}
		}
	}
	q := Options{Quote: '"'}
	f(q, "a,b,c\n", `"a"|"b"|"c"`)
	f(q, "a,b,c", `"a"|"b"|"c"`)
	f(q, "a,b,c\r\n\r\n\nd,e,f\r\n", `"a"|"b"|"c"`, `"d"|"e"|"f"`)
	f(q, ",\"\",\n", `NULL|""|NULL`)
	f(q, "\"a\nb\",\"c\"\"d\",\"e,f\"\r\n", `"a\nb"|"c\"d"|"e,f"`)
	f(q, "5\" pipe,a\"b\",c\"\n", `"5\" pipe"|"a\"b\""|"c\""`)
	f(q, "a\rb,c,d\n", `"a\rb"|"c"|"d"`)
	f(q, "a,b\n", "the row has 2 of 3 fields")
	f(q, "a,b,c,d\n", "the row has more than 3 fields")
	f(q, "a,b,c\nx,\"y\"z,1\n", `"a"|"b"|"c"`, errAfterQuote.Error())
	f(q, "a,b,c\nx,\"y,1\n", `"a"|"b"|"c"`, errOpenQuote.Error())
	f(q, "a,\xff,c\n", `column c1: "\xff" is not UTF-8 text; convert the file`)
	f(Options{Quote: '\'', Delimiter: ";"}, "a;'b;''c''';d\n", `"a"|"b;'c'"|"d"`)
	f(Options{Quote: '"', Escape: '\\'}, "a\\,b,\"c\\\"d\",e\\nf\\x\n", `"a,b"|"c\"d"|"e\nf\\x"`)
	f(Options{Delimiter: ";;"}, "a;b;;c;;\n;;;;z\n", `"a;b"|"c"|NULL`, `NULL|NULL|"z"`)
	f(Options{Delimiter: "||", RowDelimiter: "$$\n"}, "a||b\n||c$$\nd|||e||f$$\n", `"a"|"b\n"|"c"`, `"d"|"|e"|"f"`)
	f(Options{Ragged: true}, "a\nb,c,d,e\n\n", `"a"|NULL|NULL`, `"b"|"c"|"d"`)
	f(Options{Ragged: true, Blank: true}, "\na\n", "NULL|NULL|NULL", `"a"|NULL|NULL`)
	f(Options{Quote: '"', HasNull: true, Null: `\N`}, "\\N,\"\\N\",x\n", `NULL|"\\N"|"x"`)
	f(Options{Raw: true}, ",a,\n", `""|"a"|""`)
}

func TestTypes(t *testing.T) {
	o := Options{Delimiter: ",", Quote: '"', Formats: field.DefaultFormats()}
	f := func(typ, in, want string) {
		t.Helper()
		for _, pad := range []string{"", strings.Repeat("1,1\n", 20)} { // at the start of a block, and behind it
			tb := formattest.Table("a", "string", "x", typ)
			got, err := records(batch.NewSchema(tb, 0), o, []byte(strings.Replace(pad, "1\n", "\n", -1)+"k,"+in+"\n"), 1<<20, false)
			text := ""
			if err != nil {
				text = err.Error()
			} else {
				_, text, _ = strings.Cut(got[len(got)-1], "|")
			}
			if text != want {
				t.Fatalf("%q as %s: %q, want %q", in, typ, text, want)
			}
		}
	}
	f("int", "-2147483648", "-2147483648")
	f("int", "2147483648", `column x: "2147483648" does not fit the type`)
	f("int", "+7", "7")
	f("int", "007", "7")
	f("int", `"12"`, "12")
	f("int", " ", "NULL")
	f("int", `""`, "NULL")
	f("int", "1x", `column x: "1x" is not a whole number`)
	f("int", "-", `column x: "-" is not a whole number`)
	f("tinyint", "-128", "-128")
	f("tinyint", "128", `column x: "128" does not fit the type`)
	f("bigint", "9223372036854775807", "9223372036854775807")
	f("bigint", "-9223372036854775808", "-9223372036854775808")
	f("bigint", "9223372036854775808", `column x: "9223372036854775808" does not fit the type`)
	f("bigint", "1234567890123456", "1234567890123456")
	f("double", "1e300", "1e+300")
	f("double", "-0.5", "-0.5")
	f("double", "-0.0", "-0")
	f("double", "NaN", "NaN")
	f("double", "0x10", `column x: "0x10" is not a number`)
	f("double", "1_0", `column x: "1_0" is not a number`)
	f("double", ".", `column x: "." is not a number`)
	f("double", "123.", "123")
	f("double", ".5", "0.5")
	f("decimal(10, 2)", "123.45", "123.45")
	f("decimal(10, 2)", "-0.005", "-0.01")
	f("decimal(10, 2)", "0.004", "0")
	f("decimal(10, 2)", "99999999.99", "99999999.99")
	f("decimal(10, 2)", "100000000.00", `column x: "100000000.00" has more digits than the decimal type holds`)
	f("decimal(10, 2)", "1.2.3", `column x: "1.2.3" is not a decimal number`)
	f("decimal(38, 18)", "76258155390368615610.764625237318660291", "76258155390368615610.764625237318660291")
	f("boolean", "TRUE", "true")
	f("boolean", "1", `column x: "1" is neither true nor false`)
	f("date", "2024-02-29", "2024-02-29")
	f("date", "2023-02-29", `column x: "2023-02-29" is not a date of the pattern yyyy-MM-dd or another usual one; name its pattern with date_format`)
	f("date", "0000-03-01", "0000-03-01")
	f("date", "1969-12-31", "1969-12-31")
	f("date", "2024/1/5", "2024-01-05")
	f("date", "20240105", "2024-01-05")
	f("date", "2024-00-10", `column x: "2024-00-10" is not a date of the pattern yyyy-MM-dd or another usual one; name its pattern with date_format`)
	f("time", "23:59:59", "23:59:59.000000")
	f("time", "24:00:00", `column x: "24:00:00" is not a time of the pattern HH:mm:ss or another usual one; name its pattern with time_format`)
	f("timestamp", "2024-02-29 23:59:59", "2024-02-29T23:59:59")
	f("timestamp", "2024-02-29T23:59:59.123456", "2024-02-29T23:59:59.123456")
	f("timestamp", "2024-02-29 24:00:00", `column x: "2024-02-29 24:00:00" is not a timestamp of the pattern yyyy-MM-dd HH:mm:ss or another usual one; name its pattern with datetime_format`)
	f("timestamp(9)", "2024-02-29 23:59:59", "2024-02-29T23:59:59")
	f("timestamp_tz", "2024-02-29T23:59:59+02:00", "2024-02-29T21:59:59Z")
	f("bytes", "a\xffb", "Yf9i")
	f("array<int>", "1\x022\x02", "[1,2,null]")
}

// Values written and read again are the same, in every type; so are texts with anything in them.
func TestRoundTrip(t *testing.T) {
	tb := formattest.All()
	s := batch.NewSchema(tb, 0)
	formats, err := field.NewFormats("", "HH:mm:ss.SSSSSS", "yyyy-MM-dd HH:mm:ss.SSSSSS")
	if err != nil {
		t.Fatal(err)
	}
	flat := batch.NewSchema(formattest.Flat(), 0)
	for _, c := range []struct {
		s        *batch.Schema
		o        Options
		alphabet string
	}{
		{s, Options{Delimiter: ",", Quote: '"', Formats: formats}, ""},
		{flat, Options{Delimiter: ",", Quote: '"', Formats: formats}, "ab,\"\n\r é;'"},
		{flat, Options{Delimiter: "\";", Quote: '\'', Formats: formats}, "ab,\"\n\r é;'"},
		{flat, Options{Delimiter: ";;", Quote: '"', RowDelimiter: "\n\n", Formats: formats}, "ab,\"\n\r é;'"},
		{flat, Options{Delimiter: ",", Quote: '"', Escape: '\\', Formats: formats}, "ab,\"\n\r\\ntbf;'"},
		{flat, Options{Delimiter: "1", Quote: '"', Formats: formats}, "ab1,\""},
		{flat, Options{Delimiter: ",", Quote: '"', HasNull: true, Null: "a", Formats: formats}, "ab,"},
	} {
		want := formattest.Rand(c.s, 300, 9, c.alphabet)
		e, err := NewEncoder(c.s.Table, nil, c.o, QuoteMinimal, false)
		if err != nil {
			t.Fatal(err)
		}
		data, err := e.Encode(nil, want, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewDecoder(c.s, c.o, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := d.Decode(data, true); err != nil || n != len(data) {
			t.Fatalf("%+v: %d of %d bytes, %v", c.o, n, len(data), err)
		}
		if diff := formattest.Diff(d.Finish(), want); diff != "" {
			t.Fatalf("%+v: %s", c.o, diff)
		}
	}
}

// What is left when a value does not parse: the rows before it, and the same error for any block size.
func TestFirstErrorCounts(t *testing.T) {
	s := batch.NewSchema(formattest.Table("a", "int", "b", "date", "c", "string"), 0)
	data := []byte("1,2024-01-01,x\n2,2024-01-01,y\n3,nope,z\nfour,2024-01-01,w\n5,2024-01-01\n")
	for block := 1; block < len(data)+1; block++ {
		got, err := records(s, csvOptions(), data, block, block%2 == 0)
		if err == nil || err.Error() != `column b: "nope" is not a date of the pattern yyyy-MM-dd or another usual one; name its pattern with date_format` || len(got) != 2 {
			t.Fatalf("block %d: %q, %v", block, got, err)
		}
		var re *format.RowError
		if !errors.As(err, &re) || re.Offset != 30 {
			t.Fatalf("block %d: offset %v", block, err)
		}
	}
}

func FuzzAgainstEncodingCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "\"a\",\"b\"\"c\"\n", "\"a\nb\",c\r\n", "a,b", ",\n,\n", "\n\n\r\n", "a\"b,c\n", "\"a\"x\n", "\"a", "a\r\nb\r", "\r", "é,\xff\n",
		strings.Repeat("abc,\"d\"\"e\",f\n", 20), "\"" + strings.Repeat("x\n", 70) + "\",y\n"} {
		f.Add([]byte(s), byte(','))
		f.Add([]byte(s), byte(';'))
	}
	f.Fuzz(againstEncodingCSV)
}

func againstEncodingCSV(t *testing.T, data []byte, delim byte) {
	if delim >= utf8.RuneSelf || delim == '"' || delim == '\r' || delim == '\n' || delim == 0 || !utf8.Valid(data) {
		return // encoding/csv does not look at UTF-8
	}
	r := stdcsv.NewReader(bytes.NewReader(data))
	r.Comma = rune(delim)
	var want []string
	fields := 0
	var werr error
	for {
		rec, err := r.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				werr = err
			}
			break
		}
		if fields == 0 {
			fields = len(rec)
		}
		for i := range rec {
			rec[i] = fmt.Sprintf("%q", rec[i])
		}
		want = append(want, strings.Join(rec, "|"))
	}
	if errors.Is(werr, stdcsv.ErrBareQuote) {
		return // here a quote inside an unquoted field is text
	}
	if fields == 0 {
		fields = 1
	}
	o := Options{Delimiter: string(rune(delim)), Quote: '"', Raw: true, Formats: field.DefaultFormats()}
	for _, general := range []bool{false, true} {
		got, err := records(batch.NewSchema(texts3(fields), 0), o, data, 1<<20, general)
		if (err != nil) != (werr != nil) {
			t.Fatalf("general %v, %q: error %v, encoding/csv %v", general, data, err, werr)
		}
		if werr != nil {
			continue
		}
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], `\r\n`, `\n`) // which encoding/csv does inside quotes
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("general %v, %q:\n%q, encoding/csv\n%q", general, data, got, want)
		}
	}
}

// FuzzSplits reads the same bytes whole, in blocks of any size, by either splitter, and as parts between borders.
func FuzzSplits(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "\"a\n\"\"b\",c\n\"d\",\"e\n\n\"\n", "a\"b,c\n\"x\"\",\n\",y\n", ",\"\n", "\"\"\n\"\"\"\n\"\n", "x,y\r\n\"\r\n\",z\r\n", strings.Repeat("ab,\"c\nd\"\n", 40)} {
		for _, k := range []uint16{1, 2, 3, 7} {
			f.Add([]byte(s), k, byte(k))
		}
	}
	f.Fuzz(splits)
}

func splits(t *testing.T, data []byte, block uint16, kind byte) {
	o := Options{Delimiter: ",", Quote: '"', Formats: field.DefaultFormats()}
	switch kind % 5 {
	case 1:
		o.Ragged = true
	case 2:
		o.Quote = 0
	case 3:
		o.Escape = '\\'
	case 4:
		o.Delimiter = ",;"
	}
	n, _, ok, err := o.Record(data, true)
	if len(data) == 0 || !ok || err != nil || len(n) > 50 {
		return
	}
	s := batch.NewSchema(texts3(len(n)), 0)
	want, werr := records(s, o, data, 1<<20, false)
	same := func(what string, got []string, err error) {
		t.Helper()
		if (err == nil) != (werr == nil) || err != nil && err.Error() != werr.Error() {
			t.Fatalf("%q, %s of %d (kind %d): error %v, at once %v", data, what, block, kind, err, werr)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q, %s of %d (kind %d):\n%q, at once\n%q", data, what, block, kind, got, want)
		}
	}
	size := int(block)%(len(data)+1) + 1
	got, err := records(s, o, data, size, false)
	same("in blocks", got, err)
	got, err = records(s, o, data, size, true)
	same("in blocks by the general splitter", got, err)
	if !o.Splittable() {
		return
	}
	sc := NewScanner(bytes.NewReader(data), &o, int64(len(data)))
	sc.buf = sc.buf[:max(1, size/2)] // borders on the edges of its buffer
	got, err = nil, nil
	last := int64(0)
	for from := int64(0); from < int64(len(data)); {
		to, berr := sc.Border(from, from+int64(size))
		if berr != nil {
			t.Fatal(berr)
		}
		if to <= from || to > int64(len(data)) {
			t.Fatalf("the border behind %d is %d", from, to)
		}
		if direct, berr := NewScanner(bytes.NewReader(data), &o, int64(len(data))).Border(0, from+int64(size)); berr != nil || werr == nil && direct != to {
			t.Fatalf("border %d counted from %d, %d from the start; %v", to, from, direct, berr)
		}
		part, perr := records(s, o, data[from:to], 1<<20, false)
		got = append(got, part...)
		if perr != nil {
			var re *format.RowError
			if errors.As(perr, &re) {
				last = from + re.Offset
			}
			err = perr
			break
		}
		from = to
	}
	same("in parts", got, err)
	if err == nil {
		last = int64(len(data))
	}
	rows, _, cerr := NewScanner(bytes.NewReader(data), &o, int64(len(data))).Count(0, last)
	if cerr != nil || rows != int64(len(want)) {
		t.Fatalf("%d rows counted before byte %d, %d read; %v", rows, last, len(want), cerr)
	}
}

// TestRandomRecords throws short texts of the characters that matter at both comparisons; STRAIT_RECORDS says how
// many.
func TestRandomRecords(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("STRAIT_RECORDS"))
	r := rand.New(rand.NewPCG(uint64(n), 1))
	alphabet := []byte("a,,\"\"\n\n\r;\\")
	for range max(n, 3000) {
		data := make([]byte, 1+r.IntN(12))
		if r.IntN(20) == 0 {
			data = make([]byte, 1+r.IntN(300))
		}
		for i := range data {
			data[i] = alphabet[r.IntN(len(alphabet))]
		}
		againstEncodingCSV(t, data, ',')
		for kind := range byte(5) {
			splits(t, data, uint16(r.IntN(len(data)+1)), kind)
		}
	}
}

// FuzzValues compares the quick ways of the columns with the general way of package field.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"0", "-1", "12345678", "-12345678.5", "0.10", "123456789012.25", "2024-02-29", "2024-02-29 12:34:56", "1900-02-29", "0000-00-00", ".", "-.5", "1.", "99999999999999999999", "-0.0", "1e5", "2024-13-01", "0001-01-01"} {
		for pad := range 3 {
			f.Add(s, uint8(pad*9))
		}
	}
	tb := formattest.Table("p", "string", "a", "bigint", "b", "int", "c", "double", "d", "decimal(12, 2)", "e", "date", "f", "timestamp", "g", "decimal(5, 4)")
	s := batch.NewSchema(tb, 0)
	f.Fuzz(func(t *testing.T, text string, pad uint8) {
		if strings.ContainsAny(text, ",\"\n\r") || blank([]byte(text)) || !utf8.ValidString(text) {
			t.Skip()
		}
		codec := field.Codec{Formats: field.DefaultFormats()}
		for c := 1; c < len(tb.Columns); c++ {
			one := batch.NewSchema(&schema.Table{Columns: []schema.Column{tb.Columns[0], tb.Columns[c]}}, 0)
			want := batch.NewBuilder(one)
			want.Field(0).AppendNull()
			werr := codec.AppendScalar(want.Field(1), &tb.Columns[c].Type, []byte(text))
			d, err := NewDecoder(one, csvOptions(), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			line := "x" + strings.Repeat("y", int(pad)) + "," + text + "\n"
			_, err = d.Decode([]byte(line), true)
			if (err == nil) != (werr == nil) {
				t.Fatalf("%q as %s: error %v, the general way %v", text, tb.Columns[c].Type, err, werr)
			}
			if err != nil {
				if !strings.Contains(err.Error(), werr.Error()) {
					t.Fatalf("%q as %s: error %v, the general way %v", text, tb.Columns[c].Type, err, werr)
				}
				continue
			}
			want.EndRow(schema.Insert)
			got, ref := d.Finish().Cols[1], want.Finish().Cols[1]
			if !array.Equal(got, ref) && got.ValueStr(0) != ref.ValueStr(0) {
				t.Fatalf("%q as %s: %s, the general way %s", text, tb.Columns[c].Type, got.ValueStr(0), ref.ValueStr(0))
			}
		}
	})
	_ = s
}

func FuzzMasks(f *testing.F) {
	f.Add([]byte(strings.Repeat("a,b\"c\n\x80\xff\x00", 20)), byte(','), byte('"'))
	f.Fuzz(func(t *testing.T, data []byte, delim, quote byte) {
		n := len(data) / 64
		a, b := make([]uint64, n), make([]uint64, n)
		masks(a, data, delim, quote)
		plainMasks(b, data, delim, quote)
		for i := range a {
			var want uint64
			for k, c := range data[64*i : 64*i+64] {
				if c == delim || c == quote || c == '\n' {
					want |= 1 << k
				}
			}
			if a[i] != want || b[i] != want {
				t.Fatalf("block %d: %x and %x, want %x", i, a[i], b[i], want)
			}
		}
	})
}
