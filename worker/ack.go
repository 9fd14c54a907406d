package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"strait/checkpoint"
	"strait/checkpoint/failpoint"
	"strait/checkpoint/storage"
	"strait/kv"
	"strait/kv/record"
	"strait/plan"
)

// ack stores what this worker contributes to checkpoint n and acknowledges it. It returns the number of prepared
// commits; false when the word went on meanwhile and the ack is dropped.
func (h *host) ack(p *part, n plan.CheckpointID, rev int64) (int, bool, error) {
	s, ok := p.tasks.State(n)
	if !ok {
		return 0, false, nil
	}
	handle, err := h.store(p, n, s)
	if err != nil {
		return 0, false, fmt.Errorf("state of checkpoint %d: %w", n, err)
	}
	if err := failpoint.Inject("worker.ack"); err != nil {
		return 0, false, err
	}
	a := record.Ack{Header: record.Head, Incarnation: h.l.incarnation, Attempt: p.attempt, Checkpoint: n, State: handle, Prepared: len(s.Prepared)}
	p.mu.Lock()
	a.Committed = p.ack.Committed
	p.mu.Unlock()
	ok, err = h.writeAck(p, a, rev, func(w *record.Word) bool {
		return w.Attempt == p.attempt && w.Barrier.ID == n && w.Barrier.State == record.BarrierOpen
	})
	if err == nil && ok {
		err = failpoint.Inject("worker.acked")
	}
	return len(s.Prepared), ok, err
}

// mark notes in the ack that everything up to n is committed.
func (h *host) mark(p *part, n plan.CheckpointID, rev int64) error {
	if err := failpoint.Inject("worker.mark"); err != nil {
		return err
	}
	p.mu.Lock()
	a := p.ack
	p.mu.Unlock()
	a.Header, a.Incarnation, a.Attempt, a.Committed = record.Head, h.l.incarnation, p.attempt, n
	_, err := h.writeAck(p, a, rev, func(w *record.Word) bool {
		return w.Attempt == p.attempt && w.Completed >= n
	})
	return err
}

// writeAck overwrites the ack of this worker. Invariant 4: it compares this incarnation and the control word as of
// rev; on a conflict the word is read, and where still says that nothing which matters has changed, tried again. ok
// is false when it does.
func (h *host) writeAck(p *part, a record.Ack, rev int64, still func(*record.Word) bool) (ok bool, err error) {
	t := h.l.cfg.Tree
	key, word := t.Ack(h.job, h.id, h.l.cfg.Name), t.Pipeline(h.job, h.id)
	value := record.MustEncode(&a)
	return retry(p.ctx, h.log, "ack", func() (bool, error) {
		_, err := h.l.cfg.Store.Txn(p.ctx, kv.Txn{
			Guards: []kv.Guard{kv.AtCreate(h.l.key, h.l.incarnation), kv.AtMod(word, rev)},
			Ops:    []kv.Op{kv.Put(key, value)},
		})
		var c *kv.Conflict
		switch {
		case err == nil:
			h.l.meters.acks.Inc()
			p.mu.Lock()
			p.ack = a
			p.mu.Unlock()
			return true, nil
		case !errors.As(err, &c):
			return false, err // an answer that was lost: the same value once more is harmless
		case c.Guard.Key == h.l.key:
			h.l.session.Lose(err)
			return false, h.l.session.Err()
		}
		w, err := decodeKey[record.Word](c.Current)
		if err != nil || !still(w) {
			h.log.Info("ack is dropped, the control word went on", "attempt", p.attempt, "checkpoint", a.Checkpoint)
			return false, nil
		}
		rev = c.Current.ModRev
		return false, errAgain
	})
}

// store puts the state into the ack itself where it is small, else into storage.
func (h *host) store(p *part, n plan.CheckpointID, s checkpoint.State) (checkpoint.Handle, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return checkpoint.Handle{}, fmt.Errorf("BUG: %w", err)
	}
	if len(s.Prepared) == 0 {
		return checkpoint.Handle{}, nil // nothing to keep
	}
	if len(data) < storage.InlineBelow {
		return storage.Inline(data), nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, h.l.cfg.CommitLimit)
	defer cancel()
	return h.l.cfg.Storage.Put(ctx, storage.StateName(p.tasks.Job(), h.id, n, p.attempt, h.l.cfg.Name, h.l.incarnation), data)
}

// manifest lists the prepared commits of a completed checkpoint; none for checkpoint 0.
func (h *host) manifest(p *part, n plan.CheckpointID) ([]checkpoint.Prepared, error) {
	if n == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(p.ctx, h.l.cfg.CommitLimit, fmt.Errorf("checkpoint %d could not be read within %v", n, h.l.cfg.CommitLimit))
	defer cancel()
	e, err := retry(ctx, h.log, "checkpoint", func() (kv.Entry, error) {
		return h.l.cfg.Store.Get(ctx, h.l.cfg.Tree.Checkpoint(h.job, h.id, n))
	})
	if err != nil {
		return nil, err
	}
	c, err := decodeKey[record.Checkpoint](e)
	if err != nil {
		return nil, err
	}
	if c.Prepared == 0 {
		return nil, nil
	}
	data, err := h.l.cfg.Storage.Get(ctx, c.Manifest)
	if err != nil {
		return nil, fmt.Errorf("manifest of checkpoint %d: %w", n, err)
	}
	var m record.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("manifest of checkpoint %d: %w", n, err)
	}
	var all []checkpoint.Prepared
	for _, f := range m.Files {
		if f.Prepared == 0 {
			continue
		}
		data, err := h.l.cfg.Storage.Get(ctx, f.State)
		if err != nil {
			return nil, fmt.Errorf("state of worker %s in checkpoint %d: %w", f.Worker, n, err)
		}
		var s checkpoint.State
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, fmt.Errorf("state of worker %s in checkpoint %d: %w", f.Worker, n, err)
		}
		if s.Version > checkpoint.StateVersion {
			return nil, fmt.Errorf("state of worker %s in checkpoint %d has version %d, this build reads up to %d", f.Worker, n, s.Version, checkpoint.StateVersion)
		}
		all = append(all, s.Prepared...)
	}
	if len(all) != c.Prepared {
		return nil, fmt.Errorf("checkpoint %d lists %d prepared commits and its state files have %d", n, c.Prepared, len(all))
	}
	return all, nil
}

func decodeKey[T any](e kv.Entry) (*T, error) {
	if !e.Exists() {
		return nil, fmt.Errorf("key %s is missing", e.Key)
	}
	v, err := record.Decode[T](e.Value)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", e.Key, err)
	}
	return v, nil
}

// inlineOnly is the storage of a worker that was given none.
type inlineOnly struct{}

func (inlineOnly) Put(_ context.Context, name string, data []byte) (checkpoint.Handle, error) {
	return checkpoint.Handle{}, fmt.Errorf("%d bytes do not fit into a key (%d) and this worker has no checkpoint storage; give all workers and coordinators one shared folder", len(data), storage.InlineBelow)
}

func (inlineOnly) Get(_ context.Context, h checkpoint.Handle) ([]byte, error) {
	if h.Location != "" {
		return nil, fmt.Errorf("file %s is in checkpoint storage and this worker has none; give all workers and coordinators one shared folder", h.Location)
	}
	if want := storage.Inline(h.Inline); int64(len(h.Inline)) != h.Size || h.SHA256 != "" && h.SHA256 != want.SHA256 {
		return nil, fmt.Errorf("state of %d bytes inside a key does not have the size and checksum that stand beside it", len(h.Inline))
	}
	return h.Inline, nil
}
