package client

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan/state"
)

// join puts the key of a worker on a lease and returns both.
func join(t *testing.T, e *kvtest.Etcd, name string, w record.Worker) kv.Entry {
	t.Helper()
	lease, err := e.Store.Grant(kvtest.Context(t), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	w.Header = record.Head
	if _, err := e.Store.Txn(kvtest.Context(t), kv.Txn{Guards: []kv.Guard{kv.Absent(tree.Worker(name))}, Ops: []kv.Op{kv.PutLeased(tree.Worker(name), record.MustEncode(&w), lease.ID)}}); err != nil {
		t.Fatal(err)
	}
	got, err := e.Store.Get(kvtest.Context(t), tree.Worker(name))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestDrain(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	for _, err := range []error{c.Drain(ctx, "w1", time.Time{}), c.Undrain(ctx, "w1")} {
		if !errors.Is(err, ErrNoWorker) || !strings.Contains(err.Error(), "stctl worker list") {
			t.Error(err)
		}
	}
	if err := c.Drain(ctx, "W 1", time.Time{}); err == nil {
		t.Error("a bad name was taken")
	}
	join(t, e, "w1", record.Worker{Slots: 2})
	wish := func() string {
		t.Helper()
		got, err := e.Store.Get(ctx, tree.WorkerWish("w1"))
		if err != nil {
			t.Fatal(err)
		}
		return string(got.Value)
	}
	state := func() string {
		t.Helper()
		ws, err := c.Workers(ctx)
		if err != nil || len(ws) != 1 {
			t.Fatal(ws, err)
		}
		if ws[0].Draining() != strings.HasPrefix(ws[0].State(), "drain") {
			t.Error(ws[0].State())
		}
		return ws[0].State()
	}
	if err := c.Undrain(ctx, "w1"); err != nil || wish() != "" || state() != "active" {
		t.Error(err, wish())
	}
	at := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	if err := c.Drain(ctx, "w1", at); err != nil || wish() != "drain until=2030-01-31T12:00:00Z" || state() != "draining until 2030-01-31T12:00:00Z" {
		t.Error(err, wish())
	}
	if err := c.Drain(ctx, "w1", time.Time{}); err != nil || wish() != "drain" || state() != "draining" {
		t.Error(err, wish())
	}
	e.Delete(t, tree.Worker("w1")) // the wish outlives it
	if err := c.Undrain(ctx, "w1"); err != nil || wish() != "" {
		t.Error(err, wish())
	}
	join(t, e, "w1", record.Worker{})
	e.Put(t, tree.WorkerWish("w1"), "sleep")
	if state() != "active (wish not readable)" {
		t.Error(state())
	}
	if all, err := c.WorkerWishes(ctx); err != nil || len(all) != 1 || all["w1"] != "sleep" {
		t.Error(all, err)
	}
	if names, err := c.WorkerNames(ctx, "w"); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
}

func TestFence(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	w := join(t, e, "w1", record.Worker{Host: "h1", PID: 7})
	fenced := func(n int64) bool {
		t.Helper()
		got, err := e.Store.Get(ctx, tree.Fenced("w1", n))
		if err != nil {
			t.Fatal(err)
		}
		if f, err := record.Decode[record.Fenced](got.Value); got.Exists() && (err != nil || f.By != "me@here" || f.Time.IsZero()) {
			t.Errorf("%+v, %v", f, err)
		}
		return got.Exists()
	}
	if _, err := c.Fence(ctx, "w1", w.CreateRev-1, "me@here"); !errors.Is(err, ErrOtherIncarnation) || !strings.Contains(err.Error(), fmt.Sprintf("incarnation %d (pid 7 on h1", w.CreateRev)) || fenced(w.CreateRev-1) {
		t.Error(err)
	}
	for _, n := range []int64{0, -1, 1 << 50} {
		if _, err := c.Fence(ctx, "w1", n, "me@here"); err == nil || !strings.Contains(err.Error(), "never was") {
			t.Error(n, err)
		}
	}
	if gone, err := c.Fence(ctx, "w1", w.CreateRev, "me@here"); err != nil || gone || !fenced(w.CreateRev) {
		t.Error(gone, err)
	}
	if got, err := e.Store.Get(ctx, w.Key); err != nil || got.Exists() {
		t.Error("the key is still there", err)
	}
	if _, err := e.Store.Renew(ctx, w.Lease); !errors.Is(err, kv.ErrLeaseNotFound) {
		t.Error("the lease is still there:", err)
	}
	if gone, err := c.Fence(ctx, "w1", w.CreateRev, "me@here"); err != nil || !gone { // again: harmless
		t.Error(gone, err)
	}
	w2 := join(t, e, "w1", record.Worker{})
	e.Delete(t, w2.Key) // its lease ran out; it may still act
	if gone, err := c.Fence(ctx, "w1", w2.CreateRev, "me@here"); err != nil || !gone || !fenced(w2.CreateRev) {
		t.Error(gone, err)
	}
}

func TestDescribeWorker(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	if _, err := c.DescribeWorker(ctx, "w1"); !errors.Is(err, ErrNoWorker) {
		t.Error(err)
	}
	w := join(t, e, "w1", record.Worker{Dynamic: true, CPU: 4, Memory: 1 << 30})
	put := func(key string, v any) { e.Put(t, key, string(record.MustEncode(v))) }
	put(tree.JobStatus("j1"), &record.JobStatus{Header: record.Head, Name: "orders", Phase: state.JobRunning})
	put(tree.Slot("w1", 0), &record.Grant{Header: record.Head, Incarnation: w.CreateRev, Job: "j1", Pipeline: 1, Attempt: 2, Groups: []string{"1/0/0"}, Profile: record.Profile{MilliCPU: 500, Memory: 1 << 20}})
	put(tree.Slot("w1", 3), &record.Grant{Header: record.Head, Incarnation: w.CreateRev, Job: "j1", Pipeline: 1, Attempt: 2, Groups: []string{"1/0/1"}, Profile: record.Profile{MilliCPU: 500, Memory: 1 << 20}})
	put(tree.Task("w1", "j1", 1), &record.Assignment{Header: record.Head, Incarnation: w.CreateRev, Attempt: 2})
	put(tree.TaskStatus("w1", "j1", 1), &record.TaskStatus{Header: record.Head, Incarnation: w.CreateRev, Attempt: 2, State: state.TaskRunning})
	put(tree.TaskStatus("w1", "j0", 1), &record.TaskStatus{Header: record.Head}) // of a job that left
	put(tree.Slot("w1", 4), &record.Grant{Header: record.Head, Incarnation: 1, Job: "j2", Pipeline: 1, Attempt: 1})
	put(tree.Task("w10", "j1", 1), &record.Assignment{Header: record.Head}) // whose keys begin alike
	d, err := c.DescribeWorker(ctx, "w1")
	if err != nil || len(d.Parts) != 2 || d.Worker.Used != 2 || d.Worker.Taken != (record.Profile{MilliCPU: 1000, Memory: 2 << 20}) {
		t.Fatalf("%+v, %v", d, err)
	}
	p := d.Parts[0]
	if p.Job != "j1" || p.Name != "orders" || p.Attempt != 2 || len(p.Slots) != 2 || p.Status.State != state.TaskRunning || p.Incarnation != w.CreateRev || d.Parts[1].Incarnation != 1 {
		t.Errorf("%+v", d.Parts)
	}
	if ws, err := c.Workers(ctx); err != nil || ws[0].Used != 2 || ws[0].Taken != d.Worker.Taken {
		t.Errorf("%+v, %v", ws, err)
	}
	e.Delete(t, w.Key)
	if d, err = c.DescribeWorker(ctx, "w1"); err != nil || d.Worker != nil || len(d.Parts) != 2 {
		t.Errorf("%+v, %v", d, err)
	}
}
