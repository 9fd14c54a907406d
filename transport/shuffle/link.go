package shuffle

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"strait/transport/queue"
	"strait/transport/wire"
)

// link is one end of the connection between two workers in one direction: what both ends have in common. The
// reader and the writer are a goroutine each; the reader never blocks on anything but the connection.
type link struct {
	a      *Attempt
	peer   string
	wake   chan struct{} // a token when there is something to write
	gone   chan struct{} // closed when the connection has ended
	silent time.Duration

	mu      sync.Mutex
	conn    net.Conn
	closed  bool  // the attempt has ended
	left    error // the peer has left in order; nothing can be sent any more
	ctl     []byte
	spare   []byte
	urgent  queue.Ring[*lane] // lanes with a barrier or an end in them
	normal  queue.Ring[*lane]
	queued  int64                           // bytes in lanes and in the write in hand
	blocked []*outChannel                   // wait for queued to fall
	frames  int64                           // data frames taken for writing
	lastSet struct{ read, write time.Time } // when deadlines were set; each belongs to its goroutine

	bytes struct{ in, out atomic.Int64 } // as on the wire

	iov   net.Buffers // writer only
	taken []item      // writer only
}

// Limits of a link.
const (
	linkMost    = 4 << 20 // bytes of data frames queued for a connection before producers wait
	writeMost   = 1 << 20 // bytes of data frames in one write
	writeFrames = 64      // data frames in one write
	controlMost = 4 << 20 // bytes of control frames queued
	farewell    = 300 * time.Millisecond
)

// lane is what one producing subtask has queued for one connection. Order within it is kept; lanes take turns,
// but one with a barrier goes first: invariant 6, a barrier waits at most for bytes granted on its own channel.
type lane struct {
	fifo   queue.Ring[item]
	smalls int  // barriers and ends in fifo
	listed bool // in normal
	urgent bool // in urgent
}

// item is a frame in a lane.
type item struct {
	buf    *wire.Buffer
	shared bool // the header in head stands for the one in buf, whose payload others send too
	head   [wire.HeaderLen]byte
	small  []byte // a barrier or an end, instead of buf
}

func (it *item) size() int64 {
	if it.small != nil {
		return int64(len(it.small))
	}
	return int64(len(it.buf.B))
}

func newLink(a *Attempt, peer string) link {
	return link{a: a, peer: peer, wake: make(chan struct{}, 1), gone: make(chan struct{}), silent: a.s.cfg.SilentAfter}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// use takes a connection, once; false when the attempt has ended or there is one already.
func (l *link) use(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.conn != nil {
		return false
	}
	l.conn = conn
	return true
}

// close makes both goroutines come to an end soon: the writer says stop, the reader listens on for a moment.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.conn != nil {
		l.conn.SetDeadline(time.Now().Add(farewell))
	}
}

// send queues small frames that append makes, ahead of all rows.
func (l *link) send(append func(dst []byte) []byte) {
	l.mu.Lock()
	l.ctl = append(l.ctl)
	l.mu.Unlock()
	signal(l.wake)
}

// push queues a frame in a lane. The caller holds l.mu.
func (l *link) push(ln *lane, it item) {
	ln.fifo.Push(it)
	l.queued += it.size()
	if it.small != nil {
		ln.smalls++
		if !ln.urgent {
			ln.urgent = true
			l.urgent.Push(ln)
		}
	} else if !ln.urgent && !ln.listed {
		ln.listed = true
		l.normal.Push(ln)
	}
	signal(l.wake)
}

// pop takes the next frame in turn. The caller holds l.mu.
func (l *link) pop() (item, bool) {
	if ln, ok := l.urgent.Peek(); ok {
		it, _ := ln.fifo.Pop()
		if it.small != nil {
			if ln.smalls--; ln.smalls == 0 {
				l.urgent.Pop()
				ln.urgent = false
				if ln.fifo.Len() > 0 && !ln.listed {
					ln.listed = true
					l.normal.Push(ln)
				}
			}
		}
		return it, true
	}
	for {
		ln, ok := l.normal.Pop()
		if !ok {
			return item{}, false
		}
		ln.listed = false
		it, ok := ln.fifo.Pop()
		if !ok {
			continue
		}
		if ln.fifo.Len() > 0 {
			ln.listed = true
			l.normal.Push(ln)
		}
		return it, true
	}
}

// serve reads and writes until the connection or the attempt ends; handle gets every frame but ping and stop.
func (l *link) serve(handle func(h wire.Header, r *wire.Reader) error) {
	written := make(chan struct{})
	go func() { // ends before serve does
		defer close(written)
		if err := l.write(); err != nil {
			l.a.fail(l.peer, err)
		}
	}()
	if err := l.read(handle); err != nil {
		l.a.fail(l.peer, err)
	}
	close(l.gone)
	<-written
	if l.a.Cause() != nil {
		// Closing with bytes unread would reset the connection, and the peer might never see the stop frame.
		io.Copy(io.Discard, l.conn) // ends by the deadline that close sets
	}
	l.conn.Close()
}

// read handles frames until the connection ends. The error is the attempt's failure; nil is a farewell.
func (l *link) read(handle func(h wire.Header, r *wire.Reader) error) error {
	r := wire.NewReader((*linkReader)(l))
	for {
		h, err := r.Next()
		if err != nil {
			return l.explain(err)
		}
		switch h.Kind {
		case wire.KindPing:
			continue
		case wire.KindStop:
			p, err := r.Small(h)
			if err != nil {
				return l.explain(err)
			}
			orderly, reason := wire.ParseStop(p)
			if orderly {
				l.leave()
				return nil
			}
			return fmt.Errorf("worker %s stopped: %s", l.peer, reason)
		}
		if err := handle(h, r); err != nil {
			return l.explain(err)
		}
	}
}

// explain says what an error of the connection means.
func (l *link) explain(err error) error {
	select {
	case <-l.a.done:
		return nil // the attempt has a cause already
	default:
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("worker %s has been silent for %s; is its host up and the network between the two whole?", l.peer, l.silent)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("worker %s closed the connection without a word: %w", l.peer, err)
	}
	return fmt.Errorf("connection with worker %s: %w", l.peer, err)
}

// leave notes that the peer has left in order.
func (l *link) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = fmt.Errorf("worker %s has closed %s", l.peer, describe(l.a.cfg.Key))
}

// linkReader is the connection with its silence deadline.
type linkReader link

// Read reads from the connection; the deadline moves on, in steps that cost nothing.
func (r *linkReader) Read(p []byte) (int, error) {
	l := (*link)(r)
	if now := time.Now(); now.Sub(l.lastSet.read) > l.silent/8 {
		l.lastSet.read = now
		l.mu.Lock()
		if !l.closed {
			l.conn.SetReadDeadline(now.Add(l.silent))
		}
		l.mu.Unlock()
	}
	n, err := l.conn.Read(p)
	l.a.s.bytesIn.Add(int64(n))
	l.bytes.in.Add(int64(n))
	return n, err
}

// write writes what is queued, pings when nothing is, and says stop at the end. The error is the attempt's failure.
func (l *link) write() error {
	tick := time.NewTicker(l.silent / 3)
	defer tick.Stop()
	idle := false
	for {
		bytes, data := l.collect()
		if bytes > 0 {
			idle = false
			if now := time.Now(); now.Sub(l.lastSet.write) > l.silent/8 {
				l.lastSet.write = now
				l.mu.Lock()
				if !l.closed {
					l.conn.SetWriteDeadline(now.Add(l.silent))
				}
				l.mu.Unlock()
			}
			all := l.iov
			n, err := l.iov.WriteTo(l.conn)
			l.iov = all
			l.a.s.bytesOut.Add(n)
			l.bytes.out.Add(n)
			l.wrote(data)
			if err == nil {
				continue
			}
			select {
			case <-l.gone:
				return nil
			case <-l.a.done:
				return nil
			default:
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("worker %s has taken no data for %s; is its host up and the network between the two whole?", l.peer, l.silent)
			}
			return l.stopInstead(fmt.Errorf("writing to worker %s: %w", l.peer, err))
		}
		select {
		case <-l.wake:
		case <-tick.C:
			if idle {
				l.send(func(dst []byte) []byte { return wire.AppendFrame(dst, wire.KindPing, 0, nil) })
			}
			idle = true
		case <-l.gone:
			if l.a.Cause() != nil {
				l.sayStop()
			}
			return nil
		case <-l.a.done:
			l.sayStop()
			return nil
		}
	}
}

// stopInstead gives the reader a moment to find a stop frame of the peer, which tells more than a failed write.
func (l *link) stopInstead(err error) error {
	t := time.NewTimer(farewell)
	defer t.Stop()
	select {
	case <-l.gone:
		return nil
	case <-t.C:
		return err
	}
}

// sayStop tells the peer why this end leaves and closes this direction. What was queued is dropped.
func (l *link) sayStop() {
	l.a.mu.Lock()
	orderly, cause := l.a.orderly, l.a.cause
	l.a.mu.Unlock()
	reason := cause.Error()
	if _, err := l.conn.Write(wire.AppendStop(nil, orderly, reason)); err != nil {
		return // the peer sees the connection close
	}
	if c, ok := l.conn.(interface{ CloseWrite() error }); ok {
		c.CloseWrite()
	}
}

// collect moves what is to be written next into iov: small frames first, then frames of the lanes in turn.
func (l *link) collect() (bytes, data int64) {
	l.iov, l.taken = l.iov[:0], l.taken[:0]
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ctl) > 0 {
		l.iov = append(l.iov, l.ctl)
		bytes += int64(len(l.ctl))
		l.ctl, l.spare = l.spare[:0], l.ctl
	}
	if cap(l.taken) == 0 {
		l.taken = make([]item, 0, writeFrames)
	}
	for data < writeMost && len(l.taken) < writeFrames {
		it, ok := l.pop()
		if !ok {
			break
		}
		l.taken = append(l.taken, it)
		if it.small == nil {
			l.frames++
		}
		data += it.size()
		switch t := &l.taken[len(l.taken)-1]; {
		case t.small != nil:
			l.iov = append(l.iov, t.small)
		case t.shared:
			l.iov = append(l.iov, t.head[:], t.buf.B[wire.HeaderLen:])
		default:
			l.iov = append(l.iov, t.buf.B)
		}
	}
	return bytes + data, data
}

// wrote gives the buffers of a write back and wakes producers that wait for room.
func (l *link) wrote(data int64) {
	for i := range l.taken {
		if b := l.taken[i].buf; b != nil {
			b.Release()
		}
		l.taken[i] = item{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if cap(l.spare) > controlMost/4 {
		l.spare = nil
	}
	l.queued -= data
	if l.queued < l.a.memory.Link {
		for i, c := range l.blocked {
			signal(c.wake)
			l.blocked[i] = nil
		}
		l.blocked = l.blocked[:0]
	}
}
