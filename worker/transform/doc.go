// Package transform is the SDK for transforms and the registry of those in this build.
//
// A transform turns batches of one table into batches of one table, row by row, without state. The planner
// asks it for the table that comes out (Output); a task opens one Runner per input table and applies it.
//
// Rules: Apply reads columns and returns a new batch that shares the arrays it does not change; it never
// changes its input; nil means that no row is left. One goroutine uses a Runner.
package transform
