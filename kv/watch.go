package kv

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// Watch is a stream of changes from a revision on, in order, each once. It belongs to one
// goroutine. Callers outside kv want kv/mirror, which also knows what to do when it breaks.
type Watch struct {
	s      *Store
	what   string
	ch     clientv3.WatchChan
	cancel context.CancelFunc
	ctx    context.Context
}

// Watch follows the keys in [from, end) from revision rev on; end "" means the key from alone. rev 0
// means from now on: Opened says when that was. etcd serves a watch that begins in the past only at its
// next round of catching up, every 100 ms; one that begins now is served at once. All watches of a
// Store share one stream, because their contexts carry the same metadata; see NewStream.
func (s *Store) Watch(ctx context.Context, from, end string, rev int64) *Watch {
	ctx = metadata.AppendToOutgoingContext(ctx, "strait-stream", strconv.FormatInt(s.stream.Load(), 10))
	// Without a leader a partitioned member would keep a watch open and silent for ever.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	opts := []clientv3.OpOption{clientv3.WithRev(rev), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify()}
	if end != "" {
		opts = append(opts, clientv3.WithRange(end))
	}
	return &Watch{s: s, what: from, ctx: ctx, cancel: cancel, ch: s.cli.Watch(ctx, from, opts...)}
}

// NewStream makes the watches that are opened from now on share another stream. Whoever found that a watch has
// gone silent calls it: a further watch of the same stream would be as silent.
func (s *Store) NewStream() { s.stream.Add(1) }

// Opened waits until the store has the watch: every change from then on will come. Call it before the
// first Next, once. Errors are those of Next, and ErrUnreachable when the store does not answer.
func (w *Watch) Opened() error {
	timer := time.NewTimer(w.s.timeout)
	defer timer.Stop()
	select {
	case resp, ok := <-w.ch:
		if !ok {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			return fmt.Errorf("kv: watch %s: ended by the store", w.what)
		}
		if err := w.s.observe(resp.Header, -1); err != nil {
			return err
		}
		if resp.CompactRevision != 0 {
			return fmt.Errorf("kv: watch %s: %w at %d", w.what, ErrCompacted, resp.CompactRevision)
		}
		if err := resp.Err(); err != nil {
			return callError("watch", w.what, err, false)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("kv: watch %s: %w: no answer within %v", w.what, ErrUnreachable, w.s.timeout)
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// Next waits for changes and returns them with the revision up to which nothing is missing. No
// changes with a revision is the store's word that nothing happened. ErrCompacted: list again.
// Any other error with a live context: the watch broke, list again after a pause. ErrWentBack: stop.
func (w *Watch) Next() ([]Change, int64, error) {
	for {
		resp, ok := <-w.ch
		if !ok {
			if err := w.ctx.Err(); err != nil {
				return nil, 0, err
			}
			return nil, 0, fmt.Errorf("kv: watch %s: ended by the store", w.what)
		}
		if err := w.s.observe(resp.Header, -1); err != nil {
			return nil, 0, err
		}
		if resp.CompactRevision != 0 {
			return nil, 0, fmt.Errorf("kv: watch %s: %w at %d", w.what, ErrCompacted, resp.CompactRevision)
		}
		if err := resp.Err(); err != nil {
			return nil, 0, callError("watch", w.what, err, false)
		}
		if resp.IsProgressNotify() {
			return nil, resp.Header.Revision, nil
		}
		if len(resp.Events) == 0 {
			continue // created
		}
		out := make([]Change, len(resp.Events))
		for i, ev := range resp.Events {
			out[i] = toChange(ev)
		}
		// The header may be ahead of what this watch was given; the last event is not.
		return out, out[len(out)-1].Entry.ModRev, nil
	}
}

// Close ends the watch and waits until nothing of it is left.
func (w *Watch) Close() {
	w.cancel()
	for range w.ch {
	}
}
