// Package batch is the form in which rows move: columns as Arrow arrays, with an optional row-kind column.
//
//	Schema (one table of one edge)  ◀── every Batch points to one
//	Builder ──Finish──▶ Batch ──▶ operators and sinks read columns; nobody changes them
//
// Invariants:
//   - A batch is immutable once handed on. Who needs other columns makes a new Batch that shares arrays.
//   - Memory comes from the Go allocator and is left to the collector: nothing depends on Retain and Release
//     being paired, and nobody calls them.
//   - A Builder has one owner and is never referenced by a batch.
//   - Kinds == nil means that every row is an insert.
//
// How a schema.Type lies in memory (DataType): boolean Boolean; tinyint to bigint Int8 to Int64; float and
// double Float32 and Float64; decimal(p,s) Decimal128 up to p = 38, else Decimal256; string String; bytes Binary;
// date Date32; time Time64 and timestamp Timestamp without zone, in microseconds up to scale 6, else
// nanoseconds; timestamp_tz the same with zone UTC; array List; map Map; row Struct; null Null; float_vector
// List of Float32; sparse_float_vector Map of Int32 to Float32; the other vectors Binary, little-endian.
package batch
