// Package job is the life of a job on the leader, as a function: Step(state, event, now) → (state, actions).
//
//	event                                    actions
//	  Facts   every key of the job,   ┐        Write    one guarded transaction
//	          at one revision         │        Plan     plan the job from its text
//	  Fleet   workers, slots, who     ├─Step─▶ Publish  store a manifest
//	          vanished since when     │        Wake     step again at the latest then
//	  answers to Plan and Publish     │        Log      what the log says when the write is done
//	  now                             ┘
//
//	Step = begin · wish · planning · pipelines · phases · emit
//	                                   │
//	        deploying ── running ── closing ── stopped      a pipeline each: holders, trouble, driver
//	                                   │
//	                             keeper: grants and assignments as the placement wants them
//
// It takes no notice of what happened, only of what is so. So there is no difference between going on and taking
// over, between an event seen once, twice or late, and between a retry and a first try. No goroutine, channel, clock
// or order of a map has a say. Two words of the caller make it safe: a write happens only if everything it was decided
// on is still so (mod revisions and the leadership), and the next step is not taken before the last write came round.
//
// One step may take several legal moves of job and pipelines and writes them in one transaction; each is checked
// against plan/state and protocol.CheckMove before it is written. A transaction that would be too large is cut
// between units: a later unit means nothing without the earlier ones, and the next step finds what is missing.
//
// What holds (numbers of README):
//
//   - Invariant 3: an attempt is placed once; grants are written before or with the word that needs them, assignments
//     are derived from the placement and compare it and the word.
//   - Invariant 2: the commit point is created in the transaction that completes the word, or not at all.
//   - Invariant 7: every phase has a way to an end and every wait a bound: stop, deploy, barrier, commits, closing.
//     A time in a key counts for no more than it can mean (clock.go), however wrong a clock is.
//   - Invariant 8: facts that did not change give no write; what changes with every ack is not told in the status.
//   - Invariant 10: a job that waits says what for, one that failed says what, where and what to do.
//
// DESIGN.md has the decisions. The simulator in the tests ends the leader at every single write.
package job
