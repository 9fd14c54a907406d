// Package conformance checks a source or a sink against the rules of package connector. Every plugin calls it
// from its tests:
//
//	conformance.Source(t, conformance.SourceCase{Plugin: "FakeSource", Options: `{…}`, Rows: 100})
//	conformance.Sink(t, conformance.SinkCase{Plugin: "Blackhole", Options: `{}`, Tables: tables, Batches: batches})
//
// Options are JSON. A case without Options builds its source or sink itself with New.
//
// Source checks: tables are stable; discovery ends (or, unbounded, waits) and resumes from every cursor; splits
// have unique ids; readers that share the splits return every row once, whatever their number; a split read on
// from any position gives the same rows; a cancelled context ends a call soon; Close leaves no goroutine behind.
//
// Sink checks: rows become visible only at a commit; a commit of the same entries again, by another committer,
// changes nothing; Close without Prepare leaves nothing visible; Abandon removes what no kept entry covers.
package conformance
