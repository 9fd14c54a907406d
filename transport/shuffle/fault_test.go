package shuffle

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"strait/checkpoint"
	"strait/transport/batch"
	"strait/transport/stream"
)

// spoiled runs rows from w0 to w1 through a proxy that spoils the connection, and gives how both ends failed.
func spoiled(t *testing.T, r rules, silent time.Duration, traffic bool) (sender, receiver error) {
	t.Helper()
	s := testTable("t")
	e := stream.Edge{ID: 1, Exchange: stream.Forward, Tables: []*batch.Schema{s}, Producers: []string{"w0"}, Consumers: []string{"w1"}}
	var p *proxy
	f := newFleet(t, 2, []stream.Edge{e}, fleetOptions{
		config: func(_ string, c *Config) { c.SilentAfter = silent },
		via: func(from, to, addr string) string {
			if from != "w0" {
				return addr
			}
			var err error
			if p, err = newProxy(addr); err != nil {
				t.Fatal(err)
			}
			return p.addr()
		},
	})
	defer f.stop()
	defer func() { p.close() }()
	f.connect()
	p.set(r)
	var wg sync.WaitGroup
	wg.Go(func() { // both must end, woken by the failure
		out := f.attempts["w0"].Output(1, 0)
		for i := 0; ; i++ {
			if !traffic && i == 1 {
				<-f.attempts["w0"].Done()
			}
			if err := out.Send(f.ctx, rowsOf(s, 0, i*100, 100)); err != nil {
				if f.ctx.Err() != nil {
					t.Errorf("send ended by the test's deadline: %v", err)
				}
				return
			}
		}
	})
	wg.Go(func() {
		in := f.attempts["w1"].Input(1, 0)
		expect := int64(0)
		for {
			item, err := next(f.ctx, in)
			if err != nil {
				if f.ctx.Err() != nil {
					t.Errorf("receive ended by the test's deadline: %v", err)
				}
				return
			}
			for _, id := range column64(item.Batch, 1) {
				if id != expect {
					t.Errorf("row %d where %d was due", id, expect)
				}
				expect = id + 1
			}
		}
	})
	wg.Wait()
	for _, a := range f.attempts {
		a.Wait()
	}
	if f.failure("w0") == nil || f.failure("w1") == nil {
		t.Fatalf("both ends must report: sender %v, receiver %v", f.failure("w0"), f.failure("w1"))
	}
	return f.failure("w0"), f.failure("w1")
}

func mustSay(t *testing.T, who string, err error, any ...string) {
	t.Helper()
	for _, s := range any {
		if strings.Contains(err.Error(), s) {
			return
		}
	}
	t.Errorf("%s: %v\nwant one of %q", who, err, any)
}

// TestBitFlip: no silent damage (failures.md row 22). The receiver names the frame, the sender hears it.
func TestBitFlip(t *testing.T) {
	for _, at := range []int64{3000, 3001, 4567, 5000, 9999, 20000} {
		sender, receiver := spoiled(t, rules{flip: at}, 5*time.Second, true)
		mustSay(t, "receiver", receiver, "corrupt frame")
		mustSay(t, "sender", sender, "worker w1 stopped: attempt 1 of pipeline 1 of job orders")
		mustSay(t, "sender", sender, "corrupt frame")
	}
}

func TestTruncation(t *testing.T) {
	sender, receiver := spoiled(t, rules{truncate: 6000}, 5*time.Second, true)
	mustSay(t, "receiver", receiver, "closed the connection without a word")
	mustSay(t, "sender", sender, "closed the connection", "reset", "broken pipe", "worker w1 stopped")
}

func TestReset(t *testing.T) {
	sender, receiver := spoiled(t, rules{reset: 6000}, 5*time.Second, true)
	mustSay(t, "receiver", receiver, "reset", "closed the connection")
	mustSay(t, "sender", sender, "reset", "broken pipe", "worker w1 stopped", "closed the connection")
}

// TestBlackhole: a peer that is silent past its deadline is a failure although etcd is fine (row 4), with traffic
// under way and when idle.
func TestBlackhole(t *testing.T) {
	for _, traffic := range []bool{true, false} {
		start, r := time.Now(), rules{blackhole: 5000}
		if !traffic {
			r.blackhole = 1
		}
		sender, receiver := spoiled(t, r, 600*time.Millisecond, traffic)
		mustSay(t, "receiver", receiver, "silent for 600ms", "worker w0 stopped")
		mustSay(t, "sender", sender, "silent for 600ms", "taken no data", "worker w1 stopped")
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("noticed after %s", took)
		}
	}
}

// TestPingsKeepIdleLinks: nothing to send is no silence.
func TestPingsKeepIdleLinks(t *testing.T) {
	s := testTable("t")
	e := stream.Edge{ID: 1, Exchange: stream.Forward, Tables: []*batch.Schema{s}, Producers: []string{"w0"}, Consumers: []string{"w1"}}
	f := newFleet(t, 2, []stream.Edge{e}, fleetOptions{config: func(_ string, c *Config) { c.SilentAfter = 1500 * time.Millisecond }})
	defer f.stop()
	f.connect()
	time.Sleep(4 * time.Second) // idle for longer than the deadline is what is tested
	if err := f.attempts["w0"].Output(1, 0).Send(f.ctx, rowsOf(s, 0, 0, 10)); err != nil {
		t.Fatal(err)
	}
	if item, err := next(f.ctx, f.attempts["w1"].Input(1, 0)); err != nil || item.Batch.Rows != 10 {
		t.Fatal(item, err)
	}
}

// TestSlowNetwork: a slow link slows its producer and fails nobody; a barrier gets through.
func TestSlowNetwork(t *testing.T) {
	s := testTable("t")
	e := stream.Edge{ID: 1, Exchange: stream.Forward, Tables: []*batch.Schema{s}, Producers: []string{"w0"}, Consumers: []string{"w1"}}
	var p *proxy
	f := newFleet(t, 2, []stream.Edge{e}, fleetOptions{
		config: func(_ string, c *Config) { c.SilentAfter = 3 * time.Second; c.Codec = "none" },
		via: func(from, to, addr string) string {
			if from != "w0" {
				return addr
			}
			p, _ = newProxy(addr)
			return p.addr()
		},
	})
	defer f.stop()
	defer func() { p.close() }()
	f.connect()
	p.set(rules{perSecond: 120_000})
	go func() {
		out := f.attempts["w0"].Output(1, 0)
		for i := range 20 {
			out.Send(f.ctx, rowsOf(s, 0, i*1000, 1000))
		}
		out.Barrier(f.ctx, checkpoint.Barrier{ID: 1, Kind: checkpoint.Periodic})
	}()
	rows := 0
	for in := f.attempts["w1"].Input(1, 0); ; {
		item, err := next(f.ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		if item.Kind == stream.Barrier {
			break
		}
		rows += item.Batch.Rows
	}
	if rows != 20_000 {
		t.Errorf("%d rows before the barrier", rows)
	}
}

// TestCloseTellsPeers: with a cause the peers fail and name it; in order they do not fail.
func TestCloseTellsPeers(t *testing.T) {
	s := testTable("t")
	e := stream.Edge{ID: 1, Exchange: stream.Hash, Tables: []*batch.Schema{s}, Keys: [][]int{{1}}, Producers: []string{"w0", "w1"}, Consumers: []string{"w1", "w0"}}
	f := newFleet(t, 2, []stream.Edge{e}, fleetOptions{})
	defer f.stop()
	f.connect()
	f.attempts["w0"].Close(context.DeadlineExceeded)
	f.attempts["w0"].Close(nil) // idempotent: the first cause stands
	f.attempts["w0"].Wait()
	f.attempts["w1"].Wait()
	mustSay(t, "peer", f.failure("w1"), "worker w0 stopped: attempt 1 of pipeline 1 of job orders: context deadline exceeded")
	if f.failure("w0") != nil {
		t.Errorf("the end that closed reports %v", f.failure("w0"))
	}
	if err := f.attempts["w0"].Control("w0", nil); err == nil {
		t.Error("control on a closed attempt")
	}

	f = newFleet(t, 2, []stream.Edge{e}, fleetOptions{})
	defer f.stop()
	f.connect()
	f.attempts["w0"].Close(nil)
	f.attempts["w0"].Wait()
	time.Sleep(100 * time.Millisecond)
	if err := f.failure("w1"); err != nil {
		t.Errorf("an orderly close failed the peer: %v", err)
	}
	out := f.attempts["w1"].Output(1, 1)
	err := out.Send(f.ctx, rowsOf(s, 1, 0, 5000))
	if err == nil {
		err = out.Flush(f.ctx)
	}
	if err == nil || !strings.Contains(err.Error(), "worker w0 has closed attempt 1") {
		t.Errorf("send to a peer that left: %v", err)
	}
	if err := f.attempts["w1"].Control("w0", []byte("x")); err == nil {
		t.Error("control to a peer that left")
	}
}
