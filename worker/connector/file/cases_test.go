package file

import (
	"strings"
	"testing"

	"strait/transport/batch"
)

// The field cases of kind file: what people who run such jobs really use.
func TestFieldCases(t *testing.T) {
	d := t.TempDir()
	t.Run("F01 byte order mark", func(t *testing.T) {
		p := put(t, d, "bom.csv", "\xEF\xBB\xBFid,name\n1,Ann\n2,Bo\n")
		wantRows(t, opts("path", p, "file_format_type", "csv", "csv_use_header_line", true, "encoding", "UTF-8", "schema", fieldsOf("id", "int", "name", "string")), "1|Ann", "2|Bo")
		p = put(t, d, "bom2.csv", "\xEF\xBB\xBF1,Ann\n2,Bo\n")
		wantRows(t, opts("path", p, "file_format_type", "csv", "schema", fieldsOf("id", "int", "name", "string")), "1|Ann", "2|Bo")
	})
	t.Run("F02 line breaks and quotes in fields", func(t *testing.T) {
		p := put(t, d, "in.csv", "id,note,city\n1,\"line one\nline two, still one field\",Oslo\n2,\"she said \"\"hi\"\"\",Rome\n")
		read := opts("path", p, "file_format_type", "csv", "skip_header_row_number", 1, "schema", fieldsOf("id", "int", "note", "string", "city", "string"))
		want := []string{"1|line one\nline two, still one field|Oslo", `2|she said "hi"|Rome`}
		wantRows(t, read, want...)
		out := t.TempDir()
		err := writeAll(t, opts("path", out, "tmp_path", t.TempDir(), "file_format_type", "csv"), table("id", "int", "note", "string", "city", "string"),
			func(s *batch.Schema) []*batch.Batch { return []*batch.Batch{rows(s, want...)} })
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range tree(t, out) {
			if !strings.HasSuffix(name, ".csv") || text != "1,\"line one\nline two, still one field\",Oslo\n2,\"she said \"\"hi\"\"\",Rome\n" {
				t.Fatalf("%s holds %q", name, text)
			}
		}
		wantRows(t, opts("path", out, "file_format_type", "csv", "schema", fieldsOf("id", "int", "note", "string", "city", "string")), want...)
	})
	t.Run("F03 quotes before conversion", func(t *testing.T) {
		p := put(t, d, "q.csv", "7,\"Main St, 4\",\"2024-02-29 23:59:59\"\n")
		wantRows(t, opts("path", p, "file_format_type", "csv", "schema", fieldsOf("id", "bigint", "addr", "string", "ts", "timestamp")), "7|Main St, 4|2024-02-29 23:59:59")
	})
	t.Run("F04 backslash before a quote", func(t *testing.T) {
		p := put(t, d, "bs.csv", "1,tag: \\\"x\\\"\n2,\"a \\\"b\\\" c\"\n3,plain\n")
		wantError(t, opts("path", p, "file_format_type", "csv", "schema", fieldsOf("id", "int", "body", "string")), "bs.csv", "row 2", "closing quote", "escape_char")
		wantRows(t, opts("path", p, "file_format_type", "csv", "escape_char", "\\", "schema", fieldsOf("id", "int", "body", "string")), `1|tag: "x"`, `2|a "b" c`, "3|plain")
	})
	t.Run("F05 control-A", func(t *testing.T) {
		p := put(t, d, "ctl.txt", "x\x015\x01\ny\x016\x01z\n")
		for _, name := range []string{"field_delimiter", "delimiter"} {
			for _, delim := range []string{"\u0001", `\u0001`, `\x01`} {
				wantRows(t, opts("path", p, "file_format_type", "text", name, delim, "schema", fieldsOf("a", "string", "b", "int", "c", "string")), "x|5|NULL", "y|6|z")
			}
		}
	})
	t.Run("F10 long delimiter", func(t *testing.T) {
		p := put(t, d, "dd.txt", "1;;a;b;;c\n2;;;;z\n")
		o := []any{"path", p, "file_format_type", "text", "schema", fieldsOf("id", "int", "v", "string", "w", "string")}
		wantRows(t, opts(append(o, "field_delimiter", ";;")...), "1|a;b|c", "2|NULL|z")
		wantError(t, opts(append(o, "field_delimiter", "")...), "field_delimiter", "the delimiter is empty")
	})
	t.Run("F11 header like the rows", func(t *testing.T) {
		out := t.TempDir()
		o := []any{"path", out, "tmp_path", t.TempDir(), "file_format_type", "csv", "field_delimiter", ";", "enable_header_write", true}
		tb := table("id", "int", "ville", "string")
		if err := writeAll(t, opts(o...), tb, func(s *batch.Schema) []*batch.Batch { return []*batch.Batch{rows(s, "1|Besançon")} }); err != nil {
			t.Fatal(err)
		}
		for name, text := range tree(t, out) {
			if text != "id;ville\n1;Besançon\n" {
				t.Fatalf("%s holds %q", name, text)
			}
		}
		out = t.TempDir()
		o[1] = out
		if err := writeAll(t, opts(o...), tb, func(*batch.Schema) []*batch.Batch { return nil }); err != nil {
			t.Fatal(err)
		}
		if n := tree(t, out); len(n) != 0 {
			t.Fatalf("without a row there are files: %q", names(n))
		}
	})
	t.Run("F12 a declared string stays as written", func(t *testing.T) {
		p := put(t, d, "str.csv", "name,born,age\nAnn,1987-03-01,007\nBo,1980-11-12,*\nCy,1975-01-31,NAN\n")
		wantRows(t, opts("path", p, "file_format_type", "csv", "skip_header_row_number", 1, "schema", fieldsOf("name", "string", "born", "string", "age", "string")),
			"Ann|1987-03-01|007", "Bo|1980-11-12|*", "Cy|1975-01-31|NAN")
	})
}
