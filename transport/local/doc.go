// Package local is the receiving end of an exchange: an Inbox merges the channels of one consuming subtask.
// Producers of the same process push batches into it without copying them; connections push frames into it
// that are decoded when they are taken.
//
//	producer 0 (same process) ─ Port.Send ──────────▶ ┌ Inbox ──────────────────┐
//	producer 1 (same process) ─ Port.Send, waits ─▶   │ port 0: [batch batch]   │ ─ TryNext ─▶ consumer
//	producer 2 (connection)  ─ Port.Deliver ───────▶  │ port 2: [frame barrier] │   round robin over the ports
//	                        ◀─ Remote.Grant, Recall ─ └─ reservation: limit ────┘   that are not held
//
// The reservation (in bytes) belongs to the consumer and is lent to whichever port asks, in the order of asking.
// A local producer asks by calling Send, a remote one by announcing bytes or by sending (what has just sent is
// assumed to go on). Ports that are lent bytes and do not use them are recalled when others starve.
//
// Invariants:
//   - Order (invariant 5 of the design): within one port elements leave as they entered.
//   - Bounded (invariant 6): nothing is lent while bytes lent and queued reach the limit, and a port that was lent
//     any may exceed it by one frame. While all memory lies in ports held for an alignment, the others get one
//     frame at a time beyond the limit, so an alignment never starves the barrier that it waits for. At worst
//     that is the limit plus one frame per port.
//   - Barriers and ends need no room.
//   - A port is made on first use: of an edge of 10,000 by 10,000 subtasks only the pairs that meet cost memory.
//
// Locks: Inbox.mu is taken before the lock of the connection behind Remote, never the other way round.
package local
