package task

import (
	"context"

	"golang.org/x/sync/semaphore"

	"strait/plan"
	"strait/plan/physical"
	"strait/worker/memory"
)

// admit counts what the attempt has here, sinks made to say what they buffer, and reserves the memory for it.
func (a *Attempt) admit(ctx context.Context, vs *vertices) error {
	u, err := a.use(ctx, vs)
	if err != nil {
		return err
	}
	if a.shares, err = a.cfg.Admit(u); err != nil {
		return err
	}
	a.large = map[plan.ChainID]*semaphore.Weighted{}
	for _, pc := range a.cfg.Assignment.Chains {
		a.large[pc.Chain] = semaphore.NewWeighted(a.shares.LargePool)
	}
	return nil
}

func (a *Attempt) use(ctx context.Context, vs *vertices) (memory.Use, error) {
	var u memory.Use
	chains := map[plan.ChainID]bool{}
	for _, pc := range a.cfg.Assignment.Chains {
		if int(pc.Chain) >= len(a.cfg.Pipeline.Chains) {
			continue // newGroup says so
		}
		chain, n := a.cfg.Pipeline.Chains[pc.Chain], pc.To-pc.From
		chains[pc.Chain] = true
		u.Groups += n
		u.Consumers += n * len(chain.Inputs)
		for _, e := range chain.Outputs {
			if edgeOf(a.cfg.Pipeline, e).Exchange == physical.Hash {
				u.Gatherers += n
			}
		}
		for _, id := range chain.Vertices {
			v, err := vs.get(ctx, id)
			if err != nil {
				return u, err
			}
			if v.source != nil {
				u.Readers += n
			}
			if v.sink != nil {
				u.Writers = append(u.Writers, memory.Writers{N: n, Range: v.buffers})
			}
		}
	}
	u.Chains = len(chains)
	if len(a.cfg.Pipeline.Edges) > 0 && u.Groups > 0 {
		u.Links = max(len(a.cfg.Placement.Workers)-1, 0)
	}
	return u, nil
}

// Shares are what the parts of the attempt may hold here.
func (a *Attempt) Shares() memory.Shares { return a.shares }

// large lets elements above their share through a few at a time: the subtasks of a chain share a pool (Invariant 6).
// Whoever holds part of it waits for nothing but chains further down, which have pools of their own. What is small
// costs a comparison.
type large struct {
	pool   *semaphore.Weighted
	shares *memory.Shares
	held   int64 // taken in advance: the element to come is thought to be like the last one
	last   int64
}

func (a *Attempt) newLarge(chain plan.ChainID) large {
	return large{pool: a.large[chain], shares: &a.shares}
}

// expect takes in advance what the last element took, so that the next one is not made before there is room for it.
func (l *large) expect(ctx context.Context) error {
	if l.last == 0 {
		return nil
	}
	if err := l.acquire(ctx, l.last); err != nil {
		return err
	}
	l.held, l.last = l.last, 0
	return nil
}

// take gives what an element of that size holds until giveBack. It never waits with something in hand.
func (l *large) take(ctx context.Context, bytes int64) (int64, error) {
	w := l.shares.Weight(bytes)
	if w == 0 && l.held == 0 {
		return 0, nil
	}
	held := l.held
	l.held, l.last = 0, w
	if w > held {
		l.giveBack(held)
		return w, l.acquire(ctx, w)
	}
	l.giveBack(held - w)
	return w, nil
}

// none says that no element came.
func (l *large) none() {
	if l.held > 0 {
		l.giveBack(l.held)
		l.last, l.held = l.held, 0
	}
}

func (l *large) acquire(ctx context.Context, n int64) error {
	if err := l.pool.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (l *large) giveBack(n int64) {
	if n > 0 {
		l.pool.Release(n)
	}
}
