package shuffle

import (
	"fmt"
	"runtime"
	"testing"

	"strait/checkpoint"
	"strait/transport/batch"
	"strait/transport/stream"
	"strait/transport/wire"
)

// TestLargeEdge: an edge of 10,000 by 10,000 subtasks on 100 workers does not materialise its pairs.
func TestLargeEdge(t *testing.T) {
	const n, workers = 10_000, 100
	s := testTable("t")
	e := stream.Edge{ID: 1, Exchange: stream.Hash, Tables: []*batch.Schema{s}, Keys: [][]int{{1}}}
	peers := map[string]string{}
	for i := range n {
		w := fmt.Sprintf("w%d", i%workers)
		e.Producers, e.Consumers = append(e.Producers, w), append(e.Consumers, w)
		peers[w] = "127.0.0.1:1"
	}
	svc, err := Listen(Config{Cluster: "c", Worker: "w0", Listen: "127.0.0.1:0", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.stop(errStopped)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	a, err := svc.Open(AttemptConfig{Key: key(1), Peers: peers, Edges: []stream.Edge{e}})
	if err != nil {
		t.Fatal(err)
	}
	outs := make([]stream.Output, 0, n/workers)
	for i := 0; i < n; i += workers {
		outs = append(outs, a.Output(1, i))
		a.Input(1, i)
	}
	// One producer talks to a few consumers of its own worker.
	for c := 0; c < n; c += 10 * workers {
		outs[0].(*output).target(c)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc) - int64(svc.ballast.Cap()); used > 20<<20 {
		t.Errorf("%d MiB for an edge that nothing has passed yet", used>>20)
	}
	a.Close(nil)
	a.Wait()
}

// TestLanes: what one producer has queued leaves in order, lanes take turns, and a barrier waits only for the frames
// of its own lane (invariant 6).
func TestLanes(t *testing.T) {
	var l link
	l.wake = make(chan struct{}, 1)
	frame := func(n byte) item {
		b := wire.GetBuffer(10)
		b.B = append(b.B, n)
		return item{buf: b}
	}
	a, b, c := &lane{}, &lane{}, &lane{}
	for i := range byte(3) {
		l.push(a, frame(10+i))
		l.push(b, frame(20+i))
	}
	l.push(c, item{small: []byte{30}})
	l.push(b, item{small: []byte{29}})
	l.push(b, frame(40))
	var got []byte
	take := func(n int) {
		for range n {
			it, ok := l.pop()
			if !ok {
				break
			}
			if it.small != nil {
				got = append(got, it.small[0])
			} else {
				got = append(got, it.buf.B[0])
				it.buf.Release()
			}
		}
	}
	take(3)
	l.push(a, item{small: []byte{19}}) // the end of a lane whose turn is over for now
	take(100)
	want := []byte{30, 20, 21, 22, 29, 10, 11, 12, 19, 40}
	if string(got) != string(want) {
		t.Errorf("frames left as %v, want %v", got, want)
	}
}

// TestBarrierOvertakesOtherProducers: behind a slow link a barrier waits for its own producer's rows only.
func TestBarrierOvertakesOtherProducers(t *testing.T) {
	s := testTable("t")
	e := stream.Edge{ID: 1, Exchange: stream.Forward, Tables: []*batch.Schema{s}, Producers: []string{"w0", "w0"}, Consumers: []string{"w1", "w1"}}
	var p *proxy
	f := newFleet(t, 2, []stream.Edge{e}, fleetOptions{
		config: func(_ string, c *Config) { c.Codec = "none" },
		via: func(from, to, addr string) string {
			if from != "w0" {
				return addr
			}
			p, _ = newProxy(addr)
			return p.addr()
		},
	})
	defer f.stop()
	defer func() { p.close() }()
	f.connect()
	p.set(rules{perSecond: 2_000_000})
	busy, calm := f.attempts["w0"].Output(1, 0), f.attempts["w0"].Output(1, 1)
	stop := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if busy.Send(f.ctx, rowsOf(s, 0, i*5000, 5000)) != nil {
				return
			}
		}
	}()
	go func() { // somebody takes the busy one's rows
		for in := f.attempts["w1"].Input(1, 0); ; {
			if _, err := next(f.ctx, in); err != nil {
				return
			}
		}
	}()
	for i := range 5 {
		if err := calm.Barrier(f.ctx, checkpoint.Barrier{ID: 1, Kind: checkpoint.Periodic}); err != nil {
			t.Fatal(err)
		}
		if item, err := next(f.ctx, f.attempts["w1"].Input(1, 1)); err != nil || item.Kind != stream.Barrier {
			t.Fatalf("%d: %+v %v", i, item, err)
		}
	}
	close(stop)
	f.attempts["w0"].Close(nil)
	<-sent
}
