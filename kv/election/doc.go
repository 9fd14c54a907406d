// Package election elects one leader through the store.
//
//	<prefix>/0000000000000a01  create rev 17   ◄── leads: lowest create revision
//	<prefix>/0000000000000a02  create rev 21   ──► waits for the key of rev 17 to go
//	<prefix>/0000000000000a03  create rev 22   ──► waits for the key of rev 21 to go
//
// Every candidate puts one key on its session's lease and waits for the one key just before its
// own, so that the end of a leader wakes one process and not all.
//
// Invariants upheld here (numbers of README):
//
//   - Invariant 3: the key and its create revision are the fence. Every write of a leader carries
//     Leadership.Guard; whoever lost the key writes nothing more, whether it has noticed or not.
//   - Invariant 9: a leader that hears nothing from the store goes on leading (its writes do not
//     get through); it is deposed only by the loss of its session or its key.
//
// A leader's key may also go by hand (etcdctl del): the leader watches it, and Lost is closed.
//
// It refuses to elect without a live session, and it never takes over a key it did not create.
package election
