package file

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/option/optiontest"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/format/field"
)

// opts writes an options object as JSON.
func opts(kv ...any) string {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// fieldsOf writes a schema block: name, type, name, type …
func fieldsOf(kv ...string) json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"fields":{`)
	for i := 0; i < len(kv); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%q", kv[i], kv[i+1])
	}
	b.WriteString("}}")
	return json.RawMessage(b.String())
}

func put(t testing.TB, dir, name, content string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func openSource(t testing.TB, parallelism int, options string) (*source, error) {
	t.Helper()
	f := connector.FindSource("LocalFile")
	s, err := f.New(context.Background(), connector.SourceConfig{Options: optiontest.Values(t, f.Options, options), Parallelism: parallelism})
	if err != nil {
		return nil, err
	}
	return s.(*source), nil
}

// splitsOf discovers all splits, going through cursors as after a restart every other time.
func splitsOf(t testing.TB, s connector.Source) ([]connector.Split, error) {
	t.Helper()
	ctx := context.Background()
	e, err := s.NewEnumerator(ctx)
	if err != nil {
		return nil, err
	}
	var all []connector.Split
	var cur []byte
	for i := 0; ; i++ {
		if i%2 == 1 {
			if e, err = s.NewEnumerator(ctx); err != nil {
				return nil, err
			}
		}
		d, err := e.Discover(ctx, cur)
		if err != nil {
			return nil, err
		}
		all = append(all, d.Splits...)
		cur = d.Cursor
		if d.Done {
			return all, e.Close()
		}
	}
}

// readAll reads every split and gives the rows as text, each with its table's index in front where there are several.
func readAll(t testing.TB, s connector.Source) ([]string, error) {
	t.Helper()
	splits, err := splitsOf(t, s)
	if err != nil {
		return nil, err
	}
	var rows []string
	for _, sp := range splits {
		r, err := readSplit(t, s, sp)
		if err != nil {
			return rows, err
		}
		rows = append(rows, r...)
	}
	return rows, nil
}

func readSplit(t testing.TB, s connector.Source, sp connector.Split) ([]string, error) {
	t.Helper()
	ctx := context.Background()
	schemas := batch.Schemas(s.Tables())
	r, err := s.NewReader(ctx, connector.ReaderContext{Parallelism: 1, Schemas: schemas})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.Open(ctx, sp, nil); err != nil {
		return nil, err
	}
	var rows []string
	for {
		out := connector.NewOutput(schemas, batch.Limit{})
		p, err := r.Read(ctx, out)
		if err != nil {
			return rows, err
		}
		for _, b := range out.Take() {
			for i := range b.Rows {
				rows = append(rows, rowText(b, i, len(schemas) > 1))
			}
		}
		if p.Done {
			return rows, nil
		}
		r2, err := s.NewReader(ctx, connector.ReaderContext{Parallelism: 1, Schemas: schemas}) // another worker goes on
		if err != nil {
			return rows, err
		}
		if err := r.Close(); err != nil {
			return rows, err
		}
		r = r2
		if err := r.Open(ctx, sp, p.Position); err != nil {
			return rows, err
		}
	}
}

var codec = field.Codec{Formats: field.DefaultFormats(), Separators: []string{"|", ";", "=", "~", "^", "&"}, Null: "NULL", HasNull: true}

func rowText(b *batch.Batch, i int, withTable bool) string {
	var out []byte
	if withTable {
		out = fmt.Appendf(out, "%d:", b.Schema.Index)
	}
	for c := range b.Cols {
		if c > 0 {
			out = append(out, '|')
		}
		out = codec.OrNull(out, &b.Schema.Table.Columns[c].Type, b.Cols[c], i, 0)
	}
	return string(out)
}

// wantRows reads a source and compares.
func wantRows(t *testing.T, options string, want ...string) {
	t.Helper()
	s, err := openSource(t, 1, options)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(got) != len(want) {
		t.Fatalf("rows\n%q, want\n%q", got, want)
	}
}

// wantError reads a source and compares parts of its error.
func wantError(t *testing.T, options string, parts ...string) {
	t.Helper()
	s, err := openSource(t, 1, options)
	if err == nil {
		_, err = readAll(t, s)
	}
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Fatalf("error %q lacks %q", err, p)
		}
	}
}

func id(attempt plan.Attempt, subtask int) checkpoint.Identity {
	return checkpoint.Identity{Cluster: "c1", Job: "job.7", Pipeline: 1, Vertex: "sink.LocalFile.0", Attempt: attempt, Subtask: subtask}
}

func openSink(t testing.TB, fsys FS, options string, tables ...*schema.Table) (connector.Sink, error) {
	t.Helper()
	f := connector.FindSink("LocalFile")
	return newSink(context.Background(), fsys, connector.SinkConfig{Options: optiontest.Values(t, f.Options, options), Tables: tables, Parallelism: 1, Job: "job"})
}

func openWriter(t testing.TB, s connector.Sink, schemas []*batch.Schema, attempt plan.Attempt, subtask int, next plan.CheckpointID) connector.Writer {
	t.Helper()
	w, err := s.NewWriter(context.Background(), connector.WriterContext{Identity: id(attempt, subtask), Worker: "w1", Parallelism: 1, Schemas: schemas, Next: next, Stdout: io.Discard, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func openCommitter(t testing.TB, s connector.Sink, schemas []*batch.Schema, attempt plan.Attempt) connector.Committer {
	t.Helper()
	c, err := s.(connector.TwoPhase).NewCommitter(context.Background(), connector.CommitterContext{Identity: id(attempt, -1), Worker: "w1", Schemas: schemas, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func preparedOf(attempt plan.Attempt, subtask int, n plan.CheckpointID, entries [][]byte) []checkpoint.Prepared {
	var out []checkpoint.Prepared
	for i, e := range entries {
		out = append(out, checkpoint.Prepared{Identity: id(attempt, subtask), Checkpoint: n, Sequence: i, Worker: "w1", Data: e})
	}
	return out
}

// writeAll writes batches through one writer and commits.
func writeAll(t testing.TB, options string, table *schema.Table, batches func(*batch.Schema) []*batch.Batch) error {
	t.Helper()
	s, err := openSink(t, local{}, options, table)
	if err != nil {
		return err
	}
	schemas := batch.Schemas([]*schema.Table{table})
	w := openWriter(t, s, schemas, 1, 0, 1)
	for _, b := range batches(schemas[0]) {
		if err := w.Write(context.Background(), b); err != nil {
			return err
		}
	}
	entries, err := w.Prepare(context.Background(), 1)
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if _, ok := s.(connector.TwoPhase); !ok {
		return nil
	}
	return openCommitter(t, s, schemas, 1).Commit(context.Background(), preparedOf(1, 0, 1, entries))
}

// tree lists the files below a folder with their contents, names shortened by cut.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func names(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// rows builds a batch from text, a null where the text is NULL.
func rows(s *batch.Schema, lines ...string) *batch.Batch {
	b := batch.NewBuilder(s)
	for _, line := range lines {
		for i, text := range strings.Split(line, "|") {
			if text == "NULL" {
				b.Field(i).AppendNull()
				continue
			}
			if err := codec.Append(b.Field(i), &s.Table.Columns[i].Type, []byte(text), 0); err != nil {
				panic(err)
			}
		}
		b.EndRow(schema.Insert)
	}
	return b.Finish()
}

func table(kv ...string) *schema.Table {
	t := &schema.Table{Path: schema.Path{Database: "shop", Table: "orders"}}
	for i := 0; i < len(kv); i += 2 {
		ty, err := schema.ParseType(kv[i+1])
		if err != nil {
			panic(err)
		}
		t.Columns = append(t.Columns, schema.Col(kv[i], ty))
	}
	return t
}
