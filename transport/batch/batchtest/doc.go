// Package batchtest makes random tables and batches for tests of what handles batches: every type, nested types,
// nulls, slices and row kinds. The same seed gives the same.
package batchtest
