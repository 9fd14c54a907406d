// Package physical turns a Dag into what is deployed: pipelines, chains of fused vertices, the edges between
// them, and the slots they need.
//
//	Dag ──cut──▶ pipelines (unit of failure) ──fuse──▶ chains; a chain at one subtask index is a task group
//	                                              └──▶ edges that are not fused, with their exchange
//
// Cutting. (1) Subgraphs that are not connected are pipelines of their own. (2) Where a vertex merely merges its
// inputs, one linear pipeline is cut per path from a source to a sink, and what paths share is cloned. (3) A
// branch alone stays one pipeline. (4) What a vertex needs together (a join) stays together, with all before it.
//
// Fusing. Two vertices are fused when one is the only output of the other, the other its only input, and both
// have the same parallelism. Every other link is an edge: forward between equal parallelism, else round robin,
// or, where rows may be other than +I, a hash of the primary key, so that order holds per key. A table without a
// key keeps each producing subtask to one consumer; the edge says so in Why.
//
// Invariants
//
//  1. Every vertex of a pipeline is in exactly one chain, and chains and edges are numbered from 0 in topological
//     order.
//  2. Nothing in a plan grows with parallelism: N×M channels are never written down.
//  3. The same Dag gives the same plan, and a plan encodes to the same bytes.
//  4. A plan of a newer format is refused; golden plans of every format stay readable.
//
// Coordinator tasks are not listed in a plan: every source has an enumerator, every aggregated sink a committer.
// They are single and need no slot.
package physical
