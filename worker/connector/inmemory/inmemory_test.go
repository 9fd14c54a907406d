package inmemory

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/fault"
	"strait/plan/option/optiontest"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/connector/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tables = []*schema.Table{
	conformance.Table("test.table1", schema.Col("id", schema.Of(schema.BigInt))),
	conformance.Table("test.table2", schema.Col("id", schema.Of(schema.BigInt))),
}

func TestConformance(t *testing.T) {
	conformance.Sink(t, conformance.SinkCase{
		Plugin: "InMemory", Tables: tables,
		Batches: func(s []*batch.Schema) []*batch.Batch {
			return []*batch.Batch{conformance.Sequence(s[0], 0, 3, true), conformance.Sequence(s[1], 0, 3, false)}
		},
		Target: func(*testing.T) conformance.Target {
			return conformance.Target{Options: `{"data_save_mode": "DROP_DATA"}`}
		},
	})
}

func open(t *testing.T, options string) (connector.Sink, error) {
	f := connector.FindSink("inmemory")
	return f.New(t.Context(), connector.SinkConfig{Options: optiontest.Values(t, f.Options, options), Tables: tables})
}

func TestFailures(t *testing.T) {
	b := conformance.Sequence(batch.NewSchema(tables[0], 0), 0, 3, false)
	f := func(options string, attempt plan.Attempt, step, want string) {
		t.Helper()
		s, err := open(t, options)
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.NewWriter(t.Context(), connector.WriterContext{Identity: checkpoint.Identity{Attempt: attempt}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.(connector.Aggregating).NewAggregated(t.Context(), connector.CommitterContext{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for _, do := range []struct {
			name string
			f    func() error
		}{
			{"write", func() error { return w.Write(t.Context(), b) }},
			{"prepare", func() error { _, err := w.Prepare(t.Context(), 1); return err }},
			{"commit", func() error { return c.Commit(t.Context(), nil) }},
		} {
			err := do.f()
			if do.name != step && err != nil {
				t.Errorf("%s: %s fails: %v", options, do.name, err)
			}
			if do.name == step && (err == nil || !strings.HasPrefix(err.Error(), want) || fault.IsFatal(err)) {
				t.Errorf("%s: %s gives %v, want %q", options, do.name, err, want)
			}
		}
	}
	f(`{}`, 1, "", "")
	f(`{"throw_exception": true}`, 1, "prepare", "write failed")
	f(`{"throw_out_of_memory": true}`, 1, "write", "out of memory")
	f(`{"throw_exception_of_committer": true}`, 1, "commit", "commit failed")
	for attempt, want := range map[plan.Attempt]string{1: "e1", 2: "e2", 3: "e3", 9: "e3"} {
		f(`{"throw_runtime_exception_list": ["e1", "e2", "e3"]}`, attempt, "write", want)
	}
	f(`{"assert_options_key": "a", "assert_options_value": "a"}`, 1, "", "")
	if _, err := open(t, `{"assert_options_key": "a", "assert_options_value": "b"}`); err == nil || !strings.Contains(err.Error(), `"b" is not equal to assert_options_key = "a"`) {
		t.Errorf("keys that differ: %v", err)
	}
}

func TestSleepsEndWithTheContext(t *testing.T) {
	for _, options := range []string{`{"writer_sleep": true}`, `{"write_delay_ms": 60000}`, `{"checkpoint_sleep": true}`} {
		s, err := open(t, options)
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.NewWriter(t.Context(), connector.WriterContext{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		err = w.Write(ctx, conformance.Sequence(batch.NewSchema(tables[0], 0), 0, 1, false))
		if err == nil {
			_, err = w.Prepare(ctx, 1)
		}
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", options, err)
		}
	}
}
