package queue

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is the cause of a queue closed with a nil cause.
var ErrClosed = errors.New("queue closed")

// Queue is a FIFO bounded in bytes. Any number of goroutines may push and pop.
type Queue[T any] struct {
	limit int64
	ready chan struct{} // a token while there may be something to pop, or the queue is closed
	room  chan struct{} // a token while there may be room, or the queue is closed

	mu    sync.Mutex
	ring  Ring[entry[T]]
	held  int64
	cause error
}

type entry[T any] struct {
	v     T
	bytes int64
}

// New makes an empty queue. A limit below one byte is one byte: one element at a time.
func New[T any](limit int64) *Queue[T] {
	return &Queue[T]{limit: max(limit, 1), ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// TryPush appends v when any room is left; ok is false when there is none. Invariant 6: held bytes exceed the
// limit by at most one element.
func (q *Queue[T]) TryPush(v T, bytes int64) (ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cause != nil {
		signal(q.room) // the next blocked producer learns it too
		return false, q.cause
	}
	if q.held >= q.limit {
		return false, nil
	}
	q.ring.Push(entry[T]{v, bytes})
	q.held += bytes
	signal(q.ready)
	if q.held < q.limit {
		signal(q.room) // the next producer in line may go on
	}
	return true, nil
}

// Push appends v as soon as any room is left. It returns early with the error of ctx or the cause of Close.
func (q *Queue[T]) Push(ctx context.Context, v T, bytes int64) error {
	for {
		if ok, err := q.TryPush(v, bytes); ok || err != nil {
			return err
		}
		select {
		case <-q.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TryPop takes the oldest element; ok is false when there is none now. The error is the cause of Close, once
// everything has been popped.
func (q *Queue[T]) TryPop() (v T, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, ok := q.ring.Pop()
	if !ok {
		if q.cause != nil {
			signal(q.ready)
		}
		return v, false, q.cause
	}
	q.held -= e.bytes
	if q.ring.Len() > 0 || q.cause != nil {
		signal(q.ready) // another consumer may go on
	}
	if q.held < q.limit {
		signal(q.room)
	}
	return e.v, true, nil
}

// Pop waits for an element. It returns early with the error of ctx or the cause of Close.
func (q *Queue[T]) Pop(ctx context.Context) (T, error) {
	for {
		v, ok, err := q.TryPop()
		if ok || err != nil {
			return v, err
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}

// Ready has a token whenever TryPop may give something new since it last gave nothing.
func (q *Queue[T]) Ready() <-chan struct{} { return q.ready }

// Len is the number of elements queued.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ring.Len()
}

// Bytes is the sum of the sizes queued.
func (q *Queue[T]) Bytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// Close refuses further pushes and wakes everybody. It is idempotent, the first cause stands; nil is ErrClosed.
func (q *Queue[T]) Close(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cause == nil {
		q.cause = cause
	}
	signal(q.ready)
	signal(q.room)
}

// signal leaves a token unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
