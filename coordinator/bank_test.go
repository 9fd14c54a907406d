package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"strait/checkpoint/storage"
	"strait/coordinator/api/client"
	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/kvtest"
	hist "strait/kv/kvtest/history"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// bank is a fleet in which leaders and workers come and go while task groups move among the workers. Nothing of it may
// be lost or be there twice: as money between accounts.
type bank struct {
	t      *testing.T
	etcd   *kvtest.Etcd
	rec    *hist.Recorder
	dir    *storage.Local
	target *workermodel.Target
	rnd    *rand.Rand
	cl     *client.Client

	members []*member
	lives   []*member // also those that ended
	workers []*fakeWorker

	mu       sync.Mutex
	held     map[plan.JobID]bool // these do not come to their end yet
	subtasks map[plan.JobID]int
	commits  map[plan.JobID]bool
	made     int
}

// member is one life of a coordinator, which reaches etcd through a tap of its own.
type member struct {
	name   string
	tap    *kvtest.Tap
	store  *kv.Store
	cancel context.CancelFunc
	done   chan error
}

func newBank(t *testing.T, coordinators, workers int) *bank {
	seed := uint64(time.Now().UnixNano())
	if v, err := strconv.ParseUint(os.Getenv("STRAIT_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("STRAIT_SEED=%d", seed)
	b := &bank{t: t, etcd: kvtest.New(t), target: workermodel.NewTarget(), rnd: rand.New(rand.NewPCG(seed, 2)),
		held: map[plan.JobID]bool{}, subtasks: map[plan.JobID]int{}, commits: map[plan.JobID]bool{}}
	b.rec = hist.Start(t, b.etcd.Open(t), tree)
	b.cl = client.New(b.etcd.Store, tree)
	var err error
	if b.dir, err = storage.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for i := range coordinators {
		b.members = append(b.members, b.lead(fmt.Sprintf("c%d", i+1)))
	}
	hang := workermodel.Hooks{Hang: func(r workermodel.Ref, _ plan.Attempt, s workermodel.Stage) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return s == workermodel.Drain && b.held[r.Job]
	}}
	for i := range workers {
		b.workers = append(b.workers, startWorker(t, b.etcd.Store, fmt.Sprintf("w%d", i+1), 2, b.target, with(hang),
			// A lease that outlives a slow machine, and a word that makes nobody wait for it long.
			func(w *fakeWorker) {
				w.ttl, w.limit = 2*time.Minute, 0
				w.shape = func(r *record.Worker) { r.TTL = 1 }
			}))
	}
	return b
}

func (b *bank) lead(name string) *member {
	b.t.Helper()
	m := &member{name: name, tap: b.etcd.Tap(b.t), done: make(chan error, 1)}
	m.store = b.etcd.Open(b.t, m.tap.Addr())
	x, err := New(Config{Store: m.store, Tree: tree, Name: name, Catalog: catalogFor, Storage: b.dir, SessionTTL: 2 * time.Second, Log: testLog().With("who", name)})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() { m.done <- x.Run(ctx) }()
	b.lives = append(b.lives, m)
	b.t.Cleanup(m.end)
	return m
}

// end ends a life in good order, once.
func (m *member) end() {
	if m.cancel == nil {
		return
	}
	m.cancel()
	<-m.done
	m.cancel = nil
}

// leader waits until somebody leads who is not in the given life of the leadership.
func (b *bank) leader(not int64) (*member, kv.Entry) {
	b.t.Helper()
	ctx := kvtest.Context(b.t)
	for {
		es, _, err := b.etcd.Store.List(ctx, tree.Leader(), 0)
		if err != nil {
			b.t.Fatal(err)
		}
		var oldest kv.Entry
		for _, e := range es {
			if !oldest.Exists() || e.CreateRev < oldest.CreateRev {
				oldest = e
			}
		}
		if oldest.Exists() && oldest.CreateRev != not {
			l, err := record.Decode[record.Leader](oldest.Value)
			if err != nil {
				b.t.Fatal(err)
			}
			for _, m := range b.members {
				if m.name == l.Name {
					return m, oldest
				}
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// expire ends the lease that a key hangs on, if it is still there.
func (b *bank) expire(e kv.Entry) {
	if err := b.etcd.Store.Revoke(kvtest.Context(b.t), e.Lease); err != nil && !errors.Is(err, kv.ErrLeaseNotFound) {
		b.t.Fatal(err)
	}
}

// kill ends the leader as SIGKILL does, and starts a coordinator of its name again.
func (b *bank) kill() {
	m, key := b.leader(0)
	m.tap.Cut() // nothing it does from now on is seen
	m.end()
	b.expire(key)
	for i := range b.members {
		if b.members[i] == m {
			b.members[i] = b.lead(m.name)
		}
	}
}

// stall stops the leader between two transactions for longer than its lease, with a write on its way: when another one
// leads, the write arrives.
func (b *bank) stall() (stalled bool) {
	m, key := b.leader(0)
	caught, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.tap.Judge(func(x kvtest.Txn) kvtest.Verdict {
		if k, _ := x.Fence(tree.Leader()); k == key.Key {
			once.Do(func() { close(caught) })
			<-release
		}
		return kvtest.Pass
	})
	defer m.tap.Judge(nil)
	defer close(release)
	b.submit(1)
	select {
	case <-caught:
	case <-time.After(kvtest.Limit):
		return false // it was deposed by somebody else meanwhile
	}
	b.expire(key)
	b.leader(key.CreateRev)
	return true
}

// depose deletes the leader key by hand.
func (b *bank) depose() {
	_, key := b.leader(0)
	b.etcd.Delete(b.t, key.Key)
	b.leader(key.CreateRev)
}

// mute lets the leader's next transactions go without an answer: done or not.
func (b *bank) mute(v kvtest.Verdict) {
	m, _ := b.leader(0)
	var n atomic.Int64
	three := make(chan struct{})
	m.tap.Judge(func(x kvtest.Txn) kvtest.Verdict {
		switch n.Add(1) {
		case 1, 2:
			return v
		case 3:
			close(three)
			return v
		}
		return kvtest.Pass
	})
	defer m.tap.Judge(nil)
	b.submit(2)
	select {
	case <-three:
	case <-time.After(5 * time.Second): // the nemesis itself: a leader that has nothing more to write
	}
}

// behind cuts the leader off, goes on without it and compacts: what it missed it has to list again.
func (b *bank) behind() {
	m, _ := b.leader(0)
	m.tap.Cut()
	b.submit(2)
	b.compact()
	m.tap.Heal()
}

func (b *bank) compact() {
	if err := b.rec.CatchUp(kvtest.Context(b.t)); err != nil {
		b.t.Fatal(err)
	}
	b.etcd.Compact(b.t)
}

// lose ends a worker that runs something, without a word, and starts it again: another incarnation.
func (b *bank) lose() {
	b.t.Helper()
	b.submit(1)
	ctx := kvtest.Context(b.t)
	var w *fakeWorker
	for w == nil {
		words, _, err := b.etcd.Store.List(ctx, tree.Prefix()+"pipelines/", 0)
		if err != nil {
			b.t.Fatal(err)
		}
		b.rnd.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		for _, e := range words {
			word, err := record.Decode[record.Word](e.Value)
			if err != nil || word.Phase != state.PipelineRunning {
				continue
			}
			p, _ := tree.Parse(e.Key)
			at, err := b.etcd.Store.Get(ctx, tree.Placement(p.Job, p.Pipeline))
			if err != nil {
				b.t.Fatal(err)
			}
			if pl, err := record.Decode[record.Placement](at.Value); err == nil && pl.Attempt == word.Attempt {
				for _, x := range b.workers {
					if _, here := pl.Workers[x.name]; here {
						w = x
					}
				}
			}
		}
		if w == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
	w.kill()
	w.expire(b.etcd)
	w.start()
}

var sinks = []string{"Out", "Sum", "Print", "Upsert"}

// submit adds jobs that hold at their end until release.
func (b *bank) submit(n int) {
	b.t.Helper()
	for range n {
		b.made++
		id := plan.JobID(fmt.Sprintf("bank-%03d", b.made))
		sink, parallelism := sinks[b.made%len(sinks)], 1+b.made%3
		b.mu.Lock()
		b.held[id], b.subtasks[id], b.commits[id] = true, parallelism, sink == "Out" || sink == "Sum"
		b.mu.Unlock()
		if _, err := b.cl.Submit(kvtest.Context(b.t), record.Spec{File: "bank.conf", Text: text("In", sink, parallelism, "job.retry.times = 1000")}, id); err != nil {
			b.t.Fatal(err)
		}
	}
}

// release lets about one of n held jobs come to its end.
func (b *bank) release(n int) {
	b.mu.Lock()
	for id := range b.held {
		if n == 1 || b.rnd.IntN(n) == 0 {
			delete(b.held, id)
		}
	}
	b.mu.Unlock()
	for _, w := range b.workers {
		select {
		case w.poke <- struct{}{}:
		default:
		}
	}
}

// ends waits until every job has ended.
func (b *bank) ends() map[plan.JobID]*record.JobStatus {
	b.t.Helper()
	out := map[plan.JobID]*record.JobStatus{}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		jobs, err := b.cl.List(ctx, client.Filter{})
		if err != nil {
			b.t.Fatal(err)
		}
		var open []string
		for i := range jobs {
			if s := jobs[i].Status; s != nil && s.Phase.Terminal() {
				out[jobs[i].ID] = s
			} else if s != nil {
				open = append(open, fmt.Sprintf("%s %s %s", jobs[i].ID, s.Phase, s.Message))
			} else {
				open = append(open, string(jobs[i].ID))
			}
		}
		if len(open) == 0 {
			return out
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("these have not ended:\n%s", strings.Join(open, "\n"))
		case <-time.After(250 * time.Millisecond):
		}
		b.release(1)
	}
}

// storm does the nemeses, each at least once, then at random.
func (b *bank) storm(steps int) (stalled int) {
	nemeses := []struct {
		name string
		do   func()
	}{
		{"kill the leader", b.kill},
		{"stall the leader", func() {
			if b.stall() {
				stalled++
			}
		}},
		{"delete the leader key", b.depose},
		{"swallow answers", func() { b.mute(kvtest.Swallow) }},
		{"refuse transactions", func() { b.mute(kvtest.Refuse) }},
		{"cut off and compact", b.behind},
		{"compact", b.compact},
		{"lose a worker", b.lose},
		{"lose two workers", func() { b.lose(); b.lose() }},
	}
	for i := range steps {
		n := i
		if i >= len(nemeses) {
			n = b.rnd.IntN(len(nemeses))
		}
		b.submit(1)
		began := time.Now()
		nemeses[n].do()
		b.t.Logf("%s: %v", nemeses[n].name, time.Since(began).Round(time.Millisecond))
		b.release(2)
	}
	return stalled
}

// TestBank: many coordinators move task groups among workers; leaders are killed, stalled, deposed, cut off; workers
// vanish. Every task group of an attempt has one owner at every revision, no slot is granted twice, numbers only grow,
// nobody writes who does not lead, and every commit is there once.
func TestBank(t *testing.T) {
	steps := 16
	if v, err := strconv.Atoi(os.Getenv("STRAIT_BANK_STEPS")); err == nil {
		steps = v
	}
	b := newBank(t, 3, 4)
	b.submit(4)
	stalled := b.storm(steps)
	b.release(1)
	moved := 0
	for id, s := range b.ends() {
		if s.Phase != state.JobFinished {
			t.Errorf("%s is %s: %s", id, s.Phase, s.Message)
		}
		for _, bad := range b.target.Check(string(id), b.subtasks[id], b.commits[id]) {
			t.Errorf("%s: %s", id, bad)
		}
		if s.Pipelines[1].Attempt > 1 {
			moved++
		}
	}
	leaders := map[int64]bool{}
	for _, r := range b.judge() {
		for _, c := range r.Changes {
			if strings.HasPrefix(c.Entry.Key, tree.Leader()) && !c.Deleted {
				leaders[c.Entry.CreateRev] = true
			}
		}
	}
	t.Logf("%d jobs, %d of them moved, %d candidates for the lead, %d writes of deposed leaders held back", b.made, moved, len(leaders), stalled)
	if moved == 0 || stalled == 0 {
		t.Errorf("%d jobs moved, %d leaders were stalled: nothing was tried", moved, stalled)
	}
}

// judge checks who wrote what. The recorder itself is checked at the end of the test.
func (b *bank) judge() []hist.Revision {
	b.t.Helper()
	if err := b.rec.CatchUp(kvtest.Context(b.t)); err != nil {
		b.t.Fatal(err)
	}
	for _, m := range b.lives {
		for _, fault := range b.rec.Writes(m.name, m.tap) {
			b.t.Error(fault)
		}
	}
	return b.rec.Revisions()
}
