// Package parquet reads and writes Parquet files through arrow-go.
//
//	File    footer: columns, row groups      Reader  chosen columns and row groups ──▶ batches of a table
//	Writer  batches ──▶ row groups of about 64 MiB
//
// Columns are found by name. What a file holds is converted to the table's type where nothing is lost, or checked
// value by value (bigint read as int); other pairs are refused when the file is opened. A timestamp marked
// as UTC is an instant (timestamp_tz), one without the mark a wall clock (timestamp); files that SeaTunnel wrote
// mark every timestamp, so those are wall clocks, as SeaTunnel itself reads them.
//
// Invariants: no input makes the package panic, a damaged file gives an error; at most one row group's pages of
// the chosen columns are held at a time.
package parquet
