package conformance

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/option/optiontest"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
)

// SinkCase is one configured sink to check. Every check gets a target of its own.
type SinkCase struct {
	Plugin    string
	Streaming bool
	Tables    []*schema.Table
	// Batches are what is written, split over two writers; some of each table makes a good case.
	Batches func(schemas []*batch.Schema) []*batch.Batch
	Target  func(t *testing.T) Target
	// Text is a row as Visible gives it; nil: RowText.
	Text func(b *batch.Batch, row int) string
}

// Target is a fresh place to write to.
type Target struct {
	Options string // JSON
	// Visible lists the rows a reader of the target sees, in any order; nil: the target cannot be looked at.
	Visible func(t *testing.T) []string
	// Leftovers lists what prepared or half-written rows have left at the target; nil: cannot be looked at.
	Leftovers func(t *testing.T) []string
	Stdout    io.Writer
}

// Sink runs every check of a sink.
func Sink(t *testing.T, c SinkCase) {
	t.Helper()
	run := func(name string, check func(t *testing.T, s *sinkRun)) {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			check(t, c.open(t))
			goleak.VerifyNone(t, before)
		})
	}
	run("write, prepare, commit", commitOnce)
	run("commit again", commitAgain)
	run("two checkpoints", twoCheckpoints)
	run("no rows", noRows)
	run("close without prepare", closeUnprepared)
	run("abandon", abandon)
	run("abandon keeps", abandonKeeps)
	run("cancelled context", sinkCancelled)
}

// sinkRun is one sink at one target.
type sinkRun struct {
	SinkCase
	Target
	sink    connector.Sink
	schemas []*batch.Schema
	batches []*batch.Batch
}

func (c SinkCase) open(t *testing.T) *sinkRun {
	t.Helper()
	f := connector.FindSink(c.Plugin)
	if f == nil {
		t.Fatalf("no sink %q is registered", c.Plugin)
	}
	s := &sinkRun{SinkCase: c, Target: c.Target(t), schemas: batch.Schemas(c.Tables)}
	sink, err := f.New(t.Context(), connector.SinkConfig{
		Options: optiontest.Values(t, f.Options, s.Options), Tables: c.Tables, Streaming: c.Streaming,
		Parallelism: 2, Job: "job", JobName: "job",
	})
	if err != nil {
		t.Fatalf("new sink: %v", err)
	}
	s.sink = sink
	s.batches = c.Batches(s.schemas)
	return s
}

func identity(attempt plan.Attempt, subtask int) checkpoint.Identity {
	return checkpoint.Identity{Cluster: "c1", Job: "job.7", Pipeline: 1, Vertex: "sink", Attempt: attempt, Subtask: subtask}
}

func (s *sinkRun) writer(t *testing.T, attempt plan.Attempt, subtask int, next plan.CheckpointID) connector.Writer {
	t.Helper()
	out := s.Stdout
	if out == nil {
		out = io.Discard
	}
	w, err := s.sink.NewWriter(t.Context(), connector.WriterContext{
		Identity: identity(attempt, subtask), Worker: "w1", Parallelism: 2, Schemas: s.schemas, Next: next,
		Stdout: out, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("new writer: %v", err)
	}
	return w
}

func (s *sinkRun) committer(t *testing.T, attempt plan.Attempt) connector.Committer {
	t.Helper()
	cc := connector.CommitterContext{Identity: identity(attempt, -1), Worker: "w1", Schemas: s.schemas, Log: slog.New(slog.DiscardHandler)}
	var c connector.Committer
	var err error
	switch sink := s.sink.(type) {
	case connector.Aggregating:
		c, err = sink.NewAggregated(t.Context(), cc)
	case connector.TwoPhase:
		c, err = sink.NewCommitter(t.Context(), cc)
	default:
		return nil
	}
	if err != nil {
		t.Fatalf("new committer: %v", err)
	}
	return c
}

func (s *sinkRun) commits() bool {
	_, agg := s.sink.(connector.Aggregating)
	_, two := s.sink.(connector.TwoPhase)
	return agg || two
}

// write has two writers write the batches and prepare them as checkpoint n.
func (s *sinkRun) write(t *testing.T, attempt plan.Attempt, n plan.CheckpointID, batches []*batch.Batch) []checkpoint.Prepared {
	t.Helper()
	var out []checkpoint.Prepared
	for sub := range 2 {
		w := s.writer(t, attempt, sub, n)
		for i := sub; i < len(batches); i += 2 {
			if err := w.Write(t.Context(), batches[i]); err != nil {
				t.Fatalf("write: %v", err)
			}
		}
		out = append(out, s.prepare(t, w, attempt, sub, n)...)
		closeWriter(t, w)
	}
	return out
}

func (s *sinkRun) prepare(t *testing.T, w connector.Writer, attempt plan.Attempt, subtask int, n plan.CheckpointID) []checkpoint.Prepared {
	t.Helper()
	entries, err := w.Prepare(t.Context(), n)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	if len(entries) > 0 && !s.commits() {
		t.Fatal("a sink without a committer prepares commits")
	}
	var out []checkpoint.Prepared
	for i, data := range entries {
		out = append(out, checkpoint.Prepared{Identity: identity(attempt, subtask), Checkpoint: n, Sequence: i, Worker: "w1", Data: data})
	}
	return out
}

func (s *sinkRun) commit(t *testing.T, attempt plan.Attempt, prepared []checkpoint.Prepared) {
	t.Helper()
	c := s.committer(t, attempt)
	if c == nil {
		return
	}
	if err := c.Commit(t.Context(), prepared); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatalf("close the committer: %v", err)
	}
}

func closeWriter(t *testing.T, w connector.Writer) {
	t.Helper()
	soon(t, "Close", func() {
		if err := w.Close(); err != nil {
			t.Errorf("close the writer: %v", err)
		}
	})
}

// visible wants the rows of some batches at the target.
func (s *sinkRun) visible(t *testing.T, when string, batches []*batch.Batch) {
	t.Helper()
	if s.Visible == nil {
		return
	}
	text := s.Text
	if text == nil {
		text = RowText
	}
	var want []string
	for _, b := range batches {
		for i := range b.Rows {
			want = append(want, text(b, i))
		}
	}
	if got := sorted(s.Visible(t)); !slices.Equal(got, sorted(want)) {
		t.Fatalf("%s the target shows\n%q, want\n%q", when, got, sorted(want))
	}
}

func commitOnce(t *testing.T, s *sinkRun) {
	prepared := s.write(t, 1, 1, s.batches)
	if s.commits() {
		s.visible(t, "before the commit", nil)
	}
	s.commit(t, 1, prepared)
	s.visible(t, "after the commit", s.batches)
}

func commitAgain(t *testing.T, s *sinkRun) {
	prepared := s.write(t, 1, 1, s.batches)
	s.commit(t, 1, prepared)
	s.commit(t, 1, prepared)
	s.commit(t, 2, prepared) // replayed by a later attempt
	s.visible(t, "after three commits of the same entries", s.batches)
}

func twoCheckpoints(t *testing.T, s *sinkRun) {
	half := len(s.batches) / 2
	w := s.writer(t, 1, 0, 1)
	for _, b := range s.batches[:half] {
		if err := w.Write(t.Context(), b); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	first := s.prepare(t, w, 1, 0, 1)
	for _, b := range s.batches[half:] {
		if err := w.Write(t.Context(), b); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	s.commit(t, 1, first)
	if s.commits() {
		s.visible(t, "after the first commit", s.batches[:half])
	}
	second := s.prepare(t, w, 1, 0, 2)
	closeWriter(t, w)
	s.commit(t, 1, second)
	s.visible(t, "after the second commit", s.batches)
}

func noRows(t *testing.T, s *sinkRun) {
	s.commit(t, 1, s.write(t, 1, 1, nil))
	s.commit(t, 1, nil)
	s.visible(t, "without a row", nil)
}

func closeUnprepared(t *testing.T, s *sinkRun) {
	w := s.writer(t, 1, 0, 1)
	for _, b := range s.batches {
		if err := w.Write(t.Context(), b); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	closeWriter(t, w)
	if s.commits() {
		s.visible(t, "after Close without Prepare", nil)
	}
	s.noLeftovers(t, "after Close without Prepare")
}

func (s *sinkRun) noLeftovers(t *testing.T, when string) {
	t.Helper()
	if s.Leftovers == nil {
		return
	}
	if left := s.Leftovers(t); len(left) > 0 {
		t.Fatalf("%s the target holds %q", when, left)
	}
}

func abandon(t *testing.T, s *sinkRun) {
	s.write(t, 1, 1, s.batches)
	c := s.committer(t, 2)
	if c == nil {
		t.Skip("the sink commits nothing")
	}
	for range 2 { // idempotent
		if err := c.Abandon(t.Context(), 2, nil); err != nil {
			t.Fatalf("abandon: %v", err)
		}
	}
	s.visible(t, "after Abandon", nil)
	s.noLeftovers(t, "after Abandon")
	s.commit(t, 2, s.write(t, 2, 2, s.batches))
	s.visible(t, "after the commit of the next attempt", s.batches)
	if err := c.Abandon(t.Context(), 3, nil); err != nil {
		t.Fatalf("abandon: %v", err)
	}
	s.visible(t, "after an Abandon behind the commit", s.batches)
	if err := c.Close(); err != nil {
		t.Fatalf("close the committer: %v", err)
	}
}

func abandonKeeps(t *testing.T, s *sinkRun) {
	prepared := s.write(t, 1, 1, s.batches)
	c := s.committer(t, 2)
	if c == nil {
		t.Skip("the sink commits nothing")
	}
	if err := c.Abandon(t.Context(), 2, prepared); err != nil {
		t.Fatalf("abandon: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatalf("close the committer: %v", err)
	}
	s.commit(t, 2, prepared)
	s.visible(t, "after the commit of kept entries", s.batches)
	s.noLeftovers(t, "after the commit of kept entries")
}

func sinkCancelled(t *testing.T, s *sinkRun) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := s.writer(t, 1, 0, 1)
	soon(t, "Write and Prepare", func() {
		for _, b := range s.batches {
			if err := w.Write(ctx, b); err != nil {
				return
			}
		}
		_, _ = w.Prepare(ctx, 1)
	})
	closeWriter(t, w)
}

// Sequence is a batch of n rows of a table, from first on: numbers count up, texts are v<row>, every seventh
// value is null and, with kinds, the row kinds take turns. Columns of other types are null.
func Sequence(s *batch.Schema, first, n int, kinds bool) *batch.Batch {
	b := batch.NewBuilder(s)
	for i := first; i < first+n; i++ {
		for c := range s.Table.Columns {
			if (i+c)%7 == 6 {
				b.Field(c).AppendNull()
				continue
			}
			appendNumber(b.Field(c), s.Table.Columns[c].Type, i)
		}
		kind := schema.Insert
		if kinds {
			kind = schema.RowKind(i % 4)
		}
		b.EndRow(kind)
	}
	return b.Finish()
}

func appendNumber(f appender, t schema.Type, i int) {
	text := fmt.Sprint(i)
	switch t.Kind {
	case schema.String:
		text = "v" + text
	case schema.Boolean:
		text = fmt.Sprint(i%2 == 0)
	case schema.TinyInt:
		text = fmt.Sprint(i % 100)
	case schema.SmallInt, schema.Int, schema.BigInt, schema.Float, schema.Double, schema.Decimal:
	default:
		f.AppendNull()
		return
	}
	if err := f.AppendValueFromString(text); err != nil {
		panic("BUG: " + err.Error())
	}
}

type appender interface {
	AppendNull()
	AppendValueFromString(string) error
}
