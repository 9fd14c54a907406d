// Package logical turns a parsed job file into a Dag: sources, transforms and sinks with their parallelism, the
// edges between them, and the tables that flow along each edge.
//
//	config.Job ──wire──▶ vertices, edges ──infer──▶ Dag: options decoded, tables known, faults listed
//	                                          ▲
//	                               Catalog (filled from the registries in cmd)
//
// Build is for a job that is to run, Check for `stctl check`: no I/O, and what this build does not have is a
// warning unless the check is strict. Either reports every mistake at once, with file:line and option path.
//
// Wiring. A plugin reads what plugin_input names; without it a transform reads the transform before it, the
// first one the last source, and a sink the last transform or else the last source. A name that no plugin has
// is an error that lists the names there are, and so is an output that nothing reads, with one exception taken
// from SeaTunnel: in a job of one source, at most one transform and one sink SeaTunnel ignores wrong names, so
// here the plugin before is read, with a warning.
//
// Invariants
//
//  1. Vertices stand in topological order and, within it, in file order; the same file gives the same Dag.
//  2. A vertex id is its plugin_output, else section.Plugin.n with n counting the plugins of that name in that
//     section from 0, so that another plugin added beside it does not rename it.
//  3. Out has one table for each of In, in that order, or the vertex is a source.
//  4. A Dag without an error has In and Out of every vertex, unless it was made by Check.
//
// The package does no I/O itself; only a source in the catalog may, and only for Build.
package logical
