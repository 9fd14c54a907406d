// Package queue has the FIFOs that everything in the engine waits in: bounded in bytes, without a goroutine.
//
//	Push ─▶ [ element, bytes | element, bytes | … ] ─▶ TryPop / Pop
//	        held < limit: one more may enter, whatever its size
//
// Invariants:
//   - Elements leave in the order they entered.
//   - The bytes held never exceed the limit by more than one element.
//   - Close wakes everybody who waits. What was queued before can still be popped; then the cause comes.
//
// Ring is the bare, unsynchronised buffer below; other packages that hold a lock of their own use it.
//
// The package is a leaf: it imports nothing of ours.
package queue
