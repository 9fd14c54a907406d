// Package fake is the source FakeSource: rows made up by rule or written in the job file.
//
//	options ──New──▶ source (tables) ──enumerator──▶ splits (table, rows, seed) ──reader──▶ batches
//
// Each subtask has row.num rows in split.num splits, so a job has parallelism × row.num rows; literal rows come
// once per subtask. A value depends on (seed, table, split, column, row) and on nothing else: a split reads on
// from any row and gives the same data. The seed is drawn at the first discovery and travels in the splits,
// unless the option seed fixes it. In a STREAMING job the source stays open and idle behind its splits.
//
// Columns are made a column at a time, straight into Arrow buffers: values of a column are a counter-based
// stream (splitmix64), so element j of an array in row r is value r × size + j of its own stream.
package fake
