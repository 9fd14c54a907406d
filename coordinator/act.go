package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"strait/checkpoint/driver"
	"strait/coordinator/job"
	"strait/kv"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/physical"
	"strait/plan/seal"
)

// help runs f beside the loop, once a token is free, and brings its result to the loop.
func (l *loop) help(ctx context.Context, tokens chan struct{}, f func() result) {
	l.helpers.Go(func() {
		if tokens != nil {
			select {
			case tokens <- struct{}{}:
				defer func() { <-tokens }()
			case <-ctx.Done():
				return
			}
		}
		r := f()
		select {
		case l.results <- r:
		case <-ctx.Done():
		}
	})
}

// write sends the transaction of a step. Until it came round the job is busy and its slots are promised.
func (l *loop) write(ctx context.Context, id plan.JobID, e *entry, out job.Actions) {
	w := out.Write
	t := kv.Txn{Guards: make([]kv.Guard, 0, len(w.If)+1), Ops: make([]kv.Op, 0, len(w.Puts)+len(w.Deletes))}
	t.Guards = append(t.Guards, l.lead.Guard())
	for _, c := range w.If {
		if c.Create {
			t.Guards = append(t.Guards, kv.AtCreate(c.Key, c.Rev))
		} else {
			t.Guards = append(t.Guards, kv.AtMod(c.Key, c.Rev))
		}
	}
	for _, p := range w.Puts {
		t.Ops = append(t.Ops, kv.Put(p.Key, p.Value))
	}
	// A wide job is granted its slots by several writes: all of them are promised with the first.
	for s, g := range out.Grants {
		l.fleet.Promise(s.Worker, s.Slot, *g)
		e.promised = append(e.promised, s)
	}
	for _, d := range w.Deletes {
		t.Ops = append(t.Ops, kv.Delete(d))
	}
	e.busy, e.until, e.gone = true, 0, ""
	l.m.writes.Inc()
	l.help(ctx, l.txns, func() result {
		r := result{job: id, write: true, log: out.Log}
		began := time.Now()
		res, err := l.c.Store.Txn(ctx, t)
		l.m.txn.UpdateDuration(began)
		r.err = err
		switch {
		case err == nil:
			r.rev = res.Rev
			for _, lease := range w.Revoke {
				if lease == 0 {
					continue
				}
				if rerr := l.c.Store.Revoke(ctx, lease); rerr != nil && ctx.Err() == nil {
					l.log.Warn("lease of a fenced worker is left to its TTL", "job", string(id), "err", rerr)
				}
			}
		case errors.Is(err, kv.ErrConflict):
			var c *kv.Conflict
			if errors.As(err, &c) {
				r.rev = c.Current.ModRev
				if !c.Current.Exists() {
					r.gone = c.Guard.Key
				}
			}
		case errors.Is(err, kv.ErrUnknownOutcome):
			r.rev, r.err = l.settle(ctx, w, err)
		}
		return r
	})
}

// settle reads what a write without an answer left: the next step is taken on facts that are not older. Should the
// write land later still, its guards and those of the next write exclude each other.
func (l *loop) settle(ctx context.Context, w *job.Write, err error) (int64, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		rev := int64(0)
		ok := true
		for from := 0; from < len(w.Puts); from += kv.MaxOps {
			keys := make([]string, 0, kv.MaxOps)
			for _, p := range w.Puts[from:min(from+kv.MaxOps, len(w.Puts))] {
				keys = append(keys, p.Key)
			}
			es, _, rerr := l.c.Store.Read(ctx, keys...)
			if rerr != nil {
				ok, err = false, fmt.Errorf("%w; reading what became of it: %w", err, rerr)
				break
			}
			for _, e := range es {
				rev = max(rev, e.ModRev)
			}
		}
		if ok || errors.Is(err, kv.ErrWentBack) {
			return rev, err
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(pause):
		}
	}
}

// planJob plans a job beside the loop: a source may look at its data for a while.
func (l *loop) planJob(ctx context.Context, id plan.JobID, e *entry, rev int64) {
	spec := *e.facts.Spec.Value
	texts := make([][]byte, 0, len(e.facts.Texts))
	if spec.TextChunks != nil {
		for i := range min(spec.TextChunks.Number, len(e.facts.Texts)) {
			texts = append(texts, e.facts.Texts[i].Value)
		}
	}
	l.help(ctx, l.plans, func() result {
		pctx, cancel := context.WithTimeout(ctx, l.c.PlanTimeout)
		defer cancel()
		p := &job.Planned{Spec: rev}
		planText(pctx, id, &spec, texts, l.c, p)
		if p.Err != nil && pctx.Err() != nil && ctx.Err() == nil {
			p.Err = fmt.Errorf("job %s: planning took over %v: %w; a source that is slow to answer can be the reason", id, l.c.PlanTimeout, p.Err)
		}
		return result{job: id, planned: p}
	})
}

// planText fills in the answer to a request for a plan.
func planText(ctx context.Context, id plan.JobID, spec *record.Spec, texts [][]byte, c *Config, out *job.Planned) {
	defer func() {
		// The planner meets what users write; a bug in it costs one job, not the leadership.
		if p := recover(); p != nil {
			out.Err = fmt.Errorf("job %s: BUG: the planner gave up: %v", id, p)
		}
	}()
	text := []byte(spec.Text)
	if spec.TextChunks != nil {
		var err error
		if text, err = record.Unpack(*spec.TextChunks, texts); err != nil {
			out.Err = fmt.Errorf("job %s: its text cannot be read: %w; submit it again", id, err)
			return
		}
	}
	parsed, warnings, err := config.Parse(text, config.Options{File: spec.File, Vars: spec.Variables, Env: config.FixedEnv(spec.Environment)})
	if err != nil {
		out.Err = err
		return
	}
	catalog := c.Catalog(spec.Folder)
	places, err := seal.Plan(parsed, catalog, c.Keys, rand.Reader)
	switch {
	case err != nil && !(spec.PlainSecrets && errors.Is(err, seal.ErrPlain)):
		out.Err = err
		return
	case len(places) > 0:
		out.PlainSecrets = plainSecrets(places, err == nil)
	}
	dag, more, err := logical.Build(ctx, parsed, catalog, logical.Overrides{Parallelism: spec.Parallelism, Name: spec.Name})
	if err == nil {
		if out.Plan, err = physical.Build(dag); err == nil {
			out.Encoded, err = physical.Encode(out.Plan)
		}
	}
	out.Err = err
	for _, w := range append(warnings, more...) {
		out.Warnings = append(out.Warnings, w.Error())
	}
}

// plainSecrets says where the spec of a job holds secrets in clear, and what to do.
func plainSecrets(places []fault.Position, sealed bool) string {
	var at []string
	for _, p := range places {
		if s := p.String(); s != "" && !slices.Contains(at, s) && len(at) < 5 {
			at = append(at, s)
		}
	}
	what := "and so does the plan, as was asked for with --allow-plain-secrets"
	if sealed {
		what = "the plan has them sealed"
	}
	return fmt.Sprintf("the spec holds secrets in clear (%s); %s; `stctl job submit --secret-key-file FILE` stores a job without any", strings.Join(at, ", "), what)
}

// publish stores a manifest after looking that every file it names is there.
func (l *loop) publish(ctx context.Context, id plan.JobID, p *driver.Publish) {
	l.help(ctx, l.plans, func() result {
		a := &driver.Published{Pipeline: p.Pipeline, Attempt: p.Attempt, ID: p.ID}
		var err error
		for _, h := range p.Handles {
			if err = l.c.Storage.Stat(ctx, h); err != nil {
				err = fmt.Errorf("%w; every worker and the coordinator need the same checkpoint folder where state is over 8 KiB", err)
				break
			}
		}
		if err == nil {
			a.Handle, err = l.c.Storage.Put(ctx, p.Name, p.Manifest)
		}
		if err != nil {
			a.Err = err.Error()
		}
		return result{job: id, published: a}
	})
}
