package integration

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"strait/integration/harness"
	"strait/kv/kvtest"
)

// fault is what happens to a process as it sends its n-th transaction of a job.
type fault int

const (
	killed     fault = iota // SIGKILL; the transaction never arrives
	killedLate              // SIGKILL; the transaction is done
	stopped                 // SIGSTOP until it is given up; the transaction arrives behind that, then SIGCONT
	cutOff                  // the transaction is done, its answer lost; no call gets through until it is given up
)

var faults = map[string]fault{"killed before": killed, "killed behind": killedLate, "stopped": stopped, "cut off": cutOff}

// arm strikes at the n-th transaction whose fence is below prefix and which writes a key of a job. struck is closed
// when it did; a stopped process's transaction waits for release.
func arm(tap *kvtest.Tap, f fault, n int, prefix, job string, p *harness.Process) (struck, release chan struct{}) {
	struck, release = make(chan struct{}), make(chan struct{})
	var count atomic.Int64
	tap.Judge(func(x kvtest.Txn) kvtest.Verdict {
		fence, _ := x.Fence(prefix)
		if fence == "" || !strings.Contains(strings.Join(x.Puts(), " ")+" ", "/"+job) {
			return kvtest.Pass
		}
		if count.Add(1) != int64(n) {
			return kvtest.Pass
		}
		defer func() {
			close(struck)
			if f == stopped {
				<-release
			}
		}()
		switch f {
		case killed:
			_ = p.Cmd.Process.Signal(syscall.SIGKILL)
			return kvtest.Refuse
		case killedLate:
			_ = p.Cmd.Process.Signal(syscall.SIGKILL)
			return kvtest.Pass
		case stopped:
			_ = p.Cmd.Process.Signal(syscall.SIGSTOP)
			return kvtest.Pass
		}
		return kvtest.CutOff
	})
	return struck, release
}

// txnFleet is a fleet whose coordinators c1 and c2 and whose worker w1 reach etcd through taps.
type txnFleet struct {
	*chaos
	etcd *kvtest.Etcd
	taps map[string]*kvtest.Tap
}

func startTxn(t *testing.T, workerTTL string) *txnFleet {
	t.Helper()
	f := &txnFleet{etcd: kvtest.New(t), taps: map[string]*kvtest.Tap{}}
	// w2 is never harmed and bears a slow machine.
	f.chaos = startChaos(t, harness.Options{Etcd: f.etcd.Server.Endpoints()[0], Worker: []string{"--call-limit", "2s"}})
	f.rows = 400
	f.Terminate("c1")
	for _, name := range []string{"c1", "c2", "w1"} {
		f.taps[name] = f.etcd.Tap(t)
	}
	for _, name := range []string{"c1", "c2"} {
		f.StartStandbyAt(f.taps[name].Addr(), name)
	}
	f.StartWorkerAt(f.taps["w1"].Addr(), "w1", "--slots", "2", "--ttl", workerTTL)
	f.StartWorker("w2", "--slots", "2", "--ttl", "60s")
	for _, name := range []string{"w1", "w2"} {
		f.AwaitReady(name)
	}
	return f
}

// leads waits for a leader that is not in the given life of the leadership, and names it.
func (f *txnFleet) leads(not int64) (name string, rev int64) {
	f.t.Helper()
	f.Await("somebody leads", limit, func() bool {
		var key string
		if key, rev = f.leader(); rev == 0 || rev == not {
			return false
		}
		name = ""
		for _, n := range []string{"c1", "c2"} {
			if strings.Contains(f.Keys(key)[key], `"name":"`+n+`"`) {
				name = n
			}
		}
		return name != ""
	})
	return name, rev
}

// job submits one more job of the test under its own output.
func (f *txnFleet) job(id string) {
	f.t.Helper()
	f.out = filepath.Join(f.Dir, "out", id)
	f.submitAs(id)
}

// heals brings a process back from its fault.
func (f *txnFleet) heals(x fault, name string, release chan struct{}, start func()) {
	f.t.Helper()
	switch x {
	case killed, killedLate:
		f.Process(name).Wait(f.t, limit)
		start()
	case stopped:
		close(release)
		f.Signal(name, syscall.SIGCONT)
	case cutOff:
		f.taps[name].Heal()
	}
}

// TestLeaderAtEveryTransaction harms the leader at its first, second, … transaction of a job, until it has none left:
// the other coordinator goes on from there, what the first one still sends is refused, and no task restarts.
func TestLeaderAtEveryTransaction(t *testing.T) {
	for what, x := range faults {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := startTxn(t, "60s")
			for n := 1; ; n++ {
				victim, rev := f.leads(0)
				id := fmt.Sprintf("txn-%d", n)
				struck, release := arm(f.taps[victim], x, n, tree+"leader/", id, f.Process(victim))
				f.job(id)
				if !f.struck(struck, id) {
					t.Logf("a job takes %d transactions of the leader", n-1)
					f.taps[victim].Judge(nil)
					f.wholeJob(id)
					if n < 6 {
						t.Errorf("only %d transactions: the leader was not harmed all along", n-1)
					}
					break
				}
				if x == killed || x == killedLate {
					f.Process(victim).Wait(t, limit)
				}
				f.leads(rev)
				f.taps[victim].Judge(nil)
				f.heals(x, victim, release, func() { f.StartStandbyAt(f.taps[victim].Addr(), victim) })
				f.wholeJob(id)
				if w := f.word(id); w.Attempt != 1 {
					t.Errorf("transaction %d: the job took %d attempts: %s", n, w.Attempt, w.Message)
				}
			}
			for name, tap := range f.taps {
				for _, fault := range f.History().Writes(name, tap) {
					t.Error(fault)
				}
			}
		})
	}
}

// struck says whether the fault came before the job ended.
func (f *txnFleet) struck(struck chan struct{}, id string) bool {
	f.t.Helper()
	yes := false
	f.Await("the fault comes or the job ends", limit, func() bool {
		select {
		case <-struck:
			yes = true
		default:
		}
		return yes || f.status(id).Phase.Terminal()
	})
	select {
	case <-struck: // at its last transactions the job looks ended already
		return true
	case <-time.After(200 * time.Millisecond): // no more comes: the next round has a transaction more to reach
		return yes
	}
}

// TestWorkerAtEveryTransaction harms a worker at its first, second, … transaction of a job until it has none left: the
// job restarts or goes on, and every row is there once.
func TestWorkerAtEveryTransaction(t *testing.T) {
	for what, x := range faults {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := startTxn(t, "2s")
			start := func() { f.StartWorkerAt(f.taps["w1"].Addr(), "w1", "--slots", "2", "--ttl", "2s") }
			for n := 1; ; n++ {
				id := fmt.Sprintf("txn-%d", n)
				f.Await("w1 is there", limit, func() bool { return f.incarnation("w1") != 0 })
				old := f.incarnation("w1")
				struck, release := arm(f.taps["w1"], x, n, tree+"workers/", id, f.Process("w1"))
				f.job(id)
				if !f.struck(struck, id) {
					t.Logf("a job takes %d transactions of a worker", n-1)
					f.taps["w1"].Judge(nil)
					f.wholeJob(id)
					if n < 4 {
						t.Errorf("only %d transactions: the worker was not harmed all along", n-1)
					}
					return
				}
				f.Await("w1 is given up", limit, func() bool { return f.incarnation("w1") == 0 })
				f.taps["w1"].Judge(nil)
				f.heals(x, "w1", release, start)
				f.Await("w1 comes back", limit, func() bool { now := f.incarnation("w1"); return now != 0 && now != old })
				f.wholeJob(id)
			}
		})
	}
}

// TestBothAtOnce harms leader and worker in the same job, each at a random transaction in a random way.
func TestBothAtOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	f := startTxn(t, "2s")
	all := []fault{killed, killedLate, stopped, cutOff}
	for n := range 6 {
		victim, rev := f.leads(0)
		id := fmt.Sprintf("both-%d", n)
		f.Await("w1 is there", limit, func() bool { return f.incarnation("w1") != 0 })
		old, lx, wx := f.incarnation("w1"), all[rnd.IntN(4)], all[rnd.IntN(4)]
		ln, wn := 1+rnd.IntN(8), 1+rnd.IntN(4)
		t.Logf("%s: leader %s: fault %d at transaction %d; worker: fault %d at %d", id, victim, lx, ln, wx, wn)
		ls, lr := arm(f.taps[victim], lx, ln, tree+"leader/", id, f.Process(victim))
		ws, wr := arm(f.taps["w1"], wx, wn, tree+"workers/", id, f.Process("w1"))
		f.job(id)
		var once, twice sync.Once
		f.Await("the job ends", limit, func() bool {
			select {
			case <-ls:
				if _, now := f.leader(); now != rev && now != 0 {
					once.Do(func() {
						f.taps[victim].Judge(nil)
						f.heals(lx, victim, lr, func() { f.StartStandbyAt(f.taps[victim].Addr(), victim) })
					})
				}
			default:
			}
			select {
			case <-ws:
				if f.incarnation("w1") == 0 {
					twice.Do(func() {
						f.taps["w1"].Judge(nil)
						f.heals(wx, "w1", wr, func() { f.StartWorkerAt(f.taps["w1"].Addr(), "w1", "--slots", "2", "--ttl", "2s") })
					})
				}
			default:
			}
			return f.status(id).Phase.Terminal()
		})
		f.taps[victim].Judge(nil)
		f.taps["w1"].Judge(nil)
		for _, part := range []struct {
			struck, release chan struct{}
			x               fault
			name            string
			once            *sync.Once
			gone            func() bool
			start           func()
		}{
			{ls, lr, lx, victim, &once, func() bool { _, now := f.leader(); return now != rev && now != 0 }, func() { f.StartStandbyAt(f.taps[victim].Addr(), victim) }},
			{ws, wr, wx, "w1", &twice, func() bool { return f.incarnation("w1") != old }, func() { f.StartWorkerAt(f.taps["w1"].Addr(), "w1", "--slots", "2", "--ttl", "2s") }},
		} {
			select {
			case <-part.struck:
				f.Await(part.name+" is given up", limit, part.gone)
				part.once.Do(func() { f.heals(part.x, part.name, part.release, part.start) })
			default:
			}
		}
		f.wholeJob(id)
	}
	for name, tap := range f.taps {
		for _, fault := range f.History().Writes(name, tap) {
			t.Error(fault)
		}
	}
}
