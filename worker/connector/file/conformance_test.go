package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/connector/conformance"
	"strait/worker/format/formattest"
)

func TestSourceConformance(t *testing.T) {
	d := t.TempDir()
	tb := formattest.Table("id", "int", "name", "string", "amount", "decimal(10, 2)")
	fields := fieldsOf("id", "int", "name", "string", "amount", "decimal(10, 2)")
	for k := range 3 {
		for _, format := range []string{"csv", "text", "json", "parquet"} {
			dir := filepath.Join(d, format, fmt.Sprintf("day=%d", k))
			alphabet := "ab\"c,d\ne "
			if format == "text" { // which has no quotes
				alphabet = "abcde "
			}
			err := writeAll(t, opts("path", dir, "tmp_path", t.TempDir(), "file_format_type", format), tb, func(s *batch.Schema) []*batch.Batch {
				return []*batch.Batch{formattest.Rand(s, 4000, uint64(k), alphabet)}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, format := range []string{"csv", "text", "json", "parquet"} {
		t.Run(format, func(t *testing.T) {
			conformance.Source(t, conformance.SourceCase{Plugin: "LocalFile", Rows: 12000,
				Options: opts("path", filepath.Join(d, format), "file_format_type", format, "schema", fields, "file_split_size", "20KiB")})
		})
	}
}

func TestSinkConformance(t *testing.T) {
	tables := []*schema.Table{
		formattest.Table("id", "int", "name", "string", "score", "double"),
		formattest.Table("id", "bigint", "flag", "boolean"),
	}
	tables[1].Path.Table = "flags"
	for _, format := range []string{"csv", "text", "json", "parquet"} {
		for _, tx := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s transaction %v", format, tx), func(t *testing.T) {
				conformance.Sink(t, conformance.SinkCase{
					Plugin: "LocalFile", Tables: tables,
					Batches: func(s []*batch.Schema) []*batch.Batch {
						return []*batch.Batch{conformance.Sequence(s[0], 0, 100, false), conformance.Sequence(s[1], 0, 50, false),
							conformance.Sequence(s[0], 100, 30, false), conformance.Sequence(s[1], 50, 7, false)}
					},
					Text: func(b *batch.Batch, i int) string { return rowText(b, i, true) },
					Target: func(t *testing.T) conformance.Target {
						out, tmp := t.TempDir(), t.TempDir()
						return conformance.Target{
							Options: opts("path", out+"/${table_name}", "tmp_path", tmp, "file_format_type", format, "is_enable_transaction", tx, "batch_size", 40),
							Visible: func(t *testing.T) []string {
								var all []string
								for i, tb := range tables {
									for name := range tree(t, filepath.Join(out, tb.Path.Table)) {
										all = append(all, readFile(t, filepath.Join(out, tb.Path.Table, name), format, tb, i)...)
									}
								}
								return all
							},
							Leftovers: func(t *testing.T) []string {
								var left []string
								_ = filepath.WalkDir(tmp, func(p string, e os.DirEntry, err error) error {
									if err == nil && p != tmp && p != filepath.Join(tmp, "seatunnel") {
										left = append(left, p)
									}
									return nil
								})
								return left
							},
						}
					},
				})
			})
		}
	}
}

// readFile reads one written file back.
func readFile(t *testing.T, path, format string, tb *schema.Table, index int) []string {
	t.Helper()
	var words []string
	for _, c := range tb.Columns {
		words = append(words, c.Name, c.Type.String())
	}
	s, err := openSource(t, 1, opts("path", path, "file_format_type", format, "schema", fieldsOf(words...)))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := readAll(t, connector.Source(s))
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i] = fmt.Sprintf("%d:%s", index, strings.TrimPrefix(rows[i], "0:"))
	}
	return rows
}
