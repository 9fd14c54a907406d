package connector

import (
	"context"
	"time"

	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
)

// SourceFactory is a registered source plugin.
type SourceFactory struct {
	Name    string
	Doc     string
	Options option.Spec
	Claims  []string // for `connector show`: bounded, parallel, replayable, …
	// New checks the options against each other and learns the tables; it may do I/O (list files, read a
	// footer) within ctx. Mistakes of the user come back as fault.Mistake or fault.List errors.
	New func(ctx context.Context, c SourceConfig) (Source, error)
}

// SourceConfig is what a source is made from.
type SourceConfig struct {
	Options     option.Values
	Streaming   bool // env.job.mode = STREAMING
	Parallelism int
	// NoIO: only the options are to be checked (`stctl check`). A source that learns its tables by looking at
	// the data returns none then.
	NoIO bool
	// Folder is where relative paths start: the submitter's working folder. Empty: this process's.
	Folder string
}

// Source is one configured source. It is used by the planner and on every worker that reads it.
type Source interface {
	// Tables are the tables it produces, in a fixed order: Output.Builder takes their index.
	Tables() []*schema.Table
	// Bounded says whether it ends by itself.
	Bounded() bool
	NewEnumerator(ctx context.Context) (Enumerator, error)
	NewReader(ctx context.Context, rc ReaderContext) (Reader, error)
}

// Changelog is a source whose rows may be other than inserts; exchanges then keep order per key.
type Changelog interface {
	Changelog() bool
}

// Split is a part of the input that one reader reads from a position on.
type Split struct {
	ID   string `json:"id"` // unique within the source, stable across discovery
	Data []byte `json:"data,omitempty"`
}

// Enumerator discovers splits. The engine calls Discover in a goroutine of its own and keeps the ledger.
type Enumerator interface {
	// Discover returns splits that were not there at cursor (nil: at the beginning) and the cursor behind
	// them. It returns at most a few thousand splits a call.
	Discover(ctx context.Context, cursor []byte) (Discovery, error)
	Close() error
}

// Discovery is the answer of one Discover.
type Discovery struct {
	Splits []Split
	Cursor []byte
	Done   bool          // no further split will ever be found
	Again  time.Duration // when not Done: how long to wait before the next Discover; 0: at once
}

// ReaderContext tells a reader where it runs.
type ReaderContext struct {
	Subtask     int
	Parallelism int
	// Schemas are the laid-out tables in the order of Source.Tables, as the plan has them.
	Schemas []*batch.Schema
	// MostRow is the largest row that the job has memory for on this worker, in bytes; 0: not said. A larger one fails
	// the job in any case: a reader need not load it as a whole to find out.
	MostRow int64
}

// Reader reads one split at a time.
type Reader interface {
	// Open begins a split behind position (nil: at its start).
	Open(ctx context.Context, s Split, position []byte) error
	// Read appends rows to out until out.Full(), about 100 ms have passed, or the split ends. It may return
	// no rows. Progress.Position lies behind the last row appended. Who fills columns at once asks out.Limit for
	// how many rows: what one Read gives passes as a whole, however slow the job is meant to be.
	Read(ctx context.Context, out *Output) (Progress, error)
	Close() error
}

// Progress says where a reader stands.
type Progress struct {
	Position []byte        // opaque to the engine; versioned by the connector
	Done     bool          // the split has ended
	Idle     time.Duration // nothing to read now: how long the engine may wait before the next Read
}

// Output receives the rows of a reader. The engine drains it after every Read.
type Output struct {
	schemas  []*batch.Schema
	builders []*batch.Builder
	done     []*batch.Batch
	limit    batch.Limit
}

// NewOutput is used by the engine and by tests. limit is what one Read gives at most, about.
func NewOutput(schemas []*batch.Schema, limit batch.Limit) *Output {
	return &Output{schemas: schemas, builders: make([]*batch.Builder, len(schemas)), limit: limit.Within()}
}

// Limit is how much one Read gives: it is the same as long as the reader lives. The target sizes of a batch, or less
// where the job limits its rate or the worker has little memory for it.
func (o *Output) Limit() batch.Limit { return o.limit }

// Builder is the open builder of a table. Take it once per Read, not per row.
func (o *Output) Builder(table int) *batch.Builder {
	if o.builders[table] == nil {
		o.builders[table] = batch.NewBuilder(o.schemas[table])
		o.builders[table].Limit(o.limit)
	}
	return o.builders[table]
}

// Schema is the layout of a table.
func (o *Output) Schema(table int) *batch.Schema { return o.schemas[table] }

// Emit hands on columns that are already there; rows in the table's builder go first.
func (o *Output) Emit(b *batch.Batch) {
	if open := o.builders[b.Schema.Index]; open != nil {
		if f := open.Finish(); f != nil {
			o.done = append(o.done, f)
		}
	}
	if b.Rows > 0 {
		o.done = append(o.done, b)
	}
}

// Full says that Read should return.
func (o *Output) Full() bool {
	if len(o.done) > 0 {
		return true
	}
	for _, b := range o.builders {
		if b != nil && b.Full() {
			return true
		}
	}
	return false
}

// Take returns the finished batches and starts over. Within one table the order is that of the appends.
func (o *Output) Take() []*batch.Batch {
	out := o.done
	o.done = nil
	for _, b := range o.builders {
		if b == nil {
			continue
		}
		if f := b.Finish(); f != nil {
			out = append(out, f)
		}
	}
	return out
}
