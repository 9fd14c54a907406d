package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"sort"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/checkpoint/driver"
	"strait/coordinator/fleet"
	"strait/coordinator/job"
	"strait/coordinator/schedule"
	"strait/kv"
	"strait/kv/election"
	"strait/kv/keys"
	"strait/kv/mirror"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
	"strait/plan/state"
)

// loop is one leadership. Everything below it belongs to the goroutine of run.
type loop struct {
	c     *Config
	jc    job.Config
	m     *meters
	lead  *election.Leadership
	log   *slog.Logger
	mir   *mirror.Mirror
	fleet *fleet.Fleet
	jobs  map[plan.JobID]*entry
	dirty map[plan.JobID]bool
	queue *schedule.Queue       // jobs that wait for room
	stale bool                  // room may have come: the queue is to be gone through
	held  map[plan.JobID]*entry // written, not yet come round
	rev   int64
	began bool
	owner map[job.SlotID]plan.JobID // whose facts a grant is among
	wakes wakes

	histories *histories
	fences    fences
	batches   chan mirror.Batch
	results   chan result
	asks      chan func()
	txns      chan struct{} // tokens
	plans     chan struct{}
	helpers   sync.WaitGroup
}

// entry is one job.
type entry struct {
	facts *job.Facts
	state job.State
	// busy: a write is under way, or has not yet come round.
	busy      bool
	until     int64  // busy: until the mirror has come so far
	gone      string // busy: until this key is gone from the mirror
	retry     time.Time
	wake      time.Time
	planned   *job.Planned
	published []*driver.Published
	promised  []job.SlotID // slots of the write under way; kept until the step after it
	plan      *physical.Plan
	planErr   error
	retire    bool // its history is over the caps
	planRev   int64
	priority  int // as the plan says
	failures  int
}

// result is what a helper brings back.
type result struct {
	job       plan.JobID
	write     bool
	rev       int64 // the mirror must come so far
	gone      string
	err       error // of a write
	log       []job.Line
	planned   *job.Planned
	published *driver.Published
	swept     func() error // called by the loop; an error ends the leadership
}

func newLoop(c *Config, m *meters, lead *election.Leadership) *loop {
	l := &loop{c: c, jc: c.job(), m: m, lead: lead, log: c.Log, jobs: map[plan.JobID]*entry{}, dirty: map[plan.JobID]bool{}, held: map[plan.JobID]*entry{},
		histories: newHistories(c.HistoryKeep, c.HistoryExpire),
		queue:     schedule.NewQueue(c.Patience), owner: map[job.SlotID]plan.JobID{},
		batches: make(chan mirror.Batch), results: make(chan result), asks: make(chan func()),
		txns: make(chan struct{}, maxTxns), plans: make(chan struct{}, maxPlans)}
	return l
}

// run leads until ctx ends or the leadership does.
func (l *loop) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	l.mir = mirror.Follow(l.c.Store, []string{l.c.Tree.Prefix()}, mirror.Options{Logger: l.log, OnBatch: func(b mirror.Batch) {
		select {
		case l.batches <- b:
		case <-ctx.Done():
		}
	}})
	g.Go(func() error { return l.mir.Run(ctx) })
	if l.c.Placement == schedule.SystemLoad {
		g.Go(func() error { return l.loads(ctx) })
	}
	g.Go(func() error {
		err := l.serve(ctx)
		if err == nil && ctx.Err() == nil {
			err = errDeposed
		}
		return err
	})
	err := g.Wait()
	l.helpers.Wait()
	return err
}

func (l *loop) serve(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var sweep time.Time // when to look again for what nobody needs any more
	for {
		next := l.wakes.next()
		if !sweep.IsZero() && (next.IsZero() || sweep.Before(next)) {
			next = sweep
		}
		if next.IsZero() {
			timer.Reset(time.Hour)
		} else {
			timer.Reset(max(0, time.Until(next)))
		}
		select {
		case <-ctx.Done():
			return nil
		case b := <-l.batches:
			l.apply(b)
		case r := <-l.results:
			if err := l.result(r); err != nil {
				return err
			}
		case f := <-l.asks:
			f()
		case <-timer.C:
		}
		now := time.Now()
		for _, id := range l.wakes.due(now) {
			if e := l.jobs[id]; e != nil && !e.wake.After(now) {
				l.dirty[id] = true
			}
		}
		if l.began {
			sweep = l.retain(ctx, now)
			if at := l.unfence(ctx, now); !at.IsZero() && (sweep.IsZero() || at.Before(sweep)) {
				sweep = at
			}
			l.step(ctx, now)
		}
	}
}

// apply takes a batch: all that changed up to one revision.
func (l *loop) apply(b mirror.Batch) {
	now := time.Now()
	if l.fleet == nil {
		l.fleet = fleet.New(now)
	}
	changed := map[string]bool{} // workers
	if b.Initial {
		l.load(b.Events)
	}
	for i := range b.Events {
		e := b.Events[i].Entry
		if b.Events[i].Kind == mirror.Delete {
			e = kv.Entry{Key: e.Key}
		}
		k, ok := l.c.Tree.Parse(e.Key)
		if !ok {
			continue // a foreign key
		}
		switch k.Kind {
		case keys.KindWorker, keys.KindWorkerWish, keys.KindFenced:
			changed[k.Worker] = true
			l.unreadable(l.fleet.Set(k, e, now))
		case keys.KindSlot:
			l.stale = l.stale || !e.Exists()
			l.unreadable(l.fleet.Set(k, e, now))
			l.setGrant(job.SlotID{Worker: k.Worker, Slot: int(k.Number)}, e)
		case keys.KindMeta, keys.KindLeader:
		case keys.KindHistory:
			l.histories.set(k.Job, e)
			if x := l.jobs[k.Job]; x != nil {
				x.facts.Set(k, e)
				x.retire = false
				l.dirty[k.Job] = true
			}
		default:
			f := l.entry(k.Job).facts
			if b.Initial { // load has set them
				if k.Kind == keys.KindJobStatus {
					l.m.phase(nil, f.Status.Value)
				}
			} else {
				before := f.Status.Value
				f.Set(k, e)
				l.m.phase(before, f.Status.Value)
			}
			l.m.pipes.see(f, k)
			l.heard(f, k, e, now)
			l.dirty[k.Job] = true
		}
	}
	l.fences.dirty = true
	l.rev = max(l.rev, b.Rev)
	for id, e := range l.held {
		if e.came(l) {
			l.release(id, e)
		}
	}
	if len(changed) > 0 {
		l.stale = true // for those that wait
		for id, e := range l.jobs {
			if e.facts.Concerns(changed) {
				l.dirty[id] = true
			}
		}
	}
	for id := range l.dirty {
		l.drop(id)
	}
	if b.Initial {
		l.missing(now)
		l.began = true
		l.log.Info("coordinator has loaded the tree", "rev", b.Rev, "jobs", len(l.jobs), "workers", len(l.fleet.Names()))
	}
	l.m.see(l, len(changed) > 0 || b.Initial)
}

// drop forgets a job of which no key but a history is left; false: there is more of it.
func (l *loop) drop(id plan.JobID) bool {
	if e := l.jobs[id]; e == nil || e.busy || !e.facts.Empty() {
		return false
	}
	l.forget(id, l.jobs[id])
	delete(l.jobs, id)
	delete(l.dirty, id)
	l.queue.Remove(id)
	return true
}

func (l *loop) byAge(ids []plan.JobID) {
	sort.Slice(ids, func(i, j int) bool {
		x, y := created(l.jobs[ids[i]]), created(l.jobs[ids[j]])
		return x < y || x == y && ids[i] < ids[j]
	})
}

func (l *loop) unreadable(err error) {
	if err != nil {
		l.log.Warn("key cannot be read", "err", err)
	}
}

func (l *loop) entry(id plan.JobID) *entry {
	e := l.jobs[id]
	if e == nil {
		e = &entry{facts: job.NewFacts(id)}
		l.jobs[id] = e
		// The history of an earlier life is not kept with the job while there is nothing else of it.
		if key := l.c.Tree.History(id); l.histories.all[id].rev != 0 {
			if h := l.mir.Get(key); h.Exists() {
				e.facts.Set(keys.Parsed{Kind: keys.KindHistory, Job: id}, h)
			}
		}
	}
	return e
}

// setGrant puts a grant among the facts of the job it names.
func (l *loop) setGrant(id job.SlotID, e kv.Entry) {
	var name plan.JobID
	if g, err := record.Decode[record.Grant](e.Value); e.Exists() && err == nil && plan.CheckName("job", string(g.Job)) == nil {
		name = g.Job
	}
	if old := l.owner[id]; old != "" && old != name {
		if o := l.jobs[old]; o != nil {
			o.facts.SetGrant(id, kv.Entry{})
			l.dirty[old] = true
		}
		delete(l.owner, id)
	}
	if name != "" {
		l.owner[id] = name
		l.entry(name).facts.SetGrant(id, e)
		l.dirty[name] = true
	}
}

// missing tells the fleet of incarnations that placements name and that are not there: for a new leader they vanish
// now, all at once if they are many. And of links that broke before it led.
func (l *loop) missing(now time.Time) {
	var ids []plan.JobID
	for id, e := range l.jobs {
		if s := e.facts.Status.Value; s != nil && !s.Phase.Terminal() {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	for _, id := range ids {
		for _, p := range l.jobs[id].facts.Pipes {
			for name, s := range p.Statuses {
				if s.Value != nil && len(s.Value.Links) > 0 {
					l.fleet.Broke(fleet.ID{Worker: name, Incarnation: s.Value.Incarnation}, s.Value.Links, s.ModRev, now)
				}
			}
			w, pl := p.Word.Value, p.Placement.Value
			if w == nil || pl == nil || w.Attempt != pl.Attempt || w.Phase == state.PipelineStopped {
				continue
			}
			for name, at := range pl.Workers {
				l.fleet.Missing(fleet.ID{Worker: name, Incarnation: at.Incarnation}, time.Duration(at.Wait)*time.Second, now)
			}
		}
	}
}

// came says that what the job wrote, or what its write met, has come round through the mirror.
func (e *entry) came(l *loop) bool {
	return l.rev >= e.until && (e.gone == "" || l.mir.Get(e.gone).ModRev == 0)
}

func (l *loop) release(id plan.JobID, e *entry) {
	delete(l.held, id)
	e.busy, e.until, e.gone = false, 0, ""
	l.dirty[id] = true
}

// step takes the step of every job that something happened to, older jobs first; of those that have no place yet in
// the order of the queue, and with them of those that wait and seem to fit.
func (l *loop) step(ctx context.Context, now time.Time) {
	if len(l.dirty) == 0 && !l.stale {
		return
	}
	ids := make([]plan.JobID, 0, len(l.dirty))
	for id := range l.dirty {
		ids = append(ids, id)
	}
	l.byAge(ids)
	for _, id := range ids {
		e := l.jobs[id]
		if l.drop(id) { // its last write came round before its answer
			continue
		}
		if e == nil || e.busy { // release makes a busy one dirty again
			delete(l.dirty, id)
			continue
		}
		switch {
		case now.Before(e.retry):
			l.wakes.add(id, e.retry)
			e.wake = e.retry
			delete(l.dirty, id)
		case l.unplaced(e):
			l.queue.Come(id, e.priority, created(e), now)
			l.stale = true
		default:
			delete(l.dirty, id)
			l.stepJob(ctx, id, e, now, nil)
		}
	}
	l.pass(ctx, now)
}

func created(e *entry) int64 {
	if e == nil {
		return 0
	}
	return e.facts.Spec.CreateRev
}

func (l *loop) stepJob(ctx context.Context, id plan.JobID, e *entry, now time.Time, kept map[string]plan.JobID) {
	l.decode(e)
	l.forget(id, e)
	ev := job.Event{Facts: e.facts, Fleet: l.fleet, Plan: e.plan, PlanErr: e.planErr, Leader: l.lead.Rev, Token: token(),
		Planned: e.planned, Published: e.published, Retire: e.retire,
		Queue: l.standing(id, kept)}
	e.planned, e.published = nil, nil
	var out job.Actions
	l.m.steps.Inc()
	e.state, out = job.Step(l.jc, e.state, ev, now)
	if out.Waiting == nil {
		l.queue.Remove(id)
	} else {
		l.queue.Put(*out.Waiting, now)
		if again := now.Add(max(lookAgain, time.Duration(l.queue.Len())*lookApart)); out.Wake.IsZero() || again.Before(out.Wake) {
			out.Wake = again
		}
	}
	if !out.Wake.IsZero() && !out.Wake.After(now) {
		out.Wake = now.Add(50 * time.Millisecond) // never spin
	}
	if !out.Wake.IsZero() && !out.Wake.Equal(e.wake) {
		l.wakes.add(id, out.Wake)
	}
	e.wake = out.Wake
	if out.Bug != nil {
		if e.failures++; e.failures == 1 || e.failures%100 == 0 {
			l.log.Error("job is left as it is", "job", string(id), "err", out.Bug)
		}
		return
	}
	if out.Plan != nil {
		l.planJob(ctx, id, e, out.Plan.Spec)
	}
	for _, p := range out.Publish {
		l.publish(ctx, id, p)
	}
	if out.Write != nil {
		l.write(ctx, id, e, out)
	}
}

// decode makes the plan of a job from its keys, once per plan.
func (l *loop) decode(e *entry) {
	h := e.facts.Head
	if s := e.facts.Status.Value; s != nil && s.Phase.Terminal() {
		e.plan, e.planErr, e.planRev = nil, nil, 0 // not needed any more
		return
	}
	if h.ModRev == e.planRev {
		return
	}
	e.plan, e.planErr, e.planRev = nil, nil, h.ModRev
	if !h.Exists() {
		return
	}
	if e.planErr = h.Err; h.Value == nil {
		return
	}
	parts := make([][]byte, 0, h.Value.Number)
	for i := range h.Value.Number {
		c, ok := e.facts.Chunks[i]
		if !ok {
			break
		}
		parts = append(parts, c.Value)
	}
	data, err := record.Unpack(h.Value.Chunks, parts)
	if err == nil {
		e.plan, err = physical.Decode(data)
	}
	e.planErr = err
	if e.plan != nil && !e.facts.Begun() { // later nothing asks for it
		e.prioritise(e.plan)
	}
}

func token() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// result takes what a helper brought back. An error ends the leadership.
func (l *loop) result(r result) error {
	if r.swept != nil {
		return r.swept()
	}
	e := l.jobs[r.job]
	if e == nil {
		return nil
	}
	if r.planned != nil {
		e.planned = r.planned
		l.dirty[r.job] = true
	}
	if r.published != nil {
		e.published = append(e.published, r.published)
		l.dirty[r.job] = true
	}
	if !r.write {
		return nil
	}
	var limit *kv.Limit
	switch {
	case r.err == nil:
		e.failures, e.retry = 0, time.Time{}
		for _, line := range r.log {
			if line.Warn {
				l.log.Warn(line.Msg, line.Args...)
			} else {
				l.log.Info(line.Msg, line.Args...)
			}
		}
	case errors.Is(r.err, kv.ErrDeposed):
		return errDeposed
	case errors.Is(r.err, kv.ErrWentBack):
		return r.err
	case errors.Is(r.err, kv.ErrConflict):
		l.m.conflicts.Inc()
		l.log.Debug("write conflicts; the job is read again", "job", string(r.job), "err", r.err)
	default:
		e.failures++
		l.log.Warn("write failed; the job is read again", "job", string(r.job), "err", r.err, "bug", errors.As(r.err, &limit))
		e.retry = time.Now().Add(min(100*time.Millisecond<<min(e.failures, 6), 5*time.Second))
	}
	e.until, e.gone = r.rev, r.gone
	l.held[r.job] = e
	if e.came(l) {
		l.release(r.job, e)
	}
	return nil
}

// ask runs f in the loop's goroutine; false: it does not lead any more.
func (l *loop) ask(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	select {
	case l.asks <- func() { f(); close(done) }:
		<-done
		return true
	case <-ctx.Done():
		return false
	}
}
