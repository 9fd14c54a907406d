package local

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"strait/transport/stream"
)

// TestExchange: random local and remote channels, holds, a reservation down to one byte. Nothing is lost or
// doubled, order is kept, the bound is kept, nothing gets stuck.
func TestExchange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		n := rapid.IntRange(1, 5).Draw(t, "channels")
		limit := rapid.SampledFrom([]int64{1, 50, 1000, 100_000}).Draw(t, "limit")
		frames := rapid.IntRange(1, 20).Draw(t, "frames")
		largest := rapid.SampledFrom([]int{1, 10, 300}).Draw(t, "rows")
		in := NewInbox(n, limit, NewBudget(1<<20))
		var work sync.WaitGroup
		defer work.Wait()
		defer in.Close(nil)
		errs := make(chan error, n)
		idle := time.Duration(rapid.IntRange(0, 2000).Draw(t, "idle")) * time.Microsecond
		for c := range n {
			sizes := rapid.SliceOfN(rapid.IntRange(1, largest), frames, frames).Draw(t, "sizes")
			if rapid.Bool().Draw(t, "local") {
				p := in.Port(c, nil)
				work.Go(func() {
					for i, size := range sizes {
						if i == frames/2 {
							p.Barrier(barrier(1))
						}
						if err := p.Send(ctx, rows(i, size)); err != nil {
							errs <- fmt.Errorf("channel %d: %w", c, err)
							return
						}
					}
					p.End()
				})
				continue
			}
			r := newRemote(in, c)
			work.Go(func() {
				for i, size := range sizes {
					if i == frames/2 {
						r.p.Barrier(barrier(1))
					}
					b := rows(i, size)
					for {
						r.answerRecalls()
						send, announce := r.may()
						if send {
							break
						}
						if announce {
							r.p.Announce(b.Bytes())
						}
						select {
						case <-r.granted:
						case <-time.After(time.Millisecond):
						case <-ctx.Done():
							errs <- fmt.Errorf("channel %d waits for credit", c)
							return
						}
					}
					r.send(b)
				}
				// Idle with credit in hand, which others may need.
				for until := time.Now().Add(idle); time.Now().Before(until); time.Sleep(100 * time.Microsecond) {
					r.answerRecalls()
				}
				r.p.End()
			})
		}
		at, held, behind, ends := make([]int, n), map[int]bool{}, 0, 0
		for ends < n {
			item, err := next(ctx, in)
			if err != nil {
				select {
				case e := <-errs:
					t.Fatalf("%v; %v", err, e)
				default:
					t.Fatalf("%v; taken %v, held %v", err, at, held)
				}
			}
			if held[item.Channel] {
				t.Fatalf("took from channel %d, which is held", item.Channel)
			}
			in.mu.Lock()
			// Each port that has credit may send one frame over it, and one frame of each may lie behind its barrier.
			most := in.limit + int64(n)*8*int64(largest)
			if q := in.sum.queued; q > most {
				t.Errorf("%d bytes queued, limit %d", q, in.limit)
			}
			in.mu.Unlock()
			switch item.Kind {
			case stream.Barrier:
				if at[item.Channel] != frames/2 {
					t.Fatalf("barrier of channel %d after %d", item.Channel, at[item.Channel])
				}
				held[item.Channel] = true
				in.Hold(item.Channel)
				if behind++; behind == n {
					clear(held)
					in.Release()
				}
			case stream.Rows:
				if first(item.Batch) != at[item.Channel] {
					t.Fatalf("channel %d gave %d, want %d", item.Channel, first(item.Batch), at[item.Channel])
				}
				at[item.Channel]++
			case stream.End:
				if at[item.Channel] != frames {
					t.Fatalf("channel %d ended after %d of %d", item.Channel, at[item.Channel], frames)
				}
				ends++
			}
		}
	})
}
