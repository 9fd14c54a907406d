// Package stream is the contract of everything that carries rows between operators: in one process
// (transport/local) and between workers (transport/shuffle).
//
//	producing subtask ─Output─▶ channels (one per consumer) ─▶ Input ─ consuming subtask
//
// The order contract: within one channel elements are delivered in the order they were sent; no row crosses a
// barrier in either direction; after End only barriers follow; a channel closes only behind a completed
// closing barrier or with its attempt.
package stream
