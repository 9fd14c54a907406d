package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"strait/checkpoint"
	"strait/checkpoint/storage"
	"strait/cmd/internal/settings"
	"strait/coordinator/api/client"
)

// storageFolder is where this process was told to keep checkpoint files; "" when it was not.
func storageFolder(set *settings.Values, role settings.Role) (string, error) {
	dir := set.String("checkpoint.dir")
	if dir == "" && role != settings.Worker && set.String("data-dir") != "" {
		dir = filepath.Join(set.String("data-dir"), "checkpoints")
	}
	if dir == "" {
		return "", nil
	}
	return filepath.Abs(dir)
}

// leaderStorage keeps files in the folder that the leader names in its key: state and manifest must meet in one
// folder, and a worker that was not told one can only mean the leader's. It is opened with the first file.
type leaderStorage struct {
	cl *client.Client
	mu sync.Mutex
	at map[string]*storage.Local
}

func (s *leaderStorage) open(ctx context.Context) (*storage.Local, error) {
	l, err := s.cl.Leader(ctx)
	if err != nil {
		return nil, fmt.Errorf("checkpoint storage: %w", err)
	}
	if l.Checkpoints == "" {
		return nil, errors.New("checkpoint storage: neither this worker nor the coordinator was told a folder; start both with --checkpoint-dir and the same path")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if open := s.at[l.Checkpoints]; open != nil {
		return open, nil
	}
	open, err := storage.Open(l.Checkpoints)
	if err != nil {
		return nil, err
	}
	if s.at == nil {
		s.at = map[string]*storage.Local{}
	}
	s.at[l.Checkpoints] = open
	return open, nil
}

// Put stores a file; see storage.Local.
func (s *leaderStorage) Put(ctx context.Context, name string, data []byte) (checkpoint.Handle, error) {
	open, err := s.open(ctx)
	if err != nil {
		return checkpoint.Handle{}, err
	}
	return open.Put(ctx, name, data)
}

// Get reads a file; see storage.Local.
func (s *leaderStorage) Get(ctx context.Context, h checkpoint.Handle) ([]byte, error) {
	open, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	return open.Get(ctx, h)
}
