// Package connector is the SDK for sources and sinks and the registry of those in this build.
//
// A source is split: its enumerator discovers splits, the engine keeps the ledger of who reads what and how
// far, readers read. A sink writes; what becomes visible only at a commit is prepared first.
//
//	on the leader:   SourceFactory.New → Source.Tables (plan time)
//	on one worker:   Source.NewEnumerator → Discover … (ledger: engine)
//	on each worker:  Source.NewReader → Open(split, position) → Read … Read(done) → Open …
//	on each worker:  Sink.NewWriter → Write … → Prepare(n) → (checkpoint n complete) → Committer.Commit
//	on one worker:   Aggregating.NewAggregated → Commit(all prepared of n)
//
// Rules for implementers:
//   - Every method takes a context and returns soon after it ends. Nothing is started that Close does not stop.
//   - One goroutine uses a Reader, a Writer, a Committer at a time; a Committer runs beside its Writer.
//   - A Reader gives a position with which another reader continues behind the last row it returned.
//   - Prepare makes rows durable but unseen. Close without Prepare must leave nothing visible.
//   - Commit is idempotent: the same Prepared may come again, from another process, after a crash anywhere.
//   - An error marked fault.Fatal is not retried by the engine.
//   - Strings taken from a batch and kept must be copied: a batch pins up to a megabyte.
//
// connector/conformance checks these rules; every plugin runs it. connector/all links the plugins of the build.
package connector
