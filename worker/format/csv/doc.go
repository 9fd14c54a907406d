// Package csv reads and writes delimited records: CSV, and SeaTunnel's text format through package text.
//
//	block of bytes ──split (8 bytes at a time)──▶ spans of fields ──one loop a column──▶ Arrow arrays
//	                                                             unescaped only where flagged
//
// The grammar is RFC 4180's with what commons-csv takes, so it is wider than encoding/csv's:
//   - A quote that does not begin a field is text: 5" pipe. encoding/csv refuses it.
//   - CR LF inside a quoted field stays CR LF. encoding/csv makes it LF.
//   - A carriage return alone is text, except before a line feed or at the end of the input.
//   - An empty line is no record.
//
// Text behind a closing quote, a quote that is never closed, and a record with too few or too many fields are
// errors. An unquoted empty field is null; "" in quotes is the empty text in a string column, null elsewhere.
//
// Invariants: the fast and the general splitter give the same records where both apply; Border gives only offsets
// at which a record begins; a column is parsed in one loop without allocation per value.
package csv
