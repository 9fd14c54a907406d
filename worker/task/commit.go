package task

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"strait/checkpoint"
	"strait/checkpoint/failpoint"
	"strait/plan"
)

// Commit makes visible what checkpoint n covers: each sink subtask what it prepared, each aggregated committer here
// all entries of its vertex. all lists the prepared commits of the checkpoint; it is used by aggregated committers
// only.
func (a *Attempt) Commit(n plan.CheckpointID, all []checkpoint.Prepared) error {
	a.Complete(n)
	return a.beside(func(g *errgroup.Group) {
		for _, x := range a.groups {
			if x.sink != nil {
				g.Go(func() error { return x.sink.settle(n) })
			}
		}
		for _, c := range a.committers {
			if c.aggregated {
				g.Go(func() error { return c.commit(entries(all, c.v.ID)) })
			}
		}
	})
}

// Replay commits what a checkpoint of an older attempt lists, for the sinks this worker acts for.
func (a *Attempt) Replay(all []checkpoint.Prepared, skip []plan.VertexID) error {
	return a.beside(func(g *errgroup.Group) {
		for id, c := range a.committers {
			mine := entries(all, id)
			if slices.Contains(skip, id) || !c.aggregated && len(mine) == 0 {
				continue
			}
			g.Go(func() error { return c.commit(mine) })
		}
	})
}

// Abandon removes what attempts before this one left open and keep does not list, for the sinks this worker acts
// for.
func (a *Attempt) Abandon(keep []checkpoint.Prepared) error {
	return a.beside(func(g *errgroup.Group) {
		for id, c := range a.committers {
			g.Go(func() error { return c.abandon(a.cfg.Attempt, entries(keep, id)) })
		}
	})
}

// beside runs commits beside the task loops, one goroutine each, all owned by the attempt.
func (a *Attempt) beside(f func(g *errgroup.Group)) error {
	var err error
	done := make(chan struct{})
	ok := a.goes(func() {
		defer close(done)
		if err = failpoint.Inject("task.commit"); err != nil {
			return
		}
		var g errgroup.Group
		f(&g)
		err = g.Wait()
	})
	if !ok {
		return errStopped
	}
	<-done
	return err
}

func entries(all []checkpoint.Prepared, v plan.VertexID) []checkpoint.Prepared {
	var out []checkpoint.Prepared
	for _, p := range all {
		if p.Vertex == v {
			out = append(out, p)
		}
	}
	return out
}

// Stopped says that an error of Commit, Replay or Abandon means only that the attempt was stopped.
func (a *Attempt) Stopped(err error) bool {
	return errors.Is(err, errStopped) || a.ctx.Err() != nil && errors.Is(context.Cause(a.ctx), errStopped)
}
