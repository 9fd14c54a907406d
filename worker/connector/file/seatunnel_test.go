package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/option"
	"strait/worker/connector"
)

const seatunnel = "../../../../shared/seatunnel-e2e"

// fixtures skips where SeaTunnel's files do not lie beside the checkout; in CI they must.
func fixtures(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(seatunnel); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the SeaTunnel fixtures are missing: %v", err)
		}
		t.Skip("the SeaTunnel fixtures are not here")
	}
	return seatunnel
}

// SeaTunnel's own LocalFile jobs on its own data: each source that this build has gives the rows the data file
// holds, with the columns of its folders.
func TestSeaTunnelSources(t *testing.T) {
	root := fixtures(t)
	placed := t.TempDir()
	table, err := os.ReadFile(filepath.Join(root, "fixtures.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(table), "\n") {
		f := strings.Split(line, "\t")
		if len(f) < 3 || f[2] != "copy" || !strings.HasPrefix(f[1], "/") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, f[0]))
		if err != nil {
			continue // made by the test set itself
		}
		put(t, placed, f[1], string(data))
	}
	if err := os.MkdirAll(filepath.Join(placed, "/tmp/fake_empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"text/local_file_text_to_assert.conf": 5, "text/local_file_delimiter_assert.conf": 5, "text/local_file_text_to_assert_with_multipletable.conf": 10,
		"json/local_file_json_to_assert.conf": 5, "json/local_file_json_to_assert_with_multipletable.conf": 10, "json/local_file_to_console.conf": 0,
		"parquet/local_file_parquet_to_assert.conf": 5, "parquet/local_file_parquet_projection_to_assert.conf": 5,
		"parquet/local_file_parquet_to_assert_with_multipletable.conf": 10, "parquet/local_file_to_console.conf": 0,
	}
	dir := filepath.Join(root, "seatunnel-connector-v2-e2e/connector-file-local-e2e/src/test/resources")
	jobs, err := filepath.Glob(filepath.Join(dir, "*/*.conf"))
	if err != nil || len(jobs) == 0 {
		t.Fatalf("no jobs in %s: %v", dir, err)
	}
	later := 0
	for _, job := range jobs {
		name, _ := filepath.Rel(dir, job)
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(job)
			if err != nil {
				t.Fatal(err)
			}
			j, _, err := config.Parse([]byte(strings.ReplaceAll(string(text), `path = "/`, `path = "`+placed+`/`)), config.Options{File: name})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range append(append([]*config.Block(nil), j.Sources...), j.Sinks...) {
				if p.Plugin != "LocalFile" {
					continue
				}
				spec := sourceSpec()
				sinkSide := p.Section == config.Sink
				if sinkSide {
					spec = sinkSpec()
				}
				var l fault.List
				v := spec.Decode(p.Options, name, &l, option.Option{Name: "plugin_output", Aliases: []string{"result_table_name"}, Type: option.TString})
				if err := l.Err(); err != nil {
					t.Fatalf("options: %v", err)
				}
				if sinkSide {
					continue
				}
				src, err := newSource(t.Context(), local{}, connector.SourceConfig{Options: v, Parallelism: 1})
				if n, ok := want[name]; !ok {
					if !strings.Contains(fmt.Sprint(err), "not in this build") {
						t.Fatalf("error %v, want one that names what is not in this build", err)
					}
					later++
					continue
				} else if err != nil {
					t.Fatal(err)
				} else if rows, err := readAll(t, src); err != nil || len(rows) != n {
					t.Fatalf("%d rows, want %d; %v\n%s", len(rows), n, err, strings.Join(rows, "\n"))
				} else {
					goldenRows(t, name, rows)
				}
			}
		})
	}
	t.Logf("%d jobs need a later build", later)
}

// goldenRows checks a few values as they stand in the data files.
func goldenRows(t *testing.T, name string, rows []string) {
	t.Helper()
	first := map[string]string{
		"text/local_file_text_to_assert.conf":       "uDDrw=sQQYO;NTNeU=BIOnL;Agunv=DqLBO;broRz=dEdvD;gRmga=eFyFH|545685759;1576298739;1577646877;1379463644;2057612252|MTDna|false|33|13846|1909431922|7664187222007193600|2.4798444E38|9.52375328387482E307|vcIGF|2023-06-07|76258155390368615610.764625237318660291|2023-05-08 16:08:51|",
		"text/local_file_delimiter_assert.conf":     "qwer|true",
		"json/local_file_json_to_assert.conf":       "ccQcS=PrhhP;ypJZu=MsOdX;YFBJW=iPXGR;ipjwT=kcgPQ;EpKKR=jgRfX|887776100;1633238485;1009033208;600614572;1487972145|WArEB|false|-90|15920|1127427935|4712806879122100224|1.620476E38|2.750908810407852E307|CskVt|2022-04-27|88574263949141714798.835853182708550244|2022-01-26 17:39:00|",
		"parquet/local_file_parquet_to_assert.conf": "Djoxq=tnJNG;mwmxJ=qzqTm;RgbtN=IMoGH;xGUfX=REhvx;MYGDy=STMIg|829627748;715507997;121372532;526167221;191320370|GAnQV|true|80|24309|1288562437|",
	}
	if len(rows) == 0 {
		return
	}
	if want := first[name]; !strings.HasPrefix(rows[0]+"|", want) {
		t.Fatalf("first row\n%s, want\n%s", rows[0], want)
	}
	if strings.Contains(name, "to_assert.conf") && !strings.HasSuffix(rows[0], "|tyrantlucifer|coding") {
		t.Fatalf("first row lacks the columns of its folders: %s", rows[0])
	}
}

// What checks and refusals of a job file look like.
func TestOptionsRefused(t *testing.T) {
	d := t.TempDir()
	put(t, d, "a.csv", "1\n")
	f := func(want string, kv ...any) {
		t.Helper()
		s, err := openSource(t, 1, opts(append([]any{"path", d}, kv...)...))
		if err == nil {
			_, err = readAll(t, s)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v: error %v, want %q", kv, err, want)
		}
	}
	f("format orc is not in this build", "file_format_type", "orc")
	f("encoding gbk is not in this build", "file_format_type", "csv", "encoding", "gbk")
	f("compression lzo of text files is not in this build", "file_format_type", "text", "compress_codec", "lzo")
	f("archive format zip is not in this build", "file_format_type", "text", "archive_compress_codec", "zip")
	f("discovery_mode continuous is not in this build", "file_format_type", "text", "discovery_mode", "continuous")
	f("does not exist", "path", d+"/nowhere", "file_format_type", "text")
	f("letter 'Q' is not known", "file_format_type", "csv", "date_format", "yyyyQ")
	f("is not one ASCII character", "file_format_type", "csv", "quote_char", "''")
	f("regular expression", "file_format_type", "csv", "file_filter_pattern", "(?=x)")
	f(`there is no column "nmae"; did you mean "name"?`, "file_format_type", "csv", "read_columns", []string{"nmae"}, "schema", fieldsOf("id", "int", "name", "string"))
	f("cannot be chosen without a schema", "file_format_type", "csv", "read_columns", []string{"x"})
	f("same delimiter", "file_format_type", "csv", "field_delimiter", "\n")
	f(`the header has no column "id"; it has 1`, "file_format_type", "csv", "csv_use_header_line", true, "schema", fieldsOf("id", "int"))

	g := func(want string, kv ...any) {
		t.Helper()
		_, err := openSink(t, local{}, opts(append([]any{"path", d}, kv...)...), table("id", "int", "name", "string", "tags", "array<int>"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v: error %v, want %q", kv, err, want)
		}
	}
	g("format xml is not in this build", "file_format_type", "xml")
	g("compression gzip of csv files is not in this build", "compress_codec", "gzip")
	g("data_save_mode DROP_DATA is not in this build", "data_save_mode", "DROP_DATA")
	g("schema_save_mode RECREATE_SCHEMA is not in this build", "schema_save_mode", "RECREATE_SCHEMA")
	g(`there is no column "nope"`, "partition_by", []string{"nope"})
	g("its values cannot name folders", "partition_by", []string{"tags"})
	g("stands for no column of partition_by", "partition_by", []string{"id"}, "partition_dir_expression", "${k0}=${v0}/${v1}")
	g("leaves path", "partition_by", []string{"id"}, "partition_dir_expression", "../${v0}")
	g("no column is left to write", "partition_by", []string{"id"}, "sink_columns", []string{"id"})
	g("holds a slash", "file_name_expression", "a/b")
}

// Every option is documented: `stctl connector show` prints from it.
func TestOptionsDocumented(t *testing.T) {
	for _, spec := range []option.Spec{sourceSpec(), sinkSpec()} {
		for _, o := range spec.Options {
			if o.Doc == "" {
				t.Errorf("option %s has no text", o.Name)
			}
		}
	}
}
