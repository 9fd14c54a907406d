package coordinator

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"strait/coordinator/fleet"
	"strait/coordinator/job"
	"strait/kv"
	"strait/kv/record"
	"strait/plan"
)

// histories are the summaries of ended jobs, the oldest first, so that the caps by number and by age cost a look at
// the oldest and never a walk over all.
type histories struct {
	keep   int           // < 0: any number
	expire time.Duration // < 0: for ever
	all    map[plan.JobID]history
	asked  map[plan.JobID]bool // over the caps and on their way out
	oldest historyHeap         // entries that are not in all any more are skipped
	busy   bool                // a transaction is under way
	retry  time.Time
}

type history struct {
	id       plan.JobID
	rev      int64 // mod revision
	finished time.Time
}

type historyHeap []history

func (h historyHeap) Len() int { return len(h) }
func (h historyHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	return a.finished.Before(b.finished) || a.finished.Equal(b.finished) && a.id < b.id
}
func (h historyHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *historyHeap) Push(x any)   { *h = append(*h, x.(history)) }
func (h *historyHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func newHistories(keep int, expire time.Duration) *histories {
	return &histories{keep: keep, expire: expire, all: map[plan.JobID]history{}, asked: map[plan.JobID]bool{}}
}

// set takes the key of a history as it is now. One that cannot be read is left alone: a newer coordinator wrote it,
// which knows how long it is kept, or a hand.
func (h *histories) set(id plan.JobID, e kv.Entry) {
	delete(h.asked, id)
	if !e.Exists() {
		delete(h.all, id)
		return
	}
	r, err := record.Decode[record.History](e.Value)
	if err != nil {
		delete(h.all, id)
		return
	}
	x := history{id: id, rev: e.ModRev, finished: r.Finished}
	h.all[id] = x
	heap.Push(&h.oldest, x)
	if len(h.oldest) > 2*len(h.all)+64 { // of histories that were replaced
		h.oldest = h.oldest[:0]
		for _, x := range h.all {
			if !h.asked[x.id] {
				h.oldest = append(h.oldest, x)
			}
		}
		heap.Init(&h.oldest)
	}
}

// next takes the oldest history that is over a cap; false: none is, and until tells when the oldest will be by age
// (zero: never).
func (h *histories) next(now time.Time) (x history, ok bool, until time.Time) {
	for len(h.oldest) > 0 {
		x = h.oldest[0]
		if h.all[x.id] != x || h.asked[x.id] {
			heap.Pop(&h.oldest)
			continue
		}
		tooMany := h.keep >= 0 && len(h.all)-len(h.asked) > h.keep
		if h.expire >= 0 {
			until = x.finished.Add(h.expire)
		}
		if !tooMany && (until.IsZero() || now.Before(until)) {
			return history{}, false, until
		}
		heap.Pop(&h.oldest)
		h.asked[x.id] = true
		return x, true, until
	}
	return history{}, false, time.Time{}
}

// back returns histories whose deletion did not come off.
func (h *histories) back(xs []history) {
	for _, x := range xs {
		if h.all[x.id] == x && h.asked[x.id] {
			delete(h.asked, x.id)
			heap.Push(&h.oldest, x)
		}
	}
}

// sweepBatch is how many keys one transaction of a sweep deletes.
const sweepBatch = 100

// retain retires histories over the caps. That of a job with nothing else is deleted here, many at a time; a job that
// has other keys yet goes as a whole, by its own steps. It returns when to look again.
func (l *loop) retain(ctx context.Context, now time.Time) time.Time {
	h := l.histories
	if h.busy {
		return time.Time{}
	}
	if now.Before(h.retry) {
		return h.retry
	}
	var batch []history
	until := time.Time{}
	for len(batch) < sweepBatch {
		x, ok, at := h.next(now)
		if !ok {
			until = at
			break
		}
		if e := l.jobs[x.id]; e != nil && e.facts.Known() {
			e.retire = true
			l.dirty[x.id] = true
			continue
		}
		batch = append(batch, x)
	}
	if len(batch) == 0 {
		return until
	}
	t := kv.Txn{Guards: []kv.Guard{l.lead.Guard()}}
	for _, x := range batch {
		key := l.c.Tree.History(x.id)
		t.Guards = append(t.Guards, kv.AtMod(key, x.rev))
		t.Ops = append(t.Ops, kv.Delete(key))
	}
	h.busy = true
	l.sweep(ctx, t, "histories over the caps", func(err error) {
		h.busy = false
		if err != nil {
			h.back(batch)
			h.retry = time.Now().Add(time.Second)
		}
	})
	return time.Time{}
}

// sweep does a transaction that belongs to no job. done is called in the loop's goroutine; an error of it is not one
// of the leadership: what is left is found again.
func (l *loop) sweep(ctx context.Context, t kv.Txn, what string, done func(error)) {
	l.m.writes.Inc()
	l.help(ctx, l.txns, func() result {
		_, err := l.c.Store.Txn(ctx, t)
		return result{swept: func() error {
			done(err)
			switch {
			case err == nil:
				l.log.Info("swept", "what", what, "keys", len(t.Ops))
			case errors.Is(err, kv.ErrDeposed):
				return errDeposed
			case errors.Is(err, kv.ErrWentBack):
				return err
			case errors.Is(err, kv.ErrConflict):
				l.m.conflicts.Inc()
			default:
				l.log.Warn("sweep failed, it is tried again", "what", what, "err", err)
			}
			return nil
		}}
	})
}

// fences sweeps the keys of fenced incarnations that nothing names any more.
type fences struct {
	dirty bool      // something may have changed what is named
	next  time.Time // not before
	busy  bool
}

// fenceEvery is how long a look at all jobs for names of fenced incarnations keeps the next one away.
const fenceEvery = 5 * time.Second

// unfence removes fenced/… keys that have done their service: no pipeline has the incarnation among its holders or in
// the placement of its attempt, so none ever will, since the incarnation has no key to be placed by. It returns when
// to look again.
func (l *loop) unfence(ctx context.Context, now time.Time) time.Time {
	f := &l.fences
	ids := l.fleet.FencedKeys()
	switch {
	case len(ids) == 0 || !f.dirty || f.busy:
		return time.Time{}
	case now.Before(f.next):
		return f.next
	}
	f.dirty, f.next = false, now.Add(fenceEvery)
	named := map[fleet.ID]bool{}
	for _, e := range l.jobs {
		job.Names(e.facts, func(id fleet.ID) { named[id] = true })
	}
	t := kv.Txn{Guards: []kv.Guard{l.lead.Guard()}}
	for _, id := range ids {
		if named[id.ID] || l.fleet.Fate(id.ID) == fleet.Alive {
			continue
		}
		if len(t.Ops) == sweepBatch {
			f.dirty = true
			break
		}
		key := l.c.Tree.Fenced(id.Worker, id.Incarnation)
		t.Guards = append(t.Guards, kv.AtMod(key, id.ModRev))
		t.Ops = append(t.Ops, kv.Delete(key))
	}
	if len(t.Ops) == 0 {
		return time.Time{}
	}
	f.busy = true
	l.sweep(ctx, t, "keys of fenced incarnations that nothing names", func(err error) {
		f.busy = false
		f.dirty = f.dirty || err != nil
	})
	return time.Time{}
}
