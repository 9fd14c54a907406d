package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"strait/checkpoint"
	"strait/plan/fault"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/format/formattest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// failing is a file system that stops working at its n-th changing call: that one fails, and so do all behind it,
// as if the process had died there.
type failing struct {
	FS
	left   int  // calls that still work; negative: all
	device bool // the temp folder lies on another device
	tmp    string
	err    error
	calls  []string
}

func (f *failing) step(op, name string) error {
	f.calls = append(f.calls, op+" "+filepath.Base(name))
	if f.left == 0 {
		if f.err != nil {
			return f.err
		}
		return errors.New("the process is dead")
	}
	if f.left > 0 {
		f.left--
	}
	return nil
}

func (f *failing) Rename(from, to string) error {
	if err := f.step("rename", to); err != nil {
		return err
	}
	if f.device && strings.HasPrefix(from, f.tmp) {
		return errCrossDevice
	}
	return f.FS.Rename(from, to)
}

func (f *failing) Link(from, to string) error {
	if err := f.step("link", to); err != nil {
		return err
	}
	if f.device {
		return errCrossDevice
	}
	return f.FS.Link(from, to)
}

func (f *failing) Remove(name string) error {
	if err := f.step("remove", name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

func (f *failing) MkdirAll(dir string) error {
	if err := f.step("mkdir", dir); err != nil {
		return err
	}
	return f.FS.MkdirAll(dir)
}

func (f *failing) SyncDir(dir string) error {
	if err := f.step("sync", dir); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

func (f *failing) Create(name string) (Output, error) {
	if err := f.step("create", name); err != nil {
		return nil, err
	}
	o, err := f.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &failingOutput{o, f}, nil
}

type failingOutput struct {
	Output
	f *failing
}

func (o *failingOutput) Write(b []byte) (int, error) {
	if err := o.f.step("write", ""); err != nil {
		n, _ := o.Output.Write(b[:len(b)/2]) // a torn write
		return n, err
	}
	return o.Output.Write(b)
}

func (o *failingOutput) Sync() error {
	if err := o.f.step("fsync", ""); err != nil {
		return err
	}
	return o.Output.Sync()
}

// prepareDays writes rows of two days and prepares them.
func prepareDays(t *testing.T, fsys FS, out, tmp string, kv ...any) (connector.Sink, []*batch.Schema, []checkpoint.Prepared) {
	t.Helper()
	tb := table("id", "int", "day", "string")
	s, err := openSink(t, fsys, opts(append([]any{"path", out, "tmp_path", tmp, "partition_by", []string{"day"}}, kv...)...), tb)
	if err != nil {
		t.Fatal(err)
	}
	schemas := batch.Schemas([]*schema.Table{tb})
	w := openWriter(t, s, schemas, 1, 0, 1)
	if err := w.Write(context.Background(), rows(schemas[0], "1|mon", "2|tue", "3|mon", "4|wed")); err != nil {
		t.Fatal(err)
	}
	entries, err := w.Prepare(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return s, schemas, preparedOf(1, 0, 1, entries)
}

var days = map[string]string{"day=mon": "1\n3\n", "day=tue": "2\n", "day=wed": "4\n"}

func wantDays(t *testing.T, when, out string) {
	t.Helper()
	got := map[string]string{}
	for name, text := range tree(t, out) {
		got[filepath.Dir(name)] += text
	}
	if fmt.Sprint(got) != fmt.Sprint(days) {
		t.Fatalf("%s: %v, want %v", when, got, days)
	}
}

// The committer dies at every one of its steps, on one device and across two; another one takes over and the target
// holds every row once.
func TestCommitKilledAtEveryStep(t *testing.T) {
	for _, device := range []bool{false, true} {
		steps := 0
		for kill := 0; ; kill++ {
			out, tmp := t.TempDir(), t.TempDir()
			s, schemas, prepared := prepareDays(t, local{}, out, tmp)
			f := &failing{FS: local{}, left: kill, device: device, tmp: tmp}
			dying := transactional{&sink{fs: f, tmp: tmp, names: s.(transactional).names}}
			err := openCommitter(t, dying, schemas, 1).Commit(t.Context(), prepared)
			if err != nil && device && kill > 0 && kill%3 == 0 { // the next one dies, too, one step on
				again := &failing{FS: local{}, left: 1, device: device, tmp: tmp}
				_ = openCommitter(t, transactional{&sink{fs: again, tmp: tmp}}, schemas, 2).Commit(t.Context(), prepared)
			}
			whole := &failing{FS: local{}, left: -1, device: device, tmp: tmp}
			second := openCommitter(t, transactional{&sink{fs: whole, tmp: tmp}}, schemas, 2)
			for range 2 {
				if err := second.Commit(t.Context(), prepared); err != nil {
					t.Fatalf("across devices %v, killed at step %d (%q), then: %v", device, kill, f.calls, err)
				}
			}
			wantDays(t, fmt.Sprintf("across devices %v, killed at step %d (%q)", device, kill, f.calls), out)
			for name := range tree(t, tmp) {
				t.Fatalf("killed at step %d, %s is left", kill, name)
			}
			if err == nil {
				steps = kill
				break
			}
		}
		if steps < 5 {
			t.Fatalf("only %d steps", steps)
		}
	}
}

// The writer dies at every one of its steps; what it left is abandoned and nothing of it becomes visible.
func TestPrepareKilledAtEveryStep(t *testing.T) {
	for _, format := range []string{"csv", "parquet"} {
		for kill := 0; ; kill++ {
			out, tmp := t.TempDir(), t.TempDir()
			f := &failing{FS: local{}, left: kill}
			tb := table("id", "int", "day", "string")
			s, err := openSink(t, f, opts("path", out, "tmp_path", tmp, "file_format_type", format, "partition_by", []string{"day"}), tb)
			if err != nil {
				t.Fatal(err)
			}
			schemas := batch.Schemas([]*schema.Table{tb})
			w := openWriter(t, s, schemas, 1, 0, 1)
			err = w.Write(t.Context(), rows(schemas[0], "1|mon", "2|tue", "3|mon", "4|wed"))
			if err == nil {
				_, err = w.Prepare(t.Context(), 1)
			}
			f.left = -1
			if err != nil {
				if !strings.Contains(err.Error(), tmp) && !strings.Contains(err.Error(), "sync") {
					t.Fatalf("killed at step %d: the error names no path: %v", kill, err)
				}
				_ = w.Close()
			}
			if err := openCommitter(t, s, schemas, 2).Abandon(t.Context(), 2, nil); err != nil {
				t.Fatal(err)
			}
			if n := names(tree(t, out)); len(n) > 0 {
				t.Fatalf("killed at step %d, %q are visible", kill, n)
			}
			if n := names(tree(t, tmp)); len(n) > 0 {
				t.Fatalf("killed at step %d, %q are left", kill, n)
			}
			if err == nil {
				break
			}
		}
	}
}

func TestCommitLost(t *testing.T) {
	out, tmp := t.TempDir(), t.TempDir()
	s, schemas, prepared := prepareDays(t, local{}, out, tmp)
	if err := os.RemoveAll(tmp); err != nil {
		t.Fatal(err)
	}
	err := openCommitter(t, s, schemas, 2).Commit(t.Context(), prepared)
	if err == nil || !fault.IsFatal(err) || !strings.Contains(err.Error(), "is lost: neither "+tmp) || !strings.Contains(err.Error(), "2 rows were prepared by worker w1") {
		t.Fatalf("error %v", err)
	}
	// Another size at the target is no commit either.
	var e entry
	e, err = decodeEntry(&prepared[0])
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Dir(e.Files[0].Final), filepath.Base(e.Files[0].Final), "something else")
	if err := openCommitter(t, s, schemas, 2).Commit(t.Context(), prepared); err == nil || !strings.Contains(err.Error(), "has 14 bytes instead of 4") {
		t.Fatalf("error %v", err)
	}
}

func TestCommitVersion(t *testing.T) {
	s, schemas, prepared := prepareDays(t, local{}, t.TempDir(), t.TempDir())
	prepared[0].Data = []byte(`{"v":9}`)
	if err := openCommitter(t, s, schemas, 2).Commit(t.Context(), prepared); err == nil || !strings.Contains(err.Error(), "is of version 9, this build knows 1") {
		t.Fatalf("error %v", err)
	}
}

func TestDiskFull(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "no space left on device; free space there or set tmp_path to another folder",
		syscall.EIO:    "input/output error",
		syscall.EROFS:  "set path and tmp_path to others",
		syscall.EMFILE: "raise the limit of open files",
	} {
		out, tmp := t.TempDir(), t.TempDir()
		f := &failing{FS: local{}, left: 3, err: err}
		tb := table("id", "int", "day", "string")
		s, oerr := openSink(t, f, opts("path", out, "tmp_path", tmp), tb)
		if oerr != nil {
			t.Fatal(oerr)
		}
		schemas := batch.Schemas([]*schema.Table{tb})
		w := openWriter(t, s, schemas, 1, 0, 1)
		big := formattest.Rand(schemas[0], 60000, 1, "")
		werr := w.Write(t.Context(), big)
		if werr == nil {
			werr = w.Write(t.Context(), big)
		}
		if werr == nil || !errors.Is(werr, err) || !strings.Contains(werr.Error(), "write "+tmp) || !strings.Contains(werr.Error(), want) {
			t.Fatalf("%v: error %v, want %q", err, werr, want)
		}
		f.left = -1
		if cerr := w.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		if n := names(tree(t, tmp)); len(n) > 0 {
			t.Fatalf("%v: %q are left", err, n)
		}
	}
}

// A committer may remove a folder of an earlier checkpoint just when the writer is about to use it.
type vanishing struct {
	FS
	times int
}

func (v *vanishing) Create(name string) (Output, error) {
	if v.times > 0 {
		v.times--
		if err := os.RemoveAll(filepath.Dir(name)); err != nil {
			return nil, err
		}
	}
	return v.FS.Create(name)
}

func TestFolderVanishes(t *testing.T) {
	out, tmp := t.TempDir(), t.TempDir()
	s, schemas, prepared := prepareDays(t, &vanishing{local{}, 3}, out, tmp)
	if err := openCommitter(t, s, schemas, 1).Commit(t.Context(), prepared); err != nil {
		t.Fatal(err)
	}
	wantDays(t, "after vanished folders", out)
}

func TestAbandonLeavesOthers(t *testing.T) {
	tmp := t.TempDir()
	mine := vertexDir(tmp, id(1, 0))
	put(t, mine, "1/1_0/t0/a.csv", "x")
	put(t, mine, "2/1_0/t0/b.csv", "x")
	put(t, mine, "3/1_0/t0/c.csv", "x")
	other := id(1, 0)
	other.Vertex = "sink.LocalFile.1"
	put(t, vertexDir(tmp, other), "1/1_0/t0/d.csv", "x")
	other = id(1, 0)
	other.Job = "job.8"
	put(t, vertexDir(tmp, other), "1/1_0/t0/e.csv", "x")
	s, err := openSink(t, local{}, opts("path", t.TempDir(), "tmp_path", tmp), table("id", "int"))
	if err != nil {
		t.Fatal(err)
	}
	if err := openCommitter(t, s, nil, 3).Abandon(t.Context(), 3, nil); err != nil {
		t.Fatal(err)
	}
	var left []string
	for name := range tree(t, tmp) {
		left = append(left, filepath.Base(name))
	}
	sort.Strings(left)
	if fmt.Sprint(left) != "[c.csv d.csv e.csv]" {
		t.Fatalf("left: %q", left)
	}
}

func TestNames(t *testing.T) {
	f := func(want string, kv ...any) {
		t.Helper()
		out := t.TempDir()
		o := append([]any{"path", out, "tmp_path", t.TempDir()}, kv...)
		err := writeAll(t, opts(o...), table("id", "int", "name", "string"), func(s *batch.Schema) []*batch.Batch {
			return []*batch.Batch{rows(s, "1|a", "2|b", "3|c")}
		})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(names(tree(t, out)), " ")
		if !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Fatalf("%v: %q, want %q", kv, got, want)
		}
	}
	const tx = `T_job\.7_[0-9a-f]{10}_0_1`
	const date = `\d{4}\.\d\d\.\d\d`
	f(tx + `_0\.csv`)
	f(tx+`_0\.csv `+tx+`_1\.csv`, "batch_size", 2)
	f(tx+`\.csv`, "batch_size", 2, "single_file_mode", true)
	f(tx+`_`+date+`_0\.txt`, "file_format_type", "text", "file_name_expression", "${transactionId}_${now}")
	f(tx+`_orders_0\.json`, "file_format_type", "json", "file_name_expression", "orders")
	f(tx+`_0\.json`, "file_format_type", "json", "file_name_expression", "orders", "custom_filename", false)
	f(`orders_0\.json`, "file_format_type", "json", "file_name_expression", "orders", "is_enable_transaction", false)
	f(`orders\.dat`, "file_name_expression", "orders", "is_enable_transaction", false, "single_file_mode", true, "filename_extension", "dat")
	f(tx+`_[0-9a-f-]{36}_\d{8}_0\.csv`, "file_name_expression", "${transactionId}_${uuid}_${now}", "filename_time_format", "yyyyMMdd")
	f(tx+`_0\.zstd\.parquet`, "file_format_type", "parquet", "compress_codec", "zstd")
	f(tx+`_0\.csv`, "file_name_expression", " ")
}

// Without transactions a name that is taken is kept: neither an earlier run nor an earlier checkpoint is lost.
func TestPublishKeepsWhatIsThere(t *testing.T) {
	for _, device := range []bool{false, true} {
		out, tmp := t.TempDir(), t.TempDir()
		tb := table("id", "int")
		for run := range 3 {
			f := &failing{FS: local{}, left: -1, device: device, tmp: tmp}
			s, err := openSink(t, f, opts("path", out, "tmp_path", tmp, "is_enable_transaction", false, "file_name_expression", "orders", "single_file_mode", true), tb)
			if err != nil {
				t.Fatal(err)
			}
			schemas := batch.Schemas([]*schema.Table{tb})
			w := openWriter(t, s, schemas, 1, 0, 1)
			for n := range 2 {
				if err := w.Write(t.Context(), rows(schemas[0], fmt.Sprint(10*run+n))); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Prepare(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var all []string
		for _, text := range tree(t, out) {
			all = append(all, strings.TrimSpace(text))
		}
		sort.Strings(all)
		if fmt.Sprint(all) != "[0 1 10 11 20 21]" {
			t.Fatalf("rows %v in %q", all, names(tree(t, out)))
		}
	}
}

func TestPartitions(t *testing.T) {
	f := func(lines []string, want string, kv ...any) {
		t.Helper()
		out := t.TempDir()
		tb := table("id", "int", "day", "date", "city", "string")
		err := writeAll(t, opts(append([]any{"path", out, "tmp_path", t.TempDir(), "file_name_expression", "x", "is_enable_transaction", false}, kv...)...), tb,
			func(s *batch.Schema) []*batch.Batch { return []*batch.Batch{rows(s, lines...)} })
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for name, text := range tree(t, out) {
			got = append(got, filepath.Dir(name)+": "+strings.ReplaceAll(strings.TrimSpace(text), "\n", ";"))
		}
		sort.Strings(got)
		if fmt.Sprint(got) != want {
			t.Fatalf("%v:\n%v, want\n%v", kv, got, want)
		}
	}
	lines := []string{"1|2024-01-01|Oslo", "2|2024-01-02|Rome", "3|2024-01-01|NULL", "4|2024-01-01|a/b%=", "5|2024-01-01|.."}
	f(lines, "[day=2024-01-01: 1,Oslo;3,;4,a/b%=;5,.. day=2024-01-02: 2,Rome]", "partition_by", []string{"day"})
	f(lines, "[2024-01-01: 1,2024-01-01,Oslo;3,2024-01-01,;4,2024-01-01,a/b%=;5,2024-01-01,.. 2024-01-02: 2,2024-01-02,Rome]",
		"partition_by", []string{"day"}, "partition_dir_expression", "${v0}", "is_partition_field_write_in_file", true)
	f(lines, "[city=%2E%2E/day=2024-01-01: 5 city=Oslo/day=2024-01-01: 1 city=Rome/day=2024-01-02: 2 city=__HIVE_DEFAULT_PARTITION__/day=2024-01-01: 3 city=a%2Fb%25%3D/day=2024-01-01: 4]",
		"partition_by", []string{"city", "day"})
	f(lines, "[.: 1,2024-01-01,Oslo;2,2024-01-02,Rome;3,2024-01-01,;4,2024-01-01,a/b%=;5,2024-01-01,..]", "partition_by", []string{"day"}, "have_partition", false)
	f(lines, "[day=2024-01-01: 1;3;4;5 day=2024-01-02: 2]", "partition_by", []string{"DAY"}, "sink_columns", []string{"id", "day"})
}

// Partition folders written are columns when read, whatever their values hold.
func TestPartitionsReadBack(t *testing.T) {
	out := t.TempDir()
	tb := table("id", "int", "city", "string")
	lines := []string{"1|Oslo", "2|a/b%=", "3|NULL", "4|..", "5|Köln 100%"}
	if err := writeAll(t, opts("path", out, "tmp_path", t.TempDir(), "partition_by", []string{"city"}), tb, func(s *batch.Schema) []*batch.Batch {
		return []*batch.Batch{rows(s, lines...)}
	}); err != nil {
		t.Fatal(err)
	}
	s, err := openSource(t, 1, opts("path", out, "file_format_type", "csv", "schema", fieldsOf("id", "int")))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(t, s)
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(got)
	if fmt.Sprint(got) != fmt.Sprint(lines) {
		t.Fatalf("%q, want %q", got, lines)
	}
	if p := s.Tables()[0].Partition; fmt.Sprint(p) != "[city]" {
		t.Fatalf("partition columns %q", p)
	}
}

// counting watches how many files are open.
type counting struct {
	FS
	open, most int
}

func (c *counting) Create(name string) (Output, error) {
	o, err := c.FS.Create(name)
	if err == nil {
		c.open++
		c.most = max(c.most, c.open)
	}
	return &countedOutput{o, c}, err
}

type countedOutput struct {
	Output
	c *counting
}

func (o *countedOutput) Close() error {
	o.c.open--
	return o.Output.Close()
}

func TestManyPartitions(t *testing.T) {
	for _, format := range []string{"csv", "parquet"} {
		out, tmp := t.TempDir(), t.TempDir()
		c := &counting{FS: local{}}
		tb := table("id", "int", "p", "int")
		s, err := openSink(t, c, opts("path", out, "tmp_path", tmp, "file_format_type", format, "partition_by", []string{"p"}), tb)
		if err != nil {
			t.Fatal(err)
		}
		schemas := batch.Schemas([]*schema.Table{tb})
		w := openWriter(t, s, schemas, 1, 0, 1)
		for k := range 2 {
			var lines []string
			for i := range 500 {
				lines = append(lines, fmt.Sprintf("%d|%d", 500*k+i, i%150))
			}
			if err := w.Write(t.Context(), rows(schemas[0], lines...)); err != nil {
				t.Fatal(err)
			}
		}
		entries, err := w.Prepare(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := openCommitter(t, s, schemas, 1).Commit(t.Context(), preparedOf(1, 0, 1, entries)); err != nil {
			t.Fatal(err)
		}
		if c.most > maxOpen || c.open != 0 {
			t.Fatalf("%d files were open at once, %d still are", c.most, c.open)
		}
		src, err := openSource(t, 1, opts("path", out, "file_format_type", format, "schema", fieldsOf("id", "int")))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(t, src)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, row := range got {
			seen[row] = true
		}
		if len(got) != 1000 || len(seen) != 1000 {
			t.Fatalf("%s: %d rows, %d different ones", format, len(got), len(seen))
		}
	}
}

func TestTablePlaceholders(t *testing.T) {
	tb := table("id", "int", "name", "string")
	tb.PrimaryKey = &schema.PrimaryKey{Columns: []string{"id"}}
	for in, want := range map[string]string{
		"/d/${database_name}/${table_name}":   "/d/shop/orders",
		"/d/${schema_name:none}/x":            "/d/none/x",
		"/d/${table_full_name}-${now}":        "/d/shop.orders-${now}",
		"/d/${primary_key}-${field_names}/${": "/d/id-id,name/${",
	} {
		if got := expandTable(in, tb); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestEmptyFileWhenNoData(t *testing.T) {
	out := t.TempDir()
	err := writeAll(t, opts("path", out, "tmp_path", t.TempDir(), "create_empty_file_when_no_data", true, "enable_header_write", true), table("id", "int", "x", "string"),
		func(*batch.Schema) []*batch.Batch { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if got := tree(t, out); len(got) != 1 || got[names(got)[0]] != "id,x\n" {
		t.Fatalf("%q", got)
	}
}

func TestClaims(t *testing.T) {
	s, err := openSink(t, local{}, opts("path", "/x"), table("id", "int"))
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Claim(); c.Guarantee != connector.ExactlyOnce || !c.HostBound || c.Locks {
		t.Fatalf("%+v", c)
	}
	if s, err = openSink(t, local{}, opts("path", "/x", "is_enable_transaction", false), table("id", "int")); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.(connector.TwoPhase); ok || s.Claim().Guarantee != connector.AtLeastOnce {
		t.Fatalf("%+v", s.Claim())
	}
}
