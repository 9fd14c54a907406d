// Package task runs the part of one pipeline attempt that is on this worker: its task groups, its split enumerators
// and its committers. What to run and when is decided elsewhere (keeper, by the control word); here it is done.
//
//	Build ─▶ Connect ─▶ Start ─▶ … Barrier, Abort, Commit … ─▶ Stop
//
//	 reader ─▶ queue (bytes) ─▶ group.loop: transforms ─▶ sink writer (behind the gate)     committer (own goroutine
//	   ▲                          ▲                    └▶ outputs (transport)                and connection, behind
//	   └── splits ── control ─────┘                                                          the gate)
//	                   ▲
//	 enumerator ─ frames over the shuffle
//
// One goroutine a group is the only data loop; readers, discovery and commits are beside it. Everything is owned by
// the Attempt: Stop returns when all of it has.
//
// Invariants:
//   - Invariant 1: a position counts once its rows have passed the loop, never when they were only read. Rows behind
//     a closing barrier are held, not dropped: aborted, they go on.
//   - Invariant 2: a sink's rows become visible in Commit and Replay only, which run behind a completed checkpoint.
//   - Invariant 4: every external call passes both looks at the gate and has a limit. Stop withdraws the gate before
//     anything else, and returns nil only when no call is in flight.
//   - Invariant 5: a barrier is handled between two units, in one place (group.barrier).
//   - Invariant 6: what is read ahead is bounded in bytes, by the share that the attempt was given (worker/memory); a rate limit of the job slows the reader, never the loop.
//   - No group ends by itself: a drained one stays and answers barriers until it is stopped.
//   - A panic in a plugin fails its attempt, never the process. A call that does not return makes Stop return
//     ErrHung, and the process must end.
//
// Sizes: nothing is done per row; a batch costs a few atomic adds, two readings of the clock and no allocation of
// the loop's own (BenchmarkChain).
package task
