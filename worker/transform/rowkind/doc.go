// Package rowkind has the transforms about what a row does: FilterRowKind drops rows by kind, RowKindExtractor
// writes the kind into a column and makes every row an insert.
package rowkind
