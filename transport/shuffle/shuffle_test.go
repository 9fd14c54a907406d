package shuffle

import (
	"fmt"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/checkpoint"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/transport/stream"
)

func TestExchanges(t *testing.T) {
	for _, ex := range []stream.Exchange{stream.Forward, stream.Rebalance, stream.Hash, stream.Broadcast} {
		for _, codec := range []string{"none", "s2", "zstd"} {
			t.Run(string(ex)+"/"+codec, func(t *testing.T) { exchangeAll(t, ex, codec) })
		}
	}
}

func exchangeAll(t *testing.T, ex stream.Exchange, codec string) {
	s := testTable("t")
	workers := []string{"w0", "w1", "w2", "w0"}
	e := stream.Edge{ID: 3, Exchange: ex, Tables: []*batch.Schema{s}, Keys: [][]int{{1}}, Producers: workers, Consumers: workers}
	f := newFleet(t, 3, []stream.Edge{e}, fleetOptions{config: func(_ string, c *Config) { c.Codec = codec }})
	defer f.stop()
	f.connect()
	const batches, size = 20, 500
	var wg sync.WaitGroup
	for p, w := range e.Producers {
		out := f.attempts[w].Output(3, p)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range batches {
				if err := out.Send(f.ctx, rowsOf(s, p, i*size, size)); err != nil {
					t.Errorf("send: %v", err)
					return
				}
				if i == 10 {
					if err := out.Barrier(f.ctx, checkpoint.Barrier{ID: 1, Kind: checkpoint.Savepoint}); err != nil {
						t.Errorf("barrier: %v", err)
					}
				}
			}
			if err := out.End(f.ctx); err != nil {
				t.Errorf("end: %v", err)
			}
			if err := out.Barrier(f.ctx, checkpoint.Barrier{ID: 2, Kind: checkpoint.Final}); err != nil {
				t.Errorf("barrier: %v", err)
			}
		}()
	}
	var mu sync.Mutex
	seen := map[string]int{}
	owner := map[int64]int{}
	for c, w := range e.Consumers {
		in := f.attempts[w].Input(3, c)
		wg.Add(1)
		go func() {
			defer wg.Done()
			finals, last, barrier := 0, map[string]int64{}, map[int]int{}
			for finals < in.Channels() {
				item, err := next(f.ctx, in)
				if err != nil {
					t.Errorf("consumer %d: %v", c, err)
					return
				}
				switch item.Kind {
				case stream.Barrier:
					barrier[item.Channel]++
					if item.Barrier.ID == 2 {
						finals++
					}
				case stream.Rows:
					mu.Lock()
					for i, id := range column64(item.Batch, 1) {
						p := item.Batch.Cols[0].(*array.Int32).Value(i)
						if before := id < 11*size; before != (barrier[item.Channel] == 0) {
							t.Errorf("row %d on the wrong side of the barrier", id)
						}
						text := item.Batch.Cols[2].(*array.String)
						if (id%7 == 0) != text.IsNull(i) || id%7 != 0 && text.Value(i) != fmt.Sprintf("row %d of %d", id, p) {
							t.Errorf("row %d has text %q", id, text.Value(i))
						}
						if (item.Batch.Kind(i) == schema.Delete) != (id%11 == 0) {
							t.Errorf("row %d has kind %s", id, item.Batch.Kind(i))
						}
						k := fmt.Sprintf("%d/%d", p, id)
						seen[k]++
						if ex == stream.Hash {
							if o, ok := owner[id]; ok && o != c {
								t.Errorf("key %d is on consumers %d and %d", id, o, c)
							}
							owner[id] = c
						}
						if ex == stream.Forward && int(p) != c {
							t.Errorf("forward from %d to %d", p, c)
						}
						pk := fmt.Sprint(p)
						if l, ok := last[pk]; ok && l >= id {
							t.Errorf("producer %d: row %d after %d", p, id, l)
						}
						last[pk] = id
					}
					mu.Unlock()
				}
			}
		}()
	}
	wg.Wait()
	if st := f.services["w1"].Stats(); ex != stream.Forward && (st.Attempts != 1 || st.BytesIn == 0 || st.BytesOut == 0 || st.Reserved == 0) {
		t.Errorf("stats %+v", st)
	}
	want, times := len(e.Producers)*batches*size, 1
	if ex == stream.Broadcast {
		times = len(e.Consumers)
	}
	if len(seen) != want {
		t.Errorf("%d rows arrived, want %d", len(seen), want)
	}
	for k, n := range seen {
		if n != times {
			t.Fatalf("row %s arrived %d times, want %d", k, n, times)
		}
	}
}
