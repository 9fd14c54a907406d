package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"strait/coordinator/api/client"
	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// await polls until ok or the limit of the tests.
func (f *fleetTest) await(what string, ok func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(kvtest.Limit)
	for !ok() {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not so after %v", what, kvtest.Limit)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (f *fleetTest) list(prefix string) []string {
	f.t.Helper()
	es, _, err := f.store.List(kvtest.Context(f.t), prefix, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	out := make([]string, 0, len(es))
	for _, e := range es {
		out = append(out, strings.TrimPrefix(e.Key, tree.Prefix()))
	}
	return out
}

// TestManyShortJobs: jobs one after the other leave no more in the store than the histories that are to be kept, and
// nothing in the coordinator.
func TestManyShortJobs(t *testing.T) {
	const n, keep = 120, 7
	f := newFleet(t, func(c *Config) { c.Linger, c.HistoryKeep = time.Millisecond, keep })
	startWorker(t, f.store, "w1", 4, f.target)
	size := func() []string {
		var out []string
		for _, k := range f.list(tree.Prefix()) {
			if !strings.HasPrefix(k, "history/") && !strings.HasPrefix(k, "workers/") && !strings.HasPrefix(k, "leader/") && !strings.HasPrefix(k, "meta/") {
				out = append(out, k)
			}
		}
		return out
	}
	for i := range n {
		id := f.submit(text("In", "Out", 1), plan.JobID(fmt.Sprintf("short-%03d", i)))
		f.end(id, state.JobFinished)
	}
	f.await("only histories are left", func() bool { return len(size()) == 0 && len(f.list(tree.Histories())) == keep })
	if got := f.list(tree.Histories()); got[0] != fmt.Sprintf("history/short-%03d", n-keep) {
		t.Errorf("not the newest are kept: %v", got)
	}
	l := f.coordinator.loop.Load()
	jobs, dirty, waiting, held, taken, owner := -1, 0, 0, 0, 0, 0
	f.await("the leader remembers none of them", func() bool {
		l.ask(kvtest.Context(t), func() {
			jobs, dirty, waiting, held, taken, owner = len(l.jobs), len(l.dirty), l.queue.Len(), len(l.held), 0, len(l.owner)
			for _, w := range l.fleet.Workers() {
				taken += len(w.Held)
			}
		})
		return jobs+dirty+waiting+held+taken+owner == 0
	})
	// What is left is read as any job is.
	list, err := f.cl.List(kvtest.Context(t), client.Filter{})
	if err != nil || len(list) != keep || list[0].Status == nil || list[0].Status.Phase != state.JobFinished || !list[0].Archived {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestHistoryByAge: a history goes when it is too old. What is none, or a newer coordinator's, stays.
func TestHistoryByAge(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.Linger, c.HistoryExpire = time.Millisecond, 100*time.Hour })
	startWorker(t, f.store, "w1", 4, f.target)
	id := f.submit(text("In", "Out", 1), "new")
	f.end(id, state.JobFinished)
	put := func(id string, h *record.History) {
		h.Header = record.Head
		f.etcd.Put(t, tree.History(plan.JobID(id)), string(record.MustEncode(h)))
	}
	old := time.Now().Add(-101 * time.Hour)
	for i := range 250 {
		put(fmt.Sprintf("old-%d", i), &record.History{Phase: state.JobFinished, Finished: old})
	}
	f.etcd.Put(t, tree.History("spoiled"), "{]")
	f.etcd.Put(t, tree.History("newer"), `{"apiVersion":"strait/v9"}`)
	f.await("old ones are gone", func() bool {
		got := f.list(tree.Histories())
		return len(got) == 3 && got[0] == "history/new" && got[1] == "history/newer" && got[2] == "history/spoiled"
	})
}

// TestFencedSweep: the key of a fenced incarnation is there as long as a pipeline names that incarnation, and no longer.
func TestFencedSweep(t *testing.T) {
	f := newFleet(t)
	h, release := hangs(workermodel.Drain)
	w := startWorker(t, f.store, "w1", 2, f.target, with(h))
	id := f.submit(text("In", "Out", 2), "")
	f.until(id, "RUNNING", func(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobRunning })
	f.etcd.Put(t, tree.Fenced("w9", 4), "{}")
	f.await("what nothing names is gone", func() bool { return len(f.list(tree.Fenced("w9", 4))) == 0 })
	// As stctl worker fence does: it is known to be dead, so nothing waits for its TTL.
	w.kill()
	key := tree.Fenced("w1", w.inc)
	_, err := f.store.Txn(kvtest.Context(t), kv.Txn{Guards: []kv.Guard{kv.AtCreate(tree.Worker("w1"), w.inc), kv.Absent(key)},
		Ops: []kv.Op{kv.Delete(tree.Worker("w1")), kv.Put(key, []byte("{}"))}})
	if err != nil {
		t.Fatal(err)
	}
	release()
	startWorker(t, f.store, "w2", 2, f.target)
	f.end(id, state.JobFinished)
	f.await("its key is gone", func() bool { return len(f.list(key)) == 0 })
	f.check(id, 2, true)
}
