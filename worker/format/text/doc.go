// Package text is SeaTunnel's text format: lines of fields with a delimiter (U+0001 unless told otherwise), no
// quotes, arrays, maps and rows written with the delimiters of the next levels (U+0002 and on).
//
// A line with fewer fields than the table leaves the rest null, one with more loses them, as in SeaTunnel (a job may
// read the first column only). A field that does not parse is an error. A field that holds the delimiter or a
// line end cannot be told from two: that is the format's nature, csv has quotes.
package text
