package value_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/option/optiontest"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/value"
)

func parse(t *testing.T, word string) schema.Type {
	t.Helper()
	typ, err := schema.ParseType(word)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

// TestRoundTrip reads literals and writes them as text.
func TestRoundTrip(t *testing.T) {
	f := func(word, literal, want string) {
		t.Helper()
		typ := parse(t, word)
		b := array.NewBuilder(memory.DefaultAllocator, batch.DataType(typ))
		b.AppendNull() // an offset
		if err := (value.Reader{}).Append(b, typ, optiontest.Node(t, literal)); err != nil {
			t.Errorf("%s %s: %v", word, literal, err)
			return
		}
		whole := b.NewArray()
		a := array.NewSlice(whole, 1, 2)
		if got := value.Text(typ, a, 0); got != want {
			t.Errorf("%s %s gives %q, want %q", word, literal, got, want)
		}
		if !value.Equal(a, 0, whole, 1) {
			t.Errorf("%s %s is not equal to itself", word, literal)
		}
		if value.Equal(a, 0, whole, 0) != (want == "null") {
			t.Errorf("%s %s against null", word, literal)
		}
	}
	f("string", `"a"`, "a")
	f("string", `12`, "12")
	f("string", `47.0`, "47")
	f("string", `1.10`, "1.1")
	f("string", `true`, "true")
	f("string", `{"a": [1, null, "x"]}`, `{"a":[1,null,"x"]}`)
	f("string", `null`, "null")
	f("null", `null`, "null")
	f("boolean", `"TRUE"`, "true")
	f("tinyint", `-128`, "-128")
	f("smallint", `"32767"`, "32767")
	f("int", `1.0`, "1")
	f("bigint", `9223372036854775807`, "9223372036854775807")
	f("float", `3.1`, "3.1")
	f("float", `16777216`, "1.6777216E7")
	f("double", `1e-5`, "1.0E-5")
	f("double", `100`, "100.0")
	f("double", `12345678.9`, "1.23456789E7")
	f("double", `1.7976931348623157e308`, "1.7976931348623157E308")
	f("double", `-0.001`, "-0.001")
	f("decimal(10, 2)", `-1.5`, "-1.50")
	f("decimal(10, 2)", `"1.005"`, "1.01")
	f("decimal(4, 4)", `1e-2`, "0.0100")
	f("decimal(38, 0)", `"99999999999999999999999999999999999999"`, "99999999999999999999999999999999999999")
	f("decimal(38, 18)", `"-12345678901234567890.5"`, "-12345678901234567890.500000000000000000")
	f("decimal(60, 2)", `"123456789012345678901234567890123456789012345.67"`, "123456789012345678901234567890123456789012345.67")
	f("bytes", `"dGVzdA=="`, "[116, 101, 115, 116]")
	f("bytes", `"/w"`, "[-1]")
	f("date", `"2012-12-21"`, "2012-12-21")
	f("date", `"2012/1/2"`, "2012-01-02")
	f("time", `"12:34:56"`, "12:34:56")
	f("time", `"12:34"`, "12:34")
	f("time", `"13:34:45.235"`, "13:34:45.235")
	f("time(9)", `"00:00:00.000000001"`, "00:00:00.000000001")
	f("timestamp", `"2012-12-21T12:34:56"`, "2012-12-21T12:34:56")
	f("timestamp", `"2012-12-21 12:34:00"`, "2012-12-21T12:34")
	f("timestamp", `"2012-12-21 12:34:00.1234567"`, "2012-12-21T12:34:00.123456")
	f("timestamp", `"2012-12-21"`, "2012-12-21T00:00")
	f("timestamp(3)", `"1950-01-01T00:00:00.9999"`, "1950-01-01T00:00:00.999")
	f("timestamp", `"0001-01-01T00:00:00"`, "0001-01-01T00:00")
	f("timestamp(9)", `"2012-12-21T12:34:56.000000001"`, "2012-12-21T12:34:56.000000001")
	f("timestamp_tz", `"2012-12-21T12:34:56+02:00"`, "2012-12-21T10:34:56Z")
	f("array<int>", `[0, null, 2]`, "[0, null, 2]")
	f("array<string>", `"[a, b]"`, "[a, b]")
	f("array<array<int>>", `[[1], []]`, "[[1], []]")
	f("map<string, int>", `{"a.b": 1, "c": null}`, "{a.b=1, c=null}")
	f("map<time, string>", `"{ 12:01:26 = v0 }"`, "{12:01:26=v0}")
	f("map<int, string>", `{"1": "a"}`, "{1=a}")
	f("map<string, {c_int = int, c_string = string}>", `{"k1": [123, "BBB-BB"]}`, "{k1=[123, BBB-BB]}")
	f("{a = int, b = {c = date}}", `[1, ["2020-01-01"]]`, "[1, [2020-01-01]]")
	f("{a = int, b = {c = date}}", `{"b": {"c": null}}`, "[null, [null]]")
	f("float_vector", `[1, 2.5]`, "[1.0, 2.5]")
	f("binary_vector", `[1, 255]`, "[1, -1]")
	f("float16_vector", `[1, -0.5, 100000, 1e-9]`, "[1.0, -0.5, Infinity, 0.0]")
	f("bfloat16_vector", `[1, -2]`, "[1.0, -2.0]")
	f("sparse_float_vector", `{"1": 0.5, "7": 2}`, "{1=0.5, 7=2.0}")
}

func TestLiteralErrors(t *testing.T) {
	f := func(word, literal, want string, exact bool) {
		t.Helper()
		typ := parse(t, word)
		err := (value.Reader{Exact: exact}).Append(array.NewBuilder(memory.DefaultAllocator, batch.DataType(typ)), typ, optiontest.Node(t, literal))
		var e *value.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %s: error %v, want %q", word, literal, err, want)
		}
	}
	f("int", `"x"`, `"x" is not a value of type int`, false)
	f("int", `1.5`, `1.5 is not a value of type int`, false)
	f("tinyint", `128`, `128 does not fit into tinyint`, false)
	f("int", `[1]`, `a list is not a value of type int`, false)
	f("null", `1`, `1 stands where the type allows only null`, false)
	f("boolean", `1`, `1 is not a value of type boolean`, false)
	f("decimal(4, 2)", `100`, `100 does not fit into decimal(4, 2)`, false)
	f("decimal(4, 2)", `1.234`, `1.234 has more digits behind the point than decimal(4, 2) keeps`, true)
	f("decimal(4, 2)", `"1e1000"`, `is not a value`, false)
	f("timestamp(3)", `"2020-01-01T00:00:00.0001"`, `more digits behind the second`, true)
	f("date", `"2020-13-01"`, `is not a value of type date`, false)
	f("timestamp(9)", `"9999-01-01T00:00:00"`, `is outside of what timestamp(9) can hold`, false)
	f("bytes", `"?"`, `is not base64`, false)
	f("{a = int}", `[1, 2]`, `the row has 2 values, its type 1 fields`, false)
	f("{a = {bcd = int}}", `{"a": {"bce": 1}}`, `.a: the row has no field "bce", did you mean "bcd"?`, false)
	f("array<int>", `[1, "x"]`, `[1]: "x" is not a value of type int`, false)
	f("map<string, array<int>>", `{"k": [true]}`, `.k[0]: true is not a value of type int`, false)
	f("map<int, int>", `"1=2"`, `is not a value of type map<int, int>`, false)
	f("map<int, int>", `"{1=2, 1=3}"`, `the key "1" stands twice`, false)
	f("binary_vector", `[1.5]`, `[0]: 1.5 is not a value`, false)
}

func TestCurrent(t *testing.T) {
	now := time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.FixedZone("x", 3600))
	for word, want := range map[string]string{
		"date": "2024-05-06", "time": "07:08:09.123456", "timestamp": "2024-05-06T07:08:09.123456", "timestamp_tz": "2024-05-06T06:08:09.123456Z",
	} {
		typ := parse(t, word)
		name := map[string]string{"date": "CURRENT_DATE", "time": "current_time"}[word]
		if name == "" {
			name = "CURRENT_TIMESTAMP"
		}
		b := array.NewBuilder(memory.DefaultAllocator, batch.DataType(typ))
		if err := (value.Reader{Now: now}).Append(b, typ, optiontest.Node(t, `"`+name+`"`)); err != nil {
			t.Error(err)
			continue
		}
		if got := value.Text(typ, b.NewArray(), 0); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestEqual(t *testing.T) {
	f := func(word, a, b string, want bool) {
		t.Helper()
		typ := parse(t, word)
		x := array.NewBuilder(memory.DefaultAllocator, batch.DataType(typ))
		for _, s := range []string{a, b} {
			if err := (value.Reader{}).Append(x, typ, optiontest.Node(t, s)); err != nil {
				t.Fatal(err)
			}
		}
		if arr := x.NewArray(); value.Equal(arr, 0, arr, 1) != want {
			t.Errorf("%s: %s = %s is %v", word, a, b, !want)
		}
	}
	f("map<string, int>", `{"a": 1, "b": 2}`, `{"b": 2, "a": 1}`, true)
	f("map<string, int>", `{"a": 1}`, `{"a": 2}`, false)
	f("map<string, int>", `{"a": 1}`, `{"a": 1, "b": 1}`, false)
	f("array<int>", `[1, 2]`, `[2, 1]`, false)
	f("array<int>", `[1, null]`, `[1, null]`, true)
	f("array<int>", `[]`, `null`, false)
	f("{a = double, b = array<string>}", `[1.5, ["x"]]`, `{"a": 1.5, "b": ["x"]}`, true)
	f("decimal(50, 2)", `1.5`, `"1.50"`, true)
	f("float", `"NaN"`, `"NaN"`, true)
	f("null", `null`, `null`, true)
}
