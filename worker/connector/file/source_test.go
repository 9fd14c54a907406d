package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"strait/plan/fault"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/format/formattest"
)

func TestFilters(t *testing.T) {
	d := t.TempDir()
	put(t, d, "b.csv", "b\n")
	put(t, d, "a.csv", "a\n")
	put(t, d, "a.log", "l\n")
	put(t, d, ".hidden", "h\n")
	put(t, d, "_SUCCESS", "s\n")
	put(t, d, "empty.csv", "")
	put(t, d, "sub/c.csv", "c\n")
	put(t, d, "sub/.tmp/d.csv", "d\n")
	old := put(t, d, "sub/old.csv", "o\n")
	if err := os.Chtimes(old, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	f := func(want string, kv ...any) {
		t.Helper()
		s, err := openSource(t, 1, opts(append([]any{"path", d, "file_format_type", "csv", "schema", fieldsOf("x", "string")}, kv...)...))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := readAll(t, s)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(rows, ""); got != want {
			t.Fatalf("%v: %q, want %q", kv, got, want)
		}
	}
	f("albco", "recursive_file_scan", true)
	f("alb", "recursive_file_scan", false)
	f("abco", "file_filter_pattern", `.*\.csv`)
	f("co", "file_filter_pattern", `.*/sub/.*`)
	f("abco", "filename_extension", "csv")
	f("co", "read_partitions", []string{"sub/"})
	f("o", "file_filter_modified_end", "2001-01-01 00:00:00")
	f("albc", "file_filter_modified_start", "2001-01-01 00:00:00")
	f("o", "sort_files_by_modification_time", true, "file_filter_pattern", "old.*")
	f("c", "path", filepath.Join(d, "sub/c.csv"))
	f("c", "path", "file://"+filepath.Join(d, "sub/c.csv"))
}

func TestPartitionColumns(t *testing.T) {
	d := t.TempDir()
	put(t, d, "dt=2024-01-01/city=Oslo/a.csv", "1\n2\n")
	put(t, d, "dt=2024-01-02/city=R%2Fo/a=b.csv", "3\n")
	put(t, d, "dt=__HIVE_DEFAULT_PARTITION__/city=x/a.csv", "4\n")
	wantRows(t, opts("path", d, "file_format_type", "csv", "schema", fieldsOf("id", "int")), "1|2024-01-01|Oslo", "2|2024-01-01|Oslo", "3|2024-01-02|R/o", "4|NULL|x")
	wantRows(t, opts("path", d, "file_format_type", "csv", "parse_partition_from_path", false, "schema", fieldsOf("id", "int")), "1", "2", "3", "4")
	wantRows(t, opts("path", filepath.Join(d, "dt=2024-01-01"), "file_format_type", "text"), "1|2024-01-01|Oslo", "2|2024-01-01|Oslo")
	// A column of that name in the file counts.
	wantRows(t, opts("path", filepath.Join(d, "dt=2024-01-01"), "file_format_type", "csv", "schema", fieldsOf("city", "string")), "1|2024-01-01", "2|2024-01-01")
}

func TestWithoutSchema(t *testing.T) {
	d := t.TempDir()
	put(t, d, "a.txt", "\xEF\xBB\xBFhead\na,\"b\"\n\nlast")
	for _, format := range []string{"text", "csv", "json"} {
		wantRows(t, opts("path", d, "file_format_type", format, "skip_header_row_number", 1), `a,"b"`, "", "last")
	}
	s, err := openSource(t, 1, opts("path", d, "file_format_type", "text", "schema", fieldsOf()))
	if err != nil || s.Tables()[0].Names()[0] != "content" {
		t.Fatalf("%v", err)
	}
}

func TestHeader(t *testing.T) {
	p := put(t, t.TempDir(), "a.csv", "junk\nb,\"a\",c\n1,x,9\n2,y,8\n")
	o := []any{"path", p, "file_format_type", "csv", "csv_use_header_line", true, "skip_header_row_number", 1}
	wantRows(t, opts(append(o, "schema", fieldsOf("a", "string", "b", "int"))...), "x|1", "y|2")
	wantRows(t, opts(append(o, "schema", fieldsOf("a", "string", "b", "int"), "read_columns", []string{"b"})...), "1", "2")
	wantError(t, opts(append(o, "schema", fieldsOf("A", "string"))...), "a.csv", `the header has no column "A"; it has b, a, c`)
	empty := put(t, t.TempDir(), "e.csv", "a,b\n")
	wantRows(t, opts("path", empty, "file_format_type", "csv", "csv_use_header_line", true, "schema", fieldsOf("a", "string")))
	wantRows(t, opts("path", empty, "file_format_type", "csv", "skip_header_row_number", 5, "schema", fieldsOf("a", "string")))
	wantError(t, opts("path", empty, "file_format_type", "csv", "skip_header_row_number", 1, "csv_use_header_line", true, "schema", fieldsOf("a", "string")), "e.csv has no header line")
}

// The message names file, row, line where it differs, column and text.
func TestBadRows(t *testing.T) {
	d := t.TempDir()
	f := func(content, want string, kv ...any) {
		t.Helper()
		p := put(t, d, "bad.dat", content)
		wantError(t, opts(append([]any{"path", p, "schema", fieldsOf("id", "int", "name", "string")}, kv...)...), p+": "+want)
	}
	f("1,a\n2\n", "row 2: the row has 1 of 2 fields", "file_format_type", "csv")
	f("1,a\n2,b,c\n", "row 2: the row has more than 2 fields", "file_format_type", "csv")
	f("id,name\n1,a\n\nx,b\n", `row 3 (line 4): column id: "x" is not a whole number`, "file_format_type", "csv", "skip_header_row_number", 1)
	f("1,\"a\nb\"\nx,b\n", `row 2 (line 3): column id: "x" is not a whole number`, "file_format_type", "csv")
	f("1,a\n2,\"b\n", "row 2: has a quote that is never closed", "file_format_type", "csv")
	f("1\x01a\nx\x01b\n", `row 2: column id: "x" is not a whole number`, "file_format_type", "text")
	f("1,\xff\n", `row 1: column name: "\xff" is not UTF-8`, "file_format_type", "csv")
	f(`{"id":1}`+"\n{\"id\":\"x\"}\n", `row 2: column id: "x" is not a whole number`, "file_format_type", "json")
	f(`{"id":1}`+"\n{\"id\":\n", `row 2: "{\"id\":" is not JSON`, "file_format_type", "json")
	f("[1]\n", `row 1: "[1]" is not an object`, "file_format_type", "json")
	f(`{"id":{"a":1}}`, `row 1: column id: "{\"a\":1}" is an object, want int`, "file_format_type", "json")
	f("\xff\xfe1\x00", "it is UTF-16; other encodings than UTF-8 are not in this build", "file_format_type", "csv")
	f("PAR1 and no more", "the file is cut off", "file_format_type", "parquet")
	f("junkjunkjunkjunk", "is not a parquet file", "file_format_type", "parquet")
}

func TestFileChangesWhileRead(t *testing.T) {
	p := put(t, t.TempDir(), "a.csv", "1\n2\n")
	s, err := openSource(t, 1, opts("path", p, "file_format_type", "csv", "schema", fieldsOf("a", "int")))
	if err != nil {
		t.Fatal(err)
	}
	splits, err := splitsOf(t, s)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Dir(p), "a.csv", "1\n2\n3\n") // what is appended later is not read
	if rows, err := readSplit(t, s, splits[0]); err != nil || fmt.Sprint(rows) != "[1 2]" {
		t.Fatalf("%v %v", rows, err)
	}
	put(t, filepath.Dir(p), "a.csv", "1\n")
	if _, err := readSplit(t, s, splits[0]); err == nil || !strings.Contains(err.Error(), "it had 4 bytes and has 2") {
		t.Fatalf("error %v", err)
	}
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	if _, err := readSplit(t, s, splits[0]); err == nil || !strings.Contains(err.Error(), "every worker must see it") {
		t.Fatalf("error %v", err)
	}
}

func TestRowLongerThanTheBuffer(t *testing.T) {
	long := strings.Repeat("x", 3*blockSize)
	p := put(t, t.TempDir(), "a.csv", "a,1\n"+long+",2\n\"b\n\",3\n")
	wantRows(t, opts("path", p, "file_format_type", "csv", "schema", fieldsOf("a", "string", "b", "int")), "a|1", long+"|2", "b\n|3")
}

// Any split size and any parallelism give the same rows, with line ends in quoted fields, headers and long lines.
func TestSplitSizes(t *testing.T) {
	d := t.TempDir()
	tb := formattest.Table("id", "int", "text", "string", "amount", "decimal(12, 2)")
	for _, format := range []string{"csv", "text", "json", "parquet"} {
		alphabet := "ab,\"\n ;"
		if format == "text" {
			alphabet = "ab,\" ;"
		}
		dir := filepath.Join(d, format)
		if err := writeAll(t, opts("path", dir, "tmp_path", t.TempDir(), "file_format_type", format, "enable_header_write", true), tb, func(s *batch.Schema) []*batch.Batch {
			return []*batch.Batch{formattest.Rand(s, 300, 3, alphabet)}
		}); err != nil {
			t.Fatal(err)
		}
		kv := []any{"path", dir, "file_format_type", format, "schema", fieldsOf("id", "int", "text", "string", "amount", "decimal(12, 2)")}
		switch format {
		case "csv":
			kv = append(kv, "csv_use_header_line", true)
		case "text":
			kv = append(kv, "skip_header_row_number", 1)
		}
		var want []string
		for _, size := range []string{"1GB", "1", "7", "64", "1000", "5000"} {
			for _, parallelism := range []int{1, 3} {
				if parallelism == 1 && size != "1GB" {
					continue // one reader has no splits
				}
				s, err := openSource(t, parallelism, opts(append(kv, "file_split_size", size)...))
				if err != nil {
					t.Fatal(err)
				}
				got, err := readAll(t, s)
				if err != nil {
					t.Fatalf("%s, split size %s: %v", format, size, err)
				}
				if want == nil {
					want = got
				}
				if len(got) != 300 || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%s, split size %s, parallelism %d: other rows (%d)", format, size, parallelism, len(got))
				}
			}
		}
	}
}

func TestTablesConfigs(t *testing.T) {
	d := t.TempDir()
	put(t, d, "a/x.csv", "1\n2\n")
	put(t, d, "b/x.txt", "k\x01v\n")
	wantRows(t, opts("tables_configs", []any{
		map[string]any{"path": d + "/a", "file_format_type": "csv", "schema": fieldsOf("id", "int")},
		map[string]any{"path": d + "/b", "file_format_type": "text", "schema": fieldsOf("k", "string", "v", "string")},
	}), "0:1", "0:2", "1:k|v")
	f := connector.FindSource("LocalFile")
	if f == nil {
		t.Fatal("LocalFile is not registered")
	}
}

// firstReader has the first split of s open.
func firstReader(t *testing.T, s connector.Source, schemas []*batch.Schema) connector.Reader {
	t.Helper()
	splits, err := splitsOf(t, s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.NewReader(t.Context(), connector.ReaderContext{Schemas: schemas})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Open(t.Context(), splits[0], nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCancelled(t *testing.T) {
	p := put(t, t.TempDir(), "a.csv", strings.Repeat("1\n", 100000))
	s, err := openSource(t, 1, opts("path", p, "file_format_type", "csv", "schema", fieldsOf("a", "int")))
	if err != nil {
		t.Fatal(err)
	}
	schemas := batch.Schemas(s.Tables())
	r := firstReader(t, s, schemas)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(ctx, connector.NewOutput(schemas, batch.Limit{})); err == nil {
		t.Fatal("a cancelled Read returns no error")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRowBeyondMemory: a row that the job has no memory for is not loaded as a whole to find out.
func TestRowBeyondMemory(t *testing.T) {
	p := put(t, t.TempDir(), "a.csv", "short\n"+strings.Repeat("x", 1_000_000)+"\n")
	s, err := openSource(t, 1, opts("path", p, "file_format_type", "csv", "schema", fieldsOf("a", "string")))
	if err != nil {
		t.Fatal(err)
	}
	schemas := batch.Schemas(s.Tables())
	read := func(most int64) (rows int, err error) {
		r, err := s.NewReader(t.Context(), connector.ReaderContext{Parallelism: 1, Schemas: schemas, MostRow: most})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		e, err := s.NewEnumerator(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		d, err := e.Discover(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Open(t.Context(), d.Splits[0], nil); err != nil {
			t.Fatal(err)
		}
		out := connector.NewOutput(schemas, batch.Limit{})
		for {
			p, err := r.Read(t.Context(), out)
			for _, b := range out.Take() {
				rows += b.Rows
			}
			if err != nil || p.Done {
				return rows, err
			}
		}
	}
	for _, most := range []int64{0, 1_000_001, 1 << 30} {
		if n, err := read(most); n != 2 || err != nil {
			t.Errorf("up to %d bytes: %d rows, %v", most, n, err)
		}
	}
	_, err = read(500_000)
	if want := "the row at byte 6 is longer than 488.3 KiB, which is what the memory of this job takes on its worker"; err == nil || !strings.Contains(err.Error(), want) || !fault.IsFatal(err) {
		t.Errorf("%v, want %s", err, want)
	}
}

// Tables as the plan has them may have more partition columns than the first file this worker sees.
func TestPlannedTableCounts(t *testing.T) {
	p := put(t, t.TempDir(), "dt=1/a.csv", "7\n")
	s, err := openSource(t, 1, opts("path", p, "file_format_type", "csv", "schema", fieldsOf("id", "int")))
	if err != nil {
		t.Fatal(err)
	}
	planned := s.Tables()[0].Clone()
	planned.Columns = append(planned.Columns, schema.Col("hour", schema.Of(schema.String)))
	schemas := batch.Schemas([]*schema.Table{planned})
	r := firstReader(t, s, schemas)
	defer r.Close()
	out := connector.NewOutput(schemas, batch.Limit{})
	if _, err := r.Read(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	if got := rowText(out.Take()[0], 0, false); got != "7|1|NULL" {
		t.Fatalf("row %q", got)
	}
}

// BenchmarkReader is the reader as the engine drives it, file included.
func BenchmarkReader(b *testing.B) {
	tb := formattest.Table("id", "bigint", "n", "int", "amount", "decimal(12, 2)", "day", "date", "at", "timestamp", "name", "string")
	d := b.TempDir()
	if err := writeAll(b, opts("path", d, "tmp_path", b.TempDir()), tb, func(s *batch.Schema) []*batch.Batch {
		return []*batch.Batch{formattest.Rand(s, 200000, 1, "")}
	}); err != nil {
		b.Fatal(err)
	}
	s, err := openSource(b, 1, opts("path", d, "file_format_type", "csv", "schema", fieldsOf("id", "bigint", "n", "int", "amount", "decimal(12, 2)", "day", "date", "at", "timestamp", "name", "string")))
	if err != nil {
		b.Fatal(err)
	}
	splits, err := splitsOf(b, s)
	if err != nil {
		b.Fatal(err)
	}
	schemas := batch.Schemas(s.Tables())
	b.ReportAllocs()
	rows := 0
	for b.Loop() {
		r, err := s.NewReader(b.Context(), connector.ReaderContext{Schemas: schemas})
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Open(b.Context(), splits[0], nil); err != nil {
			b.Fatal(err)
		}
		for done := false; !done; {
			out := connector.NewOutput(schemas, batch.Limit{})
			p, err := r.Read(b.Context(), out)
			if err != nil {
				b.Fatal(err)
			}
			for _, x := range out.Take() {
				rows += x.Rows
			}
			done = p.Done
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
