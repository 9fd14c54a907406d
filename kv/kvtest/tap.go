package kvtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Verdict is what a Tap does with a transaction.
type Verdict int

// The verdicts.
const (
	Pass    Verdict = iota
	Refuse          // it never reaches etcd, and the sender gets no answer
	Swallow         // etcd does it; the sender gets no answer
	CutOff          // as Swallow, and from then on the tap is cut
)

// Txn is a transaction with writes on its way through a Tap.
type Txn struct {
	N       int // 1, 2, …
	Request *etcdserverpb.TxnRequest
}

// Puts are the keys that it writes, in order.
func (x Txn) Puts() []string {
	var out []string
	for _, op := range x.Request.Success {
		if p := op.GetRequestPut(); p != nil {
			out = append(out, string(p.Key))
		}
	}
	return out
}

// Fence is the key whose create revision it compares, with that revision; "" where it compares none.
func (x Txn) Fence(prefix string) (key string, rev int64) {
	for _, c := range x.Request.Compare {
		if k := string(c.Key); c.Target == etcdserverpb.Compare_CREATE && len(k) > len(prefix) && k[:len(prefix)] == prefix {
			return k, c.GetCreateRevision()
		}
	}
	return "", 0
}

// Done is a transaction that was sent to etcd, with its answer.
type Done struct {
	Txn
	OK               bool  // its guards held: it was done
	Lost             bool  // not even the tap has an answer: it may have been done
	Rev              int64 // the store's revision: where OK, that of its writes
	Called, Returned time.Time
}

// Tap stands between one process and etcd and understands what passes: it stops, loses or reports every single
// transaction that writes. What Proxy does to bytes, Tap does to calls. Safe for concurrent use.
type Tap struct {
	srv  *grpc.Server
	up   *grpc.ClientConn
	addr string

	mu    sync.Mutex
	n     int
	judge func(Txn) Verdict
	done  []Done
	down  context.Context
	cut   context.CancelFunc
	mute  int // watch streams with a number up to this one bring nothing any more
	watch int // number of watch streams so far
}

// NewTap starts a tap in front of the etcd at target; it ends with the test.
func NewTap(t testing.TB, target string) *Tap {
	t.Helper()
	up, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{})))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Tap{up: up, addr: ln.Addr().String()}
	p.down, p.cut = context.WithCancel(context.Background())
	// As etcd: it bears the pings of its clients.
	pings := grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second})
	p.srv = grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(p.serve), pings)
	var serving sync.WaitGroup
	serving.Go(func() { _ = p.srv.Serve(ln) })
	t.Cleanup(func() {
		p.Cut()
		p.srv.Stop()
		serving.Wait()
		_ = up.Close()
	})
	return p
}

// Tap starts a tap in front of the server.
func (e *Etcd) Tap(t testing.TB) *Tap {
	t.Helper()
	return NewTap(t, e.Server.Endpoints()[0])
}

// Addr is what clients connect to.
func (p *Tap) Addr() string { return p.addr }

// Judge makes f decide about every transaction from now on, N counting from 1. f may take its time (a transaction that
// then passes arrives late, whatever became of its sender), kill who sent it, or call Cut. nil: all pass.
func (p *Tap) Judge(f func(Txn) Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge, p.n = f, 0
}

// Done lists what came through: done, refused by its guards, or without an answer.
func (p *Tap) Done() []Done {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Done(nil), p.done...)
}

// Cut breaks every call and watch, and all that come, until Heal.
func (p *Tap) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// Mute makes all watches that are there go silent for ever, as if the store had nothing to say: no error, no end. Other
// calls, and watch streams that are opened later, are as ever.
func (p *Tap) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = p.watch
}

// stream counts a watch stream; muted says whether it has gone silent.
func (p *Tap) stream(method string) (muted func() bool) {
	if method != methodWatch {
		return func() bool { return false }
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch++
	n := p.watch
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return n <= p.mute
	}
}

// Heal ends Cut.
func (p *Tap) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down.Err() != nil {
		p.down, p.cut = context.WithCancel(context.Background())
	}
}

const (
	methodTxn   = "/etcdserverpb.KV/Txn"
	methodWatch = "/etcdserverpb.Watch/Watch"
)

var errCut = status.Error(codes.Unavailable, "the tap is cut")

func (p *Tap) serve(_ any, in grpc.ServerStream) error {
	p.mu.Lock()
	down := p.down
	p.mu.Unlock()
	method, _ := grpc.MethodFromServerStream(in)
	ctx := in.Context()
	if method == methodTxn {
		// A transaction that has left its sender arrives, also when the sender has given up on it meanwhile.
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if down.Err() != nil {
		return errCut
	}
	defer context.AfterFunc(down, cancel)()
	md, _ := metadata.FromIncomingContext(ctx)
	out, err := p.up.NewStream(metadata.NewOutgoingContext(ctx, md.Copy()), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if method == methodTxn {
		err = p.txn(in, out)
	} else {
		err = p.pipe(in, out, cancel, p.stream(method))
	}
	if down.Err() != nil {
		return errCut
	}
	return err
}

// pipe copies both ways until one side ends.
func (p *Tap) pipe(in grpc.ServerStream, out grpc.ClientStream, cancel context.CancelFunc, muted func() bool) error {
	go func() { // it ends behind the handler: only that ends a RecvMsg of a client that says nothing
		for {
			var m frame
			if err := in.RecvMsg(&m); err != nil {
				if errors.Is(err, io.EOF) {
					_ = out.CloseSend()
				} else {
					cancel()
				}
				return
			}
			if out.SendMsg(&m) != nil {
				return // RecvMsg tells why
			}
		}
	}()
	for {
		var m frame
		if err := out.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if muted() {
			continue
		}
		if err := in.SendMsg(&m); err != nil {
			return err
		}
	}
}

func (p *Tap) txn(in grpc.ServerStream, out grpc.ClientStream) error {
	var ask, answer frame
	if err := in.RecvMsg(&ask); err != nil {
		return err
	}
	x := Txn{Request: &etcdserverpb.TxnRequest{}}
	if err := proto.Unmarshal(ask, x.Request); err != nil {
		return status.Errorf(codes.Internal, "tap: %v", err)
	}
	verdict := Pass
	if len(x.Request.Success) > 0 {
		p.mu.Lock()
		p.n++
		x.N = p.n
		judge := p.judge
		p.mu.Unlock()
		if judge != nil {
			verdict = judge(x)
		}
	}
	if verdict == Refuse {
		return status.Error(codes.Unavailable, "the tap refused a transaction")
	}
	d := Done{Txn: x, Called: time.Now(), Lost: true}
	defer func() {
		if len(x.Request.Success) > 0 {
			d.Returned = time.Now()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.done = append(p.done, d)
		}
	}()
	if err := out.SendMsg(&ask); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := out.CloseSend(); err != nil {
		return err
	}
	if err := out.RecvMsg(&answer); err != nil {
		return err
	}
	var resp etcdserverpb.TxnResponse
	if err := proto.Unmarshal(answer, &resp); err != nil {
		return status.Errorf(codes.Internal, "tap: %v", err)
	}
	d.OK, d.Rev, d.Lost = resp.Succeeded, resp.Header.Revision, false
	if verdict == CutOff {
		p.Cut()
		return errCut
	}
	if verdict == Swallow {
		return status.Error(codes.Unavailable, "the tap swallowed an answer")
	}
	if err := in.SendMsg(&answer); err != nil {
		return err
	}
	return nil
}

// frame is a message as it is on the wire.
type frame []byte

// raw hands messages on as they are.
type raw struct{}

// Name implements encoding.CodecV2: to the other side these are etcd's own messages.
func (raw) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("tap: BUG: %T is no frame", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*f)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("tap: BUG: %T is no frame", v)
	}
	*f = data.Materialize()
	return nil
}
