// Package coordinator is the leader of a fleet: it plans jobs, places them, drives their control words and ends
// them, through nothing but keys.
//
//	        campaign ─▶ leads ─────────────────────────── deposed, session lost ─▶ campaign again
//	                      │
//	mirror ─ batches ─▶ loop (one goroutine) ─ facts, fleet ─▶ job.Step ─▶ actions
//	 (whole tree,         ▲                                                  │
//	  one revision)       └── results ◀─ txn | plan | store a manifest ◀─────┘  (bounded helpers)
//	                      └── timers
//
// The loop owns all state; decisions are job.Step, a pure function. A job is held back until its own last write came
// round through the mirror, so a step never decides on facts older than its own decision. Jobs do not wait for each
// other: each has at most one write under way, and slots promised by a write under way count as taken.
//
// Jobs that wait for room stand in a schedule.Queue: a pass goes through it where room may have come and steps those
// that fit, with what is kept for earlier ones. With placement by load a helper asks the workers how busy they are.
//
// What holds (numbers of README):
//
//   - Invariant 3: every write carries the leadership it was decided under. A leader that lost it writes nothing more.
//   - Invariant 8: the loop writes only when a step says so, or to sweep what nobody needs any more (histories over
//     their caps, keys of fenced incarnations); nothing is polled.
//   - Invariant 9: a coordinator that is away disturbs nothing that runs; the next one takes the same steps on the
//     same facts.
//   - An outcome that is unknown is read before anything is decided.
//
// Folders: fleet (workers and slots), schedule (placement), job (the steps), api/client (the keys as a Go API).
package coordinator
