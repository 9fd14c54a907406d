package worker

import (
	"context"
	"errors"
	"fmt"

	"strait/checkpoint/failpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
	"strait/transport/batch"
	"strait/transport/shuffle"
	"strait/transport/stream"
	"strait/worker/memory"
	"strait/worker/secrets"
	"strait/worker/task"
	"strait/worker/task/keeper"
)

// build makes the tasks of an assignment beside the loop; keeper.Built follows.
func (h *host) build(a *record.Assignment) {
	p := &part{attempt: a.Attempt, gate: h.l.session.Gate(), built: make(chan struct{}), stopped: make(chan struct{}),
		scrub: &secrets.Scrubber{}}
	p.log = p.scrub.Logger(h.log.With("attempt", a.Attempt))
	p.ctx, p.cancel = context.WithCancelCause(h.ctx)
	h.part = p
	h.mu.Lock()
	h.live = p
	h.mu.Unlock()
	h.beside(func() {
		ctx, cancel := context.WithTimeoutCause(p.ctx, h.l.cfg.BuildLimit, fmt.Errorf("the attempt was not built within %v", h.l.cfg.BuildLimit))
		defer cancel()
		err := h.protect(p, "the build", func() error { return h.make(ctx, p, a) })
		close(p.built)
		e := keeper.Built{Attempt: a.Attempt}
		switch {
		case err == nil:
			e.Aggregated = p.tasks.Aggregates()
		case p.ctx.Err() != nil, errors.As(err, new(*stream.LinkError)):
			return // it was told to stop, or OnFailure says it
		default:
			f := task.NewFailure(h.id, a.Attempt, h.l.cfg.Name, p.scrub, err)
			h.note(f)
			e.Failure = &f
		}
		h.inbox.put(e)
	})
}

// facts are what an attempt is made from, read at one revision.
type facts struct {
	placement *record.Placement
	head      *record.PlanHead
	cluster   string
	folder    string
}

func (h *host) make(ctx context.Context, p *part, a *record.Assignment) error {
	if !record.Speaks(record.Protocol, a.Protocol) {
		return fmt.Errorf("the assignment is of protocol %d, this worker (version %s) speaks %d to %d: a coordinator of another version gave it; bring both to one version",
			a.Protocol, h.l.cfg.Version, record.Protocol[0], record.Protocol[1])
	}
	f, err := retry(ctx, h.log, "placement and plan", func() (*facts, error) { return h.read(ctx) })
	if err != nil {
		return err
	}
	if f.placement.Attempt != a.Attempt {
		return fmt.Errorf("the placement is of attempt %d, the assignment of attempt %d", f.placement.Attempt, a.Attempt)
	}
	if err := failpoint.Inject("worker.build"); err != nil {
		return err
	}
	full, err := h.l.plans.get(ctx, h.l, h.job, f.head)
	if err != nil {
		return err
	}
	pipe := full.Pipeline(h.id)
	if pipe == nil {
		return fmt.Errorf("BUG: the plan of job %s has no pipeline %d", h.job, h.id)
	}
	c := h.l.cfg
	tasks, err := task.Build(ctx, task.Config{
		Cluster: f.cluster, JobID: h.job, Job: record.JobLife(h.job, f.head.Spec), Attempt: a.Attempt, Plan: full, Pipeline: pipe,
		Placement: f.placement, Assignment: a, Worker: c.Name, Folder: f.folder, Gate: p.gate, Watcher: watcher{h, p},
		Admit:     h.admit(p, a),
		CallLimit: c.CallLimit, CommitLimit: c.CommitLimit, StopGrace: c.StopGrace, Stdout: c.Stdout,
		Log: h.log.With("attempt", a.Attempt), Secrets: secrets.Here(c.Keys, f.folder), Scrub: p.scrub,
	})
	if err != nil {
		return err
	}
	p.tasks = tasks // from here on stop ends them
	if a.Scope == record.ScopeCommitters {
		return nil
	}
	return h.join(ctx, p, f.placement, pipe)
}

// admit reserves the memory of an attempt: what its assignment says or, where that says nothing, as much of this
// worker as its slots are. Invariant 6: what does not fit is refused, with the reason, before anything is made.
func (h *host) admit(p *part, a *record.Assignment) func(memory.Use) (memory.Shares, error) {
	return func(u memory.Use) (memory.Shares, error) {
		want, c := a.Memory, h.l.cfg
		switch {
		case want > 0:
		case c.Slots > 0:
			want = c.Memory / int64(c.Slots) * int64(len(a.Slots))
		default: // slots cut on demand and no word on memory: others may come
			want = (c.Memory - h.l.memory.Used()) / 2
		}
		s, err := h.l.memory.Admit(u, want)
		if err != nil {
			return s, fmt.Errorf("worker %s: %w", c.Name, err)
		}
		p.shares = s
		return s, nil
	}
}

// join connects the tasks with those of the other workers.
func (h *host) join(ctx context.Context, p *part, pl *record.Placement, pipe *physical.Pipeline) error {
	edges, err := edges(pl, pipe)
	if err != nil {
		return err
	}
	peers := map[string]string{}
	for name, w := range pl.Workers {
		if name != h.l.cfg.Name {
			peers[name] = w.Data
		}
	}
	p.net, err = h.l.net.Open(shuffle.AttemptConfig{
		Key: stream.AttemptKey{Job: h.job, Pipeline: h.id, Attempt: p.attempt}, Token: pl.Token, Peers: peers, Edges: edges,
		Memory:    shuffle.Memory{Received: p.shares.Received, Inbox: p.shares.Inbox, Gather: p.shares.Gather, Link: p.shares.Link},
		OnControl: p.tasks.Frame,
		OnFailure: func(peer string, err error) {
			h.failed(p, fmt.Errorf("link to worker %s: %w", peer, err), peer)
		},
	})
	if err != nil {
		return err
	}
	p.tasks.Connect(p.net)
	return p.net.Connect(ctx)
}

// edges puts the placement of both ends beside the edges of the plan.
func edges(pl *record.Placement, pipe *physical.Pipeline) ([]stream.Edge, error) {
	at := map[plan.ChainID][]string{}
	for _, c := range pipe.Chains {
		at[c.ID] = make([]string, c.Parallelism)
	}
	for _, pc := range pl.Chains {
		for i := pc.From; i < pc.To; i++ {
			if i < 0 || i >= len(at[pc.Chain]) {
				return nil, fmt.Errorf("BUG: the placement has subtask %d of chain %d, the plan has %d of them", i, pc.Chain, len(at[pc.Chain]))
			}
			at[pc.Chain][i] = pc.Worker
		}
	}
	out := make([]stream.Edge, len(pipe.Edges))
	for i, e := range pipe.Edges {
		out[i] = stream.Edge{ID: e.ID, Exchange: stream.Exchange(e.Exchange), Tables: batch.Schemas(e.Tables), Keys: e.Keys,
			Producers: at[e.From], Consumers: at[e.To]}
		if out[i].Exchange == stream.Hash && len(e.Keys) == 0 {
			out[i].Keys = make([][]int, len(e.Tables))
		}
		for _, w := range append(append([]string(nil), at[e.From]...), at[e.To]...) {
			if w == "" {
				return nil, fmt.Errorf("BUG: the placement leaves subtasks of edge %d without a worker", e.ID)
			}
		}
	}
	return out, nil
}

// read reads what an attempt is made from.
func (h *host) read(ctx context.Context) (*facts, error) {
	t := h.l.cfg.Tree
	es, _, err := h.l.cfg.Store.Read(ctx, t.Placement(h.job, h.id), t.Plan(h.job), t.MetaVersion(), t.Job(h.job))
	if err != nil {
		return nil, err
	}
	f := &facts{}
	if f.placement, err = decodeKey[record.Placement](es[0]); err != nil {
		return nil, permanent(err)
	}
	if f.head, err = decodeKey[record.PlanHead](es[1]); err != nil {
		return nil, permanent(err)
	}
	meta, err := decodeKey[record.Meta](es[2])
	if err != nil {
		return nil, permanent(err)
	}
	f.cluster = meta.Cluster
	if spec, err := decodeKey[record.Spec](es[3]); err == nil && es[3].CreateRev == f.head.Spec {
		f.folder = spec.Folder // a job whose spec was deleted is being cancelled: nothing is read any more
	}
	return f, nil
}

// errPermanent marks an answer of the store that reading again does not change.
var errPermanent = errors.New("not usable")

func permanent(err error) error { return fmt.Errorf("%w: %w", errPermanent, err) }
