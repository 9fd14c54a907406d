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
//   - The caller passes the time; there is no clock, no goroutine and no order of a map in any answer.
//
// One owner: the coordinator's loop. Not safe for concurrent use.
package fleet
