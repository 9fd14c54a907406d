// Package project has the transforms that choose and rename columns: Copy, FieldMapper and Filter.
//
// Each of them is a list of (column of the input, name in the output), made once a table; a batch that comes out
// shares the arrays of the one that goes in. Row kinds and the name of the table stay.
//
// Keys follow: a column of a key that is renamed is renamed in the key, and a key that loses a column is dropped
// whole, since what is left of it says something else. (SeaTunnel drops a renamed key.)
package project
