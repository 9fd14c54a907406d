package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/checkpoint"
	"strait/integration/bench/yardstick"
	"strait/plan"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/transport/shuffle"
	"strait/transport/stream"
)

func init() {
	for _, codec := range []string{"s2", "none"} {
		wanted := map[string]float64{"s2": 0.7, "none": 0.6}[codec]
		registerExchange("exchange/forward-"+codec, codec, stream.Forward, 1, wanted)
		registerExchange("exchange/hash8-"+codec, codec, stream.Hash, 8, 0.6)
	}
	Register("exchange/barrier-50ms", func() ([]Figure, error) {
		with, without, ratio, err := Alternate(
			func() (float64, error) { return ExchangeWithBarriers("s2", stream.Hash, 8, Round, 50*time.Millisecond) },
			func() (float64, error) { return Exchange("s2", stream.Hash, 8, Round) })
		return []Figure{{Name: "exchange/barrier-50ms", Unit: "M rows/s", Value: with / 1e6, Yardstick: without / 1e6, Ratio: ratio, Wanted: 0.95}}, err
	})
}

func registerExchange(name, codec string, ex stream.Exchange, consumers int, wanted float64) {
	Register(name, func() ([]Figure, error) {
		o := yardstick.Options{S2: codec == "s2", For: Round, Data: columns()}
		if ex == stream.Hash {
			o.To = consumers
		}
		value, bare, ratio, err := Alternate(
			func() (float64, error) { return Exchange(codec, ex, consumers, Round) },
			func() (float64, error) { return yardstick.Run(o) })
		return []Figure{{Name: name, Unit: "M rows/s", Value: value / 1e6, Yardstick: bare / 1e6, Ratio: ratio, Wanted: wanted}}, err
	})
}

// columns is the data of all exchange figures: 16 batches of 8,192 rows.
var columns = sync.OnceValue(func() []*yardstick.Columns { return yardstick.Generate(16, 8192) })

// exchangeSchema is the table of columns.
var exchangeSchema = sync.OnceValue(func() *batch.Schema {
	return batch.NewSchema(&schema.Table{Path: schema.Path{Table: "bench"}, Columns: []schema.Column{
		schema.Col("id", schema.Of(schema.BigInt)), schema.Col("price", schema.Of(schema.Double)),
		schema.Col("name", schema.Of(schema.String)), schema.Col("at", schema.Of(schema.Timestamp)),
	}}, 0)
})

// exchangeBatches is columns as batches.
var exchangeBatches = sync.OnceValue(func() []*batch.Batch {
	var out []*batch.Batch
	s := exchangeSchema()
	for _, c := range columns() {
		rows := len(c.Ints)
		b := func(raw []byte) *memory.Buffer { return memory.NewBufferBytes(raw) }
		make := func(i int, bufs ...*memory.Buffer) arrow.Array {
			return array.MakeFromData(array.NewData(s.Arrow.Field(i).Type, rows, append([]*memory.Buffer{nil}, bufs...), nil, 0, 0))
		}
		out = append(out, batch.New(s, []arrow.Array{
			make(0, b(arrow.Int64Traits.CastToBytes(c.Ints))), make(1, b(arrow.Float64Traits.CastToBytes(c.Floats))),
			make(2, b(arrow.Int32Traits.CastToBytes(c.Offsets)), b(c.Strings)), make(3, b(arrow.Int64Traits.CastToBytes(c.Times))),
		}, rows, nil))
	}
	return out
})

// Exchange measures rows per second from one producer to consumers on another worker over loopback TCP.
func Exchange(codec string, ex stream.Exchange, consumers int, dur time.Duration) (float64, error) {
	return ExchangeWithBarriers(codec, ex, consumers, dur, 0)
}

// ExchangeWithBarriers is Exchange with a barrier every so often; 0 is never.
func ExchangeWithBarriers(codec string, ex stream.Exchange, consumers int, dur, every time.Duration) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), dur+30*time.Second)
	defer cancel()
	e := stream.Edge{ID: 1, Exchange: ex, Tables: []*batch.Schema{exchangeSchema()}, Keys: [][]int{{0}}, Producers: []string{"a"}}
	for range consumers {
		e.Consumers = append(e.Consumers, "b")
	}
	var running sync.WaitGroup
	defer running.Wait()
	services := map[string]*shuffle.Service{}
	runCtx, stop := context.WithCancel(context.Background())
	defer stop()
	for i, w := range []string{"a", "b"} {
		s, err := shuffle.Listen(shuffle.Config{
			Cluster: "bench", Worker: w, Incarnation: int64(i + 1), Listen: "127.0.0.1:0", Codec: codec,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			return 0, err
		}
		services[w] = s
		running.Go(func() { s.Run(runCtx) })
	}
	attempts := map[string]*shuffle.Attempt{}
	for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
		a, err := services[pair[0]].Open(shuffle.AttemptConfig{
			Key: stream.AttemptKey{Job: "bench", Pipeline: 1, Attempt: 1}, Token: "t",
			Peers: map[string]string{pair[1]: services[pair[1]].Addr()}, Edges: []stream.Edge{e},
		})
		if err != nil {
			return 0, err
		}
		defer a.Close(nil)
		attempts[pair[0]] = a
	}
	connected := make(chan error, 2)
	for _, a := range attempts {
		go func() { connected <- a.Connect(ctx) }()
	}
	if err := errors.Join(<-connected, <-connected); err != nil {
		return 0, err
	}
	var rows atomic.Int64
	var work sync.WaitGroup
	failed := make(chan error, consumers+1)
	start := time.Now()
	for c := range consumers {
		in := attempts["b"].Input(1, c)
		work.Go(func() {
			if err := consume(ctx, in, &rows); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	out := attempts["a"].Output(1, 0)
	work.Go(func() {
		if err := produce(ctx, out, dur, every); err != nil {
			failed <- err
			cancel()
		}
	})
	work.Wait()
	took := time.Since(start)
	select {
	case err := <-failed:
		return 0, err
	default:
	}
	return float64(rows.Load()) / took.Seconds(), nil
}

func produce(ctx context.Context, out stream.Output, dur, every time.Duration) error {
	batches := exchangeBatches()
	start := time.Now()
	barrier, id := start.Add(every), 0
	for i := 0; ; i++ {
		if i%4 == 0 || every > 0 {
			now := time.Now()
			if now.Sub(start) >= dur {
				break
			}
			if every > 0 && now.After(barrier) {
				barrier = barrier.Add(every)
				id++
				if err := out.Barrier(ctx, checkpoint.Barrier{ID: plan.CheckpointID(id), Kind: checkpoint.Periodic}); err != nil {
					return err
				}
			}
		}
		if err := out.Send(ctx, batches[i%len(batches)]); err != nil {
			return err
		}
	}
	return out.End(ctx)
}

// consume takes items until the end of every channel.
func consume(ctx context.Context, in stream.Input, rows *atomic.Int64) error {
	ends, n := 0, int64(0)
	defer func() { rows.Add(n) }()
	for ends < in.Channels() {
		item, ok, err := in.TryNext()
		switch {
		case err != nil:
			return err
		case !ok:
			select {
			case <-in.Ready():
			case <-ctx.Done():
				return fmt.Errorf("consumer: %w", context.Cause(ctx))
			}
		case item.Kind == stream.Rows:
			n += int64(item.Batch.Rows)
		case item.Kind == stream.End:
			ends++
		}
	}
	return nil
}
