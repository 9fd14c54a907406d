package shuffle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"pgregory.net/rapid"

	"strait/checkpoint"
	"strait/checkpoint/align"
	"strait/plan"
	"strait/transport/batch"
	"strait/transport/stream"
)

// TestShuffleProperties: random exchanges, placements, batch sizes, memory down to a byte, slow consumers, several
// tables. Nothing is lost or doubled, order per producer and key is kept, no row passes a barrier in either
// direction, also where consumers align.
func TestShuffleProperties(t *testing.T) {
	cases := 0
	rapid.Check(t, func(t *rapid.T) {
		if cases++; raceDetector && cases > 20 {
			return
		}
		workers := rapid.IntRange(1, 3).Draw(t, "workers")
		place := func(what string, n int) []string {
			out := make([]string, n)
			for i := range out {
				out[i] = fmt.Sprintf("w%d", rapid.IntRange(0, workers-1).Draw(t, what))
			}
			return out
		}
		ex := rapid.SampledFrom([]stream.Exchange{stream.Forward, stream.Rebalance, stream.Hash, stream.Broadcast}).Draw(t, "exchange")
		tables := []*batch.Schema{testTable("first"), testTable("second")}
		tables[1] = batch.NewSchema(tables[1].Table, 1)
		keys := [][]int{{1}, nil} // the second has no key: each producer keeps to one consumer
		producers := place("producer", rapid.IntRange(1, 4).Draw(t, "producers"))
		consumers := place("consumer", rapid.IntRange(1, 5).Draw(t, "consumers"))
		if ex == stream.Forward {
			consumers = place("consumer", len(producers))
		}
		e := stream.Edge{ID: 1, Exchange: ex, Tables: tables, Keys: keys, Producers: producers, Consumers: consumers}
		memory := rapid.SampledFrom([]int64{1, 5000, 1 << 20}).Draw(t, "memory")
		codec := rapid.SampledFrom([]string{"none", "s2"}).Draw(t, "codec")
		f := newFleet(t, workers, []stream.Edge{e}, fleetOptions{config: func(_ string, c *Config) {
			c.MemoryBytes, c.Codec = memory, codec
		}})
		defer f.stop()
		f.connect()

		barriers := rapid.IntRange(1, 3).Draw(t, "barriers")
		var wg sync.WaitGroup
		defer wg.Wait()
		want := map[string]int{} // row -> barriers before it
		for p, w := range producers {
			type step struct{ table, rows int }
			var script []step // rows 0: barrier
			id := 0
			for b := range barriers {
				for range rapid.IntRange(0, 6).Draw(t, "batches") {
					s := step{rapid.IntRange(0, 1).Draw(t, "table"), rapid.SampledFrom([]int{1, 16, 300, 3000}).Draw(t, "rows")}
					script = append(script, s)
					for range s.rows {
						want[fmt.Sprintf("%d/%d/%d", p, s.table, id)] = b
						id++
					}
				}
				script = append(script, step{})
			}
			flush := rapid.Bool().Draw(t, "flush")
			out := f.attempts[w].Output(1, p)
			wg.Go(func() {
				id, n := 0, 0
				for _, s := range script {
					var err error
					if s.rows == 0 {
						n++
						if n == barriers {
							err = out.End(f.ctx)
						}
						err = errors.Join(err, out.Barrier(f.ctx, checkpoint.Barrier{ID: plan.CheckpointID(n), Kind: checkpoint.Periodic}))
					} else {
						err = out.Send(f.ctx, rowsOf(tables[s.table], p, id, s.rows))
						id += s.rows
						if flush && err == nil {
							err = out.Flush(f.ctx)
						}
					}
					if err != nil {
						t.Errorf("producer %d: %v", p, err)
						return
					}
				}
			})
		}
		slow := rapid.IntRange(0, len(consumers)).Draw(t, "slow")
		aligned := rapid.Bool().Draw(t, "aligned")
		var mu sync.Mutex
		seen, owner := map[string]int{}, map[string]int{}
		for c, w := range consumers {
			in := f.attempts[w].Input(1, c)
			wg.Go(func() {
				a := align.New(in.Channels())
				behind := make([]int, in.Channels())
				last := map[string]int64{}
				for complete, finals := 0, 0; complete < barriers && finals < in.Channels(); {
					item, err := next(f.ctx, in)
					if err != nil {
						t.Errorf("consumer %d: %v", c, err)
						return
					}
					if c == slow {
						time.Sleep(100 * time.Microsecond)
					}
					if aligned {
						v, err := a.Step(item.Channel, item.Element)
						if err != nil {
							t.Errorf("consumer %d: %v", c, err)
							return
						}
						if v.Release {
							in.Release()
						}
						switch v.Action {
						case align.Hold:
							in.Hold(item.Channel)
						case align.Complete:
							complete++
						}
					}
					if item.Kind == stream.Barrier {
						behind[item.Channel]++
						if int(item.Barrier.ID) != behind[item.Channel] {
							t.Errorf("barrier %d after %d", item.Barrier.ID, behind[item.Channel]-1)
						}
						if int(item.Barrier.ID) == barriers && !aligned {
							finals++
						}
					}
					if item.Kind != stream.Rows {
						continue
					}
					table := item.Batch.Schema.Index
					mu.Lock()
					for i, id := range column64(item.Batch, 1) {
						p := int(item.Batch.Cols[0].(*array.Int32).Value(i))
						row := fmt.Sprintf("%d/%d/%d", p, table, id)
						b, ok := want[row]
						if !ok || b != behind[item.Channel] || aligned && b != complete {
							t.Errorf("row %s of epoch %d (%v) came in epoch %d of its channel, %d complete", row, b, ok, behind[item.Channel], complete)
						}
						if ex != stream.Forward && item.Channel != p {
							t.Errorf("row %s came on channel %d", row, item.Channel)
						}
						seen[row]++
						if ex == stream.Hash {
							k := fmt.Sprintf("table %d key %d", table, id)
							if table == 1 {
								k = fmt.Sprintf("table 1 producer %d", p)
							}
							if o, ok := owner[k]; ok && o != c {
								t.Errorf("%s is on consumers %d and %d", k, o, c)
							}
							owner[k] = c
						}
						k := fmt.Sprintf("%d/%d", p, table)
						if l, ok := last[k]; ok && l >= id {
							t.Errorf("producer %d, table %d: row %d after %d", p, table, id, l)
						}
						last[k] = id
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		times := 1
		if ex == stream.Broadcast {
			times = len(consumers)
		}
		for row := range want {
			if seen[row] != times {
				t.Fatalf("row %s arrived %d times, want %d", row, seen[row], times)
			}
		}
		if len(seen) != len(want) {
			t.Fatalf("%d rows arrived, %d were sent", len(seen), len(want))
		}
	})
}

// TestDiamond: a source branches into two paths, one 100 times slower, that meet again in an aligned operator; on
// two workers and in one, with memory for a byte. It must not deadlock, and the cut must be the same on both paths.
func TestDiamond(t *testing.T) {
	for _, workers := range []int{1, 2} {
		for _, memory := range []int64{1, 1 << 20} {
			t.Run(fmt.Sprintf("%d workers, %d bytes", workers, memory), func(t *testing.T) { diamond(t, workers, memory) })
		}
	}
}

func diamond(t *testing.T, workers int, memory int64) {
	s := testTable("t")
	w := func(i int) string { return fmt.Sprintf("w%d", i%workers) }
	edge := func(id int, from, to string) stream.Edge {
		return stream.Edge{ID: id, Exchange: stream.Rebalance, Tables: []*batch.Schema{s}, Producers: []string{from}, Consumers: []string{to}}
	}
	edges := []stream.Edge{edge(1, w(0), w(1)), edge(2, w(0), w(0)), edge(3, w(1), w(0)), edge(4, w(0), w(0))}
	f := newFleet(t, workers, edges, fleetOptions{config: func(_ string, c *Config) { c.MemoryBytes = memory }})
	defer f.stop()
	f.connect()
	const batches, size, barriers = 200, 20, 10
	var wg sync.WaitGroup
	run := func(name string, g func(ctx context.Context) error) {
		wg.Go(func() {
			if err := g(f.ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	run("source", func(ctx context.Context) error {
		outs := []stream.Output{f.attempts[w(0)].Output(1, 0), f.attempts[w(0)].Output(2, 0)}
		for i := range batches {
			for _, o := range outs {
				if err := o.Send(ctx, rowsOf(s, 0, i*size, size)); err != nil {
					return err
				}
			}
			if (i+1)%(batches/barriers) == 0 {
				for _, o := range outs {
					if err := o.Barrier(ctx, checkpoint.Barrier{ID: plan.CheckpointID((i + 1) / (batches / barriers)), Kind: checkpoint.Periodic}); err != nil {
						return err
					}
				}
			}
		}
		return errors.Join(outs[0].End(ctx), outs[1].End(ctx))
	})
	path := func(on string, from, to int, pause time.Duration) func(context.Context) error {
		in, out := f.attempts[on].Input(from, 0), f.attempts[on].Output(to, 0)
		return func(ctx context.Context) error {
			for {
				item, err := next(ctx, in)
				if err != nil {
					return err
				}
				time.Sleep(pause)
				switch item.Kind {
				case stream.Rows:
					err = out.Send(ctx, item.Batch)
				case stream.Barrier:
					err = out.Barrier(ctx, item.Barrier)
				case stream.End:
					return out.End(ctx)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	run("slow path", path(w(1), 1, 3, time.Millisecond))
	run("fast path", path(w(0), 2, 4, 10*time.Microsecond))
	run("join", func(ctx context.Context) error {
		ins := []stream.Input{f.attempts[w(0)].Input(3, 0), f.attempts[w(0)].Input(4, 0)}
		a := align.New(2)
		var rows [2]int
		complete := 0
		for ended := false; !ended || complete < barriers; {
			progress := false
			for i, in := range ins {
				item, ok, err := in.TryNext()
				if err != nil {
					return err
				}
				if !ok {
					continue
				}
				progress = true
				v, err := a.Step(i, item.Element)
				if err != nil {
					return err
				}
				if v.Release {
					ins[0].Release()
					ins[1].Release()
				}
				switch {
				case v.Action == align.Hold:
					in.Hold(item.Channel)
				case v.Action == align.Complete:
					complete++
					if want := complete * batches / barriers * size; rows[0] != want || rows[1] != want {
						return fmt.Errorf("cut %d after %v rows, want %d on each path", complete, rows, want)
					}
				case item.Kind == stream.Rows:
					rows[i] += item.Batch.Rows
				}
				ended = ended || v.Ended
			}
			if !progress {
				select {
				case <-ins[0].Ready():
				case <-ins[1].Ready():
				case <-ctx.Done():
					return fmt.Errorf("stuck at %v rows, %d complete, waiting for %v: %w", rows, complete, a.Missing(), context.Cause(ctx))
				}
			}
		}
		return nil
	})
	wg.Wait()
}

// TestSlowConsumerSlowsOnlyItsShare: one consumer takes nothing; the others of another edge get everything.
func TestSlowConsumerSlowsOnlyItsShare(t *testing.T) {
	s := testTable("t")
	edges := []stream.Edge{
		{ID: 1, Exchange: stream.Forward, Tables: []*batch.Schema{s}, Producers: []string{"w0"}, Consumers: []string{"w1"}},
		{ID: 2, Exchange: stream.Forward, Tables: []*batch.Schema{s}, Producers: []string{"w0"}, Consumers: []string{"w1"}},
	}
	f := newFleet(t, 2, edges, fleetOptions{config: func(_ string, c *Config) { c.MemoryBytes = 200_000 }})
	defer f.stop()
	f.connect()
	var stuck atomic.Int64
	blocked, cancel := context.WithCancel(f.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		out := f.attempts["w0"].Output(1, 0)
		for i := 0; ; i++ {
			if out.Send(blocked, rowsOf(s, 0, i*1000, 1000)) != nil {
				return
			}
			stuck.Add(1000)
		}
	})
	wg.Go(func() {
		out := f.attempts["w0"].Output(2, 0)
		for i := range 100 {
			if err := out.Send(f.ctx, rowsOf(s, 0, i*1000, 1000)); err != nil {
				t.Error(err)
			}
		}
		// A barrier of the blocked edge's neighbour, and control, pass by.
		if err := f.attempts["w0"].Control("w1", []byte("passes")); err != nil {
			t.Error(err)
		}
		if err := out.Barrier(f.ctx, checkpoint.Barrier{ID: 1, Kind: checkpoint.Periodic}); err != nil {
			t.Error(err)
		}
	})
	in, rows := f.attempts["w1"].Input(2, 0), 0
	for {
		item, err := next(f.ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		if item.Kind == stream.Barrier {
			break
		}
		rows += item.Batch.Rows
	}
	cancel()
	wg.Wait()
	if rows != 100_000 || stuck.Load() > 20_000 {
		t.Errorf("%d rows passed, %d were taken from the blocked producer", rows, stuck.Load())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.control["w1"]; len(c) != 1 || c[0] != "w0:passes" {
		t.Errorf("control %q", c)
	}
}

// TestControl: in order per sender, to self too, never from within Control.
func TestControl(t *testing.T) {
	f := newFleet(t, 2, twoWay(), fleetOptions{})
	defer f.stop()
	a := f.attempts["w0"]
	for i := range 5 { // before there is a connection
		if err := a.Control("w1", fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	f.connect()
	f.mu.Lock() // OnControl needs this lock: a re-entrant call would hang here
	for i := range 5 {
		if err := errors.Join(a.Control("w0", fmt.Appendf(nil, "%d", i)), a.Control("w1", fmt.Appendf(nil, "%d", 5+i))); err != nil {
			t.Fatal(err)
		}
	}
	f.mu.Unlock()
	deadline := time.Now().Add(10 * time.Second)
	for {
		f.mu.Lock()
		self, peer := strings.Join(f.control["w0"], " "), strings.Join(f.control["w1"], " ")
		f.mu.Unlock()
		if self == "w0:0 w0:1 w0:2 w0:3 w0:4" && peer == "w0:0 w0:1 w0:2 w0:3 w0:4 w0:5 w0:6 w0:7 w0:8 w0:9" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("self %q, peer %q", self, peer)
		}
		time.Sleep(time.Millisecond)
	}
	if err := a.Control("w0", make([]byte, 2<<20)); err == nil {
		t.Error("a control frame of 2 MiB")
	}
	if err := a.Control("w9", nil); err == nil || !strings.Contains(err.Error(), "no peer") {
		t.Errorf("to nobody: %v", err)
	}
}
