package shuffle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"strait/plan"
	"strait/transport/local"
	"strait/transport/stream"
	"strait/transport/wire"
)

// Service is the data plane of one worker process.
type Service struct {
	insecure atomic.Int64 // ns behind started at which a connection without TLS was last told of; 0: none was

	cfg      Config
	started  time.Time
	codec    wire.Codec // meaningful unless cfg.Codec is empty
	listener net.Listener
	budget   *local.Budget
	log      *slog.Logger

	wg sync.WaitGroup // every goroutine of the service and its attempts

	mu       sync.Mutex
	attempts map[pipeline]*Attempt
	newest   map[pipeline]plan.Attempt // highest attempt opened here, also when it is closed again
	forget   []pipeline                // order of newest, to bound it
	shaking  map[net.Conn]struct{}     // connections whose hello is not done
	stopped  error
	ballast  strings.Builder // while an attempt is open: memory that nobody touches

	bytesIn, bytesOut atomic.Int64 // on all links
}

// pipeline is the part of an AttemptKey that attempts are compared within.
type pipeline struct {
	job plan.JobID
	id  plan.PipelineID
}

// Defaults and limits of a service.
const (
	defaultMemory = 256 << 20
	defaultSilent = 10 * time.Second
	rememberMost  = 4096 // pipelines whose newest attempt is remembered
	shakingMost   = 1024 // connections that may be in their hello at once

	// Received batches are garbage soon. In a small heap the collector would run after every few of them and give
	// their pages back to the kernel, only to fault them in again. Memory that is allocated and never touched, so
	// never resident, makes it run after as many bytes more; it is held only while there is work. Forward exchange,
	// codec none, 8,192 rows: 34 ns of processor time a row without it, 31 with it.
	ballastMost = 32 << 20
)

var errStopped = errors.New("the worker's data plane has stopped")

// Listen takes the port. Connections are accepted once Run is called.
func Listen(cfg Config) (*Service, error) {
	if cfg.MemoryBytes <= 0 {
		cfg.MemoryBytes = defaultMemory
	}
	if cfg.SilentAfter <= 0 {
		cfg.SilentAfter = defaultSilent
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &Service{
		cfg: cfg, started: time.Now(), log: cfg.Log, budget: local.NewBudget(cfg.MemoryBytes),
		attempts: map[pipeline]*Attempt{}, newest: map[pipeline]plan.Attempt{}, shaking: map[net.Conn]struct{}{},
	}
	if cfg.Codec != "" {
		c, err := wire.ParseCodec(cfg.Codec)
		if err != nil {
			return nil, fmt.Errorf("data plane: %w", err)
		}
		s.codec = c
	}
	l, err := net.Listen("tcp", cfg.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("data address %s is in use by another process; choose another port, or :0 for a free one: %w", cfg.Listen, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("data address %s is not an address of this host; listen on one of its own or on 0.0.0.0: %w", cfg.Listen, err)
	case err != nil:
		return nil, fmt.Errorf("data address %s: %w", cfg.Listen, err)
	}
	s.listener = l
	return s, nil
}

// Addr is the address that peers dial.
func (s *Service) Addr() string { return s.listener.Addr().String() }

// Run owns the accept loop and every goroutine of the service and its attempts. It returns after ctx has ended,
// all attempts are closed and all goroutines have returned; the error is nil then.
func (s *Service) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.stop(errStopped) })
	defer stop()
	err := s.accept()
	if ctx.Err() != nil {
		err = nil
	} else {
		s.stop(fmt.Errorf("%w: %w", errStopped, err))
	}
	s.wg.Wait()
	return err
}

// stop closes the listener, all attempts and the connections in their hello.
func (s *Service) stop(cause error) {
	s.mu.Lock()
	if s.stopped == nil {
		s.stopped = cause
	}
	var open []*Attempt
	for _, a := range s.attempts {
		open = append(open, a)
	}
	for c := range s.shaking {
		c.Close()
	}
	s.mu.Unlock()
	s.listener.Close()
	for _, a := range open {
		a.Close(cause)
	}
}

// accept takes connections until the listener is closed. What fails for want of descriptors is tried again.
func (s *Service) accept() error {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			s.mu.Lock()
			stopped := s.stopped
			s.mu.Unlock()
			if stopped != nil || errors.Is(err, net.ErrClosed) {
				return err
			}
			s.log.Warn("data connection not accepted", "worker", s.cfg.Worker, "err", err)
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if !s.beginShake(conn) {
			conn.Close()
			continue
		}
		go func() {
			defer s.wg.Done()
			s.welcome(conn)
		}()
	}
}

// beginShake counts a connection among those in their hello, and its goroutine.
func (s *Service) beginShake(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil || len(s.shaking) >= shakingMost {
		return false
	}
	s.shaking[conn] = struct{}{}
	s.wg.Add(1)
	return true
}

func (s *Service) endShake(conn net.Conn) {
	s.mu.Lock()
	delete(s.shaking, conn)
	s.mu.Unlock()
}

// enter counts a goroutine that Run waits for; false when the service has stopped.
func (s *Service) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil {
		return false
	}
	s.wg.Add(1)
	return true
}

// Open registers an attempt. One that is not newer than an attempt opened before for the same pipeline is
// refused; opening a newer one closes the older. Invariant 4: fenced by epoch.
func (s *Service) Open(cfg AttemptConfig) (*Attempt, error) {
	a, err := newAttempt(s, cfg)
	if err != nil {
		return nil, err
	}
	key := pipeline{cfg.Key.Job, cfg.Key.Pipeline}
	s.mu.Lock()
	if s.stopped != nil {
		s.mu.Unlock()
		a.abort()
		return nil, s.stopped
	}
	if newest, ok := s.newest[key]; ok && newest >= cfg.Key.Attempt {
		s.mu.Unlock()
		a.abort()
		return nil, fmt.Errorf("%s is not newer than attempt %d, which was opened here before", describe(cfg.Key), newest)
	}
	older := s.attempts[key]
	s.attempts[key] = a
	if s.ballast.Cap() == 0 {
		s.ballast.Grow(int(min(s.cfg.MemoryBytes/8, ballastMost))) // a Builder does not zero what it allocates
	}
	s.remember(key, cfg.Key.Attempt)
	s.mu.Unlock()
	a.start(a.deliverSelf)
	if older != nil {
		older.Close(fmt.Errorf("superseded by attempt %d", cfg.Key.Attempt))
	}
	return a, nil
}

// remember notes the newest attempt of a pipeline. The caller holds s.mu.
func (s *Service) remember(key pipeline, attempt plan.Attempt) {
	if _, known := s.newest[key]; !known {
		s.forget = append(s.forget, key)
	}
	s.newest[key] = attempt
	for i := 0; len(s.newest) > rememberMost && i < len(s.forget); i++ {
		old := s.forget[0]
		s.forget = s.forget[1:]
		if s.attempts[old] != nil {
			s.forget = append(s.forget, old) // open: kept
			continue
		}
		delete(s.newest, old)
	}
}

// closed takes an attempt off the list.
func (s *Service) closed(a *Attempt) {
	key := pipeline{a.cfg.Key.Job, a.cfg.Key.Pipeline}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempts[key] == a {
		delete(s.attempts, key)
	}
	if len(s.attempts) == 0 {
		s.ballast.Reset()
	}
}

// describe names an attempt in messages.
func describe(k stream.AttemptKey) string {
	return fmt.Sprintf("attempt %d of pipeline %d of job %s", k.Attempt, k.Pipeline, k.Job)
}
