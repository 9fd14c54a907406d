package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/kv"
	"strait/kv/election"
	"strait/kv/record"
	"strait/kv/session"
)

// Coordinator is one candidate for the leadership. Make it with New, run it once.
type Coordinator struct {
	c    Config
	m    *meters
	loop atomic.Pointer[loop] // while it leads
	ops  *counters
}

// New checks the configuration.
func New(c Config) (*Coordinator, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	x := &Coordinator{c: c, m: newMeters(c.Metrics)}
	x.ops = newCounters(x)
	return x, nil
}

// Run is New and Run.
func Run(ctx context.Context, c Config) error {
	x, err := New(c)
	if err != nil {
		return err
	}
	return x.Run(ctx)
}

// Leads says whether this process leads now.
func (x *Coordinator) Leads() bool { return x.loop.Load() != nil }

// Alive says whether the loop of the leader answers; nil when it does, and where this process does not lead. It
// waits for it until ctx ends. For a watchdog: an etcd that is away does not make it fail.
func (x *Coordinator) Alive(ctx context.Context) error {
	l := x.loop.Load()
	if l == nil || l.ask(ctx, func() {}) || x.loop.Load() != l {
		return nil
	}
	return fmt.Errorf("coordinator %s: the loop of the leader does not answer", x.c.Name)
}

// errDeposed ends a leadership, not the process.
var errDeposed = errors.New("deposed")

// Run campaigns and leads, again after every loss of the leadership, until ctx ends (nil) or an error no retry
// heals: a store that went back, a refused key, a newer format of the tree.
func (x *Coordinator) Run(ctx context.Context) error {
	const minPause, maxPause = 100 * time.Millisecond, 5 * time.Second
	pause := minPause
	var watching sync.WaitGroup
	defer watching.Wait()
	watch, stop := context.WithCancel(ctx)
	defer stop()
	watching.Go(func() { x.watchStore(watch) })
	for {
		began := time.Now()
		err := x.candidate(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kv.ErrWentBack), errors.Is(err, kv.ErrRefused), errors.Is(err, record.ErrNewer):
			return err
		}
		x.c.Log.Warn("coordinator does not lead any more", "err", err)
		if time.Since(began) > time.Minute {
			pause = minPause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// candidate is one session: campaign, lead, resign.
func (x *Coordinator) candidate(ctx context.Context) error {
	s, err := session.Open(ctx, x.c.Store, session.Options{TTL: x.c.SessionTTL, CallLimit: time.Second, Logger: x.c.Log})
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Run(gctx) })
	g.Go(func() error {
		err := x.campaign(gctx, s)
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if cerr := s.Close(cctx); cerr != nil && ctx.Err() == nil {
			x.c.Log.Warn("lease is left to its TTL", "err", cerr)
		}
		if err == nil && ctx.Err() == nil {
			err = errDeposed
		}
		return err
	})
	return g.Wait()
}

func (x *Coordinator) campaign(ctx context.Context, s *session.Session) error {
	host, _ := os.Hostname()
	value := record.MustEncode(&record.Leader{Header: record.Head, Name: x.c.Name, Ops: x.c.OpsAddr, Host: host, Checkpoints: x.c.CheckpointDir, PID: os.Getpid(), Since: time.Now().UTC()})
	lead, err := election.Campaign(ctx, x.c.Store, s, x.c.Tree.Leader(), value)
	if err != nil {
		return err
	}
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := lead.Resign(rctx); err != nil {
			x.c.Log.Warn("leadership is left to its lease", "err", err)
		}
	}()
	if err := x.meta(ctx, lead); err != nil {
		return err
	}
	x.c.Log.Info("coordinator leads", "coordinator", x.c.Name, "rev", lead.Rev)
	x.m.reset()
	x.m.leader.Store(1)
	defer func() {
		x.m.leader.Store(0)
		x.m.reset()
	}()
	l := newLoop(&x.c, x.m, lead)
	x.loop.Store(l)
	defer x.loop.Store(nil)
	lctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, lctx := errgroup.WithContext(lctx)
	g.Go(func() error {
		select {
		case <-lead.Lost():
			return fmt.Errorf("%w: %w", errDeposed, lead.Err())
		case <-lctx.Done():
			return nil
		}
	})
	g.Go(func() error {
		defer cancel()
		return l.run(lctx)
	})
	return g.Wait()
}

// meta writes meta/version if this is the first leader of the tree, and refuses a tree of a newer format.
func (x *Coordinator) meta(ctx context.Context, lead *election.Leadership) error {
	key := x.c.Tree.MetaVersion()
	for {
		e, err := x.c.Store.Get(ctx, key)
		if err != nil {
			return err
		}
		if e.Exists() {
			m, err := record.Decode[record.Meta](e.Value)
			if err != nil {
				return fmt.Errorf("coordinator: key %s: %w; use a build of that version, or another prefix", key, err)
			}
			if m.Cluster == "" {
				return fmt.Errorf("coordinator: key %s names no cluster: %w", key, kv.ErrRefused)
			}
			return nil
		}
		var id [8]byte
		_, _ = rand.Read(id[:]) // never fails
		value := record.MustEncode(&record.Meta{Header: record.Head, Cluster: hex.EncodeToString(id[:]), Created: time.Now().UTC()})
		_, err = x.c.Store.Txn(ctx, kv.Txn{Guards: []kv.Guard{lead.Guard(), kv.At(e)}, Ops: []kv.Op{kv.Put(key, value)}})
		if err != nil && !errors.Is(err, kv.ErrConflict) && !errors.Is(err, kv.ErrUnknownOutcome) {
			return err
		}
	}
}
