// Package ledger is the engine's book of splits: which are known, who reads which, from what position on, and
// which are finished. Connectors only discover splits and read them. The package is pure: no goroutine, no clock,
// no I/O.
//
//	Enumerator (one a source)                           Reader (one a source subtask)
//	  Discover ─▶ unassigned ─▶ assigned ─▶ finished      Assign ─▶ held, position moves ─▶ finished
//	      ▲           │ Deal                 ▲                ▲                                 │
//	  connector       └─────────── Assign frame ──────────────┘                                 │
//	                                         └──────────────── Ask frame ───────────────────────┘
//
// A Cut keeps frames from crossing a checkpoint backwards: every frame carries the number of the last barrier its
// sender handled, and a receiver that has not yet handled that barrier, or seen it settled, keeps the frame.
//
// Invariants:
//   - Invariant 2: a split has one reader at a time and never moves between readers within an attempt.
//   - Invariant 1: a reader lists every split it holds, and every split it finished until a completed snapshot of
//     the enumerator shows it as finished (Covered).
//   - On restore the reader's entry wins. A split that is assigned and unknown to every reader goes back to the
//     pool at the position it was handed out with. A split that a reader knows and the enumerator does not have as
//     assigned or finished is a damaged checkpoint: Merge fails and never guesses.
//
// It refuses to decide when: the tasks that own it (worker/task) do.
package ledger
