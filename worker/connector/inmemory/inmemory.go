package inmemory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/fault"
	"strait/plan/option"
	"strait/transport/batch"
	"strait/worker/connector"
)

func init() {
	flag := func(name, doc string) option.Option {
		return option.Option{Name: name, Type: option.TBool, Default: "false", Doc: doc}
	}
	connector.RegisterSink(connector.SinkFactory{
		Name: "InMemory",
		Doc:  "Takes rows, keeps none and fails when told to; for tests of the engine.",
		Options: option.Spec{
			Options: []option.Option{
				flag("throw_exception", "Fail when a checkpoint is prepared."),
				flag("throw_out_of_memory", "Fail at the first rows, as if memory had run out."),
				flag("throw_exception_of_committer", "Fail at the commit."),
				flag("checkpoint_sleep", "Take 5 seconds to prepare a checkpoint."),
				flag("writer_sleep", "Never finish writing; the job has to be cancelled."),
				{Name: "write_delay_ms", Type: option.TDuration, Default: "0", Doc: "Wait before each row, in milliseconds."},
				{Name: "throw_runtime_exception_list", Type: option.TStrings, Doc: "Fail at the first rows: the first attempt with the first text, the next with the second; the last one stands for all further attempts."},
				{Name: "assert_options_key", Type: option.TString, Doc: "Must be equal to assert_options_value."},
				{Name: "assert_options_value", Type: option.TString, Doc: "Must be equal to assert_options_key."},
				{Name: "schema_save_mode", Type: option.TString, Doc: "Accepted; there is no table to make."},
				{Name: "data_save_mode", Type: option.TString, Doc: "Accepted; there are no rows to drop."},
			},
			Rules: []option.Rule{{Kind: option.Together, Of: []string{"assert_options_key", "assert_options_value"}}},
		},
		Claims: []string{string(connector.ExactlyOnce), "several tables"},
		New:    newSink,
	})
}

type sink struct {
	prepareFails, memoryFails, commitFails bool
	slowPrepare, stuck                     bool
	delay                                  time.Duration
	errors                                 []string // one an attempt
}

func newSink(_ context.Context, c connector.SinkConfig) (connector.Sink, error) {
	v := c.Options
	if k, x := v.String("assert_options_key"), v.String("assert_options_value"); k != x {
		return nil, &fault.Mistake{Pos: v.Node("assert_options_value").Pos, Path: v.Path("assert_options_value"),
			Found: fmt.Sprintf("%q is not equal to assert_options_key = %q", x, k), Remedy: "make them equal"}
	}
	return &sink{
		prepareFails: v.Bool("throw_exception"), memoryFails: v.Bool("throw_out_of_memory"), commitFails: v.Bool("throw_exception_of_committer"),
		slowPrepare: v.Bool("checkpoint_sleep"), stuck: v.Bool("writer_sleep"), delay: v.Duration("write_delay_ms"),
		errors: v.Strings("throw_runtime_exception_list"),
	}, nil
}

func (s *sink) Claim() connector.Claim { return connector.Claim{Guarantee: connector.ExactlyOnce} }

func (s *sink) NewWriter(_ context.Context, wc connector.WriterContext) (connector.Writer, error) {
	return &writer{sink: s, attempt: wc.Attempt}, nil
}

func (s *sink) NewAggregated(_ context.Context, cc connector.CommitterContext) (connector.Committer, error) {
	return &committer{sink: s, log: cc.Log}, nil
}

type writer struct {
	*sink
	attempt plan.Attempt
}

func (w *writer) Write(ctx context.Context, b *batch.Batch) error {
	switch {
	case w.stuck:
		<-ctx.Done()
		return ctx.Err()
	case w.delay > 0:
		if err := connector.Sleep(ctx, w.delay*time.Duration(b.Rows)); err != nil {
			return err
		}
	}
	if w.memoryFails {
		return errors.New("out of memory (throw_out_of_memory is set)")
	}
	if len(w.errors) > 0 {
		return errors.New(w.errors[min(max(int(w.attempt), 1), len(w.errors))-1])
	}
	return ctx.Err()
}

func (w *writer) Prepare(ctx context.Context, _ plan.CheckpointID) ([][]byte, error) {
	if w.prepareFails {
		return nil, errors.New("write failed (throw_exception is set)")
	}
	if w.slowPrepare {
		if err := connector.Sleep(ctx, 5*time.Second); err != nil {
			return nil, err
		}
	}
	return [][]byte{[]byte("1")}, ctx.Err() // there is something to commit
}

func (w *writer) Close() error { return nil }

type committer struct {
	*sink
	log *slog.Logger
}

func (c *committer) Commit(ctx context.Context, prepared []checkpoint.Prepared) error {
	if c.commitFails {
		return errors.New("commit failed (throw_exception_of_committer is set)")
	}
	c.log.Debug("inmemory: committed", "entries", len(prepared))
	return ctx.Err()
}

func (c *committer) Abandon(context.Context, plan.Attempt, []checkpoint.Prepared) error { return nil }

func (c *committer) Close() error { return nil }
