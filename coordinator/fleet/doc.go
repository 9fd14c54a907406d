// Package fleet is what a leader knows of its workers: who lives, which slots are granted, who vanished and since
// when, and whether the fleet is too sick to place anything.
//
//	workers/…, workerwishes/…, fenced/…, slots/…  ─ Set ─▶  Fleet  ─▶ Workers (for schedule), Fate, Paused
//
// What holds:
//
//   - A worker is its incarnation: a key made anew under the same name is another worker, and the old one vanished.
//   - A vanished incarnation is waited out from when this leader saw it gone; one that was gone already when this
//     leader began counts from then (a new leader starts every wait again).
//   - A key that is deleted by a worker that said it was leaving is no sign of sickness. Three vanished workers or
//     more, and over half of the fleet within one TTL, are: placement pauses for at most two TTL.
//   - What the scheduler sees (Workers) is kept in line with every key and promise, so a look costs nothing. A promise is
//     a grant that a write under way makes; it counts from then on.
//   - A worker named in a report of a broken link that is newer than anything it wrote itself is suspect until it
//     writes again or its key is gone. Reports are forgotten after AvoidFor.
//   - Loads are samples the shell brings; one older than LoadFor counts for nothing.
//   - The caller passes the time; there is no clock, no goroutine and no order of a map in any answer.
//
// One owner: the coordinator's loop. Not safe for concurrent use.
package fleet
