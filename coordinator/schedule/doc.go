// Package schedule says where the task groups of a job run, and in which order jobs get room: pure functions over a
// snapshot of the fleet.
//
//	Need (units, size of a slot, labels, last placement) ─┐
//	                                                      ├─ Place ─▶ Placed (unit → worker, slot, profile)
//	[]Worker (live, slots held and what they take) ───────┘            or *Short, with the reason
//
//	Queue (jobs that wait: restarts, priority, age) ─ Pass ─▶ try this one, with that room kept for earlier ones
//
// A unit is what occupies one slot: with slot sharing, subtask i of every chain of a pipeline; without, one task
// group. A job is placed as a whole or not at all (gang), so Place takes all its pipelines at once.
//
// # What a slot is
//
// A slot takes a record.Profile of its worker: thousandths of a core, and bytes of memory. The job may say how much
// (env slot.cpu, slot.memory).
//
//   - A dynamic worker cuts slots from its cpu and memory on demand. A slot is as large as the job says, else
//     DefaultProfile. Its number is the smallest that is free.
//   - A worker with N fixed slots has slots of an N-th of its cpu and memory. A job that asks for less takes a whole
//     one; a job that asks for more takes one number and the larger profile, so that fewer than N fit.
//   - A worker that does not say how much memory or cpu it has takes no slot that asks for it.
//
// # What holds
//
//   - The result depends on the arguments alone; equal arguments give an equal result. Random is drawn from a seed.
//   - No slot is given twice. The profiles of all slots held on a worker together are never more than its cpu and its
//     memory, and with fixed slots never more than its number.
//   - None on a worker that is leaving, drained, lacks a wanted label or speaks no common protocol.
//   - Every unit is placed exactly once (Invariant 3 begins here), in runs as long as can be: a placement names
//     ranges, so its size does not grow with parallelism.
//   - A unit stays on its last worker where there is room; where something moves, only what must.
//   - No waiting job starves that would fit once all jobs have ended that end by themselves; see Queue. Nothing that
//     runs is ever stopped for another job: there is no preemption.
//   - Where it says no, it says what is missing, what is free where and who holds the rest (Invariant 10), in a
//     message that stays short however large the fleet is.
//
// # Which worker
//
// SlotRatio takes the worker with the smallest share in use of what it is shortest of: slots, memory or cpu. Random
// takes any with room. SystemLoad takes the one whose host has least to do: cpu and memory of the last samples,
// weighed 4-2-2-1-1, a tenth for every slot granted since the newest one, and three parts of ten by slot ratio; a
// worker without samples counts by slot ratio alone. Equals take turns, by a seed from the job's id.
//
// A link that broke a short while ago, and a worker that others lost and that has not been heard of since, are avoided
// where there is another way (Avoid); if there is none, the answer has a Note.
//
// It starts nothing and writes nothing; the job's step turns spots into keys.
package schedule
