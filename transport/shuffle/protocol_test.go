package shuffle

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"strait/checkpoint"
	"strait/transport/batch"
	"strait/transport/stream"
	"strait/transport/wire"
)

// fakeProducer is a peer w0 that says what the test wants to a real w1.
type fakeProducer struct {
	t    *testing.T
	conn net.Conn
	f    *fleet
	r    *wire.Reader
}

func newFakeProducer(t *testing.T, config func(string, *Config)) *fakeProducer {
	t.Helper()
	f := newFleet(t, 2, twoWay(), fleetOptions{config: config})
	conn, w := sayHello(t, f.services["w1"].Addr(), wire.Hello{
		Protocol: wire.Version, Cluster: "c", Worker: "w0", Incarnation: 1, To: "w1", Codecs: wire.CodecNames(), Attempt: key(1), Token: "secret",
	})
	if w.Verdict != wire.Accepted {
		t.Fatalf("%+v", w)
	}
	p := &fakeProducer{t: t, conn: conn, f: f, r: wire.NewReader(conn)}
	t.Cleanup(func() { conn.Close(); f.stop() })
	return p
}

func (p *fakeProducer) say(frames ...[]byte) {
	p.t.Helper()
	for _, b := range frames {
		if _, err := p.conn.Write(b); err != nil {
			p.t.Fatalf("write: %v", err)
		}
	}
}

// hear reads the next frame but for pings.
func (p *fakeProducer) hear() (wire.Header, []byte) {
	p.t.Helper()
	for {
		h, err := p.r.Next()
		if err != nil {
			p.t.Fatalf("read: %v", err)
		}
		b, err := p.r.Small(h)
		if err != nil {
			p.t.Fatalf("read: %v", err)
		}
		if h.Kind != wire.KindPing {
			return h, b
		}
	}
}

func dataFrame(t *testing.T, s *batch.Schema, channel uint32, rows int) ([]byte, int64) {
	t.Helper()
	buf, raw, err := wire.NewEncoder(wire.CodecNone).Encode(rowsOf(s, 0, 0, rows), channel)
	if err != nil {
		t.Fatal(err)
	}
	return buf.B, raw
}

// TestProducersSide goes through every frame in its order, as a producer's worker sends them.
func TestProducersSide(t *testing.T) {
	p := newFakeProducer(t, nil)
	s := twoWay()[0].Tables[0]
	in := p.f.attempts["w1"].Input(1, 0)
	data, raw := dataFrame(t, s, 0, 100)
	p.say(wire.AppendOpen(nil, 0, wire.Open{Edge: 1}), wire.AppendBytes(nil, wire.KindAnnounce, 0, raw))
	h, b := p.hear()
	granted, err := wire.ParseBytes(b)
	if h.Kind != wire.KindCredit || h.Channel != 0 || err != nil || granted < raw {
		t.Fatalf("%+v: granted %d of %d, %v", h, granted, raw, err)
	}
	p.say(wire.AppendSchema(nil, 0, 0, wire.Fingerprint(s)), data,
		wire.AppendFrame(nil, wire.KindPing, 0, nil),
		wire.AppendBarrier(nil, 1, 0, checkpoint.Barrier{ID: 3, Kind: checkpoint.Periodic}),
		wire.AppendFrame(nil, wire.KindControl, 0, []byte("hello")),
		wire.AppendBytes(nil, wire.KindReturn, 0, granted-raw),
		wire.AppendEnd(nil, 1, 0),
		wire.AppendBarrier(nil, 1, 0, checkpoint.Barrier{ID: 4, Kind: checkpoint.Final}))
	for i, want := range []stream.Element{{Kind: stream.Rows}, {Kind: stream.Barrier, Barrier: checkpoint.Barrier{ID: 3, Kind: checkpoint.Periodic}}, {Kind: stream.End}, {Kind: stream.Barrier, Barrier: checkpoint.Barrier{ID: 4, Kind: checkpoint.Final}}} {
		item, err := next(p.f.ctx, in)
		if err != nil || item.Kind != want.Kind || item.Barrier != want.Barrier || item.Channel != 0 {
			t.Fatalf("item %d: %+v %v", i, item, err)
		}
	}
	p.f.mu.Lock()
	if c := p.f.control["w1"]; len(c) != 1 || c[0] != "w0:hello" {
		t.Errorf("control frames %q", c)
	}
	p.f.mu.Unlock()
	p.say(wire.AppendStop(nil, true, ""))
	if _, err := p.conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after an orderly stop: %v", err)
	}
	if err := p.f.failure("w1"); err != nil {
		t.Errorf("after an orderly stop: %v", err)
	}
}

// TestProducersWrongs: each breach of the protocol fails the attempt, its cause named at both ends.
func TestProducersWrongs(t *testing.T) {
	s := twoWay()[0].Tables[0]
	open := wire.AppendOpen(nil, 0, wire.Open{Edge: 1})
	schema := wire.AppendSchema(nil, 0, 0, wire.Fingerprint(s))
	data, _ := dataFrame(t, s, 0, 10)
	other := wire.NewEncoder(wire.CodecNone)
	wrongTable, _, err := other.Encode(rowsOf(batch.NewSchema(s.Table, 3), 0, 0, 10), 0)
	if err != nil {
		t.Fatal(err)
	}
	junk := append([]byte(nil), data...) // a whole frame whose batch is nonsense
	binary.LittleEndian.PutUint32(junk[wire.HeaderLen+8:], 1<<20)
	head, _ := wire.ParseHeader(data)
	head.Sum = wire.Sum(junk[wire.HeaderLen:])
	wire.PutHeader(junk, head)
	f := func(name, want string, frames ...[]byte) {
		t.Helper()
		p := newFakeProducer(t, nil)
		in := p.f.attempts["w1"].Input(1, 0)
		taken := make(chan struct{})
		go func() { // somebody must decode
			defer close(taken)
			for {
				if _, err := next(p.f.ctx, in); err != nil {
					return
				}
			}
		}()
		p.say(frames...)
		for {
			h, b := p.hear()
			if h.Kind == wire.KindStop {
				if orderly, reason := wire.ParseStop(b); orderly || !strings.Contains(reason, want) {
					t.Errorf("%s: the producer hears %q, want %q", name, reason, want)
				}
				break
			}
		}
		p.conn.Close()
		<-taken
		p.f.attempts["w1"].Wait()
		if err := p.f.failure("w1"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "w0") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	f("rows before the channel is open", "a data frame on channel 0 of 0", data)
	f("rows before their schema", "before its schema", open, data)
	f("rows without credit", "without credit", open, schema, data)
	f("another schema", "another schema of table 0", open, wire.AppendSchema(nil, 0, 0, 1))
	f("no such table", "another schema of table 9", open, wire.AppendSchema(nil, 0, 9, 1))
	f("rows of no such table", "before its schema", open, schema, wrongTable.B)
	f("a channel out of turn", "channel 7 of 0", wire.AppendOpen(nil, 7, wire.Open{Edge: 1}))
	f("no such edge", "edge 5", wire.AppendOpen(nil, 0, wire.Open{Edge: 5}))
	f("another worker's producer", "producer 1 of edge 1", wire.AppendEnd(nil, 1, 1))
	f("no such consumer", "consumer 4", wire.AppendOpen(nil, 0, wire.Open{Edge: 1, Consumer: 4}))
	f("the receiver's frames", "a credit frame from the sending end", wire.AppendBytes(nil, wire.KindCredit, 0, 1))
	f("a second hello", "a hello frame", wire.AppendFrame(nil, wire.KindHello, 0, []byte("{}")))
	f("announced too much", "announced or granted", open, wire.AppendBytes(nil, wire.KindAnnounce, 0, 1<<60))
	f("no frame at all", "corrupt frame", []byte(strings.Repeat("x", wire.HeaderLen)))
	f("a stop with a reason", "worker w0 stopped: disk full", wire.AppendStop(nil, false, "disk full"))
	f("rows behind the end", "without credit", open, schema, wire.AppendBytes(nil, wire.KindAnnounce, 0, 10000), wire.AppendEnd(nil, 1, 0), data)
	t.Run("a batch that does not decode", func(t *testing.T) {
		p := newFakeProducer(t, nil)
		p.say(open, schema, wire.AppendBytes(nil, wire.KindAnnounce, 0, 100000))
		p.hear()
		p.say(junk)
		_, err := next(p.f.ctx, p.f.attempts["w1"].Input(1, 0))
		mustSay(t, "consumer", err, "rows from worker w0, producer 0 of edge 1 to consumer 0: column producer: corrupt frame")
		p.f.attempts["w1"].Wait()
		mustSay(t, "report", p.f.failure("w1"), "column producer: corrupt frame")
	})
}

// TestConsumersSide: a real producer's worker and a fake consumer's.
func TestConsumersSide(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := newFleet(t, 2, twoWay(), fleetOptions{
		via:    func(from, to, addr string) string { return l.Addr().String() },
		config: func(_ string, c *Config) { c.Codec = "none" },
	})
	defer f.stop()
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	defer cancel()
	go f.attempts["w0"].Connect(ctx)
	accept := func() (net.Conn, wire.Hello) {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(testDeadline))
		_, p, err := wire.ReadFrame(conn)
		if err != nil {
			t.Fatal(err)
		}
		h, err := wire.ParseHello(p)
		if err != nil {
			t.Fatal(err)
		}
		return conn, h
	}
	answer := func(conn net.Conn, v wire.Verdict) {
		frame, _ := wire.AppendWelcome(nil, wire.Welcome{Protocol: wire.Version, Verdict: v, Worker: "w1", Codecs: wire.CodecNames()})
		conn.Write(frame)
	}
	conn, hello := accept()
	if hello.Worker != "w0" || hello.To != "w1" || hello.Cluster != "c" || hello.Incarnation != 1 || hello.Attempt != key(1) || hello.Token != "secret" {
		t.Errorf("%+v", hello)
	}
	answer(conn, wire.NotYet)
	conn.Close()
	conn, _ = accept() // it comes again
	conn.Close()       // and again, when the answer is lost
	conn, _ = accept()
	defer conn.Close()
	answer(conn, wire.Accepted)
	p := &fakeProducer{t: t, conn: conn, f: f, r: wire.NewReader(conn)}

	s := twoWay()[0].Tables[0]
	out := f.attempts["w0"].Output(1, 0)
	sent := make(chan error, 1)
	go func() { sent <- out.Send(f.ctx, rowsOf(s, 0, 0, 100)) }()
	h, b := p.hear()
	if o := wire.ParseOpen(b); h.Kind != wire.KindOpen || o != (wire.Open{Edge: 1}) {
		t.Fatalf("%+v %+v", h, o)
	}
	h, b = p.hear()
	n, _ := wire.ParseBytes(b)
	if h.Kind != wire.KindAnnounce || n <= 0 {
		t.Fatalf("%+v %d", h, n)
	}
	select {
	case err := <-sent:
		t.Fatalf("sent without credit: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	if err := f.attempts["w0"].Control("w1", []byte("beside")); err != nil {
		t.Fatal(err)
	}
	if h, b = p.hear(); h.Kind != wire.KindControl || string(b) != "beside" {
		t.Fatalf("%+v %q", h, b)
	}
	p.say(wire.AppendFrame(nil, wire.KindRecall, 0, nil)) // of nothing
	if h, b = p.hear(); h.Kind != wire.KindReturn || binary.LittleEndian.Uint64(b) != 0 {
		t.Fatalf("%+v %x", h, b)
	}
	p.say(wire.AppendBytes(nil, wire.KindCredit, 0, 1)) // one byte: one frame, whatever its size
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if h, b = p.hear(); h.Kind != wire.KindSchema {
		t.Fatalf("%+v", h)
	}
	if table, print := wire.ParseSchema(b); table != 0 || print != wire.Fingerprint(s) {
		t.Errorf("schema %d %x", table, print)
	}
	h, err = p.r.Next()
	if err != nil || h.Kind != wire.KindData || h.Codec != wire.CodecNone {
		t.Fatalf("%+v %v", h, err)
	}
	d, err := p.r.Data(h)
	if err != nil || d.Raw != n {
		t.Fatalf("%d bytes, announced %d: %v", d.Raw, n, err)
	}
	if err := out.Barrier(f.ctx, checkpoint.Barrier{ID: 1, Kind: checkpoint.Periodic}); err != nil { // no credit is left, none is needed
		t.Fatal(err)
	}
	if h, _ = p.hear(); h.Kind != wire.KindBarrier {
		t.Fatalf("%+v", h)
	}
	p.say(wire.AppendBytes(nil, wire.KindCredit, 0, d.Raw+1000))
	p.say(wire.AppendFrame(nil, wire.KindRecall, 0, nil))
	if h, b = p.hear(); h.Kind != wire.KindReturn || binary.LittleEndian.Uint64(b) != 1001 {
		t.Fatalf("%+v returns %d, want 1001", h, binary.LittleEndian.Uint64(b))
	}
	if err := out.End(f.ctx); err != nil {
		t.Fatal(err)
	}
	if h, _ = p.hear(); h.Kind != wire.KindEnd {
		t.Fatalf("%+v", h)
	}
	if err := out.Send(f.ctx, rowsOf(s, 0, 0, 1)); err == nil {
		t.Error("rows behind the end")
	}
	p.say(wire.AppendOpen(nil, 0, wire.Open{})) // what only a producer says
	if h, _ = p.hear(); h.Kind != wire.KindStop {
		t.Fatalf("%+v", h)
	}
	mustSay(t, "cause", f.attempts["w0"].Cause(), "an open frame from the receiving end", "a open frame from the receiving end")
}
