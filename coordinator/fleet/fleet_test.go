package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"strait/coordinator/schedule"
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
	f.Promise("w1", 3, record.Grant{Incarnation: 1, Job: "c", Pipeline: 1, Profile: record.Profile{Memory: 5}})
	f.Promise("w1", 2, record.Grant{Incarnation: 1, Job: "a", Pipeline: 2, Profile: record.Profile{Memory: 7}}) // in place
	got := func() string {
		out := ""
		for _, w := range f.Workers() {
			out += fmt.Sprintf("%s %d %q", w.Name, w.Incarnation, w.Closed)
			for _, h := range w.Held {
				out += fmt.Sprintf(" %d:%s/%d", h.Slot, h.Job, h.Pipeline)
			}
			out += fmt.Sprintf(" memory %d; ", w.Used.Memory)
		}
		return out
	}
	const want = `w1 1 "" 0:a/1 2:a/2 3:c/1 memory 12; w2 2 "leaving" memory 0; w3 3 "draining" 3:/0 memory 0; `
	if got() != want {
		t.Errorf("got  %s\nwant %s", got(), want)
	}
	f.Forget("w1", 2)
	f.Forget("w1", 3)
	_ = f.Set(keys.Parsed{Kind: keys.KindSlot, Worker: "w1", Number: 0}, kv.Entry{}, at(0))
	_ = f.Set(keys.Parsed{Kind: keys.KindWorkerWish, Worker: "w3"}, kv.Entry{}, at(0))
	gone(f, "w2", at(0))
	alive(t, f, "w0", 9, at(0))
	const then = `w0 9 "" memory 0; w1 1 "" 2:a/2 memory 0; w3 3 "" 3:/0 memory 0; `
	if got() != then {
		t.Errorf("got  %s\nwant %s", got(), then)
	}
	if err := f.Set(workerKey("w9"), kv.Entry{Key: "w9", Value: []byte("?"), ModRev: 1, CreateRev: 1}, at(0)); err == nil || f.Live("w9") == nil {
		t.Error("a worker whose key cannot be read lives, without slots:", err)
	}
}

// TestViewIsWhatTheKeysSay: however keys and promises come and go, the view says what they do together.
func TestViewIsWhatTheKeysSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := New(at(0))
		inc := map[string]int64{}
		type slot struct {
			w string
			n int
		}
		grants, promises := map[slot]record.Grant{}, map[slot]record.Grant{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			w := rapid.SampledFrom([]string{"w1", "w2", "w3"}).Draw(t, "worker")
			s := slot{w, rapid.IntRange(0, 5).Draw(t, "slot")}
			g := record.Grant{Header: record.Head, Incarnation: rapid.SampledFrom([]int64{inc[w], 1}).Draw(t, "incarnation"), Job: "j", Pipeline: 1,
				Profile: record.Profile{MilliCPU: rapid.IntRange(1, 9).Draw(t, "cpu"), Memory: 3}}
			k := keys.Parsed{Kind: keys.KindSlot, Worker: w, Number: int64(s.n)}
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				inc[w] = int64(100 + i)
				r := record.Worker{Header: record.Head, TTL: 10, Slots: 4, Protocol: record.Protocol}
				_ = f.Set(workerKey(w), kv.Entry{Value: record.MustEncode(&r), CreateRev: inc[w], ModRev: inc[w]}, at(i))
			case 1:
				delete(inc, w)
				_ = f.Set(workerKey(w), kv.Entry{}, at(i))
			case 2:
				grants[s] = g
				_ = f.Set(k, kv.Entry{Value: record.MustEncode(&g), ModRev: 7}, at(i))
			case 3:
				delete(grants, s)
				_ = f.Set(k, kv.Entry{}, at(i))
			case 4:
				promises[s] = g
				f.Promise(w, s.n, g)
			case 5:
				delete(promises, s)
				f.Forget(w, s.n)
			}
			if len(f.Workers()) != len(inc) {
				t.Fatalf("%d workers, want %v", len(f.Workers()), inc)
			}
			for _, v := range f.Workers() {
				held, used := 0, record.Profile{}
				for n := range 6 {
					g, ok := promises[slot{v.Name, n}]
					if !ok {
						g, ok = grants[slot{v.Name, n}]
					}
					if ok && g.Incarnation == v.Incarnation {
						held, used.MilliCPU, used.Memory = held+1, used.MilliCPU+g.Profile.MilliCPU, used.Memory+g.Profile.Memory
					}
				}
				if len(v.Held) != held || v.Used != used || !slices.IsSortedFunc(v.Held, func(a, b schedule.Held) int { return a.Slot - b.Slot }) {
					t.Fatalf("%+v, want %d slots that take %+v", v, held, used)
				}
			}
		}
	})
}

func TestLinks(t *testing.T) {
	f := New(at(0))
	for i, n := range []string{"w1", "w2", "w3"} {
		alive(t, f, n, int64(i+1), at(0))
	}
	told := func(now time.Time) string {
		a := f.Avoid(now)
		if a == nil {
			return ""
		}
		return fmt.Sprint(a.Pairs, a.Suspects)
	}
	f.Heard("w1", 50)
	f.Heard("w2", 60)
	f.Broke(ID{"w2", 2}, []string{"w1", "w9", "w2"}, 60, at(1))
	f.Broke(ID{"w3", 99}, []string{"w1"}, 61, at(1)) // not who lives
	if got := told(at(1)); got != "[[w1 w2]] map[w1:true]" || !f.Suspect(ID{"w1", 1}, at(1)) || f.Suspect(ID{"w2", 2}, at(1)) {
		t.Error(got)
	}
	f.Heard("w1", 70)
	if got := told(at(2)); got != "[[w1 w2]] map[]" || f.Suspect(ID{"w1", 1}, at(2)) {
		t.Error("it was heard of since:", got)
	}
	if got := told(at(1).Add(AvoidFor)); got != "" {
		t.Error("for ever:", got)
	}
	f.Broke(ID{"w2", 2}, []string{"w1"}, 80, at(3))
	gone(f, "w1", at(4))
	alive(t, f, "w1", 100, at(5))
	if got := told(at(5)); got != "" {
		t.Error("another process of that name:", got)
	}
}

func TestLoad(t *testing.T) {
	f := New(at(0))
	alive(t, f, "w1", 1, at(0))
	load := func(now time.Time) schedule.Load {
		f.Weigh(now)
		return f.Workers()[0].Load
	}
	f.Sample("w1", record.Load{CPU: 1, Memory: 1, Incarnation: 7}, at(0))
	f.Sample("w8", record.Load{CPU: 1, Memory: 1}, at(0))
	if l := load(at(0)); l.Known {
		t.Error("of another process:", l)
	}
	for i := range 7 {
		f.Sample("w1", record.Load{CPU: float64(i), Memory: 0.5, Incarnation: 1}, at(i))
	}
	if l := load(at(6)); !l.Known || l.Busy != 750_000 {
		t.Error(l)
	}
	f.Sample("w1", record.Load{Incarnation: 1}, at(7))
	f.Promise("w1", 0, record.Grant{Incarnation: 1})
	if l := load(at(7)); l.Busy != 450_000 || l.Since != 1 { // the newest counts 4 of 10
		t.Error(l)
	}
	if l := load(at(50)); l.Known {
		t.Error("stale:", l)
	}
}
