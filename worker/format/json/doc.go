// Package json reads and writes JSON lines: one object a line, a field a column.
//
// Reading: a field that is missing or null is null; others must be of the column's type, where a number may stand
// in quotes (as in SeaTunnel) and a string column takes any value as its text. Dates and times are text of the
// job's patterns or of another usual form; bytes are base64. Keys are matched exactly. Of a key that stands twice
// the last counts.
//
// Writing is SeaTunnel's: null for null, ISO dates and times, base64, decimals as plain numbers, NaN and Infinity in
// quotes, map keys as text.
package json
