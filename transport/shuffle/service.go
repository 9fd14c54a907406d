package shuffle

import (
	"context"
	"errors"

	"strait/transport/stream"
)

// Service is the data plane of one worker process.
type Service struct{}

// Attempt is one pipeline attempt on this worker.
type Attempt struct{}

var errSkeleton = errors.New("shuffle: not built yet")

// Listen takes the port. The service works once Run is called.
func Listen(cfg Config) (*Service, error) { return nil, errSkeleton }

// Addr is the address that peers dial.
func (s *Service) Addr() string { return "" }

// Run owns the accept loop and every connection goroutine; it returns when ctx has ended and all have returned.
func (s *Service) Run(ctx context.Context) error { return errSkeleton }

// Open registers an attempt. One older than an open attempt of the same pipeline is refused; opening a newer
// one closes the older.
func (s *Service) Open(cfg AttemptConfig) (*Attempt, error) { return nil, errSkeleton }

// Connect makes the connections to and from all peers that share an edge or control with this worker.
func (a *Attempt) Connect(ctx context.Context) error { return errSkeleton }

// Output is the end of an edge that a producing subtask of this worker writes to.
func (a *Attempt) Output(edge, producer int) stream.Output { return nil }

// Input is the end of an edge that a consuming subtask of this worker reads.
func (a *Attempt) Input(edge, consumer int) stream.Input { return nil }

// Control sends a small frame to a worker of the attempt; frames to self are delivered asynchronously.
func (a *Attempt) Control(to string, frame []byte) error { return errSkeleton }

// Close ends the attempt on this worker: connections are closed, every blocked call returns cause. Idempotent.
func (a *Attempt) Close(cause error) {}
