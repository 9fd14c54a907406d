package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"strait/kv"
)

// errHandedOver ends the wait of handOver.
var errHandedOver = errors.New("the time to hand over has passed")

// handOver lets the fleet take over what runs here: the worker key says that this incarnation leaves, the leader places
// nothing on it any more and makes a new attempt of each of its pipelines, which stops the old one here as any new
// attempt does. Nothing is counted as a failure, and nobody waits for a TTL. It returns when nothing runs here any
// more, at the latest after HandOver; what is left then is ended by leave.
func (l *life) handOver(ctx context.Context) {
	if l.cfg.HandOver <= 0 || l.running() == 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.cfg.HandOver, errHandedOver)
	defer cancel()
	ctx, end := l.whileSession(ctx)
	defer end()
	began := time.Now()
	err := l.sayLeaving(ctx)
	for err == nil && l.running() > 0 {
		select {
		case <-l.over:
		case <-l.dead:
			return
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		l.log.Warn("not everything was taken over, it is ended here", "pipelines", l.running(), "after", time.Since(began), "err", err)
		return
	}
	l.log.Info("everything was taken over", "after", time.Since(began))
}

// running counts the pipelines that have a host.
func (l *life) running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.hosts) + len(l.ending)
}

// sayLeaving writes it into the worker key, if anybody leads who could act on it.
func (l *life) sayLeaving(ctx context.Context) error {
	_, err := retry(ctx, l.log, "leaving", func() (kv.Result, error) {
		leaders, _, err := l.cfg.Store.List(ctx, l.cfg.Tree.Leader(), 0)
		switch {
		case err != nil:
			return kv.Result{}, err
		case len(leaders) == 0:
			return kv.Result{}, fmt.Errorf("%w: no coordinator leads", errPermanent)
		}
		return l.cfg.Store.Txn(ctx, kv.Txn{
			Guards: []kv.Guard{kv.AtCreate(l.key, l.incarnation)},
			Ops:    []kv.Op{kv.PutLeased(l.key, l.value(true), l.session.Lease())},
		})
	})
	return err
}
