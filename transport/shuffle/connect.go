package shuffle

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/transport/wire"
)

// Dialling.
const (
	connectMost  = 2 * time.Minute // where the caller's context has no deadline
	backoffLeast = 10 * time.Millisecond
	backoffMost  = 500 * time.Millisecond
)

// Connect dials every peer and waits until every peer has dialled this worker. Peers that do not answer yet, or
// have not opened the attempt yet, are tried again until ctx ends; a refusal is for good. All workers of the
// attempt must name each other as peers. After an error the attempt is of no use; Close it.
func (a *Attempt) Connect(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, connectMost)
		defer cancel()
	}
	g, dialling := errgroup.WithContext(ctx)
	for _, l := range a.outs {
		g.Go(func() error { return l.connect(dialling) })
	}
	err := g.Wait()
	if err == nil {
		err = a.awaitPeers(ctx)
	}
	if cause := a.Cause(); cause != nil {
		return cause
	}
	return err
}

// awaitPeers waits for the connections that peers make.
func (a *Attempt) awaitPeers(ctx context.Context) error {
	for _, l := range a.ins {
		select {
		case <-l.connected:
		case <-a.done:
			return a.Cause()
		case <-ctx.Done():
			return fmt.Errorf("worker %s waits for %s to connect: %w", a.s.cfg.Worker, strings.Join(a.missing(), ", "), context.Cause(ctx))
		}
	}
	return nil
}

func (a *Attempt) missing() []string {
	var names []string
	for peer, l := range a.ins {
		select {
		case <-l.connected:
		default:
			names = append(names, "worker "+peer)
		}
	}
	slices.Sort(names)
	return names
}

// connect dials until the peer accepts, refuses for good, or ctx ends.
func (l *outLink) connect(ctx context.Context) error {
	wait := backoffLeast
	for {
		conn, codec, err := l.dial(ctx)
		if err == nil {
			return l.begin(conn, codec)
		}
		if errors.Is(err, errRefused) {
			return err
		}
		t := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-t.C:
			wait = min(2*wait, backoffMost)
			continue
		case <-l.a.done:
			err = l.a.Cause()
		case <-ctx.Done():
			err = fmt.Errorf("%w (last answer: %w)", context.Cause(ctx), err)
		}
		t.Stop()
		return fmt.Errorf("connecting to worker %s at %s: %w", l.peer, l.addr, err)
	}
}

// begin starts to use a connection.
func (l *outLink) begin(conn net.Conn, codec wire.Codec) error {
	if !l.a.enter() {
		conn.Close()
		return l.a.Cause()
	}
	if !l.use(conn) {
		conn.Close()
		l.a.leave()
		return fmt.Errorf("connection to worker %s: there is one already", l.peer)
	}
	l.codec.Store(uint32(codec))
	go func() {
		defer l.a.leave()
		l.run()
	}()
	return nil
}

// dial makes one connection and says hello.
func (l *outLink) dial(ctx context.Context) (net.Conn, wire.Codec, error) {
	s := l.a.s
	ctx, cancel := context.WithTimeout(ctx, s.cfg.SilentAfter)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return nil, 0, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	w, shaken, err := l.shake(conn)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, 0, err
	}
	shaken.SetDeadline(time.Time{})
	return shaken, s.choose(conn, w.Codecs), nil
}

// shake says hello and reads the answer.
func (l *outLink) shake(plain net.Conn) (w wire.Welcome, conn net.Conn, err error) {
	s, conn := l.a.s, plain
	if s.cfg.TLS != nil {
		c := s.cfg.TLS
		if c.ServerName == "" && !c.InsecureSkipVerify {
			c = c.Clone()
			c.ServerName, _, _ = net.SplitHostPort(l.addr)
		}
		conn = tls.Client(plain, c)
	}
	hello, err := wire.AppendHello(nil, wire.Hello{
		Protocol: wire.Version, Cluster: s.cfg.Cluster, Worker: s.cfg.Worker, Incarnation: s.cfg.Incarnation, To: l.peer,
		Codecs: wire.CodecNames(), Attempt: l.a.cfg.Key, Token: l.a.cfg.Token,
	})
	if err != nil {
		return w, nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	if secure, ok := conn.(*tls.Conn); ok {
		if err := secure.Handshake(); err != nil {
			return w, nil, l.secureError(err)
		}
	}
	if _, err = conn.Write(hello); err != nil {
		return w, nil, l.secureError(err)
	}
	head, payload, err := wire.ReadFrame(conn)
	if err != nil {
		return w, nil, l.secureError(err)
	}
	if head.Kind != wire.KindWelcome {
		return w, nil, fmt.Errorf("%w: a %s frame for an answer to the hello", wire.ErrCorrupt, head.Kind)
	}
	if w, err = wire.ParseWelcome(payload); err != nil {
		return w, nil, err
	}
	switch w.Verdict {
	case wire.NotYet:
		return w, nil, fmt.Errorf("not yet: %s", w.Reason)
	case wire.Refused:
		return w, nil, fmt.Errorf("worker %s at %s %w the connection: %s", l.peer, l.addr, errRefused, w.Reason)
	}
	return w, conn, nil
}

// secureError says what about TLS is behind a hello that was not answered. What no further try will change is a
// refusal.
func (l *outLink) secureError(err error) error {
	const check = "check worker.data.tls.ca, worker.data.tls.cert and worker.data.tls.key on both"
	var plain tls.RecordHeaderError
	var wrong *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET):
	case l.a.s.cfg.TLS != nil: // or it is going down; that passes
		return fmt.Errorf("it closes the connection in the TLS handshake; worker.data.tls has to be set there too: %w", err)
	default:
		return fmt.Errorf("it closes the connection without an answer; if it has worker.data.tls, this worker needs it too: %w", err)
	}
	switch {
	case errors.As(err, &plain):
		return fmt.Errorf("%w: worker %s at %s does not speak TLS; set worker.data.tls on all workers or on none", errRefused, l.peer, l.addr)
	case errors.As(err, &wrong):
		return fmt.Errorf("%w: the certificate of worker %s at %s: %w; %s", errRefused, l.peer, l.addr, wrong.Err, check)
	case errors.As(err, &alert), isAlert(err):
		return fmt.Errorf("%w: worker %s at %s does not accept the certificate of this one: %w; %s", errRefused, l.peer, l.addr, err, check)
	}
	return err
}

// isAlert says whether the other end sent a TLS alert: crypto/tls has no type for one that was received.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// choose is the codec for a connection: the setting, else none within a host and s2 between hosts.
func (s *Service) choose(conn net.Conn, known []string) wire.Codec {
	c := s.codec
	if s.cfg.Codec == "" {
		c = wire.CodecS2
		remote, ok1 := conn.RemoteAddr().(*net.TCPAddr)
		here, ok2 := conn.LocalAddr().(*net.TCPAddr)
		if ok1 && ok2 && (remote.IP.IsLoopback() || remote.IP.Equal(here.IP)) {
			c = wire.CodecNone
		}
	}
	if !slices.Contains(known, c.String()) {
		return wire.CodecNone
	}
	return c
}
