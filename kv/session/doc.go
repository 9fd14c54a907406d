// Package session is one life of a process in the store: a lease, and the gate that every external
// effect passes.
//
//	time on CLOCK_BOOTTIME ─────────────────────────────────────────────────────────────►
//
//	  send ── answer      send ── answer      send ─x (no answer)
//	  │                   │                   │
//	  └── TTL ────────────┼──────────┤        :
//	      proof = send+TTL-margin ┤  :        :
//	                      └── TTL ───┼────────:────────┤
//	                          proof ─┼────────:─┤      │
//	                                 :        : │      └ the server may end the lease from here on
//	                                            └ the gate is stale: calls wait, nothing is lost
//
// The server counts a lease from when it handled the send, so counting from before the send is
// always early. The margin pays for clocks that drift, over the whole of TTL + call limit, which is
// how long the leader waits before a replacement writes.
//
//	alive ──silence──► stale ──answer──► alive        stale blocks, and heals
//	  │                  │
//	  └──── "lease not found", or own key seen missing or foreign ────► lost, for good
//
// Invariants upheld here (numbers of README):
//
//   - Invariant 4, fenced by clock: open = not lost ∧ now < proof ∧ attempt not withdrawn, looked
//     at twice, by Enter when a batch is taken and by Begin just before the call.
//   - Invariant 9, no restart for control loss: silence, however long, is never taken for loss.
//   - The proof is made of sends that were answered and of the TTL that was granted last; sends do
//     not overlap, so it grows.
//   - What Quiesce reports holds: Begin counts the call before it looks at the gate, and Withdraw
//     shuts the gate before Quiesce looks at the count, so one of the two sees the other.
//
// It refuses a call limit so long that the margin would leave no time between two renewals. It does
// not bound calls (the caller's context does) and it does not watch keys: who does calls Lose.
//
// Between Begin and the call itself a stopped process is held by nothing here; that window is
// closed at the target or added to the leader's wait (design section 8).
package session
