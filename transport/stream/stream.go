package stream

import (
	"context"

	"strait/checkpoint"
	"strait/plan"
	"strait/transport/batch"
)

// Kind says what an Element is.
type Kind uint8

// The kinds of elements.
const (
	Rows    Kind = iota + 1 // Batch
	Barrier                 // Barrier
	End                     // no more rows; barriers may still follow
)

// Element is one thing in a channel.
type Element struct {
	Kind    Kind
	Batch   *batch.Batch
	Barrier checkpoint.Barrier
}

// Item is an element with the channel it came from: the index of the producing subtask, with forward 0.
type Item struct {
	Channel int
	Element
}

// Exchange says how the rows of an edge are spread over its consumers.
type Exchange string

// The exchanges. Forward connects equal indexes; rebalance deals batches round robin; hash sends rows of equal
// keys to one consumer; broadcast gives every consumer every row.
const (
	Forward   Exchange = "forward"
	Rebalance Exchange = "rebalance"
	Hash      Exchange = "hash"
	Broadcast Exchange = "broadcast"
)

// Edge is one edge of a pipeline that is not fused, with the placement of both ends. It is equal on all
// workers of an attempt.
type Edge struct {
	ID        int // unique within the pipeline
	Exchange  Exchange
	Tables    []*batch.Schema
	Keys      [][]int  // per table: the columns that Hash looks at; empty: the producer index decides
	Producers []string // worker of each producing subtask
	Consumers []string // worker of each consuming subtask
}

// AttemptKey names one deployment of one pipeline: what channels are fenced by.
type AttemptKey struct {
	Job      plan.JobID
	Pipeline plan.PipelineID
	Attempt  plan.Attempt
}

// Output is one producing subtask's end of an edge. One goroutine uses it. Calls block while credit is
// missing, until ctx ends or the attempt fails.
type Output interface {
	// Send hands rows on, split among the consumers. Hash exchanges gather rows per consumer.
	Send(ctx context.Context, b *batch.Batch) error
	// Flush sends what is gathered: called when the linger is over.
	Flush(ctx context.Context) error
	// Barrier flushes and then sends a barrier to every consumer. It waits for no credit of its own.
	Barrier(ctx context.Context, b checkpoint.Barrier) error
	// End flushes and says that no more rows follow.
	End(ctx context.Context) error
}

// Input is one consuming subtask's end of all channels of an edge. One goroutine uses it.
type Input interface {
	// Channels is the number of channels that end here: one per producing subtask, those that send rows here or
	// not; with a forward exchange the one of the producer of the same index. Barriers and ends come on each.
	Channels() int
	// TryNext takes the next element from a channel that is not held; ok is false when there is none now.
	// It never prefers one channel for long.
	TryNext() (item Item, ok bool, err error)
	// Ready has a token whenever TryNext may give something new since it last gave nothing.
	Ready() <-chan struct{}
	// Hold stops taking from a channel (alignment); Release takes from all again.
	Hold(channel int)
	Release()
}

// LinkError is what the calls of an attempt return once the connection to a worker has failed. The transport also
// reports it once by itself.
type LinkError struct {
	Peer string // worker
	Err  error
}

func (e *LinkError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *LinkError) Unwrap() error { return e.Err }
