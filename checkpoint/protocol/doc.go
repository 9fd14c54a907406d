// Package protocol decides, from facts already read, what happens next to the checkpoints of one pipeline.
//
//	          ┌────────────── abort (timeout, no storage) ──────────────┐
//	          ▼                                                         │
//	     ─▶ idle ── trigger n ──▶ open ── every worker acked (a,n) ──▶ complete ── commits marked ──▶ committed
//	          ▲                                                         │                                │
//	          │                                      attempt+1: replay ─┘              final, stop: ─▶ stop
//	          └──────────────────────────────── periodic, savepoint ─────────────────────────────────────┘
//
//	Decide(Facts) ─▶ Decision        Apply(Word, Decision) ─▶ Word        CheckMove(before, after)
//	Resolve(Restore) ─▶ ready | replay, then continue | replay only | orphan | fail with reason
//
// There is no I/O, no clock and no goroutine here: whoever calls has read the facts at one revision, and does what
// was decided in one transaction that compares the control word's mod revision and the leadership. A decision made
// on facts that are no longer true then changes nothing.
//
// What holds (numbers of README; the model in the design checks the same rules):
//
//   - Invariant 2: a checkpoint completes only while attempt and barrier are still (a, n, open) in phase running,
//     and only with an ack of (a, n) from every incarnation of a's placement.
//   - Ids only grow, over aborts, attempts and leaders: n is barrier.id + 1.
//   - The next barrier is not triggered before committed = completed.
//   - A completed checkpoint is never passed over: attempt+1 starts from it, and a final one is only replayed.
//   - A pipeline stops only when it is committed, and nothing that older attempts left is unaccounted for: holders
//     is empty and abandoned is set.
//
// Part of it waits for periodic checkpoints and savepoints: the kinds and the decisions are the same, only more
// facts trigger.
package protocol
