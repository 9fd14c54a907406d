package task

import (
	"context"
	"errors"
	"slices"
	"sync"

	"strait/checkpoint"
	"strait/checkpoint/failpoint"
	"strait/plan"
	"strait/plan/fault"
)

// Commit makes visible what checkpoint n covers: each sink subtask what it prepared, each aggregated committer here
// all entries of its vertex. all lists the prepared commits of the checkpoint; it is used by aggregated committers
// only.
func (a *Attempt) Commit(n plan.CheckpointID, all []checkpoint.Prepared) error {
	a.Complete(n)
	return a.beside(func(add func(func() error)) {
		for _, x := range a.groups {
			if x.sink != nil {
				add(func() error { return x.sink.settle(n) })
			}
		}
		for _, c := range a.committers {
			if c.aggregated {
				add(func() error { return c.commit(entries(all, c.v.ID)) })
			}
		}
	})
}

// Replay commits what a checkpoint of an older attempt lists, for the sinks this worker acts for.
func (a *Attempt) Replay(all []checkpoint.Prepared, skip []plan.VertexID) error {
	return a.beside(func(add func(func() error)) {
		for id, c := range a.committers {
			mine := entries(all, id)
			if slices.Contains(skip, id) || !c.aggregated && len(mine) == 0 {
				continue
			}
			add(func() error { return c.commit(mine) })
		}
	})
}

// Abandon removes what attempts before this one left open and keep does not list, for the sinks this worker acts
// for.
func (a *Attempt) Abandon(keep []checkpoint.Prepared) error {
	return a.beside(func(add func(func() error)) {
		for id, c := range a.committers {
			add(func() error { return c.abandon(a.cfg.Attempt, entries(keep, id)) })
		}
	})
}

// beside runs commits beside the task loops, one goroutine each, all owned by the attempt. It waits for all of them:
// what can be committed is, whatever becomes of the others. Of several errors a fatal one is returned.
func (a *Attempt) beside(list func(add func(commit func() error))) error {
	var commits []func() error
	list(func(c func() error) { commits = append(commits, c) })
	errs := make([]error, len(commits))
	done := make(chan error, 1)
	ok := a.goes(func() {
		done <- protect(a.cfg.Log, func() string { return "the committers" }, func() error {
			if err := failpoint.Inject("task.commit"); err != nil {
				return err
			}
			var wg sync.WaitGroup
			for i, c := range commits {
				wg.Go(func() { errs[i] = c() })
			}
			wg.Wait()
			return worst(errs)
		})
	})
	if !ok {
		return errStopped
	}
	return <-done
}

// worst picks the error to report: a fatal one before others, which a retry may heal.
func worst(errs []error) error {
	for _, err := range errs {
		if fault.IsFatal(err) {
			return err
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
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
