package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"strait/coordinator/api/client"
	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// lin collects a history of operations with their times.
type lin struct {
	mu    sync.Mutex
	began time.Time
	ops   []porcupine.Operation
}

// add notes an operation. One whose outcome is not known may still happen at any time.
func (l *lin) add(who int, in, out any, called, returned time.Time, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	op := porcupine.Operation{ClientId: who, Input: in, Output: out, Call: called.Sub(l.began).Nanoseconds(), Return: returned.Sub(l.began).Nanoseconds()}
	if !known {
		op.Return = math.MaxInt64
	}
	l.ops = append(l.ops, op)
}

// check fails the test when the history is not linearizable.
func (l *lin) check(t *testing.T, what string, m porcupine.NondeterministicModel) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ops) == 0 {
		t.Fatalf("%s: no operation", what)
	}
	switch porcupine.CheckOperationsTimeout(m.ToModel(), l.ops, 2*time.Minute) {
	case porcupine.Illegal:
		for _, part := range m.Partition(l.ops) {
			if porcupine.CheckOperations(m.ToModel(), part) {
				continue
			}
			var b strings.Builder
			for _, op := range part {
				fmt.Fprintf(&b, "%12d %20d  client %d  %+v → %+v\n", op.Call, op.Return, op.ClientId, op.Input, op.Output)
			}
			t.Errorf("%s are not linearizable:\n%s", what, b.String())
		}
	case porcupine.Unknown:
		t.Errorf("%s: no verdict in time over %d operations", what, len(l.ops))
	default:
		t.Logf("%s: %d operations are linearizable", what, len(l.ops))
	}
}

func partition[K comparable](key func(any) K) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(ops []porcupine.Operation) [][]porcupine.Operation {
		at := map[K]int{}
		var out [][]porcupine.Operation
		for _, op := range ops {
			k := key(op.Input)
			if _, ok := at[k]; !ok {
				at[k] = len(out)
				out = append(out, nil)
			}
			out[at[k]] = append(out[at[k]], op)
		}
		return out
	}
}

// What clients do to jobs.

type jobAsk struct {
	do  string // submit, cancel, read
	job plan.JobID
	who string // submit: the name that tells this submission from others
}

type jobAnswer struct {
	err   string // "", taken, none, ended, unknown
	who   string // read: whose job it is
	phase state.Job
}

// jobModel is one job as its clients see it: submitted once, by one of those who tried; cancelled only if somebody
// wished it; and what has ended stays as it ended.
type jobModel struct {
	exists, wished bool
	who            string
	ended          state.Job // "": not known to have ended; "?": ended, how is not known
}

func stepJob(st, in, out any) []any {
	s, ask, got := st.(jobModel), in.(jobAsk), out.(jobAnswer)
	legal := func(yes bool, to jobModel) []any {
		if !yes {
			return nil
		}
		return []any{to}
	}
	submitted, wished := s, s
	submitted.exists, submitted.who = true, ask.who
	wished.wished = true
	switch ask.do + " " + got.err {
	case "submit ":
		return legal(!s.exists, submitted)
	case "submit taken":
		return legal(s.exists, s)
	case "submit unknown":
		if s.exists {
			return []any{s}
		}
		return []any{s, submitted}
	case "cancel ":
		return legal(s.exists && s.ended == "", wished)
	case "cancel none", "read none":
		return legal(!s.exists, s)
	case "cancel ended":
		if s.ended == "" {
			s.ended = "?"
		}
		return legal(s.exists, s)
	case "cancel unknown":
		if !s.exists || s.ended != "" {
			return []any{s}
		}
		return []any{s, wished}
	case "read ":
		ok := s.exists && s.who == got.who
		if !got.phase.Terminal() {
			return legal(ok && s.ended == "", s)
		}
		ok = ok && (s.ended == "" || s.ended == "?" || s.ended == got.phase) && (got.phase != state.JobCancelled || s.wished)
		s.ended = got.phase
		return legal(ok, s)
	}
	panic(fmt.Sprintf("BUG: %+v %+v", ask, got))
}

var jobs = porcupine.NondeterministicModel{
	Partition: partition(func(in any) plan.JobID { return in.(jobAsk).job }),
	Init:      func() []any { return []any{jobModel{}} },
	Step:      stepJob,
}

// Who owns an attempt: a register that leaders claim and others read.

type ownerAsk struct {
	key   string
	claim bool
	owner string
}

type ownerAnswer struct {
	owner string // read
	ok    bool   // claim
	lost  bool   // claim: may have been done
}

// owners is the placement of a pipeline: a claim is for a newer attempt, and everybody reads the newest one.
var owners = porcupine.NondeterministicModel{
	Partition: partition(func(in any) string { return in.(ownerAsk).key }),
	Init:      func() []any { return []any{""} },
	Step: func(st, in, out any) []any {
		ask, got := in.(ownerAsk), out.(ownerAnswer)
		switch {
		case !ask.claim && got.owner != st.(string), ask.claim && got.ok && attemptOf(ask.owner) <= attemptOf(st.(string)):
			return nil
		case ask.claim && got.ok:
			return []any{ask.owner}
		case ask.claim && got.lost && attemptOf(ask.owner) > attemptOf(st.(string)):
			return []any{st, ask.owner}
		}
		return []any{st}
	},
}

func attemptOf(placement string) plan.Attempt {
	if placement == "" {
		return 0
	}
	p, err := record.Decode[record.Placement]([]byte(placement))
	if err != nil {
		panic(err)
	}
	return p.Attempt
}

// leadership is the register of the election: whoever wrote as leader wrote under a leadership that is not older than
// any that wrote before.
var leadership = porcupine.NondeterministicModel{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation { return [][]porcupine.Operation{ops} },
	Init:      func() []any { return []any{int64(0)} },
	Step: func(st, in, out any) []any {
		switch fence, now := in.(int64), st.(int64); {
		case !out.(bool):
			return []any{now}
		case fence < now:
			return nil
		default:
			return []any{fence}
		}
	},
}

// TestModels: the models refuse what they are for.
func TestModels(t *testing.T) {
	at := func(n int, in, out any) porcupine.Operation {
		return porcupine.Operation{Input: in, Output: out, Call: int64(2 * n), Return: int64(2*n + 1)}
	}
	one, two := string(record.MustEncode(record.Placement{Attempt: 1})), string(record.MustEncode(record.Placement{Attempt: 1, Token: "other"}))
	sub := func(n int, who, err string) porcupine.Operation {
		return at(n, jobAsk{"submit", "j", who}, jobAnswer{err: err})
	}
	for name, c := range map[string]struct {
		m   porcupine.NondeterministicModel
		ops []porcupine.Operation
		ok  bool
	}{
		"submitted twice":        {jobs, []porcupine.Operation{sub(0, "a", ""), sub(1, "b", "")}, false},
		"taken by nobody":        {jobs, []porcupine.Operation{sub(0, "a", "taken")}, false},
		"taken by the unknown":   {jobs, []porcupine.Operation{sub(0, "a", "unknown"), sub(1, "b", "taken")}, true},
		"cancelled by nobody":    {jobs, []porcupine.Operation{sub(0, "a", ""), at(1, jobAsk{do: "read", job: "j"}, jobAnswer{who: "a", phase: state.JobCancelled})}, false},
		"risen from the dead":    {jobs, []porcupine.Operation{sub(0, "a", ""), at(1, jobAsk{do: "read", job: "j"}, jobAnswer{who: "a", phase: state.JobFinished}), at(2, jobAsk{do: "read", job: "j"}, jobAnswer{who: "a", phase: state.JobRunning})}, false},
		"of somebody else":       {jobs, []porcupine.Operation{sub(0, "a", ""), at(1, jobAsk{do: "read", job: "j"}, jobAnswer{who: "b"})}, false},
		"cancelled after an end": {jobs, []porcupine.Operation{sub(0, "a", ""), at(1, jobAsk{do: "cancel", job: "j"}, jobAnswer{err: "ended"}), at(2, jobAsk{do: "cancel", job: "j"}, jobAnswer{})}, false},
		"two owners":             {owners, []porcupine.Operation{at(0, ownerAsk{"k", true, one}, ownerAnswer{ok: true}), at(1, ownerAsk{"k", true, two}, ownerAnswer{ok: true})}, false},
		"old owner read":         {owners, []porcupine.Operation{at(0, ownerAsk{"k", true, one}, ownerAnswer{ok: true}), at(1, ownerAsk{key: "k"}, ownerAnswer{owner: ""})}, false},
		"lost claim read":        {owners, []porcupine.Operation{at(0, ownerAsk{"k", true, one}, ownerAnswer{lost: true}), at(1, ownerAsk{key: "k"}, ownerAnswer{owner: one})}, true},
		"deposed and writing":    {leadership, []porcupine.Operation{at(0, int64(5), true), at(1, int64(9), true), at(2, int64(5), true)}, false},
		"deposed and refused":    {leadership, []porcupine.Operation{at(0, int64(5), true), at(1, int64(9), true), at(2, int64(5), false)}, true},
	} {
		if got := porcupine.CheckOperations(c.m.ToModel(), c.ops); got != c.ok {
			t.Errorf("%s: linearizable %v, want %v", name, got, c.ok)
		}
	}
}

// TestLinearizable: clients submit, cancel and read the same jobs at once, through connections that lose calls and
// answers, while leaders are killed, stalled and deposed. What they see, who owns each attempt, and who leads are
// histories of single objects.
func TestLinearizable(t *testing.T) {
	b := newBank(t, 3, 3)
	seen := &lin{began: time.Now()}
	placed := &lin{began: seen.began}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	for who := range 4 {
		tap := b.etcd.Tap(t)
		store := b.etcd.Open(t, tap.Addr())
		rnd := rand.New(rand.NewPCG(b.rnd.Uint64(), uint64(who)))
		var faults sync.Mutex
		tap.Judge(func(kvtest.Txn) kvtest.Verdict {
			faults.Lock()
			defer faults.Unlock()
			return []kvtest.Verdict{kvtest.Pass, kvtest.Pass, kvtest.Pass, kvtest.Pass, kvtest.Swallow, kvtest.Refuse}[rnd.IntN(6)]
		})
		use := rand.New(rand.NewPCG(b.rnd.Uint64(), uint64(who)))
		wg.Go(func() { useJobs(ctx, client.New(store, tree), seen, who, use) })
	}
	reader, pick := b.etcd.Open(t), rand.New(rand.NewPCG(b.rnd.Uint64(), 9))
	wg.Go(func() { readOwners(ctx, reader, placed, pick) })
	b.submit(3)
	b.storm(12)
	stop()
	b.release(1)
	b.ends()
	b.judge()
	seen.check(t, "submit, cancel and read", jobs)
	led := &lin{began: seen.began}
	for i, m := range b.lives {
		for _, d := range m.tap.Done() {
			if _, fence := d.Fence(tree.Leader()); fence != 0 {
				led.add(i, fence, d.OK || d.Lost, d.Called, d.Returned, !d.Lost)
			}
			for _, op := range d.Request.Success {
				if p, ok := tree.Parse(string(op.GetRequestPut().GetKey())); ok && p.Kind == "placements" {
					placed.add(10+i, ownerAsk{string(op.GetRequestPut().Key), true, string(op.GetRequestPut().Value)}, ownerAnswer{ok: d.OK, lost: d.Lost}, d.Called, d.Returned, !d.Lost)
				}
			}
		}
	}
	placed.check(t, "claims and reads of owners", owners)
	led.check(t, "writes under a leadership", leadership)
}

// useJobs does what a client does, on few jobs, so that clients meet.
func useJobs(ctx context.Context, cl *client.Client, l *lin, who int, rnd *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		ask := jobAsk{do: []string{"submit", "cancel", "read", "read"}[rnd.IntN(4)], job: plan.JobID(fmt.Sprintf("lin-%02d", n/12+rnd.IntN(3)))}
		var got jobAnswer
		var err error
		call, done := context.WithTimeout(context.WithoutCancel(ctx), kvtest.Limit)
		called := time.Now()
		switch ask.do {
		case "submit":
			ask.who = fmt.Sprintf("%d-%d", who, n)
			_, err = cl.Submit(call, record.Spec{Name: ask.who, Text: text("In", "Out", 1, "job.retry.times = 1000")}, ask.job)
		case "cancel":
			_, err = cl.Wish(call, ask.job, record.WishCancelled)
		case "read":
			var j *client.Job
			if j, err = cl.Get(call, ask.job); err == nil {
				got.who = j.Spec.Name
				if j.Status != nil {
					got.phase = j.Status.Phase
				}
			}
		}
		returned := time.Now()
		done()
		switch {
		case err == nil:
		case errors.Is(err, client.ErrTaken):
			got.err = "taken"
		case errors.Is(err, client.ErrNoJob):
			got.err = "none"
		case errors.Is(err, client.ErrEnded):
			got.err = "ended"
		case ask.do == "read":
			continue // it has no effect
		default:
			got.err = "unknown"
		}
		l.add(who, ask, got, called, returned, got.err != "unknown")
		time.Sleep(time.Duration(rnd.IntN(40)) * time.Millisecond) // the pace of people
	}
}

// readOwners reads who owns the attempts of the bank's jobs.
func readOwners(ctx context.Context, store *kv.Store, l *lin, rnd *rand.Rand) {
	for ctx.Err() == nil {
		key := tree.Placement(plan.JobID(fmt.Sprintf("bank-%03d", 1+rnd.IntN(20))), 1)
		called := time.Now()
		e, err := store.Get(ctx, key)
		if err == nil {
			l.add(9, ownerAsk{key: key}, ownerAnswer{owner: string(e.Value)}, called, time.Now(), true)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
