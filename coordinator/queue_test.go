package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"strait/coordinator/api/client"
	"strait/coordinator/internal/workermodel"
	"strait/coordinator/job"
	"strait/coordinator/schedule"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// dynamic makes a worker cut its slots.
func dynamic(cores int, memory int64) func(*fakeWorker) {
	return func(w *fakeWorker) {
		w.shape = func(r *record.Worker) { r.Dynamic, r.Slots, r.CPU, r.Memory = true, 0, cores, memory }
	}
}

func pending(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobPending }

func runs(u client.Update) bool { return u.Status != nil && u.Status.Phase == state.JobRunning }

// held lets the jobs named so go on one by one: their tasks do not end before.
type held struct {
	open  atomic.Value // map[plan.JobID]bool
	hooks workermodel.Hooks
}

func hold() *held {
	h := &held{}
	h.open.Store(map[plan.JobID]bool{})
	h.hooks.Hang = func(r workermodel.Ref, _ plan.Attempt, s workermodel.Stage) bool {
		return s == workermodel.Drain && !h.open.Load().(map[plan.JobID]bool)[r.Job]
	}
	return h
}

func (h *held) release(ws []*fakeWorker, ids ...plan.JobID) {
	now := map[plan.JobID]bool{}
	for id := range h.open.Load().(map[plan.JobID]bool) {
		now[id] = true
	}
	for _, id := range ids {
		now[id] = true
	}
	h.open.Store(now)
	for _, w := range ws {
		select {
		case w.poke <- struct{}{}:
		default:
		}
	}
}

// get is the value of a key.
func (f *fleetTest) get(key string) []byte {
	f.t.Helper()
	e, err := f.store.Get(context.Background(), key)
	if err != nil {
		f.t.Fatal(err)
	}
	return e.Value
}

// TestMemoryIsNeverOversubscribed: slots cut from memory, the grants' profiles, the assignment's bound, the reason.
func TestMemoryIsNeverOversubscribed(t *testing.T) {
	f := newFleet(t)
	h := hold()
	w := startWorker(t, f.store, "w1", 0, f.target, with(h.hooks), dynamic(4, 1<<30))
	a := f.submit(text("In", "Out", 2, "slot.memory = 300MiB", "slot.cpu = 0.5"), "a")
	f.until(a, "RUNNING", runs)
	g, err := record.Decode[record.Grant](f.get(tree.Slot("w1", 1)))
	if err != nil || g.Profile != (record.Profile{MilliCPU: 500, Memory: 300 << 20}) || g.Endless {
		t.Errorf("%+v, %v", g, err)
	}
	asg, err := record.Decode[record.Assignment](f.get(tree.Task("w1", a, 1)))
	if err != nil || asg.Memory != 600<<20 || len(asg.Slots) != 2 {
		t.Errorf("%+v, %v", asg, err)
	}
	b := f.submit(text("In", "Out", 2, "slot.memory = 300MiB"), "b")
	u := f.until(b, "PENDING", pending)
	const want = "needs 2 slots of 0.25 cores and 300.0 MiB, 1 is free on 1 worker: w1 1 (3 of 4 cores, 424.0 MiB of 1.0 GiB free); no slot for 1/0/1; held by a (2); from "
	if u.Status.Reason != schedule.MemoryShort || !strings.HasPrefix(u.Status.Message, want) {
		t.Errorf("%s: %s\nwant %s", u.Status.Reason, u.Status.Message, want)
	}
	c := f.submit(text("In", "Out", 6), "c") // 6 times 64 MiB of what is left
	f.until(c, "RUNNING", runs)
	h.release([]*fakeWorker{w}, a, b, c)
	f.end(a, state.JobFinished)
	f.end(b, state.JobFinished)
	f.end(c, state.JobFinished)
}

// TestPriorityAndPlace: among waiting jobs the higher priority comes first, then the older; the status says so.
func TestPriorityAndPlace(t *testing.T) {
	f := newFleet(t)
	h := hold()
	ws := []*fakeWorker{startWorker(t, f.store, "w1", 2, f.target, with(h.hooks))}
	first := f.submit(text("In", "Out", 2), "first")
	f.until(first, "RUNNING", runs)
	for _, j := range []struct {
		id       plan.JobID
		priority int
	}{{"low", -1}, {"mid", 0}, {"high", 7}} {
		f.submit(text("In", "Out", 2, fmt.Sprintf("job.priority = %d", j.priority)), j.id)
		f.until(j.id, "PENDING", pending)
	}
	u := f.until("high", "PENDING", pending)
	if u.Status.Priority != 7 || !strings.Contains(u.Status.Message, "held by first (2); place 1 of 3 in the queue; from ") {
		t.Errorf("%d %s", u.Status.Priority, u.Status.Message)
	}
	for _, id := range []plan.JobID{"first", "high", "mid"} {
		h.release(ws, id)
		f.end(id, state.JobFinished)
		next := map[plan.JobID]plan.JobID{"first": "high", "high": "mid", "mid": "low"}[id]
		f.until(next, "RUNNING", runs)
	}
	h.release(ws, "low")
	f.end("low", state.JobFinished)
}

// TestBigJobIsNotStarved: small jobs that keep coming pass a big one only until its patience is over.
func TestBigJobIsNotStarved(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.Patience = 300 * time.Millisecond })
	h := hold()
	ws := []*fakeWorker{startWorker(t, f.store, "w1", 2, f.target, with(h.hooks)), startWorker(t, f.store, "w2", 2, f.target, with(h.hooks))}
	small := func(i int) plan.JobID { return plan.JobID(fmt.Sprintf("small-%d", i)) }
	for i := range 3 {
		f.submit(text("In", "Out", 1), small(i))
		f.until(small(i), "RUNNING", runs)
	}
	big := f.submit(text("In", "Out", 4), "big")
	f.until(big, "PENDING", pending)
	u := f.until(big, "room is kept", func(u client.Update) bool {
		return pending(u) && strings.Contains(u.Status.Message, "is kept for it") && !strings.Contains(u.Status.Message, "; from ")
	})
	if !strings.Contains(u.Status.Message, "what gets free on w1, w2 is kept for it") {
		t.Error(u.Status.Message)
	}
	for i := 4; i < 8; i++ {
		f.submit(text("In", "Out", 1), small(i))
		u = f.until(small(i), "PENDING", pending)
		if u.Status.Reason != schedule.RoomKept && u.Status.Reason != schedule.SlotsShort {
			t.Errorf("%s: %s", u.Status.Reason, u.Status.Message)
		}
	}
	h.release(ws, small(0), small(1))
	f.end(small(0), state.JobFinished)
	f.end(small(1), state.JobFinished)
	h.release(ws, small(2))
	f.until(big, "RUNNING", runs)
	for i := 4; i < 8; i++ {
		if s, _ := record.Decode[record.JobStatus](f.get(tree.JobStatus(small(i)))); s.Started != nil {
			t.Errorf("%s began before the big one", small(i))
		}
	}
	h.release(ws, big, small(4), small(5), small(6), small(7))
	for i := range 8 {
		if i != 3 {
			f.end(small(i), state.JobFinished)
		}
	}
	f.end(big, state.JobFinished)
}

// TestQueueFull: beyond its bound a job that does not fit is refused; one that fits is not.
func TestQueueFull(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.Queue = 1 })
	h := hold()
	ws := []*fakeWorker{startWorker(t, f.store, "w1", 2, f.target, with(h.hooks))}
	f.submit(text("In", "Out", 1), "a")
	f.until("a", "RUNNING", runs)
	f.submit(text("In", "Out", 2), "b")
	f.until("b", "PENDING", pending)
	f.submit(text("In", "Out", 2), "c")
	st := f.end("c", state.JobFailed)
	if st.Reason != job.QueueFull || !strings.HasPrefix(st.Message, "job c does not fit and the queue is full, 1 jobs wait already: needs 2 slots, 1 is free on 1 worker: w1 1/2") {
		t.Errorf("%s: %s", st.Reason, st.Message)
	}
	f.submit(text("In", "Out", 1), "d")
	f.until("d", "RUNNING", runs)
	h.release(ws, "a", "b", "d")
	for _, id := range []plan.JobID{"a", "b", "d"} {
		f.end(id, state.JobFinished)
	}
}

// TestSystemLoad: the worker whose host has least to do gets the job; who does not answer counts by its slots.
func TestSystemLoad(t *testing.T) {
	var busy [2]atomic.Int64
	var incarnation [2]atomic.Int64
	var asked atomic.Int64
	var servers []*httptest.Server
	for i := range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/load" {
				rw.WriteHeader(http.StatusNotFound)
				return
			}
			asked.Add(1)
			_ = json.NewEncoder(rw).Encode(record.Load{CPU: float64(busy[i].Load()) / 100, Memory: 0.5, Incarnation: incarnation[i].Load()})
		}))
		t.Cleanup(s.Close)
		servers = append(servers, s)
	}
	busy[0].Store(90)
	f := newFleet(t, func(c *Config) { c.Placement, c.LoadEvery = schedule.SystemLoad, 20*time.Millisecond })
	for i, name := range []string{"w1", "w2"} {
		w := startWorker(t, f.store, name, 8, f.target, func(w *fakeWorker) { w.ops = strings.TrimPrefix(servers[i].URL, "http://") })
		incarnation[i].Store(w.inc)
	}
	placed := func(id plan.JobID) string {
		f.submit(text("In", "Out", 1), id)
		f.end(id, state.JobFinished)
		h, err := record.Decode[record.History](f.get(tree.History(id)))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range h.Events {
			if e.Reason == "Placed" {
				return e.Message
			}
		}
		return ""
	}
	settled := func(want string) {
		t.Helper()
		for i := 0; ; i++ {
			// Samples weigh over five looks.
			for n := asked.Load() + 12; asked.Load() < n; {
				time.Sleep(5 * time.Millisecond)
			}
			got := placed(plan.JobID(fmt.Sprintf("%s-%d", want, i)))
			if strings.Contains(got, "on "+want) {
				return
			}
			if i == 20 {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	}
	settled("w2")
	busy[0].Store(0)
	busy[1].Store(100)
	settled("w1")
}
