package connector

import (
	"context"
	"io"
	"log/slog"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
)

// Guarantee is what a sink may claim; `connector show` prints it.
type Guarantee string

// The guarantees of design section 8.
const (
	ExactlyOnce Guarantee = "exactly once"                                   // the visible effect is a prepared commit
	Converging  Guarantee = "at least once, converging after the call limit" // keyed upsert
	AtLeastOnce Guarantee = "at least once"                                  // the rest
)

// Claim is what a configured sink promises and what it needs for that.
type Claim struct {
	Guarantee Guarantee
	// Locks: prepared commits hold locks at the target, so an abort after prepare restarts the pipeline.
	Locks bool
	// HostBound: a prepared commit can be committed only where it was prepared, unless all workers see the
	// same folder.
	HostBound bool
}

// SinkFactory is a registered sink plugin.
type SinkFactory struct {
	Name    string
	Doc     string
	Options option.Spec
	Claims  []string // for `connector show`
	// New checks the options against the tables that will arrive. It does no I/O that changes the target.
	New func(ctx context.Context, c SinkConfig) (Sink, error)
}

// SinkConfig is what a sink is made from.
type SinkConfig struct {
	Options     option.Values
	Tables      []*schema.Table // what arrives, in the order of batch.Schema.Index
	Streaming   bool
	Parallelism int
	Job         plan.JobID
	JobName     string
	// Folder is where relative paths start: the submitter's working folder. Empty: this process's.
	Folder string
}

// Sink is one configured sink. A sink with prepared commits implements TwoPhase or Aggregating.
type Sink interface {
	Claim() Claim
	NewWriter(ctx context.Context, wc WriterContext) (Writer, error)
}

// WriterContext tells a writer where it runs.
type WriterContext struct {
	checkpoint.Identity
	Worker      string
	Parallelism int
	Schemas     []*batch.Schema
	// Next is the checkpoint whose rows the writer gets first.
	Next plan.CheckpointID
	// Memory is what the writer may keep in buffers, in bytes: within Buffers of the sink. 0: as much as it can
	// use.
	Memory int64
	Stdout io.Writer // where Console prints: standard output of the process; safe for concurrent use
	Log    *slog.Logger
}

// Writer writes the rows of one sink subtask. External effects pass the engine's write gate before each call.
type Writer interface {
	Write(ctx context.Context, b *batch.Batch) error
	// Prepare flushes. What stays unseen until a commit is made durable and returned, one entry per external
	// commit; sinks without prepared commits return nil. Rows of later checkpoints follow.
	Prepare(ctx context.Context, n plan.CheckpointID) ([][]byte, error)
	// Close releases everything. What was not prepared is dropped; what was prepared stays.
	Close() error
}

// Buffering is a sink whose writers keep rows in memory between two calls, or encoded, and says how much each of them
// needs at least and can use. A sink that is not Buffering keeps about a batch: 32 KiB to 1 MiB.
type Buffering interface {
	Buffers() (least, most int64)
}

// Flusher is a Writer that buffers and wants to be flushed when the linger is over, between barriers.
type Flusher interface {
	Flush(ctx context.Context) error
}

// TwoPhase is a sink whose prepared commits are committed by the worker that prepared them.
type TwoPhase interface {
	NewCommitter(ctx context.Context, cc CommitterContext) (Committer, error)
}

// Aggregating is a sink whose prepared commits of one checkpoint are committed together, once, by one task.
type Aggregating interface {
	NewAggregated(ctx context.Context, cc CommitterContext) (Committer, error)
}

// CommitterContext tells a committer where it runs. Identity.Subtask is -1: it acts for the vertex.
type CommitterContext struct {
	checkpoint.Identity
	Worker  string
	Schemas []*batch.Schema
	Log     *slog.Logger
}

// Committer makes prepared commits visible.
type Committer interface {
	// Commit makes all of them visible. It is idempotent, per entry. An aggregated committer gets all entries of
	// the vertex at once, also when there is none.
	Commit(ctx context.Context, prepared []checkpoint.Prepared) error
	// Abandon removes what attempts before older left at the target and no entry of keep covers.
	Abandon(ctx context.Context, older plan.Attempt, keep []checkpoint.Prepared) error
	Close() error
}
