package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"strait/checkpoint"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/transport/batch"
	"strait/worker/task/tasktest"
)

// TestThrottleRates: over any stretch of time no more passes than its rates allow and one second's worth, everything
// passes in the end, and not later than it must.
func TestThrottleRates(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		env := logical.Env{
			ReadLimitRows:  rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(100, 100000)).Draw(r, "rows/s"),
			ReadLimitBytes: rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(10000, 10000000)).Draw(r, "bytes/s"),
		}
		type read struct {
			rows  int
			bytes int64
			pause time.Duration
		}
		reads := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) read {
			return read{rapid.IntRange(0, 20000).Draw(r, "rows"), rapid.Int64Range(1, 2000000).Draw(r, "bytes"),
				time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(time.Minute))).Draw(r, "pause"))}
		}), 1, 30).Draw(r, "reads")
		synctest.Test(t, func(t *testing.T) {
			var spent atomic.Int64
			th := newThrottle(&env, &spent)
			began := time.Now()
			var at []time.Duration
			var paused time.Duration
			for _, rd := range reads {
				time.Sleep(rd.pause)
				paused += rd.pause
				if err := th.wait(t.Context(), rd.rows, rd.bytes); err != nil {
					r.Fatal(err)
				}
				at = append(at, time.Since(began))
			}
			check := func(what string, perSecond int64, size func(read) int64) {
				if perSecond == 0 {
					return
				}
				for i := range reads {
					sum := int64(0)
					for j := i; j < len(reads); j++ {
						sum += size(reads[j])
						from := time.Duration(0)
						if i > 0 {
							from = at[i-1]
						}
						allowed := float64(perSecond) * ((at[j] - from).Seconds() + 1)
						if float64(sum) > allowed*1.000001+1 {
							r.Fatalf("%d %s passed between %v and %v, allowed are %.0f", sum, what, from, at[j], allowed)
						}
					}
				}
			}
			check("rows", env.ReadLimitRows, func(rd read) int64 { return int64(rd.rows) })
			check("bytes", env.ReadLimitBytes, func(rd read) int64 {
				if rd.rows == 0 {
					return 0
				}
				return rd.bytes
			})
			var needed float64
			for _, rd := range reads {
				if env.ReadLimitRows > 0 {
					needed += float64(rd.rows) / float64(env.ReadLimitRows)
				}
				if env.ReadLimitBytes > 0 && rd.rows > 0 {
					needed += float64(rd.bytes) / float64(env.ReadLimitBytes)
				}
			}
			if took := at[len(at)-1] - paused; took.Seconds() > needed+0.001 {
				r.Fatalf("it took %v, enough were %.3f s", took, needed)
			}
			if got := at[len(at)-1] - paused; time.Duration(spent.Load()) != got {
				r.Fatalf("%v are counted as waited, it was %v", time.Duration(spent.Load()), got)
			}
		})
	})
}

func TestThrottleSteps(t *testing.T) {
	f := func(rows, bytes int64, want batch.Limit) {
		t.Helper()
		if got := newThrottle(&logical.Env{ReadLimitRows: rows, ReadLimitBytes: bytes}, nil).limit(batch.Limit{}).Within(); got != want {
			t.Errorf("%d rows/s, %d bytes/s: %+v, want %+v", rows, bytes, got, want)
		}
	}
	f(0, 0, batch.Limit{Rows: batch.TargetRows, Bytes: batch.TargetBytes})
	f(1, 0, batch.Limit{Rows: 1, Bytes: batch.TargetBytes})
	f(400, 0, batch.Limit{Rows: 40, Bytes: batch.TargetBytes})
	f(1<<40, 7_000_000, batch.Limit{Rows: batch.TargetRows, Bytes: 700_000})
	f(0, 5, batch.Limit{Rows: batch.TargetRows, Bytes: 1})
}

// limited builds a job of one source and one sink whose env has a limit.
func limited(t *testing.T, key string, perSecond int64) *bench {
	p := tasktest.Plan(t, chain(1, "TestSource", "TestTwoPhase"))
	p.Env = &option.Node{Kind: option.Object, Fields: []option.Field{{Key: key, Value: &option.Node{Kind: option.Number, Text: fmt.Sprint(perSecond)}}}}
	return build(t, p, nil)
}

// TestThrottledJob: ten rows a second are ten rows a second from the first on, though a Read could give thousands; a
// barrier does not wait for a row, nor does a stop.
func TestThrottledJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := tasktest.New(t, 1, 100000)
		w.Batch = 8192
		var mu sync.Mutex
		var gaps []time.Duration
		last := time.Now()
		w.OnWrite = func(context.Context, *batch.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			gaps = append(gaps, time.Since(last))
			last = time.Now()
			return nil
		}
		x := limited(t, "read_limit.rows_per_second", 10)
		x.Start(1)
		time.Sleep(60*time.Second + 50*time.Millisecond)
		synctest.Wait()
		if n := len(w.Written()); n < 600 || n > 611 {
			t.Errorf("%d rows in a minute at 10 a second", n)
		}
		mu.Lock()
		for _, g := range gaps[20:] {
			if g > 110*time.Millisecond {
				t.Errorf("nothing came for %v", g)
			}
		}
		mu.Unlock()
		if got := x.Counts()[0].Throttled; got < 58*time.Second || got > 61*time.Second {
			t.Errorf("%v are counted as throttled", got)
		}
		now := time.Now()
		x.Barrier(checkpoint.Barrier{ID: 1, Kind: checkpoint.Periodic})
		synctest.Wait()
		if s, ok := x.State(1); !ok || len(s.Prepared) == 0 || time.Since(now) != 0 {
			t.Errorf("the barrier waited %v (%v)", time.Since(now), ok)
		}
		x.stop(t)
		if time.Since(now) != 0 {
			t.Errorf("stopping took %v", time.Since(now))
		}
	})
}

// TestThrottledHoldsBack: a reader that gives more than it is told to is held back until it is paid for, and bytes count
// as well as rows.
func TestThrottledHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := tasktest.New(t, 1, 4000) // 8 bytes each
		w.Batch = 500
		x := limited(t, "read_limit.bytes_per_second", 1000)
		x.Start(1)
		began := time.Now()
		x.drainSlowly(t)
		if took := time.Since(began); took < 30*time.Second || took > 33*time.Second {
			t.Errorf("32,000 bytes at 1,000 a second took %v", took)
		}
		allOnce(t, "written", w.Written(), 4000)
		x.stop(t)
	})
}

// drainSlowly waits until the source is drained, in the time of the bubble.
func (x *bench) drainSlowly(t *testing.T) {
	for range 100000 {
		if x.Drained() {
			return
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
	}
	t.Fatal("not drained")
}

func TestThrottleEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var spent atomic.Int64
		th := newThrottle(&logical.Env{ReadLimitRows: 1}, &spent)
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3500*time.Millisecond, func() { cancel(why) })
		if err := th.wait(ctx, 1000000, 1); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
		if got := time.Duration(spent.Load()); got != 3500*time.Millisecond {
			t.Errorf("waited %v", got)
		}
	})
}
