package shuffle

import (
	"context"

	"strait/transport/batch"
	"strait/transport/local"
)

// When gathered rows of one destination leave: whatever comes first, also Flush and a barrier.
const (
	gatherRows  = 1024
	gatherBytes = 256 << 10
	gatherMost  = 16 << 20 // over all destinations of one producer; past it everything leaves
)

// hashing is the scatter step of a hash exchange: rows are hashed per batch, sorted by consumer with a counting
// sort, and gathered per consumer and table.
type hashing struct {
	consumers int
	hashes    []uint64
	to        []uint32 // consumer of each row
	starts    []int32  // per consumer: where its rows begin in rows; one more at the end
	rows      []int32
	gathered  []local.Pages[*batch.Gatherer] // by table, by consumer; nil where nothing is gathered since the last flushAll
	spare     [][]*batch.Gatherer            // by table: empty ones, for the next consumers that get rows
	dirty     []bucket                       // those with rows, in order of first row
	held      int64                          // bytes in them, as of the last look
}

// spareMost bounds the empty gatherers that a producer keeps of a table. Idle pairs of a wide edge keep none.
const spareMost = 64

// bucket names the rows of one table gathered for one consumer.
type bucket struct{ table, consumer int }

func newHashing(consumers, tables int) *hashing {
	h := &hashing{consumers: consumers, gathered: make([]local.Pages[*batch.Gatherer], tables), spare: make([][]*batch.Gatherer, tables)}
	for i := range h.gathered {
		h.gathered[i] = local.NewPages[*batch.Gatherer](consumers)
	}
	return h
}

// scatter sends each row to the consumer that its key belongs to. Rows of one key keep their order: they all
// pass through one bucket. Different tables of one consumer may overtake each other, as they share no key.
func (o *output) scatter(ctx context.Context, b *batch.Batch) error {
	h, keys := o.hash, o.e.Keys[b.Schema.Index]
	if len(keys) == 0 { // no key: each producer keeps to one consumer
		return o.sendTo(ctx, o.producer%h.consumers, b)
	}
	if h.consumers == 1 {
		return o.sendTo(ctx, 0, b)
	}
	h.sort(b, keys)
	table := b.Schema.Index
	buckets := &h.gathered[table]
	for c := range h.consumers {
		rows := h.rows[h.starts[c]:h.starts[c+1]]
		if len(rows) == 0 {
			continue
		}
		g := buckets.Get(c)
		if g == nil {
			g = h.take(b.Schema)
			buckets.Set(c, g)
		}
		if g.Rows() == 0 {
			h.dirty = append(h.dirty, bucket{table, c})
		}
		before := g.Bytes()
		g.Append(b, rows)
		bytes := g.Bytes()
		h.held += bytes - before
		if g.Rows() >= gatherRows || bytes >= gatherBytes {
			if err := o.flush(ctx, g, c); err != nil {
				return err
			}
		}
	}
	if h.held >= o.a.memory.Gather {
		return o.flushAll(ctx)
	}
	h.tidy()
	return nil
}

// sort computes rows and starts: the rows of consumer c are rows[starts[c]:starts[c+1]], ascending.
func (h *hashing) sort(b *batch.Batch, keys []int) {
	h.hashes = batch.Hash(h.hashes[:0], b, keys)
	if cap(h.to) < b.Rows {
		h.to, h.rows = make([]uint32, b.Rows), make([]int32, b.Rows)
	}
	h.to, h.rows = h.to[:b.Rows], h.rows[:b.Rows]
	if h.starts == nil {
		h.starts = make([]int32, h.consumers+1)
	}
	clear(h.starts)
	n := uint64(h.consumers)
	starts := h.starts[1:]
	for i, v := range h.hashes {
		c := uint32((v >> (64 - 15)) * n >> 15) // batch.GroupOwner(batch.KeyGroup(v), n)
		h.to[i] = c
		starts[c]++
	}
	sum := int32(0)
	for c, k := range starts {
		starts[c] = sum // while filling, the end of c-1 and the next free place of c
		sum += k
	}
	for i, c := range h.to {
		h.rows[starts[c]] = int32(i)
		starts[c]++
	}
}

// flush sends what is gathered in one bucket.
func (o *output) flush(ctx context.Context, g *batch.Gatherer, consumer int) error {
	if g.Rows() == 0 {
		return nil
	}
	bytes := g.Bytes()
	o.hash.held -= bytes
	t := o.target(consumer)
	if t.port != nil {
		return t.port.Send(ctx, g.Take()) // the batch keeps the memory
	}
	var err error
	if v := g.View(); bytes <= frameTarget/2 {
		err = o.sendView(ctx, t, v)
	} else { // a few large rows: cut into frames
		err = o.sendTo(ctx, consumer, g.Peek())
	}
	// Both have copied. A bucket keeps its memory unless those of all consumers together would keep too much.
	if bytes*int64(o.hash.consumers) <= o.a.memory.Gather {
		g.Reset()
	} else {
		g.Drop()
	}
	return err
}

// flushAll sends everything gathered.
func (o *output) flushAll(ctx context.Context) error {
	h := o.hash
	for _, d := range h.dirty {
		g := h.gathered[d.table].Get(d.consumer)
		if g == nil {
			continue // listed twice
		}
		if err := o.flush(ctx, g, d.consumer); err != nil {
			return err
		}
		h.gathered[d.table].Set(d.consumer, nil)
		if len(h.spare[d.table]) < spareMost {
			h.spare[d.table] = append(h.spare[d.table], g)
		}
	}
	h.dirty, h.held = h.dirty[:0], 0
	return nil
}

// take gives an empty gatherer of a table.
func (h *hashing) take(s *batch.Schema) *batch.Gatherer {
	spare := h.spare[s.Index]
	if len(spare) == 0 {
		return batch.NewGatherer(s)
	}
	g := spare[len(spare)-1]
	spare[len(spare)-1] = nil
	h.spare[s.Index] = spare[:len(spare)-1]
	return g
}

// tidy keeps dirty to one entry per bucket that may have rows.
func (h *hashing) tidy() {
	if len(h.dirty) < 4*h.consumers+64 {
		return
	}
	keep := h.dirty[:0]
	seen := map[bucket]bool{}
	for _, d := range h.dirty {
		if g := h.gathered[d.table].Get(d.consumer); !seen[d] && g != nil && g.Rows() > 0 {
			seen[d] = true
			keep = append(keep, d)
		}
	}
	h.dirty = keep
}
