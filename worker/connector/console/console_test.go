package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"go.uber.org/goleak"

	"strait/checkpoint"
	"strait/plan/option/optiontest"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/connector/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	tables := []*schema.Table{
		conformance.Table("d.t1", schema.Col("id", schema.Of(schema.Int)), schema.Col("s", schema.Of(schema.String))),
		conformance.Table("t2", schema.Col("x", schema.Of(schema.Double))),
	}
	conformance.Sink(t, conformance.SinkCase{
		Plugin: "console", Tables: tables,
		Batches: func(s []*batch.Schema) []*batch.Batch {
			return []*batch.Batch{conformance.Sequence(s[0], 0, 20, false), conformance.Sequence(s[1], 0, 5, true), conformance.Sequence(s[0], 20, 9, true).Slice(2, 7)}
		},
		Text: func(b *batch.Batch, i int) string {
			row := conformance.RowText(b, i)
			_, values, _ := strings.Cut(row, "[")
			return fmt.Sprintf("SeaTunnelRow#tableId=%s SeaTunnelRow#kind=%s : %s", b.Schema.Table.Path, b.Kind(i).Long(), strings.TrimSuffix(values, "]"))
		},
		Target: func(*testing.T) conformance.Target {
			var out bytes.Buffer
			return conformance.Target{Options: `{}`, Stdout: &out, Visible: func(*testing.T) []string {
				var rows []string
				for l := range strings.Lines(out.String()) {
					if _, row, ok := strings.Cut(strings.TrimSuffix(l, "\n"), ":  "); ok {
						rows = append(rows, row)
					}
				}
				return rows
			}}
		},
	})
}

// recorder keeps what every Write got.
type recorder struct{ writes []string }

func (r *recorder) Write(p []byte) (int, error) {
	r.writes = append(r.writes, string(p))
	return len(p), nil
}

func newWriter(t *testing.T, options string, out *recorder, tables ...*schema.Table) (connector.Writer, []*batch.Schema) {
	t.Helper()
	f := connector.FindSink("Console")
	s, err := f.New(t.Context(), connector.SinkConfig{Options: optiontest.Values(t, f.Options, options), Tables: tables})
	if err != nil {
		t.Fatal(err)
	}
	schemas := batch.Schemas(tables)
	w, err := s.NewWriter(t.Context(), connector.WriterContext{Identity: checkpoint.Identity{Subtask: 3}, Schemas: schemas, Stdout: out, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return w, schemas
}

func TestLines(t *testing.T) {
	table := conformance.Table("db.people", schema.Col("name", schema.Of(schema.String)), schema.Col("tags", schema.ArrayOf(schema.Of(schema.Int))),
		schema.Col("r", schema.RowOf(schema.Col("a", schema.DecimalOf(4, 2)), schema.Col("m", schema.MapOf(schema.Of(schema.String), schema.Of(schema.Timestamp))))))
	var out recorder
	w, schemas := newWriter(t, `{}`, &out, table)
	b := batch.NewBuilder(schemas[0])
	for _, name := range []string{"Ann", "two\nlines\r\t\x1b[31m\u0085 Bø"} {
		b.Field(0).(*array.StringBuilder).Append(name)
		b.Field(1).AppendNull()
		b.Field(2).AppendNull()
		b.EndRow(schema.UpdateAfter)
	}
	if err := w.Write(t.Context(), b.Finish()); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(out.writes, "|")
	want := "output rowType: name<STRING>, tags<ARRAY<INT>>, r<ROW<a<DECIMAL(4, 2)>, m<MAP<STRING, TIMESTAMP>>>>\n|" +
		"subtaskIndex=3  rowIndex=1:  SeaTunnelRow#tableId=db.people SeaTunnelRow#kind=UPDATE_AFTER : Ann, null, null\n" +
		`subtaskIndex=3  rowIndex=2:  SeaTunnelRow#tableId=db.people SeaTunnelRow#kind=UPDATE_AFTER : two\nlines\r\t\u001b[31m\u0085 Bø, null, null` + "\n"
	if got != want {
		t.Fatalf("printed\n%s\nwant\n%s", got, want)
	}
}

func TestChunks(t *testing.T) {
	table := conformance.Table("t", schema.Col("s", schema.Of(schema.String)))
	var out recorder
	w, schemas := newWriter(t, `{}`, &out, table)
	b := batch.NewBuilder(schemas[0])
	for i := range 500 {
		n := 1000
		if i == 250 {
			n = 100_000
		}
		b.Field(0).(*array.StringBuilder).Append(strings.Repeat("x", n))
		b.EndRow(schema.Insert)
	}
	if err := w.Write(t.Context(), b.Finish()); err != nil {
		t.Fatal(err)
	}
	for i, s := range out.writes {
		if !strings.HasSuffix(s, "\n") || len(s) > chunk && strings.Count(s, "\n") > 1 {
			t.Errorf("write %d has %d bytes and %d lines", i, len(s), strings.Count(s, "\n"))
		}
	}
	if n := strings.Count(strings.Join(out.writes, ""), "rowIndex="); n != 500 || len(out.writes) > 15 {
		t.Errorf("%d rows in %d writes", n, len(out.writes))
	}
}

func TestOptions(t *testing.T) {
	table := conformance.Table("t", schema.Col("i", schema.Of(schema.Int)))
	var out recorder
	w, schemas := newWriter(t, `{"log.print.data": false}`, &out, table)
	if err := w.Write(t.Context(), conformance.Sequence(schemas[0], 0, 10, false)); err != nil || len(out.writes) != 1 {
		t.Errorf("with log.print.data = false: %v, %q", err, out.writes)
	}
	w, schemas = newWriter(t, `{"log.print.delay.ms": 60000}`, &out, table)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.Write(ctx, conformance.Sequence(schemas[0], 0, 10, false)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled wait ends with %v", err)
	}
	if last := out.writes[len(out.writes)-1]; strings.Count(last, "rowIndex=") != 1 {
		t.Errorf("a row is shown before the wait: %q", last)
	}
}

func BenchmarkConsole(b *testing.B) {
	table := conformance.Table("t", schema.Col("i", schema.Of(schema.BigInt)), schema.Col("s", schema.Of(schema.String)), schema.Col("d", schema.Of(schema.Double)))
	schemas := batch.Schemas([]*schema.Table{table})
	w, err := (&sink{print: true}).NewWriter(b.Context(), connector.WriterContext{Schemas: schemas, Stdout: discard{}})
	if err != nil {
		b.Fatal(err)
	}
	x := conformance.Sequence(schemas[0], 0, batch.TargetRows, false)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Write(b.Context(), x); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*batch.TargetRows/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
