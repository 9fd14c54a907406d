package blackhole

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"strait/checkpoint"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/connector/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tables = []*schema.Table{
	conformance.Table("d.a", schema.Col("i", schema.Of(schema.BigInt)), schema.Col("s", schema.Of(schema.String))),
	conformance.Table("b", schema.Col("x", schema.Of(schema.Int))),
}

func TestConformance(t *testing.T) {
	conformance.Sink(t, conformance.SinkCase{
		Plugin: "Blackhole", Tables: tables,
		Batches: func(s []*batch.Schema) []*batch.Batch {
			return []*batch.Batch{conformance.Sequence(s[0], 0, 20, true), conformance.Sequence(s[1], 0, 5, false)}
		},
		Target: func(*testing.T) conformance.Target { return conformance.Target{Options: `{}`} },
	})
}

// TestCountsGlobally has three writers and one committer.
func TestCountsGlobally(t *testing.T) {
	schemas := batch.Schemas(tables)
	var prepared []checkpoint.Prepared
	for sub := range 3 {
		w, err := sink{}.NewWriter(t.Context(), connector.WriterContext{Schemas: schemas})
		if err != nil {
			t.Fatal(err)
		}
		for i := range sub {
			if err := w.Write(t.Context(), conformance.Sequence(schemas[i], 0, 10, false)); err != nil {
				t.Fatal(err)
			}
		}
		entries, err := w.Prepare(t.Context(), 1)
		if err != nil || len(entries) != 1 {
			t.Fatalf("prepared %q, %v", entries, err)
		}
		prepared = append(prepared, checkpoint.Prepared{Data: entries[0]})
	}
	got, err := Totals(prepared)
	if err != nil {
		t.Fatal(err)
	}
	want := []Count{{"d.a", 20, 2 * conformance.Sequence(schemas[0], 0, 10, false).Bytes()}, {"b", 10, 40}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var log bytes.Buffer
	c, err := sink{}.NewAggregated(t.Context(), connector.CommitterContext{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(t.Context(), prepared); err != nil || !strings.Contains(log.String(), "table=d.a rows=20") {
		t.Errorf("commit: %v, log %s", err, log.String())
	}
	if err := c.Commit(t.Context(), []checkpoint.Prepared{{Data: []byte(`{"v":2}`)}}); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("an entry of another version: %v", err)
	}
}
