// Package field turns the text of one field into a value and back: what csv, text and json share, and
// what package value is built on. Numbers, decimals, dates and times are read and printed here and nowhere else.
//
//	[]byte ──Int, Float, Decimal128, Formats.Date …──▶ value   (no string, no allocation)
//	value  ──AppendFloat, AppendScalarText, Formats.Append…──▶ the caller's []byte, as SeaTunnel writes it
//	value  ──AppendISO…, AppendJava…──▶ dates and times without a pattern: ISO 8601, or as Java's toString has them
//	Pattern   a Java date-time pattern, compiled once
//	Nested    arrays, maps and rows in delimited text, by SeaTunnel's levels of separators
//
// Invariants:
//   - Nothing is guessed: a declared type is final, and text that is not of the type is an error, never null.
//   - Parse functions keep no reference to the bytes they read; Append functions only append.
//   - Errors are short and say what is wrong with the value; the caller adds file, row, column and text.
//
// Rules that differ from SeaTunnel on purpose: a boolean is true or false in any case and nothing else (Java reads
// every other text as false); digits behind a decimal's scale are rounded half up, digits before it that do not
// fit are an error. A date-time column whose pattern the job does not set also takes the other usual forms (ISO
// with T, with a fraction, with slashes or without separators), as SeaTunnel does since it matches them by itself.
package field
