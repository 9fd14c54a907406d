package task

import (
	"context"

	"strait/plan/physical"
	"strait/plan/state"
	"strait/transport/stream"
)

// inputHead takes from the edges that lead to a group. It prefers none of them.
type inputHead struct {
	g     *group
	ends  []inputEnd
	turn  int
	align *aligner
	open  []bool // by channel over all edges: End has not come
	left  int    // channels that are open
}

// inputEnd is one edge: its channels are numbered from first on among those of the group, its tables from tables on
// among those of the first vertex.
type inputEnd struct {
	stream.Input
	first  int
	tables int
}

func newInputHead(g *group, net Net) *inputHead {
	h := &inputHead{g: g}
	channels, tables := 0, 0
	for _, id := range g.chain.Inputs {
		in := net.Input(id, g.id.Index)
		h.ends = append(h.ends, inputEnd{Input: in, first: channels, tables: tables})
		channels += in.Channels()
		tables += len(edgeOf(g.a.cfg.Pipeline, id).Tables)
	}
	h.open, h.left = make([]bool, channels), channels
	for i := range h.open {
		h.open[i] = true
	}
	h.align = newAligner(h, channels)
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
	return false, nil
}

func (h *inputHead) take(ctx context.Context, e *inputEnd, item stream.Item) error {
	channel := e.first + item.Channel
	switch item.Kind {
	case stream.Rows:
		b := item.Batch
		if e.tables > 0 { // the tables of this edge come behind those of others
			moved := *b
			s := *b.Schema
			s.Index += e.tables
			moved.Schema = &s
			b = &moved
		}
		return h.g.pass(ctx, b, b.Bytes())
	case stream.Barrier:
		if h.align.arrive(channel, item.Barrier) {
			return h.g.barrier(ctx, item.Barrier)
		}
	case stream.End:
		if h.open[channel] {
			h.open[channel] = false
			if h.left--; h.left == 0 && h.g.state() == state.TaskRunning {
				return h.g.end(ctx)
			}
		}
	}
	return nil
}

func edgeOf(p *physical.Pipeline, id int) *physical.Edge {
	for _, e := range p.Edges {
		if e.ID == id {
			return e
		}
	}
	panic("BUG: a chain names an edge that the plan does not have")
}
