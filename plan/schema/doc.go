// Package schema describes rows: types, columns, tables with their keys, and row kinds.
//
// A Table is what a plugin hands to the next one: every batch belongs to one table of its edge. Types are
// those of SeaTunnel's schema block; how they lie in memory is decided in transport/batch.
package schema
