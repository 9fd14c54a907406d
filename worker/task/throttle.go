package task

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"strait/plan/logical"
	"strait/transport/batch"
)

// throttle keeps one source subtask below the rates that its job allows (env.read_limit): two token buckets, one of
// rows and one of bytes, that hold a second's worth at most.
//
// It works in the reader's goroutine, between a Read and its hand-over. So nothing but reading waits: the loop takes
// barriers, aborts and splits as ever, and a stopped attempt ends the wait. Nothing is cut either, for only the end of
// a Read has a position: instead the reader is told to give a tenth of a second's worth at once (limit). What gives
// more than it was told to is held back until all of it is paid for.
type throttle struct {
	rows, bytes *rate.Limiter // nil: no limit
	spent       *atomic.Int64 // ns waited
}

// throttleSteps is in how many Reads a second's worth comes.
const throttleSteps = 10

// newThrottle is nil where the job has no limit.
func newThrottle(env *logical.Env, spent *atomic.Int64) *throttle {
	if env.ReadLimitRows <= 0 && env.ReadLimitBytes <= 0 {
		return nil
	}
	return &throttle{rows: bucket(env.ReadLimitRows), bytes: bucket(env.ReadLimitBytes), spent: spent}
}

func bucket(perSecond int64) *rate.Limiter {
	if perSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), int(min(perSecond, math.MaxInt)))
}

// limit is how much one Read is to give.
func (t *throttle) limit(l batch.Limit) batch.Limit {
	if t == nil {
		return l
	}
	l = l.Within()
	if t.rows != nil {
		l.Rows = max(min(l.Rows, t.rows.Burst()/throttleSteps), 1)
	}
	if t.bytes != nil {
		l.Bytes = max(min(l.Bytes, int64(t.bytes.Burst()/throttleSteps)), 1)
	}
	return l
}

// wait returns when rows and bytes may be handed on, or with the cause of ctx.
func (t *throttle) wait(ctx context.Context, rows int, bytes int64) error {
	if t == nil || rows == 0 {
		return nil
	}
	began := time.Now()
	err := take(ctx, t.rows, int64(rows))
	if err == nil {
		err = take(ctx, t.bytes, bytes)
	}
	t.spent.Add(int64(time.Since(began)))
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// take takes n tokens out of a bucket, in portions that it can hold.
func take(ctx context.Context, b *rate.Limiter, n int64) error {
	for b != nil && n > 0 {
		k := min(n, int64(b.Burst()))
		if err := b.WaitN(ctx, int(k)); err != nil {
			return err
		}
		n -= k
	}
	return nil
}
