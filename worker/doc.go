// Package worker is the worker role: one process that obeys its assignments and tells what came of them, through
// nothing but the store.
//
//	               workers/<me> (lease)          tasks/<me>/…        pipelines/<job>/<p>
//	                     │                            │                      │
//	Worker ─▶ life: session, data plane, ─── one host per (job, pipeline) ───┘
//	 (new     watch of its own key                │  keeper.Step: pure decisions
//	 incarnation after a lost session)            ▼
//	                                        task.Attempt ──▶ rows
//	                                              │
//	               taskstatus/<me>/…  ◀── status ─┴─ ack ──▶ acks/<job>/<p>/<me>
//
// A life is one incarnation: a lease, a worker key created on it, a data plane. A lost session fences it for good:
// every task is cancelled, and the process comes back as a new incarnation, not too often.
//
// Invariants:
//   - Invariant 3: only assignments that name this incarnation are obeyed, and every write compares the create
//     revision of workers/<me> with it.
//   - Invariant 4: an ack also compares the control word as of its trigger. "stopped" is reported only when no
//     external call is in flight.
//   - Invariant 6: what its tasks hold is reserved from worker.memory before they are made; what does not fit is refused
//     (worker/memory).
//   - Invariant 7: every wait has a deadline. A call that does not come back ends the process.
//   - Invariant 8: a status is written on change only, and together with what changed meanwhile; rows, channels and
//     splits never cause a write.
//   - Invariant 9: an etcd that is silent stops nothing: writes are tried again, tasks run on behind the gate.
//
// A process that is asked to end says so in its key (leaving) and goes on until the leader has made new attempts of what
// runs here, for at most HandOver; then it ends what is left. See leave.go.
//
// Failpoints, in the order a checkpoint meets them: task.start, task.prepare, task.prepared, worker.ack,
// worker.acked, task.commit, worker.mark.
//
// Deciding is in worker/task/keeper, running in worker/task, the book of splits in worker/task/ledger; here they are
// put together. Plugins come from the registries of worker/connector and worker/transform.
package worker
