package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }

func workerKey(name string) keys.Parsed { return keys.Parsed{Kind: keys.KindWorker, Worker: name} }

func alive(t *testing.T, f *Fleet, name string, inc int64, now time.Time, change ...func(*record.Worker)) {
	t.Helper()
	w := record.Worker{Header: record.Head, TTL: 10, CallLimit: 30, Slots: 4, Protocol: record.Protocol}
	for _, c := range change {
		c(&w)
	}
	if err := f.Set(workerKey(name), kv.Entry{Key: name, Value: record.MustEncode(&w), CreateRev: inc, ModRev: inc + 1, Lease: 9}, now); err != nil {
		t.Fatal(err)
	}
}

func gone(f *Fleet, name string, now time.Time) { _ = f.Set(workerKey(name), kv.Entry{}, now) }

func TestIncarnations(t *testing.T) {
	f := New(at(0))
	alive(t, f, "w1", 5, at(1))
	if f.Fate(ID{"w1", 5}) != Alive || f.Fate(ID{"w1", 4}) != Gone || f.Since(ID{"w1", 4}) != at(0) {
		t.Error("an incarnation that nobody saw counts from when the leader began")
	}
	alive(t, f, "w1", 9, at(7)) // the same name, another process
	if f.Fate(ID{"w1", 5}) != Gone || f.Since(ID{"w1", 5}) != at(7) || f.Live("w1").Incarnation != 9 || f.Live("w1").Wait() != 40*time.Second {
		t.Error("the old incarnation did not vanish when the new one came")
	}
	gone(f, "w1", at(8))
	gone(f, "w1", at(9))
	if f.Live("w1") != nil || f.Since(ID{"w1", 9}) != at(8) {
		t.Error(f.Since(ID{"w1", 9}))
	}
	k := keys.Parsed{Kind: keys.KindFenced, Worker: "w1", Number: 9}
	_ = f.Set(k, kv.Entry{ModRev: 1}, at(9))
	if f.Fate(ID{"w1", 9}) != Fenced {
		t.Error("not fenced")
	}
	_ = f.Set(k, kv.Entry{}, at(9))
	if f.Fate(ID{"w1", 9}) != Gone {
		t.Error("still fenced")
	}
}

func TestPause(t *testing.T) {
	many := func(n int) *Fleet {
		f := New(at(0))
		for i := range n {
			alive(t, f, fmt.Sprintf("w%d", i), int64(i+1), at(0))
		}
		return f
	}
	paused := func(f *Fleet, now time.Time, want bool) {
		t.Helper()
		until, why := f.Paused(now)
		if until.IsZero() == want || want && !strings.Contains(why, "vanished at once") {
			t.Errorf("paused until %v (%s), want %v", until, why, want)
		}
	}
	f := many(5)
	gone(f, "w0", at(10))
	gone(f, "w1", at(11))
	paused(f, at(11), false) // two
	gone(f, "w2", at(12))
	paused(f, at(12), true)
	paused(f, at(29), true)
	paused(f, at(30), false) // two TTL after the first
	f = many(6)
	for i := range 3 {
		gone(f, fmt.Sprintf("w%d", i), at(10))
	}
	paused(f, at(10), false) // three, but only half
	f = many(5)
	gone(f, "w0", at(10))
	gone(f, "w1", at(10))
	gone(f, "w2", at(21)) // not within one TTL
	paused(f, at(21), false)
	f = many(5)
	for i := range 3 {
		alive(t, f, fmt.Sprintf("w%d", i), int64(i+1), at(5), func(w *record.Worker) { w.Leaving = true })
		gone(f, fmt.Sprintf("w%d", i), at(10))
	}
	paused(f, at(10), false) // they said good-bye
	f = many(5)
	for i := range 4 {
		gone(f, fmt.Sprintf("w%d", i), at(10))
	}
	paused(f, at(10), true)
	alive(t, f, "w0", 90, at(13))
	paused(f, at(13), true)
	alive(t, f, "w1", 91, at(14))
	paused(f, at(14), false) // three of five are back
	// A new leader finds placements that name what is not there.
	f = New(at(0))
	for i := range 3 {
		f.Missing(ID{fmt.Sprintf("w%d", i), 1}, 10*time.Second, at(0))
		f.Missing(ID{fmt.Sprintf("w%d", i), 1}, 10*time.Second, at(0))
	}
	paused(f, at(1), true)
}

func TestWorkers(t *testing.T) {
	f := New(at(0))
	alive(t, f, "w2", 2, at(0), func(w *record.Worker) { w.Leaving = true })
	alive(t, f, "w1", 1, at(0))
	alive(t, f, "w3", 3, at(0))
	_ = f.Set(keys.Parsed{Kind: keys.KindWorkerWish, Worker: "w3"}, kv.Entry{Value: []byte("drain\n"), ModRev: 4}, at(0))
	grant := func(worker string, slot int, inc int64, job plan.JobID, p plan.PipelineID) {
		t.Helper()
		g := record.Grant{Header: record.Head, Incarnation: inc, Job: job, Pipeline: p, Attempt: 1}
		if err := f.Set(keys.Parsed{Kind: keys.KindSlot, Worker: worker, Number: int64(slot)}, kv.Entry{Value: record.MustEncode(&g), ModRev: 7}, at(0)); err != nil {
			t.Fatal(err)
		}
	}
	grant("w1", 0, 1, "a", 1)
	grant("w1", 1, 99, "b", 1) // of an incarnation that is gone
	grant("w1", 2, 1, "a", 2)
	if err := f.Set(keys.Parsed{Kind: keys.KindSlot, Worker: "w3", Number: 3}, kv.Entry{Key: "k", Value: []byte("junk"), ModRev: 7}, at(0)); err == nil || !strings.Contains(err.Error(), "k") {
		t.Error(err)
	}
	ws := f.Workers("a", map[plan.PipelineID]bool{1: true}, func(w string, s int) bool { return w == "w1" && s == 3 })
	got := ""
	for _, w := range ws {
		got += fmt.Sprintf("%s %d taken%v own%v %q; ", w.Name, w.Incarnation, w.Taken, w.Own, w.Closed)
	}
	const want = `w1 1 takenmap[2:true 3:true] ownmap[0:1] ""; w2 2 takenmap[] ownmap[] "leaving"; w3 3 takenmap[3:true] ownmap[] "draining"; `
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := f.Set(workerKey("w9"), kv.Entry{Key: "w9", Value: []byte("?"), ModRev: 1, CreateRev: 1}, at(0)); err == nil || f.Live("w9") == nil {
		t.Error("a worker whose key cannot be read lives, without slots:", err)
	}
}
