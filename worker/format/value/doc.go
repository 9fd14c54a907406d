// Package value is how plugins show, read and compare single values: what Console prints, what FakeSource and Assert
// are told in a job file.
//
//	column, row ──AppendText, AppendRow──▶ text as Java's toString gives it
//	literal of a job file ──Fields, Reader──▶ a builder of the column's type
//	two values ──Equal──▶ the same value of the same type, nested ones too
//
// It is built on package field, which reads and writes the fields of files by the patterns of the job: numbers,
// decimals, dates and times are read and printed there, also those of Java's toString. What is here is what a file has
// not: brackets around nested values, literals and their rounding, the forms of dates a job file may use, equality.
package value
