package shuffle

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"strait/checkpoint"
	"strait/transport/batch"
	"strait/transport/local"
	"strait/transport/stream"
	"strait/transport/wire"
)

// output is a producing subtask's end of an edge. What belongs to one consumer is made on first use, so that of an
// edge of 10,000 by 10,000 subtasks only the pairs that meet cost memory.
type output struct {
	a        *Attempt
	e        *edge
	producer int
	enc      map[wire.Codec]*wire.Encoder
	lanes    map[string]*lane     // per worker elsewhere
	targets  local.Pages[*target] // by consumer
	next     int                  // rebalance: consumer of the next batch
	hash     *hashing             // hash exchanges only
	cols     []arrow.ArrayData    // scratch
	ended    bool
}

// target is one consumer as a producer sees it: local or remote.
type target struct {
	port   *local.Port
	remote *outChannel
	out    *outLink
}

var errEnded = errors.New("BUG: rows behind the end of a channel")

// Output is the end of an edge that a producing subtask of this worker writes to. There is one per producer; it
// is used by one goroutine. After an error from it the attempt is of no use.
func (a *Attempt) Output(edge, producer int) stream.Output {
	e := a.edges[edge]
	if e == nil || producer < 0 || producer >= len(e.Producers) || e.Producers[producer] != a.s.cfg.Worker {
		panic(fmt.Sprintf("BUG: producer %d of edge %d is not on worker %s", producer, edge, a.s.cfg.Worker))
	}
	o := &output{
		a: a, e: e, producer: producer, next: producer % len(e.Consumers), enc: map[wire.Codec]*wire.Encoder{},
		lanes: map[string]*lane{}, targets: local.NewPages[*target](len(e.Consumers)),
	}
	for _, w := range e.elsewhere {
		o.lanes[w] = &lane{}
	}
	if e.Exchange == stream.Hash {
		o.hash = newHashing(len(e.Consumers), len(e.Tables))
	}
	return o
}

// reaches says that a producer has a channel to a consumer.
func (e *edge) reaches(producer, consumer int) bool {
	return e.Exchange != stream.Forward || producer == consumer
}

// Send hands rows on. stream.Output has the contract.
func (o *output) Send(ctx context.Context, b *batch.Batch) error {
	if o.ended {
		return errEnded
	}
	if b == nil || b.Rows == 0 {
		return nil
	}
	switch o.e.Exchange {
	case stream.Forward:
		return o.sendTo(ctx, o.producer, b)
	case stream.Rebalance:
		to := o.next
		if o.next++; o.next == o.targets.Len() {
			o.next = 0
		}
		return o.sendTo(ctx, to, b)
	case stream.Broadcast:
		return o.broadcast(ctx, b)
	case stream.Hash:
		return o.scatter(ctx, b)
	}
	return fmt.Errorf("BUG: exchange %q", o.e.Exchange)
}

// Flush sends what is gathered.
func (o *output) Flush(ctx context.Context) error {
	if o.hash == nil {
		return nil
	}
	return o.flushAll(ctx)
}

// Barrier flushes and sends a barrier to every consumer, once per worker.
func (o *output) Barrier(ctx context.Context, b checkpoint.Barrier) error {
	if err := o.Flush(ctx); err != nil {
		return err
	}
	return o.all(
		func(p *local.Port) error { return p.Barrier(b) },
		func(l *outLink, ln *lane) error { return l.barrier(ln, o.e.ID, o.producer, b) })
}

// End flushes and says that no more rows follow.
func (o *output) End(ctx context.Context) error {
	if o.ended {
		return nil
	}
	if err := o.Flush(ctx); err != nil {
		return err
	}
	o.ended = true
	return o.all((*local.Port).End,
		func(l *outLink, ln *lane) error { return l.end(ln, o.e.ID, o.producer) })
}

// all does one thing to every consumer here and one per worker elsewhere. Nothing of it needs credit.
func (o *output) all(here func(*local.Port) error, elsewhere func(*outLink, *lane) error) error {
	for _, c := range o.e.here {
		if !o.e.reaches(o.producer, c) {
			continue
		}
		if err := here(o.target(c).port); err != nil {
			return err
		}
	}
	for _, w := range o.e.elsewhere {
		if o.e.Exchange == stream.Forward && o.e.Consumers[o.producer] != w {
			continue
		}
		if err := elsewhere(o.a.outs[w], o.lanes[w]); err != nil {
			return err
		}
	}
	return nil
}

// target is a consumer; its channel is made on first use.
func (o *output) target(consumer int) *target {
	t := o.targets.Get(consumer)
	if t != nil {
		return t
	}
	t = &target{}
	w := o.e.Consumers[consumer]
	if w == o.a.s.cfg.Worker {
		t.port = o.e.inboxes[consumer].Port(o.e.channel(o.producer), nil)
	} else {
		t.out = o.a.outs[w]
		t.remote = t.out.open(wire.Open{Edge: o.e.ID, Producer: o.producer, Consumer: consumer}, o.lanes[w], len(o.e.Tables))
	}
	o.targets.Set(consumer, t)
	return t
}

// sendTo sends a batch to one consumer.
func (o *output) sendTo(ctx context.Context, consumer int, b *batch.Batch) error {
	t := o.target(consumer)
	if t.port != nil {
		return t.port.Send(ctx, b)
	}
	return o.split(b, func(b *batch.Batch) error {
		v := b.View(o.cols[:0])
		err := o.sendView(ctx, t, v)
		clear(v.Cols)
		o.cols = v.Cols
		return err
	})
}

// sendView encodes rows and sends them to one remote consumer.
func (o *output) sendView(ctx context.Context, t *target, v batch.View) error {
	buf, raw, err := o.encoder(t.out).EncodeView(v, t.remote.id)
	if err != nil {
		return o.tooLarge(err)
	}
	table := v.Schema.Index
	return t.remote.send(ctx, item{buf: buf}, raw, table, o.e.prints[table])
}

// broadcast sends a batch to every consumer. It is encoded once per codec.
func (o *output) broadcast(ctx context.Context, b *batch.Batch) error {
	for _, c := range o.e.here {
		if err := o.target(c).port.Send(ctx, b); err != nil {
			return err
		}
	}
	if len(o.e.elsewhere) == 0 {
		return nil
	}
	return o.split(b, func(b *batch.Batch) error { return o.broadcastPart(ctx, b) })
}

func (o *output) broadcastPart(ctx context.Context, b *batch.Batch) error {
	var shared [wire.CodecZstd + 1]*wire.Buffer
	var raws [wire.CodecZstd + 1]int64
	defer func() {
		for _, buf := range shared {
			if buf != nil {
				buf.Release()
			}
		}
	}()
	table := b.Schema.Index
	for c := range o.targets.Len() {
		if o.e.Consumers[c] == o.a.s.cfg.Worker {
			continue
		}
		t := o.target(c)
		codec := t.out.chosen()
		if shared[codec] == nil {
			buf, raw, err := o.encoder(t.out).Encode(b, 0)
			if err != nil {
				return o.tooLarge(err)
			}
			shared[codec], raws[codec] = buf, raw
		}
		buf := shared[codec]
		buf.Retain()
		it := item{buf: buf, shared: true, head: wire.Readdress(buf.B, t.remote.id)}
		if err := t.remote.send(ctx, it, raws[codec], table, o.e.prints[table]); err != nil {
			return err
		}
	}
	return nil
}

// frameTarget is the encoded size above which a batch is sent as several frames.
const frameTarget = 4 << 20

// split calls f with b, or with parts of it small enough for a frame.
func (o *output) split(b *batch.Batch, f func(*batch.Batch) error) error {
	if b.Rows == 1 || wire.EncodedBound(b) <= frameTarget {
		return f(b)
	}
	half := b.Rows / 2
	if err := o.split(b.Slice(0, half), f); err != nil {
		return err
	}
	return o.split(b.Slice(half, b.Rows), f)
}

// tooLarge tells of a row that no frame holds. It fails the attempt: the rows behind it must not arrive.
func (o *output) tooLarge(err error) error {
	return fmt.Errorf("producer %d of edge %d: %w; leave the large column out or split the value before the exchange", o.producer, o.e.ID, err)
}

// encoder is the encoder for the codec of a connection.
func (o *output) encoder(l *outLink) *wire.Encoder {
	codec := l.chosen()
	e := o.enc[codec]
	if e == nil {
		e = wire.NewEncoder(codec)
		o.enc[codec] = e
	}
	return e
}
