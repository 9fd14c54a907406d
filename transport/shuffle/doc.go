// Package shuffle carries rows, barriers and control frames between the subtasks of one pipeline attempt, in one
// process and over TCP.
//
//	worker a                                                      worker b
//	producer ─Output─▶ encode, compress ─▶ lane ┐                            ┌▶ inbox ─Input─▶ consumer
//	producer ─Output─▶ encode, compress ─▶ lane ┼▶ writer ═ TCP a→b ═▶ reader┼▶ inbox ─Input─▶ consumer
//	control frames, announcements ──────────────┘◀ reader ◀═ credit ══ writer ◀┘    (decodes)
//	producer ─Output─▶ inbox of the same worker, without a copy
//
// A Service is what a worker process runs: one listener and every goroutine of its attempts. An Attempt is one
// deployment of one pipeline as this worker sees it: its edges, its peers, and two connections with each peer, one
// in each direction. Output splits rows among consumers; Input merges channels (transport/local).
//
// Invariants:
//   - Invariant 4 of the design, fenced by epoch: a hello names its attempt. One that is not open here yet is asked
//     to come again, an older one is refused for good, and the hello or the opening of a newer one closes the older.
//     Fencing is closing a socket.
//   - Invariant 5, order: what one producer sends to one worker stays in one lane, and what it sends to one consumer
//     in one channel, in order. Barriers and ends go through the lane behind the rows before them.
//   - Invariant 6, bounded: rows leave only against credit that the consumer's reservation covers; with any credit
//     left one frame may go, whatever its size. Barriers, ends and control need none: a barrier waits for the
//     frames of its own lane, control for the frame in hand. A connection's reader never blocks.
//   - Nothing is resumed or resent. A connection that breaks, is silent for too long, or brings a frame that is not
//     what was sent fails its attempt and no other, and both ends report why.
//   - Of an edge of N by M subtasks only pairs that meet cost memory, and only on their two workers; a barrier to all
//     consumers of a worker is one frame.
//   - Compression and encoding run in the producing task, decoding in the consuming one.
//
// Locks, outer to inner: Service.mu or Attempt.mu; then local.Inbox's; then link.mu. No callback is called under one.
//
// Refused here: redelivery, placement, and what control frames mean.
package shuffle
