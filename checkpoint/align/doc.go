// Package align decides what an operator does with barriers that come on several channels.
//
//	channel 0  r r r B1 | r r          held behind B1 …
//	channel 1  r r r r r B1            … until it has come here too: complete, all released
//	channel 2  E . . . B1              no more rows, but barriers: they count as on any channel
//
// The Aligner is pure: Step(channel, element) says what to do. Flat channel numbers run over all inputs of the
// operator, as the caller lays them out.
//
// Invariants:
//   - Order (invariant 5 of the design): a row that came behind barrier n is delivered after n is complete, or
//     after the alignment on n has ended without it; a row that came before n is delivered before.
//   - A barrier is complete at most once, and the ids of complete barriers rise.
//   - A higher barrier ends an alignment on a lower one: somebody upstream missed the lower, so it never comes.
//   - Barriers at or below one that is complete, ended or aborted are dropped where they arrive.
//   - A channel counts as aligned only by its barrier, never by its end.
package align
