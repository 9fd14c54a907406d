// Package history records every revision of a tree and holds it against what must be so at each of them, whoever
// wrote it: the promises of one owner, of numbers that only grow, of slots that nobody has twice.
//
//	etcd ─ watch from the first revision on ─▶ Recorder ─▶ revision by revision ─▶ Check ─▶ faults, each with its revision
//
// It knows the records and nothing of the code that writes them, so that it cannot share a mistake with it. What it
// checks:
//
//   - One owner: a task group of an attempt belongs to one incarnation of one worker, for ever. Placements and
//     assignments say the same of it. An attempt is placed once.
//   - Control words: attempts, barriers, completed and committed checkpoints only grow, by legal moves; a checkpoint is
//     complete in the revision that creates its key; nothing leaves a stopped pipeline.
//   - Slots: no grant over the grant of somebody else, none on a worker that is not there or has no such slot or not so
//     much cpu and memory; none is taken back before its attempt has stopped there or its worker is gone.
//   - Workers: what they write names their living incarnation and the attempt of the word; what they say has stopped
//     stays stopped.
//   - Leaders: what only a leader writes is written while somebody leads. Who wrote it the keys do not tell: see Writes.
//
// For tests only.
package history
