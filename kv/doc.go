// Package kv is the only store of Strait: etcd, behind guarded transactions.
//
//	   Guard  Guard          what must still hold: leadership, a revision read before
//	     └──┬───┘
//	If ─────┤ yes ─► Ops     put, delete ─────────────► Result{Rev}
//	        └ no  ─► read every guarded key back ─────► ErrDeposed | *Conflict{Guard, Current}
//	no answer ────────────────────────────────────────► ErrUnknownOutcome: read, then decide
//
// Keys are full keys; the tree under the prefix belongs to kv/keys, the values to kv/record.
// Below this package: session (lease and write gate), election (leadership), mirror (watches),
// embed (a server in this process), kvtest (tests).
//
// Invariants upheld here (numbers of README):
//
//   - Invariant 3, one owner: there is no unguarded write. A Txn without a guard is refused, and a
//     guard compares a create or mod revision, never a version, which restarts after a delete.
//   - Invariant 10, told plainly: an error names the key or the endpoint and what to do.
//   - A store that went back (restored from an older backup) or became another cluster is noticed
//     by any call and refused from then on (ErrWentBack).
//   - Every call ends: within Config.CallTimeout even when its context has no deadline.
//
// It refuses before anything is sent (*Limit): more than 128 guards or operations, more than 1 MiB
// a transaction, values of 64 KiB and more, one key written twice.
package kv
