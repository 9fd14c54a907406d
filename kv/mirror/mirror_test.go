package mirror_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/mirror"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", "30") // each waits for reconnections; the command line overrides
	goleak.VerifyTestMain(m)
}

// replica rebuilds the state from batches alone and checks what the batches promise.
type replica struct {
	t       *testing.T
	mu      sync.Mutex
	entries map[string]kv.Entry
	rev     int64
	batches int
	log     []string
	onBatch func(mirror.Batch)
}

func (r *replica) take(b mirror.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.Initial != (r.batches == 0) {
		r.t.Errorf("batch %d: initial %v", r.batches, b.Initial)
	}
	if b.Rev < r.rev || !b.Initial && len(b.Events) == 0 {
		r.t.Errorf("batch at %d with %d events after %d", b.Rev, len(b.Events), r.rev)
	}
	r.batches++
	r.rev = b.Rev
	for _, ev := range b.Events {
		if have := r.entries[ev.Entry.Key]; have.ModRev != ev.Prev.ModRev || string(have.Value) != string(ev.Prev.Value) {
			r.t.Errorf("%s %s: prev is %d, replica has %d", ev.Kind, ev.Entry.Key, ev.Prev.ModRev, have.ModRev)
		}
		if ev.Entry.ModRev > b.Rev {
			r.t.Errorf("event of %d in a batch at %d", ev.Entry.ModRev, b.Rev)
		}
		if ev.Kind == mirror.Delete {
			delete(r.entries, ev.Entry.Key)
			r.log = append(r.log, "-"+ev.Entry.Key)
		} else {
			r.entries[ev.Entry.Key] = ev.Entry
			r.log = append(r.log, fmt.Sprintf("+%s=%s", ev.Entry.Key, ev.Entry.Value))
		}
	}
	if r.onBatch != nil {
		r.onBatch(b)
	}
}

func (r *replica) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.log
	r.log = nil
	return out
}

// follow runs a mirror until the test ends.
func follow(t *testing.T, store *kv.Store, o mirror.Options, targets ...string) (*mirror.Mirror, *replica) {
	t.Helper()
	r := &replica{t: t, entries: map[string]kv.Entry{}, onBatch: o.OnBatch}
	o.OnBatch, o.MinPause = r.take, time.Millisecond
	m := mirror.Follow(store, targets, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case <-m.Ready():
	case <-time.After(kvtest.Limit):
		t.Fatal("not ready")
	}
	return m, r
}

// await waits until a batch of that revision has been taken.
func (r *replica) await(t *testing.T, rev int64) {
	t.Helper()
	ctx := kvtest.Context(t)
	for tick := time.NewTicker(time.Millisecond); ; {
		r.mu.Lock()
		at := r.rev
		r.mu.Unlock()
		if at >= rev {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the owner has taken revision %d, want %d", at, rev)
		}
	}
}

func wait(t *testing.T, m *mirror.Mirror, rev int64) {
	t.Helper()
	if err := m.Wait(kvtest.Context(t), rev); err != nil {
		t.Fatal(err)
	}
}

// settle waits until the mirror has caught up with everything written before.
func settle(t *testing.T, e *kvtest.Etcd, m *mirror.Mirror, key string) {
	t.Helper()
	wait(t, m, e.Put(t, key, "settle"))
}

func want(t *testing.T, r *replica, log ...string) {
	t.Helper()
	if got := r.taken(); !slices.Equal(got, log) {
		t.Fatalf("events\n  %s\nwant\n  %s", strings.Join(got, " "), strings.Join(log, " "))
	}
}

func TestFollow(t *testing.T) {
	e := kvtest.New(t)
	for name, store := range map[string]*kv.Store{"inprocess": e.Store, "tcp": e.Open(t)} {
		t.Run(name, func(t *testing.T) {
			p := "/" + name + "/"
			e.Put(t, p+"b", "1")
			e.Put(t, p+"a", "2")
			m, r := follow(t, store, mirror.Options{}, p)
			want(t, r, "+"+p+"b=1", "+"+p+"a=2") // in the order of revisions
			e.Put(t, p+"a", "3")
			e.Put(t, "/elsewhere", "x")
			e.Delete(t, p+"b")
			wait(t, m, e.Put(t, p+"b", "4"))
			want(t, r, "+"+p+"a=3", "-"+p+"b", "+"+p+"b=4")
			v := m.View()
			if len(v.Entries) != 2 || string(v.Entries[p+"b"].Value) != "4" || v.Rev != m.Rev() || string(m.Get(p+"a").Value) != "3" || m.Get(p+"c").Exists() {
				t.Fatalf("%+v", v)
			}
		})
	}
}

func TestEmptyIsReady(t *testing.T) {
	e := kvtest.New(t)
	m, r := follow(t, e.Store, mirror.Options{}, "/none/")
	if r.batches != 1 || m.Rev() == 0 {
		t.Fatalf("%d batches at %d", r.batches, m.Rev())
	}
}

// A key is not a prefix, and several targets have one order.
func TestTargets(t *testing.T) {
	e := kvtest.New(t)
	e.Put(t, "/p/1", "a")
	e.Put(t, "/p/10", "not followed")
	m, r := follow(t, e.Store, mirror.Options{}, "/p/1", "/q/", "/q/x/", "/r")
	want(t, r, "+/p/1=a")
	e.Put(t, "/q/x/y", "1")
	e.Put(t, "/p/10", "2")
	e.Put(t, "/r", "3")
	e.Put(t, "/r/", "4")
	wait(t, m, e.Put(t, "/p/1", "5"))
	want(t, r, "+/q/x/y=1", "+/r=3", "+/p/1=5")
	m, r = follow(t, e.Store, mirror.Options{}, "/p/1")
	want(t, r, "+/p/1=5")
	e.Put(t, "/p/10", "6")
	wait(t, m, e.Put(t, "/p/1", "7"))
	want(t, r, "+/p/1=7")
}

// Invariant: after a compaction the difference arrives, deletes and rebirths included.
func TestCompactedUnderIt(t *testing.T) {
	e := kvtest.New(t)
	p := e.Proxy(t)
	for _, k := range []string{"changed", "deleted", "reborn", "same"} {
		e.Put(t, "/m/"+k, "old")
	}
	m, r := follow(t, e.Open(t, p.Addr()), mirror.Options{}, "/m/", "/zz")
	r.taken()
	p.Cut()
	e.Put(t, "/m/changed", "new")
	e.Delete(t, "/m/deleted")
	e.Delete(t, "/m/reborn")
	e.Put(t, "/m/reborn", "again")
	e.Put(t, "/m/shortlived", "x")
	e.Delete(t, "/m/shortlived")
	e.Put(t, "/m/born", "new")
	e.Compact(t)
	p.Heal()
	settle(t, e, m, "/zz")
	got := r.taken()
	if n := len(got); n > 0 && got[n-1] == "+/zz=settle" {
		got = got[:n-1]
	}
	wantLog := []string{"-/m/deleted", "-/m/reborn", "+/m/changed=new", "+/m/reborn=again", "+/m/born=new"}
	if !slices.Equal(got, wantLog) {
		t.Fatalf("events %v, want %v", got, wantLog)
	}
	e.Put(t, "/m/changed", "newer") // and it follows again
	settle(t, e, m, "/zz")
	if string(m.Get("/m/changed").Value) != "newer" {
		t.Fatal("does not follow after the compaction")
	}
}

// A transaction is never cut in two, through cuts and compactions.
func TestTransactionsStayWhole(t *testing.T) {
	e := kvtest.New(t)
	p := e.Proxy(t)
	e.Put(t, "/pair/a", "0")
	var m *mirror.Mirror
	var r *replica
	var once sync.Mutex
	once.Lock()
	pair := func(mirror.Batch) {
		if a, b := string(r.entries["/pair/a"].Value), string(r.entries["/pair/b"].Value); b != "" && a != b {
			t.Errorf("torn: %s and %s", a, b)
		}
	}
	m, r = follow(t, e.Open(t, p.Addr()), mirror.Options{}, "/pair/")
	r.mu.Lock()
	r.onBatch = pair
	r.mu.Unlock()
	var last int64
	for i := range 300 {
		v := fmt.Appendf(nil, "%d", i)
		res, err := e.Store.Txn(kvtest.Context(t), kv.Txn{Guards: []kv.Guard{kv.Absent("/none")}, Ops: []kv.Op{kv.Put("/pair/a", v), kv.Put("/pair/b", v)}})
		if err != nil {
			t.Fatal(err)
		}
		last = res.Rev
		switch i % 60 {
		case 20:
			p.Drop()
		case 40:
			e.Compact(t)
			p.Drop()
		}
	}
	wait(t, m, last)
}

// Random writers, cuts and compactions: what the batches add up to is what the store holds.
func TestReplicaProperty(t *testing.T) {
	e := kvtest.New(t)
	p := e.Proxy(t)
	m, r := follow(t, e.Open(t, p.Addr()), mirror.Options{}, "/x/")
	check := func(rt *rapid.T) {
		keys := rapid.SampledFrom([]string{"/x/a", "/x/b", "/x/c", "/y"})
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				e.Put(t, keys.Draw(rt, "key"), rapid.StringMatching("[a-z]{1,4}").Draw(rt, "value"))
			},
			"delete":  func(rt *rapid.T) { e.Delete(t, keys.Draw(rt, "key")) },
			"cut":     func(*rapid.T) { p.Cut() },
			"heal":    func(*rapid.T) { p.Heal() },
			"drop":    func(*rapid.T) { p.Drop() },
			"compact": func(*rapid.T) { e.Compact(t) },
		})
		p.Heal()
		end := e.Put(t, "/x/end", "settle")
		wait(t, m, end)
		r.await(t, end) // the copy is ahead of the owner for as long as its callback has not returned
		es, _, err := e.Store.List(kvtest.Context(t), "/x/", 0)
		if err != nil {
			rt.Fatal(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(es) != len(r.entries) || !equal(m.View().Entries, r.entries) {
			rt.Fatalf("store %d, replica %d, view %d keys", len(es), len(r.entries), len(m.View().Entries))
		}
		for _, x := range es {
			if got := r.entries[x.Key]; got.ModRev != x.ModRev || got.CreateRev != x.CreateRev || string(got.Value) != string(x.Value) {
				rt.Fatalf("%s: replica %+v, store %+v", x.Key, got, x)
			}
		}
	}
	rapid.Check(t, check)
}

func equal(a, b map[string]kv.Entry) bool {
	return maps.EqualFunc(a, b, func(x, y kv.Entry) bool { return x.ModRev == y.ModRev && string(x.Value) == string(y.Value) })
}

// A slow owner holds the watch back, not memory: everything arrives, in order.
func TestSlowOwner(t *testing.T) {
	e := kvtest.New(t)
	gate := make(chan struct{})
	var once sync.Once
	o := mirror.Options{OnBatch: func(b mirror.Batch) {
		if !b.Initial {
			once.Do(func() { <-gate })
		}
	}}
	m, r := follow(t, e.Store, o, "/s/")
	var last int64
	for i := range 200 {
		last = e.Put(t, fmt.Sprintf("/s/%d", rand.IntN(5)), fmt.Sprint(i))
	}
	close(gate)
	wait(t, m, last)
	if got := r.taken(); len(got) != 200 {
		t.Fatalf("%d events, want 200", len(got))
	}
}

// Etcd away at the start and later: waited for.
func TestOutage(t *testing.T) {
	e := kvtest.New(t)
	p := e.Proxy(t)
	store := e.Open(t, p.Addr())
	p.Cut()
	go func() { time.Sleep(100 * time.Millisecond); p.Heal() }()
	m, _ := follow(t, store, mirror.Options{}, "/o/")
	for range 3 {
		p.Cut()
		rev := e.Put(t, "/o/a", "x")
		p.Heal()
		wait(t, m, rev)
	}
}

func TestStoreWentBack(t *testing.T) {
	one, two := kvtest.New(t), kvtest.New(t)
	p := one.Proxy(t)
	one.Put(t, "/w/a", "1")
	m := mirror.Follow(one.Open(t, p.Addr()), []string{"/w/"}, mirror.Options{CheckEvery: 20 * time.Millisecond})
	done := make(chan error, 1)
	go func() { done <- m.Run(kvtest.Context(t)) }()
	<-m.Ready()
	p.Retarget(two.Server.Endpoints()[0])
	select {
	case err := <-done:
		if !errors.Is(err, mirror.ErrStoreWentBack) || !strings.Contains(err.Error(), "/w/") || !strings.Contains(err.Error(), "cluster id") {
			t.Fatal(err)
		}
	case <-time.After(kvtest.Limit):
		t.Fatal("still following another cluster")
	}
	if len(m.View().Entries) != 1 {
		t.Fatal("the other cluster was mirrored")
	}
}

// A watch stream that died in silence, while other calls pass: what changed and what was deleted comes all the same.
func TestSilentWatch(t *testing.T) {
	e := kvtest.New(t)
	tap := e.Tap(t)
	e.Put(t, "/q/a", "1")
	gone := e.Put(t, "/q/b", "1")
	m, r := follow(t, e.Open(t, tap.Addr()), mirror.Options{CheckEvery: 20 * time.Millisecond}, "/q/", "/q2")
	wait(t, m, gone)
	for round := range 3 {
		tap.Mute()
		e.Put(t, "/elsewhere", fmt.Sprint(round))
		if round == 1 {
			e.Delete(t, "/q/b")
			wait(t, m, e.Put(t, "/elsewhere", "")) // a new list is at this revision or a later one
			continue
		}
		wait(t, m, e.Put(t, "/q2", fmt.Sprint(round)))
	}
	if v := m.View(); len(v.Entries) != 2 || string(v.Entries["/q2"].Value) != "2" {
		t.Fatal(v)
	}
	got := r.taken()
	if len(got) != 5 {
		t.Fatalf("%d events, want 5: %v", len(got), got)
	}
}

func TestNothingToFollow(t *testing.T) {
	if err := mirror.Follow(kvtest.Start(t), nil, mirror.Options{}).Run(context.Background()); err == nil {
		t.Fatal("followed nothing")
	}
}

// BenchmarkPutToBatch is the way of one write back to its writer.
func BenchmarkPutToBatch(b *testing.B) {
	e := kvtest.New(b)
	m := mirror.Follow(e.Store, []string{"/b/"}, mirror.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	<-m.Ready()
	for b.Loop() {
		if err := m.Wait(ctx, e.Put(b, "/b/a", "x")); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	<-done
}

// Writes that go on while a mirror starts are neither lost nor told twice: the watch begins before the list.
func TestStartUnderWrites(t *testing.T) {
	e := kvtest.New(t)
	ctx := kvtest.Context(t)
	for round := range 20 {
		prefix := fmt.Sprintf("/busy/%d/", round)
		stop := make(chan struct{})
		last := make(chan int, 1)
		go func() {
			n := 0
			for ; ; n++ {
				select {
				case <-stop:
					last <- n
					return
				default:
				}
				e.Put(t, prefix+"n", strconv.Itoa(n))
			}
		}()
		var mu sync.Mutex
		var revs []int64
		m := mirror.Follow(e.Store, []string{prefix}, mirror.Options{OnBatch: func(b mirror.Batch) {
			mu.Lock()
			defer mu.Unlock()
			for _, ev := range b.Events {
				revs = append(revs, ev.Entry.ModRev)
			}
		}})
		mctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- m.Run(mctx) }()
		<-m.Ready()
		close(stop)
		want := <-last - 1
		e.Put(t, prefix+"end", "x")
		end, err := e.Store.Get(ctx, prefix+"end")
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Wait(ctx, end.ModRev); err != nil {
			t.Fatal(err)
		}
		if got := string(m.Get(prefix + "n").Value); got != strconv.Itoa(want) {
			t.Errorf("round %d: the copy has %s, the store %d", round, got, want)
		}
		cancel()
		<-done
		mu.Lock()
		for i := 1; i < len(revs); i++ {
			if revs[i] <= revs[i-1] {
				t.Errorf("round %d: revision %d told after %d", round, revs[i], revs[i-1])
			}
		}
		mu.Unlock()
	}
}
