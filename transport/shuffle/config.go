package shuffle

import (
	"crypto/tls"
	"log/slog"
	"time"

	"strait/transport/stream"
)

// Config is what a worker's data-plane service is made from.
type Config struct {
	Cluster     string // both ends must agree
	Worker      string
	Incarnation int64
	Listen      string        // host:port; port 0 takes a free one
	Codec       string        // none, s2, zstd; empty: s2 between hosts, none on loopback
	MemoryBytes int64         // what receivers may hold in memory, over all attempts; 0: 256 MiB
	SilentAfter time.Duration // a peer that sends nothing for so long has failed; 0: 10 s; pings go at a third
	Log         *slog.Logger  // nil: slog.Default
	TLS         *tls.Config   // nil: plain TCP
}

// Memory is what an attempt may hold on this worker, in bytes. Zero stands for what a worker with plenty of it gives.
type Memory struct {
	Received int64 // all inboxes together; 0: they share the budget of the service
	Inbox    int64 // each inbox, to begin with; at most one batch of the target size
	Gather   int64 // each producer of a hash exchange
	Link     int64 // frames that wait for one connection
}

// AttemptConfig is one pipeline attempt as one worker sees it. Edges are equal on all workers of the attempt.
type AttemptConfig struct {
	Key    stream.AttemptKey
	Token  string            // random, equal on all workers of the attempt; a hello must show it
	Peers  map[string]string // worker -> data address; without self
	Edges  []stream.Edge
	Memory Memory
	// OnControl gets the frames that Control sent, in order per sender, one at a time per sender. It must not
	// block; the frame is the callee's to keep.
	OnControl func(from string, frame []byte)
	// OnFailure is called at most once, when a link or a frame fails the attempt; every blocked call has then
	// been woken with the same error. Not called after Close.
	OnFailure func(peer string, err error)
}
