package ops

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Bounds of the port. Nothing a caller does holds more than its connection.
const (
	stopWithin   = 2 * time.Second  // for answers in flight when the role ends
	aboutWithin  = 2 * time.Second  // for what /about has to ask others
	headWithin   = 5 * time.Second  // for a request to come
	answerWithin = 30 * time.Second // for an answer to be taken
	pprofWithin  = 5 * time.Minute  // profiles are taken for as long as they are asked for
	idleWithin   = time.Minute
	headBytes    = 16 << 10
	connections  = 512 // at once; more are closed at once
)

// Server answers on one port. Paths are added before Run.
type Server struct {
	listener net.Listener
	mux      *http.ServeMux
	ready    func() error
	ending   chan struct{} // closed when the port is about to close
}

// Listen takes the port. ready says whether the role can do its work now, nil when it can; it must not block.
func Listen(addr string, ready func() error) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("operations address %s: %w", addr, err)
	}
	s := &Server{listener: l, mux: http.NewServeMux(), ready: ready, ending: make(chan struct{})}
	s.handle("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	s.handle("GET /readyz", s.serveReady)
	s.handle("GET /time", serveTime)
	s.handle("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { metrics.WritePrometheus(w, true) })
	for path, h := range map[string]http.HandlerFunc{"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		s.mux.Handle("/debug/pprof/"+path, within(pprofWithin, h))
	}
	return s, nil
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if err := s.ready(); err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// Handle adds paths of the role, as http.ServeMux patterns.
func (s *Server) Handle(pattern string, h http.Handler) {
	s.mux.Handle(pattern, within(answerWithin, h))
}

func (s *Server) handle(pattern string, h http.HandlerFunc) { s.Handle(pattern, h) }

// HandleLogs adds /logs/<job>.
func (s *Server) HandleLogs(l *Logs) { s.mux.Handle("GET /logs/{job}", s.serveLogs(l)) }

// within bounds the time in which a caller takes the answer.
func within(d time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
		h.ServeHTTP(w, r)
	})
}

// Addr is host:port as it was bound.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends and returns when no answer is in flight, or after two seconds.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{Handler: s.mux, ReadHeaderTimeout: headWithin, IdleTimeout: idleWithin, MaxHeaderBytes: headBytes}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(&limited{Listener: s.listener, free: make(chan struct{}, connections)}) }()
	select {
	case err := <-done:
		return fmt.Errorf("operations address %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	close(s.ending)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if srv.Shutdown(stop) != nil {
		_ = srv.Close()
	}
	<-done
	return nil
}

// limited closes connections beyond its limit as they come: those that are there, a probe's among them, go on.
type limited struct {
	net.Listener
	free chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
			return &limitedConn{Conn: c, end: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			_ = c.Close()
		}
	}
}

type limitedConn struct {
	net.Conn
	end func()
}

func (c *limitedConn) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// Close releases the port when Run was never called.
func (s *Server) Close() error { return s.listener.Close() }
