// Package mirror keeps a copy of a part of the store and tells its owner of every change, in order.
//
//	        ┌────────────── ErrCompacted, closed, no leader: pause, then ─────────────┐
//	        ▼                                                                         │
//	list at R, in pages ──► OnBatch(difference to the copy) ──► watch from R+1 ──► OnBatch(changes)…
//	                         first time: Initial, everything
//
// The owner sees a sequence of batches; after each one View shows the store as it was at the
// batch's revision. A watch may break in many ways; none of them is visible but as a batch that
// holds the difference, deletes included.
//
// Invariants upheld here (numbers of README):
//
//   - Events come in the order of revisions, each once. A transaction is never cut in two: all its
//     events inside the mirror's targets are in one batch.
//   - After a new listing the batch has, for each key that is gone, a Delete, and for each key that
//     was made anew under the same name (another create revision) a Delete and a Put. Values in
//     between are skipped; ends are not.
//   - Invariant 6, bounded: OnBatch runs in the mirror's own goroutine. There is no queue: a slow
//     owner is a watch that falls behind, and in the end a new listing.
//   - A store that went back, or another cluster, ends Run with ErrStoreWentBack and is never
//     mirrored.
//
// All mirrors of a process share one stream to the store. Several targets of one mirror share one
// order; they cost a watch over the whole range between the first and the last of them, so targets
// far apart that need no common order are better followed by a mirror each.
//
// It refuses to guess: an error that no retry heals (rights, a store that went back) ends Run.
package mirror
