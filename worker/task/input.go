package task

import (
	"context"

	"strait/checkpoint/align"
	"strait/plan"
	"strait/plan/physical"
	"strait/transport/batch"
	"strait/transport/stream"
)

// inputHead takes from the edges that lead to a group. It prefers none of them.
type inputHead struct {
	g     *group
	ends  []inputEnd
	turn  int
	align *align.Aligner
	large large
}

// inputEnd is one edge: its channels are numbered from first on among those of the group, its tables from tables on
// among those of the first vertex.
type inputEnd struct {
	stream.Input
	first  int
	tables int
}

func newInputHead(g *group, net Net) *inputHead {
	h := &inputHead{g: g, large: g.a.newLarge(g.chain.ID)}
	channels, tables := 0, 0
	for _, id := range g.chain.Inputs {
		in := net.Input(id, g.id.Index)
		h.ends = append(h.ends, inputEnd{Input: in, first: channels, tables: tables})
		channels += in.Channels()
		tables += len(edgeOf(g.a.cfg.Pipeline, id).Tables)
	}
	h.align = align.New(channels)
	return h
}

// start watches the inputs behind the first: the loop waits on one channel only.
func (h *inputHead) start() error {
	for _, e := range h.ends[1:] {
		ok := h.g.a.goes(func() {
			for {
				select {
				case <-e.Ready():
					h.g.ctl.wake()
				case <-h.g.a.ctx.Done():
					return
				}
			}
		})
		if !ok {
			return errStopped
		}
	}
	return nil
}

func (h *inputHead) ready() <-chan struct{} { return h.ends[0].Ready() }

// end finds the edge that a channel of the group belongs to, and the channel's number there.
func (h *inputHead) end(channel int) (*inputEnd, int) {
	for i := len(h.ends) - 1; i >= 0; i-- {
		if e := &h.ends[i]; channel >= e.first {
			return e, channel - e.first
		}
	}
	panic("BUG: no such channel")
}

func (h *inputHead) hold(channel int) {
	e, c := h.end(channel)
	e.Hold(c)
}

func (h *inputHead) release() {
	for i := range h.ends {
		h.ends[i].Release()
	}
}

// move takes one element from the inputs in turn.
func (h *inputHead) move(ctx context.Context) (bool, error) {
	if err := h.large.expect(ctx); err != nil {
		return false, err
	}
	for range h.ends {
		e := &h.ends[h.turn]
		if h.turn++; h.turn == len(h.ends) {
			h.turn = 0
		}
		item, ok, err := e.TryNext()
		if err != nil {
			return false, err
		}
		if ok {
			return true, h.take(ctx, e, item)
		}
	}
	h.large.none()
	return false, nil
}

func (h *inputHead) take(ctx context.Context, e *inputEnd, item stream.Item) error {
	channel := e.first + item.Channel
	v, err := h.align.Step(channel, item.Element)
	if err != nil {
		return err
	}
	if v.Release {
		h.release()
	}
	if v.Action != align.Deliver || item.Kind != stream.Rows {
		h.large.none()
	}
	switch v.Action {
	case align.Hold:
		h.hold(channel)
	case align.Complete:
		return h.g.barrier(ctx, v.Barrier)
	case align.Deliver:
		if item.Kind == stream.Rows {
			b := item.Batch
			if e.tables > 0 { // the tables of this edge come behind those of others
				b = renumber(b, e.tables)
			}
			bytes := b.Bytes()
			held, err := h.large.take(ctx, bytes)
			if err != nil {
				return err
			}
			err = h.g.pass(ctx, b, bytes)
			h.large.giveBack(held)
			return err
		}
		if v.Ended {
			return h.g.end(ctx)
		}
	}
	return nil
}

// abort drops an alignment that will not complete.
func (h *inputHead) abort(n plan.CheckpointID) {
	if h.align.Abort(n) {
		h.release()
	}
}

// renumber gives a batch of a later edge the place of its table among all that come in.
func renumber(b *batch.Batch, by int) *batch.Batch {
	moved, s := *b, *b.Schema
	s.Index += by
	moved.Schema = &s
	return &moved
}

func edgeOf(p *physical.Pipeline, id int) *physical.Edge {
	for _, e := range p.Edges {
		if e.ID == id {
			return e
		}
	}
	panic("BUG: a chain names an edge that the plan does not have")
}
