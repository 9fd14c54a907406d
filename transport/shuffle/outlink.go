package shuffle

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"strait/checkpoint"
	"strait/transport/wire"
)

// outLink is the dialling end: rows, barriers and control frames leave through it, credit comes back.
type outLink struct {
	link
	addr     string
	codec    atomic.Uint32 // a wire.Codec, once connected
	waited   atomic.Int64  // ns that producers waited for credit or for room in the queue, summed
	channels []*outChannel
}

// outChannel is the sending end of one channel to one consumer. It is made on first use.
type outChannel struct {
	l    *outLink
	lane *lane
	wake chan struct{}
	id   uint32

	// Guarded by l.mu.
	credit    int64
	announced bool
	schemas   []bool // tables whose schema frame was sent
}

func newOutLink(a *Attempt, peer, addr string) *outLink {
	return &outLink{link: newLink(a, peer), addr: addr}
}

// run serves the connection until it ends.
func (l *outLink) run() { l.serve(l.handle) }

// handle takes what the accepting end says.
func (l *outLink) handle(h wire.Header, r *wire.Reader) error {
	switch h.Kind {
	case wire.KindCredit, wire.KindRecall:
	default:
		return fmt.Errorf("%w: a %s frame from the receiving end", wire.ErrCorrupt, h.Kind)
	}
	p, err := r.Small(h)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(h.Channel) >= len(l.channels) {
		return fmt.Errorf("%w: %s for channel %d of %d", wire.ErrCorrupt, h.Kind, h.Channel, len(l.channels))
	}
	c := l.channels[h.Channel]
	if h.Kind == wire.KindRecall {
		unused := max(c.credit, 0)
		c.credit -= unused
		l.ctl = wire.AppendBytes(l.ctl, wire.KindReturn, c.id, unused)
		signal(l.wake)
		return nil
	}
	n, err := wire.ParseBytes(p)
	if err != nil {
		return err
	}
	c.credit += n
	if c.credit > 0 {
		c.announced = false
		signal(c.wake)
	}
	return nil
}

// control queues a control frame.
func (l *outLink) control(frame []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return l.a.Cause()
	case l.left != nil:
		return l.left
	case len(l.ctl) > controlMost:
		return fmt.Errorf("control frames to worker %s are not taken: %d bytes are queued", l.peer, len(l.ctl))
	}
	l.ctl = wire.AppendFrame(l.ctl, wire.KindControl, 0, frame)
	signal(l.wake)
	return nil
}

// open makes the channel from a producer to one consumer. The caller may be any goroutine.
func (l *outLink) open(o wire.Open, ln *lane, tables int) *outChannel {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &outChannel{l: l, lane: ln, wake: make(chan struct{}, 1), id: uint32(len(l.channels)), schemas: make([]bool, tables)}
	l.channels = append(l.channels, c)
	l.ctl = wire.AppendOpen(l.ctl, c.id, o)
	signal(l.wake)
	return c
}

// send queues a data frame as soon as there is credit, whatever the frame's size. It takes the frame over, also
// with an error. print is the fingerprint of the frame's table.
func (c *outChannel) send(ctx context.Context, it item, raw int64, table int, print uint64) error {
	l := c.l
	l.mu.Lock()
	for {
		if err := l.ended(); err != nil {
			l.mu.Unlock()
			it.buf.Release()
			return err
		}
		if c.credit > 0 {
			if l.queued < l.a.memory.Link {
				break
			}
			l.blocked = append(l.blocked, c)
		} else if !c.announced {
			c.announced = true
			l.ctl = wire.AppendBytes(l.ctl, wire.KindAnnounce, c.id, raw)
			signal(l.wake)
		}
		l.mu.Unlock()
		began := time.Now()
		var err error
		select {
		case <-c.wake:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-l.a.done:
			err = l.a.Cause()
		case <-l.gone: // said by ended
		}
		l.waited.Add(int64(time.Since(began)))
		if err != nil {
			it.buf.Release()
			return err
		}
		l.mu.Lock()
	}
	if !c.schemas[table] {
		c.schemas[table] = true
		l.ctl = wire.AppendSchema(l.ctl, c.id, table, print) // written before any lane
	}
	c.credit -= raw
	l.push(c.lane, it)
	l.mu.Unlock()
	return nil
}

// ended says why nothing can be sent. The caller holds l.mu.
func (l *outLink) ended() error {
	if l.closed {
		return l.a.Cause()
	}
	return l.left
}

// barrier queues a barrier of a producer for all its consumers on the peer. It needs no credit.
func (l *outLink) barrier(ln *lane, edge, producer int, b checkpoint.Barrier) error {
	return l.small(ln, wire.AppendBarrier(nil, edge, producer, b))
}

// end queues the end of a producer's rows for all its consumers on the peer.
func (l *outLink) end(ln *lane, edge, producer int) error {
	return l.small(ln, wire.AppendEnd(nil, edge, producer))
}

func (l *outLink) small(ln *lane, frame []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ended(); err != nil {
		return err
	}
	l.push(ln, item{small: frame})
	return nil
}

// chosen is the codec of the connection; none until there is one.
func (l *outLink) chosen() wire.Codec { return wire.Codec(l.codec.Load()) }
