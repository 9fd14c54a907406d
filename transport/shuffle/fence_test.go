package shuffle

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"strait/transport/batch"
	"strait/transport/stream"
	"strait/transport/wire"
)

func twoWay() []stream.Edge {
	return []stream.Edge{{ID: 1, Exchange: stream.Forward, Tables: []*batch.Schema{testTable("t")}, Producers: []string{"w0"}, Consumers: []string{"w1"}}}
}

func TestOpenFencesByAttempt(t *testing.T) {
	f := newFleet(t, 2, twoWay(), fleetOptions{})
	defer f.stop()
	f.connect()
	one := f.attempts["w0"]
	two := f.open("w0", 2, twoWay(), fleetOptions{})
	if err := one.Cause(); err == nil || !strings.Contains(err.Error(), "superseded by attempt 2") {
		t.Errorf("the older attempt: %v", err)
	}
	if f.failure("w0") != nil {
		t.Error("superseding is no failure")
	}
	for _, n := range []int64{1, 2} {
		_, err := f.services["w0"].Open(AttemptConfig{Key: key(n)})
		if err == nil || !strings.Contains(err.Error(), "not newer than attempt 2") {
			t.Errorf("attempt %d opened beside attempt 2: %v", n, err)
		}
	}
	two.Close(nil)
	if _, err := f.services["w0"].Open(AttemptConfig{Key: key(2)}); err == nil {
		t.Error("attempt 2 opened again")
	}
	other := key(1)
	other.Pipeline = 2
	a, err := f.services["w0"].Open(AttemptConfig{Key: other})
	if err != nil {
		t.Fatal(err)
	}
	a.Close(nil)
}

// TestConnectWaitsForPeers: the peer opens the attempt later, and only then does its port answer at all.
func TestConnectWaitsForPeers(t *testing.T) {
	f := newFleet(t, 2, twoWay(), fleetOptions{})
	defer f.stop()
	f.open("w0", 2, twoWay(), fleetOptions{})
	done := make(chan error, 1)
	go func() { done <- f.attempts["w0"].Connect(f.ctx) }()
	time.Sleep(100 * time.Millisecond)
	select {
	case err := <-done:
		t.Fatalf("connected to an attempt that is not open: %v", err)
	default:
	}
	f.open("w1", 2, twoWay(), fleetOptions{})
	if err := f.attempts["w1"].Connect(f.ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestConnectGivesUpWithItsContext(t *testing.T) {
	f := newFleet(t, 2, twoWay(), fleetOptions{})
	defer f.stop()
	a := f.open("w0", 2, twoWay(), fleetOptions{})
	ctx, cancel := context.WithTimeout(f.ctx, 150*time.Millisecond)
	defer cancel()
	err := a.Connect(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "worker w1") {
		t.Errorf("%v", err)
	}
}

// TestNewerHelloEndsOlder: the hello of attempt 2 proves that attempt 1 is over.
func TestNewerHelloEndsOlder(t *testing.T) {
	f := newFleet(t, 2, twoWay(), fleetOptions{})
	defer f.stop()
	f.connect()
	one := f.attempts["w1"]
	f.open("w0", 2, twoWay(), fleetOptions{})
	go f.attempts["w0"].Connect(f.ctx)
	select {
	case <-one.Done():
		mustSay(t, "older", one.Cause(), "superseded by attempt 2, announced by worker w0", "worker w0 stopped: attempt 1 of pipeline 1 of job orders: superseded by attempt 2")
	case <-f.ctx.Done():
		t.Error("attempt 1 lives on")
	}
}

// TestHellosRefused: what a zombie or a stranger says first (failures.md row 21).
func TestHellosRefused(t *testing.T) {
	f := newFleet(t, 2, twoWay(), fleetOptions{})
	defer f.stop()
	f.open("w1", 5, twoWay(), fleetOptions{})
	good := wire.Hello{Protocol: wire.Version, Cluster: "c", Worker: "w0", Incarnation: 1, To: "w1", Codecs: wire.CodecNames(), Attempt: key(5), Token: "secret"}
	check := func(name string, change func(*wire.Hello), verdict wire.Verdict, reason string) {
		t.Helper()
		h := good
		change(&h)
		conn, w := sayHello(t, f.services["w1"].Addr(), h)
		t.Cleanup(func() { conn.Close() }) // not before: closing the accepted one fails the attempt
		if w.Verdict != verdict || !strings.Contains(w.Reason, reason) || w.Worker != "w1" {
			t.Errorf("%s: %s %q, want %s %q", name, w.Verdict, w.Reason, verdict, reason)
		}
	}
	check("an older attempt", func(h *wire.Hello) { h.Attempt.Attempt = 4 }, wire.Refused, "attempt 5 was opened here")
	check("another cluster", func(h *wire.Hello) { h.Cluster = "d" }, wire.Refused, "belongs to cluster d")
	check("another worker meant", func(h *wire.Hello) { h.To = "w9" }, wire.Refused, "this is worker w1, not w9")
	check("another protocol", func(h *wire.Hello) { h.Protocol = 2 }, wire.Refused, "run the same release")
	check("another token", func(h *wire.Hello) { h.Token = "guess" }, wire.Refused, "token")
	check("a stranger", func(h *wire.Hello) { h.Worker = "w7" }, wire.Refused, "no peer")
	check("another pipeline", func(h *wire.Hello) { h.Attempt.Pipeline = 9 }, wire.NotYet, "not open here yet")
	check("the right one", func(h *wire.Hello) {}, wire.Accepted, "")
	check("the right one again", func(h *wire.Hello) {}, wire.Refused, "connected already")
	f.attempts["w1"].Close(nil)
	check("a closed attempt", func(h *wire.Hello) {}, wire.Refused, "closed here")
	check("a newer attempt", func(h *wire.Hello) { h.Attempt.Attempt = 6 }, wire.NotYet, "not open here yet")
}

// sayHello is a small fake of a dialling peer.
func sayHello(t *testing.T, addr string, h wire.Hello) (net.Conn, wire.Welcome) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(testDeadline))
	frame, err := wire.AppendHello(nil, h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	_, p, err := wire.ReadFrame(conn)
	if err != nil {
		t.Fatal(err)
	}
	w, err := wire.ParseWelcome(p)
	if err != nil {
		t.Fatal(err)
	}
	return conn, w
}

// TestRefusalIsForGood: Connect does not go on trying.
func TestRefusalIsForGood(t *testing.T) {
	f := newFleet(t, 2, twoWay(), fleetOptions{})
	defer f.stop()
	f.open("w1", 7, twoWay(), fleetOptions{})
	start := time.Now()
	err := f.attempts["w0"].Connect(f.ctx)
	if err == nil || !strings.Contains(err.Error(), "attempt 7 was opened here") {
		t.Errorf("%v", err)
	}
	if time.Since(start) > 10*time.Second {
		t.Error("took until the deadline")
	}
}

func TestGarbageInsteadOfAHello(t *testing.T) {
	f := newFleet(t, 2, twoWay(), fleetOptions{config: func(_ string, c *Config) { c.SilentAfter = 300 * time.Millisecond }})
	defer f.stop()
	for _, s := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x00", string(wire.AppendFrame(nil, wire.KindPing, 0, nil))} {
		conn, err := net.Dial("tcp", f.services["w1"].Addr())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte(s))
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		if n, err := conn.Read(make([]byte, 10)); err == nil {
			t.Errorf("%q was answered with %d bytes", s, n)
		} else if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: the connection stays open", s)
		}
		conn.Close()
	}
	f.connect() // and the attempt is not disturbed
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Listen(Config{Listen: l.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "is in use by another process; choose another port") {
		t.Errorf("%v", err)
	}
	_, err = Listen(Config{Listen: "127.0.0.1:0", Codec: "lz4"})
	if err == nil || !strings.Contains(err.Error(), "use none, s2 or zstd") {
		t.Errorf("%v", err)
	}
	if _, err = Listen(Config{Listen: "203.0.113.7:0"}); err == nil || !strings.Contains(err.Error(), "not an address of this host") {
		t.Errorf("%v", err)
	}
}

func TestStoppedService(t *testing.T) {
	s, err := Listen(Config{Cluster: "c", Worker: "w", Listen: "127.0.0.1:0", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	a, err := s.Open(AttemptConfig{Key: key(1), Edges: []stream.Edge{{ID: 1, Exchange: stream.Forward, Tables: []*batch.Schema{testTable("t")}, Producers: []string{"w"}, Consumers: []string{"w"}}}})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { _, err := next(context.Background(), a.Input(1, 0)); got <- err }()
	cancel()
	if err := <-got; err == nil || !strings.Contains(err.Error(), "has stopped") {
		t.Errorf("a blocked input: %v", err)
	}
	if err := <-ran; err != nil {
		t.Errorf("run: %v", err)
	}
	if _, err := s.Open(AttemptConfig{Key: key(2)}); err == nil {
		t.Error("opened on a stopped service")
	}
	if s.budget.Used() != 0 {
		t.Errorf("%d bytes are still reserved", s.budget.Used())
	}
}
