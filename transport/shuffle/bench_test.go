package shuffle

import (
	"fmt"
	"sync"
	"testing"

	"strait/transport/batch"
	"strait/transport/stream"
)

// BenchmarkRemote sends batches from one worker to consumers on another over loopback; integration/bench compares
// with a bare loop.
func BenchmarkRemote(b *testing.B) {
	for _, ex := range []stream.Exchange{stream.Forward, stream.Hash, stream.Broadcast} {
		for _, rows := range []int{16, 8192} {
			b.Run(fmt.Sprintf("%s/%d", ex, rows), func(b *testing.B) { remote(b, ex, rows, "w1") })
		}
	}
}

// BenchmarkHere is the same with consumers on the producer's own worker.
func BenchmarkHere(b *testing.B) {
	for _, ex := range []stream.Exchange{stream.Forward, stream.Hash} {
		b.Run(fmt.Sprintf("%s/8192", ex), func(b *testing.B) { remote(b, ex, 8192, "w0") })
	}
}

func remote(b *testing.B, ex stream.Exchange, rows int, to string) {
	s := testTable("t")
	consumers := []string{to}
	if ex != stream.Forward {
		consumers = []string{to, to, to, to}
	}
	e := stream.Edge{ID: 1, Exchange: ex, Tables: []*batch.Schema{s}, Keys: [][]int{{1}}, Producers: []string{"w0"}, Consumers: consumers}
	f := newFleet(b, 2, []stream.Edge{e}, fleetOptions{})
	defer f.stop()
	f.connect()
	in := rowsOf(s, 0, 0, rows)
	b.ReportAllocs()
	b.SetBytes(in.Bytes())
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range consumers {
		input := f.attempts[to].Input(1, c)
		wg.Go(func() {
			for {
				item, err := next(f.ctx, input)
				if err != nil {
					b.Error(err)
					return
				}
				if item.Kind == stream.End {
					return
				}
			}
		})
	}
	out := f.attempts["w0"].Output(1, 0)
	for range b.N {
		if err := out.Send(f.ctx, in); err != nil {
			b.Fatal(err)
		}
	}
	if err := out.End(f.ctx); err != nil {
		b.Fatal(err)
	}
	wg.Wait()
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
