package shuffle

import (
	"net"
	"sync"
	"time"
)

// proxy forwards TCP connections to one address and spoils them on command.
type proxy struct {
	l    net.Listener
	to   string
	wg   sync.WaitGroup
	done chan struct{}

	mu    sync.Mutex
	rules rules
	conns []net.Conn
}

// rules say what happens to the bytes from the dialling to the accepting end, counted from the start of each
// connection; 0 is never.
type rules struct {
	flip      int64 // bit 0 of that byte is flipped
	truncate  int64 // the connection is closed in order after so many bytes
	reset     int64 // the connection is reset after so many bytes
	blackhole int64 // nothing more is forwarded after so many bytes, either way
	perSecond int   // bytes per second
}

func newProxy(to string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{l: l, to: to, done: make(chan struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) set(r rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = r
}

func (p *proxy) get() rules {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules
}

func (p *proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		hole := &hole{}
		p.wg.Go(func() { p.forward(in, out, hole) })
		p.wg.Go(func() { p.back(out, in, hole) })
	}
}

// hole swallows a connection once it is open.
type hole struct {
	mu   sync.Mutex
	open bool
}

func (h *hole) is(set bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = h.open || set
	return h.open
}

func (p *proxy) forward(in, out net.Conn, h *hole) {
	defer func() {
		if !h.is(false) {
			out.Close()
			in.Close()
		}
	}()
	buf := make([]byte, 4096)
	at := int64(0)
	for {
		n, err := in.Read(buf)
		b := buf[:n]
		r := p.get()
		if i := r.flip - at; r.flip > 0 && i >= 0 && i < int64(n) {
			b[i] ^= 1
		}
		stop := false
		for _, k := range []int64{r.truncate, r.reset, r.blackhole} {
			if k > 0 && at+int64(n) >= k {
				b, stop = b[:max(k-at, 0)], true
			}
		}
		if h.is(stop && r.blackhole > 0) {
			if err != nil {
				return
			}
			continue
		}
		if r.perSecond > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(r.perSecond))
		}
		if len(b) > 0 {
			if _, err := out.Write(b); err != nil {
				return
			}
		}
		at += int64(n)
		if stop {
			if r.reset > 0 {
				in.(*net.TCPConn).SetLinger(0)
				out.(*net.TCPConn).SetLinger(0)
			}
			return
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) back(out, in net.Conn, h *hole) {
	defer func() {
		if !h.is(false) {
			in.Close()
		}
	}()
	buf := make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		if n > 0 && !h.is(false) {
			if _, err := in.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) close() {
	p.l.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
