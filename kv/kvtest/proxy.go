package kvtest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between clients and the server and harms the traffic on request. Safe for
// concurrent use.
type Proxy struct {
	ln     net.Listener
	target atomic.Value // string
	delay  atomic.Int64
	wg     sync.WaitGroup

	mu     sync.Mutex
	down   bool
	holed  [2]bool
	healed chan struct{} // closed by Heal while a direction is holed
	conns  map[net.Conn]struct{}
}

// Direction of traffic through a Proxy.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Proxy starts a proxy in front of the server; it ends with the test.
func (e *Etcd) Proxy(t testing.TB) *Proxy {
	t.Helper()
	return NewProxy(t, e.Server.Endpoints()[0])
}

// NewProxy starts a proxy in front of any address; it ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{ln: ln, conns: map[net.Conn]struct{}{}}
	p.target.Store(target)
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(func() {
		p.Heal()
		p.Cut()
		_ = ln.Close()
		p.Drop()
		p.wg.Wait()
	})
	return p
}

// Addr is what clients connect to.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Retarget breaks every connection; new ones lead to another server.
func (p *Proxy) Retarget(target string) {
	p.target.Store(target)
	p.Drop()
}

// Cut breaks every connection and refuses new ones until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.Drop()
}

// Drop breaks every connection; new ones work.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Blackhole keeps connections open and lets nothing through until Heal, in both directions. What
// was swallowed arrives late, after Heal.
func (p *Proxy) Blackhole() {
	p.BlackholeOneWay(ToServer)
	p.BlackholeOneWay(ToClient)
}

// BlackholeOneWay does it in one direction; the other one works.
func (p *Proxy) BlackholeOneWay(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.healed == nil {
		p.healed = make(chan struct{})
	}
	p.holed[d] = true
}

// Delay holds back each piece of traffic by d, in both directions.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Heal ends Cut and every black hole.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
	p.holed = [2]bool{}
	if p.healed != nil {
		close(p.healed)
		p.healed = nil
	}
}

func (p *Proxy) hole(d Direction) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holed[d] {
		return p.healed
	}
	return nil
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go p.serve(c)
	}
}

func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

func (p *Proxy) serve(c net.Conn) {
	defer p.wg.Done()
	if !p.track(c) {
		return
	}
	defer p.forget(c)
	up, err := net.Dial("tcp", p.target.Load().(string))
	if err != nil || !p.track(up) {
		return
	}
	defer p.forget(up)
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		p.pump(c, up, ToClient)
		_ = c.Close()
	}()
	p.pump(up, c, ToServer)
	_ = up.Close()
}

func (p *Proxy) pump(to, from net.Conn, d Direction) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if wait := p.delay.Load(); wait > 0 {
			time.Sleep(time.Duration(wait))
		}
		if h := p.hole(d); h != nil {
			<-h
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
