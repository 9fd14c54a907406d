// Package schedule says where the task groups of a job run: pure functions over a snapshot of the fleet.
//
//	Need (units, labels, last placement) ─┐
//	                                      ├─ Place ─▶ []Spot (unit → worker, slot)   or   *Short, with the reason
//	Fleet (live workers, free slots) ─────┘
//
// A unit is what occupies one slot: with slot sharing, subtask i of every chain of a pipeline; without, one task
// group. A job is placed as a whole or not at all (gang), so Place takes all its pipelines at once.
//
// What holds:
//
//   - The result depends on the arguments alone; equal arguments give an equal result.
//   - No slot is given twice, none beyond a worker's number, none on a worker that is leaving, drained, lacks a
//     wanted label or speaks no common protocol.
//   - Every unit is placed exactly once (Invariant 3 begins here), in runs as long as can be: a placement names
//     ranges, so its size does not grow with parallelism.
//   - Where it says no, it says what is missing (Invariant 10).
//
// Strategy: the last worker of a unit first, then the worker with the smallest share of its slots in use, ties by
// name. It starts nothing and writes nothing; the job's step turns spots into keys.
package schedule
