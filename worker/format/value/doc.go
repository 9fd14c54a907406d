// Package value is how plugins show, read and compare single values: what Console prints, what FakeSource and Assert
// are told in a job file.
//
//	column, row ──AppendText, AppendRow──▶ text as Java's toString gives it
//	literal of a job file ──Fields, Reader──▶ a builder of the column's type
//	two values ──Equal──▶ the same value of the same type, nested ones too
//
// The fields of files are another matter: package field reads and writes those, by the patterns of the job.
package value
