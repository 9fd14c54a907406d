package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// simFleet is many workers that run nothing: each holds a lease and a key, watches its assignments and one control
// word a pipeline, reads what a worker reads to build an attempt, and writes what a worker writes. They share the
// connections of this process, a few dozen of them a connection.
//
//	tasks/<w>/ ─watch─▶ assignment ─▶ read placement, plan, spec ─▶ READY ─ word runs ─▶ RUNNING ─ word stops ─▶ stopped
type simFleet struct {
	tree    keys.Tree
	stores  []*kv.Store
	workers []*simWorker
	group   *errgroup.Group
	stop    context.CancelFunc
}

type simWorker struct {
	f           *simFleet
	name        string
	store       *kv.Store
	lease       kv.Lease
	incarnation int64

	mu    sync.Mutex
	pipes map[string]context.CancelFunc // by key of the assignment
}

const (
	simPerStore = 25
	simTTL      = 30 * time.Second
)

// startSim starts n workers of that many slots on an etcd.
func startSim(ctx context.Context, tree keys.Tree, etcd string, n, slots int) (*simFleet, error) {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &simFleet{tree: tree, stop: stop}
	f.group, run = errgroup.WithContext(run)
	for i := range n {
		if i%simPerStore == 0 {
			s, err := kv.Open(ctx, kv.Config{Endpoints: []string{etcd}, CallTimeout: 30 * time.Second})
			if err != nil {
				f.close()
				return nil, err
			}
			f.stores = append(f.stores, s)
		}
		f.workers = append(f.workers, &simWorker{f: f, name: fmt.Sprintf("sim-%04d", i), store: f.stores[len(f.stores)-1], pipes: map[string]context.CancelFunc{}})
	}
	up, upCtx := errgroup.WithContext(ctx)
	up.SetLimit(64)
	for _, w := range f.workers {
		up.Go(func() error { return w.start(upCtx, run, slots) })
	}
	if err := up.Wait(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// close ends all of them and gives the first error that was not this end.
func (f *simFleet) close() error {
	f.stop()
	err := f.group.Wait()
	for _, s := range f.stores {
		_ = s.Close()
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (w *simWorker) start(ctx, run context.Context, slots int) error {
	var err error
	if w.lease, err = w.store.Grant(ctx, simTTL); err != nil {
		return err
	}
	prefix := w.f.tree.Tasks(w.name)
	watch := w.store.Watch(run, prefix, kv.PrefixEnd(prefix), 0)
	if err := watch.Opened(); err != nil {
		return err
	}
	key := w.f.tree.Worker(w.name)
	value := record.MustEncode(&record.Worker{Header: record.Head, Data: "127.0.0.1:1", TTL: int(simTTL / time.Second), CallLimit: 30, Slots: slots, CPU: slots, Protocol: record.Protocol, Host: w.name, Started: time.Now().UTC()})
	r, err := w.store.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent(key)}, Ops: []kv.Op{kv.PutLeased(key, value, w.lease.ID)}})
	if err != nil {
		watch.Close()
		return err
	}
	w.incarnation = r.Rev
	w.f.group.Go(func() error { return w.renew(run) })
	w.f.group.Go(func() error {
		defer watch.Close()
		return w.follow(run, watch)
	})
	return nil
}

func (w *simWorker) renew(ctx context.Context) error {
	tick := time.NewTicker(w.lease.TTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := w.store.Renew(ctx, w.lease.ID); err != nil && ctx.Err() == nil {
			return fmt.Errorf("simulated worker %s: %w", w.name, err)
		}
	}
}

func (w *simWorker) follow(ctx context.Context, watch *kv.Watch) error {
	for {
		changes, _, err := watch.Next()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("simulated worker %s: %w", w.name, err)
		}
		for _, ch := range changes {
			k, ok := w.f.tree.Parse(ch.Entry.Key)
			if !ok || k.Kind != keys.KindTask {
				continue
			}
			w.mu.Lock()
			if end := w.pipes[ch.Entry.Key]; end != nil {
				end()
				delete(w.pipes, ch.Entry.Key)
			}
			if ch.Deleted {
				w.mu.Unlock()
				continue
			}
			a, err := record.Decode[record.Assignment](ch.Entry.Value)
			if err != nil {
				w.mu.Unlock()
				return err
			}
			pctx, end := context.WithCancel(ctx)
			w.pipes[ch.Entry.Key] = end
			w.mu.Unlock()
			w.f.group.Go(func() error {
				defer end()
				if err := w.pipeline(pctx, k.Job, k.Pipeline, a); err != nil && pctx.Err() == nil {
					return fmt.Errorf("simulated worker %s, job %s: %w", w.name, k.Job, err)
				}
				return nil
			})
		}
	}
}

// pipeline is the life of one assignment.
func (w *simWorker) pipeline(ctx context.Context, job plan.JobID, id plan.PipelineID, a *record.Assignment) error {
	t := w.f.tree
	watch := w.store.Watch(ctx, t.Pipeline(job, id), "", 0)
	defer watch.Close()
	if err := watch.Opened(); err != nil {
		return err
	}
	if _, _, err := w.store.Read(ctx, t.Placement(job, id), t.Plan(job), t.MetaVersion(), t.Job(job)); err != nil {
		return err
	}
	if _, err := w.store.Get(ctx, t.PlanChunk(job, 0)); err != nil {
		return err
	}
	e, err := w.store.Get(ctx, t.Pipeline(job, id))
	if err != nil {
		return err
	}
	if err := w.tell(ctx, job, id, a, state.TaskReady, a.Attempt-1); err != nil {
		return err
	}
	told := state.TaskReady
	for {
		word, err := record.Decode[record.Word](e.Value)
		if e.Exists() && err != nil {
			return err
		}
		switch {
		case !e.Exists(), word.Attempt < a.Attempt:
		case word.Attempt > a.Attempt || word.Phase == state.PipelineStopped:
			return w.tell(ctx, job, id, a, state.TaskCancelled, a.Attempt)
		case word.Phase == state.PipelineRunning && told == state.TaskReady:
			told = state.TaskRunning
			if err := w.tell(ctx, job, id, a, told, a.Attempt-1); err != nil {
				return err
			}
		}
		changes, _, err := watch.Next()
		if err != nil {
			return err
		}
		for _, ch := range changes {
			e = ch.Entry
			if ch.Deleted {
				e = kv.Entry{Key: e.Key}
			}
		}
	}
}

// tell writes the status.
func (w *simWorker) tell(ctx context.Context, job plan.JobID, id plan.PipelineID, a *record.Assignment, s state.Task, stopped plan.Attempt) error {
	st := record.TaskStatus{Header: record.Head, Incarnation: w.incarnation, Attempt: a.Attempt, State: s, Stopped: stopped}
	if s == state.TaskRunning {
		for _, c := range a.Chains {
			st.Groups = append(st.Groups, record.GroupState{Chain: c.Chain, Range: c.Range, State: s})
		}
	}
	_, err := w.store.Txn(ctx, kv.Txn{
		Guards: []kv.Guard{kv.AtCreate(w.f.tree.Worker(w.name), w.incarnation)},
		Ops:    []kv.Op{kv.Put(w.f.tree.TaskStatus(w.name, job, id), record.MustEncode(&st))},
	})
	return err
}
