package shuffle

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"strait/transport/wire"
)

// warnInsecure tells of a connection that does not speak TLS, or without a certificate that counts: of one in ten
// seconds, since anybody can open some.
func (s *Service) warnInsecure(conn net.Conn, err error) {
	now := int64(time.Since(s.started)) + 1
	if last := s.insecure.Load(); last > 0 && now-last < int64(10*time.Second) || !s.insecure.CompareAndSwap(last, now) {
		return
	}
	s.log.Warn("data connection refused: worker.data.tls has to be set on all workers or on none, with certificates of one authority",
		"worker", s.cfg.Worker, "from", conn.RemoteAddr().String(), "err", err)
}

// welcome reads the hello of an accepted connection, answers it and hands the connection to its attempt.
func (s *Service) welcome(conn net.Conn) {
	plain := conn
	defer s.endShake(plain)
	conn.SetDeadline(time.Now().Add(s.cfg.SilentAfter))
	if s.cfg.TLS != nil {
		secure := tls.Server(conn, s.cfg.TLS)
		if err := secure.Handshake(); err != nil {
			s.warnInsecure(plain, err)
			plain.Close()
			return
		}
		conn = secure
	}
	head, payload, err := wire.ReadFrame(conn)
	if err == nil && head.Kind != wire.KindHello {
		err = fmt.Errorf("%w: a %s frame before the hello", wire.ErrCorrupt, head.Kind)
	}
	var hello wire.Hello
	if err == nil {
		hello, err = wire.ParseHello(payload)
	}
	if err != nil { // not one of ours, or another release: nothing that a job waits for
		s.log.Debug("data connection without a hello", "worker", s.cfg.Worker, "from", conn.RemoteAddr().String(), "err", err)
		conn.Close()
		return
	}
	answer := wire.Welcome{
		Protocol: wire.Version, Worker: s.cfg.Worker, Incarnation: s.cfg.Incarnation, Codecs: wire.CodecNames(),
		Verdict: wire.Accepted,
	}
	a, l, verdict, err := s.judge(hello, conn)
	if err != nil {
		answer.Verdict, answer.Reason = verdict, err.Error()
		if verdict == wire.Refused {
			s.log.Warn("data connection refused", "worker", s.cfg.Worker, "from", hello.Worker, "job", string(hello.Attempt.Job),
				"pipeline", int(hello.Attempt.Pipeline), "attempt", int64(hello.Attempt.Attempt), "err", err)
		}
	}
	frame, err := wire.AppendWelcome(nil, answer)
	if err == nil {
		_, err = conn.Write(frame)
	}
	if a == nil {
		conn.Close()
		return
	}
	if err != nil {
		conn.Close()
		a.fail(hello.Worker, fmt.Errorf("answering the hello of worker %s: %w", hello.Worker, err))
		a.leave() // in place of run
		return
	}
	conn.SetDeadline(time.Time{})
	s.endShake(plain) // the attempt closes it from here on
	l.run()
}

// judge decides on a hello. With an error the verdict is NotYet or Refused; else the connection belongs to the
// link returned.
func (s *Service) judge(h wire.Hello, conn net.Conn) (*Attempt, *inLink, wire.Verdict, error) {
	switch {
	case h.Protocol != wire.Version:
		return nil, nil, wire.Refused, fmt.Errorf("worker %s speaks protocol %d, worker %s protocol %d; run the same release on both", h.Worker, h.Protocol, s.cfg.Worker, wire.Version)
	case h.Cluster != s.cfg.Cluster:
		return nil, nil, wire.Refused, fmt.Errorf("worker %s belongs to cluster %s, not to %s", h.Worker, h.Cluster, s.cfg.Cluster)
	case h.To != s.cfg.Worker:
		return nil, nil, wire.Refused, fmt.Errorf("this is worker %s, not %s", s.cfg.Worker, h.To)
	}
	key := pipeline{h.Attempt.Job, h.Attempt.Pipeline}
	s.mu.Lock()
	a, newest := s.attempts[key], s.newest[key]
	s.mu.Unlock()
	switch {
	case h.Attempt.Attempt < newest:
		// Invariant 4: a worker that lost its place never feeds a newer attempt.
		return nil, nil, wire.Refused, fmt.Errorf("%s is over: attempt %d was opened here", describe(h.Attempt), newest)
	case a == nil && h.Attempt.Attempt == newest && newest > 0:
		return nil, nil, wire.Refused, fmt.Errorf("%s is closed here", describe(h.Attempt))
	case a == nil || h.Attempt.Attempt > newest:
		if a != nil { // the hello of a newer attempt ends the older one
			a.Close(fmt.Errorf("superseded by attempt %d, announced by worker %s", h.Attempt.Attempt, h.Worker))
		}
		return nil, nil, wire.NotYet, fmt.Errorf("%s is not open here yet", describe(h.Attempt))
	case h.Token != a.cfg.Token:
		return nil, nil, wire.Refused, fmt.Errorf("the token for %s is another one", describe(h.Attempt))
	}
	l, err := a.attach(h.Worker, conn)
	if err != nil {
		return nil, nil, wire.Refused, err
	}
	return a, l, wire.Accepted, nil
}

var errRefused = errors.New("refused")
