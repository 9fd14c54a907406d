package local

import (
	"context"

	"strait/checkpoint"
	"strait/transport/batch"
	"strait/transport/queue"
	"strait/transport/stream"
)

// Port is the producers' end of one channel of an inbox. One goroutine pushes into it.
type Port struct {
	in      *Inbox
	channel int
	wake    chan struct{} // local: the grant is there

	// All below is guarded by in.mu.
	remote   Remote // nil: local
	fifo     queue.Ring[entry]
	own      amounts
	want     int64 // size of the frame in hand, or of the last one
	listed   bool  // in in.ring
	held     bool
	waiting  bool // in in.waiting or in.parked
	granted  bool // local: room for want is lent
	recalled bool // remote: Recall was sent and not answered
	ended    bool
}

// Send hands a batch over without copying it. It blocks while the reservation is used up, until ctx ends or
// the inbox is closed. It is for producers of this process.
func (p *Port) Send(ctx context.Context, b *batch.Batch) error {
	in, bytes := p.in, max(b.Bytes(), 1)
	in.mu.Lock()
	if in.cause != nil {
		in.mu.Unlock()
		return in.cause
	}
	// Who comes while others wait stands in line, or a busy producer would starve them.
	if p.held || in.waiting.Len() > 0 || !in.room() {
		p.want = bytes
		in.ask(p)
		in.pump()
		for !p.granted {
			in.mu.Unlock()
			var err error
			select {
			case <-p.wake:
			case <-in.done:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
			in.mu.Lock()
			if in.cause != nil {
				err = in.cause
			}
			if err != nil {
				p.waiting = false // its place in line is skipped
				if p.granted {
					p.granted = false
					in.take(p, amounts{lent: -bytes})
					in.pump()
				}
				in.mu.Unlock()
				return err
			}
		}
		p.granted = false
		in.take(p, amounts{lent: -bytes})
	}
	in.take(p, amounts{queued: bytes})
	p.fifo.Push(entry{el: stream.Element{Kind: stream.Rows, Batch: b}, bytes: bytes})
	in.list(p)
	in.mu.Unlock()
	return nil
}

// Barrier appends a barrier. It needs no room.
func (p *Port) Barrier(b checkpoint.Barrier) error {
	return p.append(stream.Element{Kind: stream.Barrier, Barrier: b})
}

// End says that no more rows follow. It needs no room. Credit that a remote producer still has is void.
func (p *Port) End() error { return p.append(stream.Element{Kind: stream.End}) }

func (p *Port) append(el stream.Element) error {
	in := p.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.cause != nil {
		return in.cause
	}
	p.fifo.Push(entry{el: el})
	in.list(p)
	if el.Kind == stream.End && !p.ended {
		p.ended = true
		p.waiting = false
		if p.remote != nil {
			in.take(p, amounts{lent: -p.own.lent})
			in.sleep(p)
		}
		in.pump()
	}
	return nil
}

// Deliver appends a frame that came over the connection and costs that many bytes of credit. It never blocks:
// the room was lent before. ok is false when the inbox is closed; the frame stays the caller's then.
func (p *Port) Deliver(f Frame, bytes int64) (ok bool) {
	in := p.in
	bytes = max(bytes, 1)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.cause != nil {
		return false
	}
	in.take(p, amounts{lent: -bytes, queued: bytes})
	p.fifo.Push(entry{el: stream.Element{Kind: stream.Rows}, frame: f, bytes: bytes})
	in.list(p)
	in.wakeUp(p, bytes)
	if p.own.lent < in.level(p)/2 { // who has just sent is assumed to go on
		in.ask(p)
	}
	in.pump()
	return true
}

// Credit is what the producer behind the connection may still send, as far as this end knows.
func (p *Port) Credit() int64 {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	return p.own.lent
}

// Announce says that the producer behind the connection has that many bytes waiting and no credit.
func (p *Port) Announce(bytes int64) {
	in := p.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.cause != nil || p.ended {
		return
	}
	in.wakeUp(p, max(bytes, 1))
	if p.own.lent <= 0 { // else a grant is on its way
		in.ask(p)
	}
	in.pump()
}

// Returned takes back credit that the producer behind the connection does not use: the answer to a recall.
func (p *Port) Returned(bytes int64) {
	in := p.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if p.recalled {
		p.recalled = false
		if p.recallable() {
			in.idle++
		}
	}
	if in.cause != nil || p.ended {
		return
	}
	in.take(p, amounts{lent: -bytes})
	if !p.waiting {
		in.sleep(p)
	}
	in.pump()
}

// wakeUp notes what a remote port asks for.
func (in *Inbox) wakeUp(p *Port, want int64) {
	if p.want == 0 {
		in.live++
	}
	p.want = want
}

// sleep notes that a remote port asks for nothing.
func (in *Inbox) sleep(p *Port) {
	if p.want != 0 {
		p.want = 0
		in.live--
	}
}
