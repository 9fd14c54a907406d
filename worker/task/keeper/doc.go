// Package keeper decides what one worker does about one pipeline: it keeps the worker's part of an assignment in
// step with the control word. It is a pure function; the host in package worker feeds it and does what it says.
//
//	assignment ─┐                        ┌─▶ Stop, Release, Build, Start, Replay, Abandon
//	control word├─▶ Step(state, event) ──┼─▶ Commit, Mark, Upstream, Barrier, Abort, Ack
//	results ────┘                        └─▶ Report(state): the taskstatus record
//
// It acts on the difference between what it last asked for and what the word says now, so any number of values of
// the word may be skipped. The order within a step is that of design section 4: stop, commit what is complete,
// acknowledge upstream what is committed, then the open barrier.
//
// Invariants:
//   - Invariant 3: only an assignment that names this incarnation is obeyed, an attempt is built once, and not before
//     every older one has stopped here.
//   - Invariant 2: nothing is committed but what the word says is complete; nothing is replayed beside a holder that
//     may still act, and nothing abandoned while any holder is left.
//   - Invariant 4: results of another attempt than the current part's are ignored.
//   - What a failed part leaves connected stays so until the word moves on: its peers stand still and do not report
//     its broken links as failures of their own, which could hide the first one.
package keeper
