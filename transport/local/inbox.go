package local

import (
	"errors"
	"sync"

	"strait/transport/batch"
	"strait/transport/queue"
	"strait/transport/stream"
)

// ErrClosed is the cause of an inbox closed with a nil cause.
var ErrClosed = errors.New("channel closed")

// Frame is rows as they came over a connection. Decode is called once, by the consumer, unless Drop is.
type Frame interface {
	Decode() (*batch.Batch, error)
	Drop()
}

// Remote is the connection behind a port. Its methods are called with the inbox locked; they must not block
// and must not call back.
type Remote interface {
	Grant(bytes int64) // the producer may send so much more
	Recall()           // the producer is to give back what it does not use: Port.Returned
}

// Inbox is one consuming subtask's end of all channels of an edge. It is a stream.Input.
type Inbox struct {
	budget *Budget
	ready  chan struct{}
	done   chan struct{} // closed with the inbox

	mu      sync.Mutex
	ports   Pages[*Port]      // by channel; nil until first used
	ring    queue.Ring[*Port] // ports with elements, each at most once
	waiting queue.Ring[*Port] // ports that ask for room, each at most once, in order of asking
	parked  []*Port           // ports that asked while held
	held    []*Port
	limit   int64 // the reservation
	floor   int64
	sum     amounts // over all ports
	heldSum amounts // over held ports
	live    int     // remote ports that send
	idle    int     // remote ports that are recallable
	meter   meter
	cause   error
}

// amounts are bytes that a port takes of the reservation.
type amounts struct {
	lent   int64 // granted and not yet received; of a port it may be negative, of a sum it counts from zero up
	queued int64
}

func (a amounts) total() int64 { return a.lent + a.queued }

type entry struct {
	el    stream.Element
	frame Frame // instead of el.Batch
	bytes int64
}

// NewInbox makes the inbox of a consumer with that many channels. Its reservation comes out of budget and is
// given back by Close.
func NewInbox(channels int, floor int64, budget *Budget) *Inbox {
	floor = max(floor, 1)
	budget.force(floor)
	return &Inbox{
		budget: budget, limit: floor, floor: floor,
		ready: make(chan struct{}, 1), done: make(chan struct{}), ports: NewPages[*Port](channels),
	}
}

// Channels is the number of channels.
func (in *Inbox) Channels() int { return in.ports.Len() }

// Ready has a token whenever TryNext may give something new since it last gave nothing.
func (in *Inbox) Ready() <-chan struct{} { return in.ready }

// Port is the producers' end of a channel; r is nil for a producer of this process. It is made on first use.
func (in *Inbox) Port(channel int, r Remote) *Port {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.port(channel, r)
}

func (in *Inbox) port(channel int, r Remote) *Port {
	p := in.ports.Get(channel)
	if p == nil {
		p = &Port{in: in, channel: channel, wake: make(chan struct{}, 1)}
		in.ports.Set(channel, p)
	}
	if r != nil {
		p.remote = r
	}
	return p
}

// TryNext takes the next element; stream.Input has the contract.
func (in *Inbox) TryNext() (item stream.Item, ok bool, err error) {
	in.mu.Lock()
	if in.cause != nil {
		in.mu.Unlock()
		signal(in.ready) // whoever waits again learns it again
		return item, false, in.cause
	}
	var e entry
	for {
		p, any := in.ring.Pop()
		if !any {
			in.meter.dry = in.meter.dry || in.sum.lent > 0
			in.mu.Unlock()
			return item, false, nil
		}
		p.listed = false
		if p.held {
			continue // Release lists it again
		}
		e, _ = p.fifo.Pop()
		if p.fifo.Len() > 0 {
			p.listed = true
			in.ring.Push(p) // behind the others: no channel is preferred for long
		}
		item = stream.Item{Channel: p.channel, Element: e.el}
		if e.bytes > 0 {
			in.take(p, amounts{queued: -e.bytes})
			in.measure(e.bytes)
			in.pump()
		}
		break
	}
	in.mu.Unlock()
	if e.frame != nil {
		if item.Batch, err = e.frame.Decode(); err != nil {
			return stream.Item{}, false, err
		}
	}
	return item, true, nil
}

// Hold stops taking from a channel and lends it nothing more.
func (in *Inbox) Hold(channel int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	p := in.port(channel, nil)
	if p.held {
		return
	}
	p.held = true
	in.held = append(in.held, p)
	in.heldSum.lent += max(p.own.lent, 0)
	in.heldSum.queued += p.own.queued
	in.pump() // all memory may now lie in held ports
}

// Release takes from all channels again.
func (in *Inbox) Release() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, p := range in.held {
		p.held = false
		in.list(p)
	}
	in.held = in.held[:0]
	in.heldSum = amounts{}
	for _, p := range in.parked {
		if p.waiting {
			in.waiting.Push(p)
		}
	}
	in.parked = in.parked[:0]
	in.pump()
}

// Close drops what is queued, gives the reservation back and wakes everybody with cause. It is idempotent, the
// first cause stands.
func (in *Inbox) Close(cause error) {
	if cause == nil {
		cause = ErrClosed
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.cause != nil {
		return
	}
	in.cause = cause
	in.ports.Each(func(_ int, p *Port) {
		for p != nil && p.fifo.Len() > 0 {
			if e, _ := p.fifo.Pop(); e.frame != nil {
				e.frame.Drop()
			}
		}
	})
	in.ring.Clear()
	in.waiting.Clear()
	in.parked = nil
	in.budget.giveBack(in.limit)
	close(in.done)
	signal(in.ready)
}

// list makes a port's elements available to TryNext.
func (in *Inbox) list(p *Port) {
	if p.listed || p.held || p.fifo.Len() == 0 {
		return
	}
	p.listed = true
	in.ring.Push(p)
	signal(in.ready)
}

// take changes what a port has of the reservation.
func (in *Inbox) take(p *Port, by amounts) {
	before := max(p.own.lent, 0)
	if p.recallable() {
		in.idle--
	}
	p.own.lent += by.lent
	p.own.queued += by.queued
	if p.recallable() {
		in.idle++
	}
	lent := max(p.own.lent, 0) - before
	in.sum.lent += lent
	in.sum.queued += by.queued
	if p.held {
		in.heldSum.lent += lent
		in.heldSum.queued += by.queued
	}
}

// room says that one more frame may be lent to a port that is not held. Invariant 6: by one frame only, when
// the reservation is used up by held ports.
func (in *Inbox) room() bool {
	return in.sum.total() < in.limit || in.sum.total() == in.heldSum.total()
}

// ask queues a port for room, once.
func (in *Inbox) ask(p *Port) {
	if !p.waiting {
		p.waiting = true
		in.waiting.Push(p)
	}
}

// pump lends to the ports that wait, in their order.
func (in *Inbox) pump() {
	for {
		p, any := in.waiting.Peek()
		if !any {
			return
		}
		switch {
		case !p.waiting: // gave up
			in.waiting.Pop()
		case p.held:
			in.waiting.Pop()
			in.parked = append(in.parked, p)
		case !in.room():
			in.recall(p)
			return
		default:
			in.waiting.Pop()
			p.waiting = false
			in.lend(p)
		}
	}
}

// lend gives a port at the head of the line what it asks for, or what is left.
func (in *Inbox) lend(p *Port) {
	left := max(in.limit-in.sum.total(), 1)
	if p.remote == nil {
		in.take(p, amounts{lent: p.want}) // exactly the batch in hand, whatever its size
		p.granted = true
		signal(p.wake)
		return
	}
	give := min(in.level(p)-max(p.own.lent, 0), left)
	if give <= 0 {
		return
	}
	give += max(-p.own.lent, 0) // debt of a frame larger than its credit
	in.take(p, amounts{lent: give})
	p.remote.Grant(give)
}

// level is the credit that a remote port should have in hand: the frame announced or, while there is plenty, its
// share of the reservation, a share for a newcomer left out.
func (in *Inbox) level(p *Port) int64 { return max(p.want, in.limit/int64(in.live+1)) }

// recall asks for credit back that lies idle while p starves and nothing is left to take that would free room.
func (in *Inbox) recall(p *Port) {
	if in.sum.queued > in.heldSum.queued || in.idle == 0 {
		return
	}
	in.ports.Each(func(_ int, q *Port) {
		if q != nil && q != p && q.recallable() {
			q.recalled = true
			in.idle--
			q.remote.Recall()
		}
	})
}

// recallable says that a recall of the port's credit may give something.
func (p *Port) recallable() bool { return p.remote != nil && p.own.lent > 0 && !p.recalled }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
