package ops

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// stopWithin bounds the wait for answers in flight when the role ends.
const stopWithin = 2 * time.Second

// Server answers on one port. Paths are added before Run.
type Server struct {
	listener net.Listener
	mux      *http.ServeMux
	ready    func() error
}

// Listen takes the port. ready says whether the role can do its work now, nil when it can; it must not block.
func Listen(addr string, ready func() error) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("operations address %s: %w", addr, err)
	}
	s := &Server{listener: l, mux: http.NewServeMux(), ready: ready}
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	s.mux.HandleFunc("GET /readyz", s.serveReady)
	s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { metrics.WritePrometheus(w, true) })
	s.mux.HandleFunc("/debug/pprof/", pprof.Index)
	s.mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	s.mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	s.mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	s.mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
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
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Addr is host:port as it was bound.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends and returns when no answer is in flight, or after two seconds.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{Handler: s.mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(s.listener) }()
	select {
	case err := <-done:
		return fmt.Errorf("operations address %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if srv.Shutdown(stop) != nil {
		_ = srv.Close()
	}
	<-done
	return nil
}

// Close releases the port when Run was never called.
func (s *Server) Close() error { return s.listener.Close() }
