package shuffle

import (
	"fmt"
	"net"
	"sync/atomic"

	"strait/transport/batch"
	"strait/transport/local"
	"strait/transport/wire"
)

// inLink is the accepting end: frames come in through it and go into the inboxes; credit leaves.
type inLink struct {
	link
	connected chan struct{} // closed when the peer's hello was accepted
	channels  []*inChannel  // reader only
	received  atomic.Int64  // data frames
}

// inChannel is the receiving end of one channel. It is the local.Remote of its port.
type inChannel struct {
	l        *inLink
	id       uint32
	e        *edge
	producer int
	consumer int
	port     *local.Port
	schemas  []bool // tables whose fingerprint was compared
}

func newInLink(a *Attempt, peer string) *inLink {
	return &inLink{link: newLink(a, peer), connected: make(chan struct{})}
}

// attach gives an accepted connection to the link from that peer and counts its goroutine; run ends it.
func (a *Attempt) attach(peer string, conn net.Conn) (*inLink, error) {
	l := a.ins[peer]
	if l == nil {
		return nil, fmt.Errorf("worker %s is no peer in %s", peer, describe(a.cfg.Key))
	}
	if !a.enter() {
		return nil, a.Cause()
	}
	if !l.use(conn) {
		a.leave()
		return nil, fmt.Errorf("worker %s is connected already in %s", peer, describe(a.cfg.Key))
	}
	close(l.connected)
	return l, nil
}

// run serves the connection until it ends.
func (l *inLink) run() {
	defer l.a.leave()
	l.serve(l.handle)
}

// handle takes what the dialling end says.
func (l *inLink) handle(h wire.Header, r *wire.Reader) error {
	if h.Kind == wire.KindData {
		return l.data(h, r)
	}
	p, err := r.Small(h)
	if err != nil {
		return err
	}
	switch h.Kind {
	case wire.KindOpen:
		return l.open(h.Channel, wire.ParseOpen(p))
	case wire.KindBarrier:
		edge, producer, b, err := wire.ParseBarrier(p)
		if err != nil {
			return err
		}
		return l.each(edge, producer, func(port *local.Port) error { return port.Barrier(b) })
	case wire.KindEnd:
		edge, producer := wire.ParseEnd(p)
		return l.each(edge, producer, (*local.Port).End)
	case wire.KindControl:
		if f := l.a.cfg.OnControl; f != nil && l.a.Cause() == nil {
			f(l.peer, append([]byte(nil), p...))
		}
		return nil
	case wire.KindSchema, wire.KindAnnounce, wire.KindReturn:
	default:
		return fmt.Errorf("%w: a %s frame from the sending end", wire.ErrCorrupt, h.Kind)
	}
	c, err := l.channel(h)
	if err != nil {
		return err
	}
	if h.Kind == wire.KindSchema {
		return c.schema(wire.ParseSchema(p))
	}
	n, err := wire.ParseBytes(p)
	if err != nil {
		return err
	}
	if h.Kind == wire.KindAnnounce {
		c.port.Announce(n)
	} else {
		c.port.Returned(n)
	}
	return nil
}

func (l *inLink) channel(h wire.Header) (*inChannel, error) {
	if int(h.Channel) >= len(l.channels) {
		return nil, fmt.Errorf("%w: a %s frame on channel %d of %d", wire.ErrCorrupt, h.Kind, h.Channel, len(l.channels))
	}
	return l.channels[h.Channel], nil
}

// produced finds an edge by a frame and checks that its producer is on the peer.
func (l *inLink) produced(id, producer int) (*edge, error) {
	e := l.a.edges[id]
	if e == nil || producer < 0 || producer >= len(e.Producers) || e.Producers[producer] != l.peer {
		return nil, fmt.Errorf("%w: producer %d of edge %d is not on worker %s", wire.ErrCorrupt, producer, id, l.peer)
	}
	return e, nil
}

// open takes the next channel number.
func (l *inLink) open(id uint32, o wire.Open) error {
	e, err := l.produced(o.Edge, o.Producer)
	if err != nil {
		return err
	}
	in := e.inboxes[o.Consumer]
	if in == nil || int(id) != len(l.channels) {
		return fmt.Errorf("%w: channel %d of %d opened to consumer %d of edge %d", wire.ErrCorrupt, id, len(l.channels), o.Consumer, o.Edge)
	}
	c := &inChannel{l: l, id: id, e: e, producer: o.Producer, consumer: o.Consumer, schemas: make([]bool, len(e.Tables))}
	c.port = in.Port(e.channel(o.Producer), c)
	l.channels = append(l.channels, c)
	return nil
}

// each does f to the ports of a producer at all its consumers here.
func (l *inLink) each(id, producer int, f func(*local.Port) error) error {
	e, err := l.produced(id, producer)
	if err != nil {
		return err
	}
	for _, consumer := range e.here {
		if !e.reaches(producer, consumer) {
			continue
		}
		if f(e.inboxes[consumer].Port(e.channel(producer), nil)) != nil {
			return nil // closed with the attempt, which has its cause
		}
	}
	return nil
}

// data puts a data frame into its inbox. It never blocks: the memory was granted before.
func (l *inLink) data(h wire.Header, r *wire.Reader) error {
	d, err := r.Data(h)
	if err != nil {
		return err
	}
	l.received.Add(1)
	c, err := l.channel(h)
	if err == nil && (d.Table >= len(c.schemas) || !c.schemas[d.Table]) {
		err = fmt.Errorf("%w: rows of table %d on channel %d before its schema", wire.ErrCorrupt, d.Table, h.Channel)
	}
	if err == nil && c.port.Credit() <= 0 {
		err = fmt.Errorf("%w: %d bytes on channel %d without credit", wire.ErrCorrupt, d.Raw, h.Channel)
	}
	if err != nil {
		d.Drop()
		return err
	}
	if !c.port.Deliver(&received{c, d}, d.Raw) {
		d.Drop()
	}
	return nil
}

// schema compares the fingerprint of a table, once per channel.
func (c *inChannel) schema(table int, print uint64) error {
	if table < 0 || table >= len(c.e.Tables) || c.e.prints[table] != print {
		return fmt.Errorf("worker %s sends another schema of table %d on edge %d than this worker expects; both must have the same plan", c.l.peer, table, c.e.ID)
	}
	c.schemas[table] = true
	return nil
}

// Grant sends credit. It is called with the inbox locked; the frame is only queued.
func (c *inChannel) Grant(bytes int64) {
	c.l.mu.Lock()
	c.l.ctl = wire.AppendBytes(c.l.ctl, wire.KindCredit, c.id, bytes)
	c.l.mu.Unlock()
	signal(c.l.wake)
}

// Recall asks for unused credit.
func (c *inChannel) Recall() {
	c.l.mu.Lock()
	c.l.ctl = wire.AppendFrame(c.l.ctl, wire.KindRecall, c.id, nil)
	c.l.mu.Unlock()
	signal(c.l.wake)
}

// received is a data frame in an inbox.
type received struct {
	c *inChannel
	d *wire.Data
}

// Decode makes the batch. A frame that does not decode fails the attempt.
func (r *received) Decode() (*batch.Batch, error) {
	b, err := r.d.Decode(r.c.e.Tables[r.d.Table])
	if err == nil {
		return b, nil
	}
	r.c.l.a.fail(r.c.l.peer, fmt.Errorf("rows from worker %s, producer %d of edge %d to consumer %d: %w", r.c.l.peer, r.c.producer, r.c.e.ID, r.c.consumer, err))
	return nil, r.c.l.a.Cause()
}

// Drop gives the frame's buffer back.
func (r *received) Drop() { r.d.Drop() }
