package job

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"strait/checkpoint"
	"strait/checkpoint/driver"
	"strait/coordinator/fleet"
	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
	"strait/plan/state"
)

var (
	tree = keys.New("")
	t0   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

const (
	simJob   = plan.JobID("j")
	simTTL   = 10
	simLimit = 30
)

// memory is a store of one process: every revision is kept.
type memory struct {
	now  map[string]kv.Entry
	rev  int64
	past []map[string]kv.Entry // by revision
}

func newMemory() *memory {
	return &memory{now: map[string]kv.Entry{}, past: []map[string]kv.Entry{{}}}
}

func (m *memory) at(rev int64) snapshot { return snapshot(m.past[rev]) }

// do writes at one revision.
func (m *memory) do(f func(map[string]kv.Entry, int64)) {
	m.rev++
	m.now = maps.Clone(m.now)
	f(m.now, m.rev)
	m.past = append(m.past, m.now)
}

func put(s map[string]kv.Entry, key string, value []byte, rev int64) {
	e := kv.Entry{Key: key, Value: value, CreateRev: rev, ModRev: rev}
	if old, ok := s[key]; ok {
		e.CreateRev, e.Lease = old.CreateRev, old.Lease
	}
	s[key] = e
}

type snapshot map[string]kv.Entry

func (s snapshot) Get(key string) kv.Entry { return s[key] }

func (s snapshot) List(prefix string) []kv.Entry {
	var out []kv.Entry
	for k, e := range s {
		if strings.HasPrefix(k, prefix) {
			out = append(out, e)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

// leader is one leadership: what it remembers dies with it.
type leader struct {
	term      int64
	state     State
	fleet     *fleet.Fleet
	facts     *Facts
	seen      int64 // fleet and facts are as of this revision
	floor     int64 // its own last write
	planned   *Planned
	published []*driver.Published
	wake      time.Time     // on the clock of the world
	ahead     time.Duration // of its own clock
}

// proc is one worker process.
type proc struct {
	name  string
	brain *workermodel.Worker
	alive bool
	seen  int64
	until time.Time // it must have noticed by then that its key is gone
	gone  bool
	last  int64 // the last revision at which it had its key: it sees nothing newer without noticing
	// frozen: it does nothing, and its peers find their links to it broken. later: then its key is gone if it is
	// dead, else it goes on.
	frozen bool
	later  time.Time
	leave  time.Time // it was asked to end and goes then at the latest, sooner when it has nothing to do
}

// sim is the world.
type sim struct {
	t       testing.TB
	rnd     *rand.Rand // nil: no lag, everything in order
	m       *memory
	conf    Config
	plan    *physical.Plan
	lead    *leader
	terms   int64
	procs   []*proc
	target  *workermodel.Target
	hooks   workermodel.Hooks
	now     time.Time
	trace   []string
	lazy    []func() // lines of the trace that are only made when they are wanted
	writes  int
	late    []func() // transactions that may still land
	onWrite func(n int) string
	after   func() // once, after the next write
	store   map[string][]byte
	bad     []string

	ahead time.Duration // of the clocks of leaders that are elected from now on

	protocol  [2]int // of workers that start; zero: that of this build
	retire    bool   // the history is over the caps
	noHistory bool   // it is meant to be gone
}

func newSim(t testing.TB, p *physical.Plan, workers, slots int) *sim {
	s := &sim{t: t, m: newMemory(), plan: p, now: t0, target: workermodel.NewTarget(), store: map[string][]byte{}}
	s.conf = Config{Tree: tree}.Defaults()
	for i := range workers {
		s.start(fmt.Sprintf("w%d", i+1), slots)
	}
	s.elect()
	return s
}

func (s *sim) log(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%s r%d ", s.now.Format("04:05"), s.m.rev)+fmt.Sprintf(format, args...))
}

// speaks is what workers that start speak.
func (s *sim) speaks() [2]int {
	if s.protocol == [2]int{} {
		return record.Protocol
	}
	return s.protocol
}

func (s *sim) start(name string, slots int) *proc {
	key := tree.Worker(name)
	s.m.do(func(m map[string]kv.Entry, rev int64) {
		put(m, key, record.MustEncode(&record.Worker{Header: record.Head, Data: name + ":1", TTL: simTTL, CallLimit: simLimit, Slots: slots, Protocol: s.speaks(), Version: "of the test"}), rev)
		e := m[key]
		e.Lease = rev
		m[key] = e
	})
	p := &proc{name: name, alive: true, seen: s.m.rev}
	p.brain = &workermodel.Worker{Tree: tree, Name: name, Incarnation: s.m.rev, Target: s.target, Hooks: s.hooks, Protocol: s.speaks()}
	p.brain.Hooks.Lost = s.lost
	s.procs = append(s.procs, p)
	s.log("worker %s starts as %d", name, s.m.rev)
	return p
}

// lost are the workers of an attempt that do not answer, while their keys are there.
func (s *sim) lost(r workermodel.Ref, a plan.Attempt) []string {
	pl, err := record.Decode[record.Placement](s.m.now[tree.Placement(r.Job, r.Pipeline)].Value)
	if err != nil || pl.Attempt != a {
		return nil
	}
	var out []string
	for _, p := range s.procs {
		if at, ok := pl.Workers[p.name]; ok && at.Incarnation == p.brain.Incarnation && p.frozen && s.m.now[tree.Worker(p.name)].CreateRev == at.Incarnation {
			out = append(out, p.name)
		}
	}
	return out
}

// freeze makes a process do nothing any more: for ever if it is dead, and its key is gone after its TTL; else until a
// leader has lost patience with it.
func (s *sim) freeze(p *proc, dead bool) {
	p.frozen, p.later = true, s.now.Add(s.conf.Stop+15*time.Second)
	if dead {
		s.kill(p)
		p.later = s.now.Add(simTTL * time.Second)
	}
	s.log("worker %s (%d) does not answer any more", p.name, p.brain.Incarnation)
}

func (s *sim) submit(life string) {
	s.m.do(func(m map[string]kv.Entry, rev int64) {
		put(m, tree.Job(simJob), record.MustEncode(&record.Spec{Header: record.Head, Text: life, Submitted: t0}), rev)
	})
}

func (s *sim) wish(word string) {
	s.m.do(func(m map[string]kv.Entry, rev int64) { put(m, tree.Wish(simJob), []byte(word), rev) })
	s.log("wish %s", word)
}

// elect makes a new leader; the old one is deposed and whatever it had in hand is gone.
func (s *sim) elect() {
	s.terms++
	s.m.do(func(m map[string]kv.Entry, rev int64) {
		delete(m, tree.Leader()+"x")
		put(m, tree.Leader()+"x", nil, rev)
	})
	s.lead = &leader{term: s.m.rev, fleet: fleet.New(s.now.Add(s.ahead)), facts: NewFacts(simJob), floor: s.m.rev, ahead: s.ahead}
	s.log("leader %d", s.m.rev)
	s.look(s.lead, s.m.rev)
	for _, id := range sorted(s.lead.facts.Pipes) {
		for _, name := range sorted(s.lead.facts.Pipes[id].Statuses) {
			s.lead.broke(id, name, s.clock())
		}
	}
	for _, e := range s.m.at(s.m.rev).List(tree.Placements(simJob)) {
		pl, err := record.Decode[record.Placement](e.Value)
		if err != nil {
			continue
		}
		for _, name := range sorted(pl.Workers) {
			s.lead.fleet.Missing(fleet.ID{Worker: name, Incarnation: pl.Workers[name].Incarnation}, simTTL*time.Second, s.clock())
		}
	}
}

// clock is what the leader's clock shows.
func (s *sim) clock() time.Time { return s.now.Add(s.lead.ahead) }

// look brings what the leader knows to a revision, as the loop does with each batch.
func (s *sim) look(l *leader, rev int64) {
	for ; l.seen < rev; l.seen++ {
		old, now := s.m.past[l.seen], s.m.past[l.seen+1]
		for k, e := range old {
			if _, ok := now[k]; !ok {
				l.take(k, kv.Entry{Key: e.Key}, s.now.Add(l.ahead))
			}
		}
		for _, k := range slices.Sorted(maps.Keys(now)) {
			if e := now[k]; old[k].ModRev != e.ModRev {
				l.take(k, e, s.now.Add(l.ahead))
			}
		}
	}
}

func (l *leader) take(key string, e kv.Entry, now time.Time) {
	p, ok := tree.Parse(key)
	if !ok {
		return
	}
	_ = l.fleet.Set(p, e, now)
	switch {
	case p.Kind == keys.KindSlot:
		if g, err := record.Decode[record.Grant](e.Value); !e.Exists() || err == nil && g.Job == simJob {
			l.facts.SetGrant(SlotID{p.Worker, int(p.Number)}, e)
		}
	case p.Job == simJob:
		l.facts.Set(p, e)
		if e.Exists() && (p.Kind == keys.KindTaskStatus || p.Kind == keys.KindAck) {
			l.fleet.Heard(p.Worker, e.ModRev)
			l.broke(p.Pipeline, p.Worker, now)
		}
	}
}

func (l *leader) broke(p plan.PipelineID, worker string, now time.Time) {
	if st := l.facts.Pipes[p].Statuses[worker]; st.Value != nil && len(st.Value.Links) > 0 {
		l.fleet.Broke(fleet.ID{Worker: worker, Incarnation: st.Value.Incarnation}, st.Value.Links, st.ModRev, now)
	}
}

func (s *sim) pick(lo, hi int64) int64 {
	if s.rnd == nil || lo >= hi || s.rnd.Intn(2) == 0 {
		return hi
	}
	return lo + s.rnd.Int63n(hi-lo+1)
}

// step lets the leader take one step; false: it has nothing to do.
func (s *sim) step() bool {
	l := s.lead
	rev := s.pick(max(l.floor, l.seen), s.m.rev)
	s.look(l, rev)
	f := l.facts
	e := Event{Facts: f, Fleet: l.fleet, Leader: l.term, Token: fmt.Sprint(rev), Planned: l.planned, Published: l.published, Retire: s.retire}
	if f.Head.Exists() {
		e.Plan = s.plan
	}
	l.planned, l.published = nil, nil
	before := string(record.MustEncode(f.Status.Value))
	st, out := Step(s.conf, l.state, e, s.clock())
	// Pure: the same arguments again, the same result.
	if s.m.rev%4 == 0 {
		_, again := Step(s.conf, l.state, e, s.clock())
		if a, b := fmt.Sprintf("%+v", out.Write), fmt.Sprintf("%+v", again.Write); a != b {
			s.bad = append(s.bad, fmt.Sprintf("two steps from the same facts differ: %s and %s", a, b))
		}
	}
	if f.Status.Value != nil && string(record.MustEncode(f.Status.Value)) != before {
		s.bad = append(s.bad, "the step changed its facts")
	}
	if l.state, l.wake = st, out.Wake; !l.wake.IsZero() {
		l.wake = l.wake.Add(-l.ahead)
	}
	if out.Bug != nil {
		s.bad = append(s.bad, out.Bug.Error())
		return false
	}
	if out.Plan != nil {
		data, err := physical.Encode(s.plan)
		if err != nil {
			s.bad = append(s.bad, err.Error())
		}
		l.planned = &Planned{Spec: out.Plan.Spec, Plan: s.plan, Encoded: data}
	}
	for _, p := range out.Publish {
		s.store[p.Name] = p.Manifest
		l.published = append(l.published, &driver.Published{Pipeline: p.Pipeline, Attempt: p.Attempt, ID: p.ID, Handle: checkpoint.Handle{Location: p.Name, Size: int64(len(p.Manifest))}})
	}
	if out.Write == nil {
		return out.Plan != nil || len(out.Publish) > 0
	}
	s.writes++
	how := ""
	if s.onWrite != nil {
		how = s.onWrite(s.writes)
	}
	switch how {
	case "lost": // the leader dies before the store sees it
		s.elect()
	case "late": // no answer; it may land at any later time
		s.late = append(s.late, func() { s.txn(l, out.Write) })
		s.log("a write is late: %s", brief(out.Write))
		l.floor = s.m.rev
	case "unknown": // it landed, but nobody told
		s.txn(l, out.Write)
		l.floor = s.m.rev
	case "die": // it landed, and the leader is gone
		s.txn(l, out.Write)
		s.elect()
	default:
		if s.txn(l, out.Write) {
			l.floor = s.m.rev
		}
	}
	return true
}

func brief(w *Write) string {
	var out []string
	for _, p := range w.Puts {
		v := string(p.Value)
		if len(v) > 300 {
			v = v[:300]
		}
		out = append(out, strings.TrimPrefix(p.Key, tree.Prefix())+"="+v)
	}
	for _, d := range w.Deletes {
		out = append(out, "del "+strings.TrimPrefix(d, tree.Prefix()))
	}
	return strings.Join(out, "\n      ")
}

// txn does a write of a leader if its guards hold, and checks what must hold after every write.
func (s *sim) txn(l *leader, w *Write) bool {
	if s.m.now[tree.Leader()+"x"].CreateRev != l.term {
		s.log("deposed: %d", l.term)
		return false
	}
	for _, c := range w.If {
		if e := s.m.now[c.Key]; c.Create && e.CreateRev != c.Rev || !c.Create && e.ModRev != c.Rev {
			s.log("conflict on %s", c.Key)
			return false
		}
	}
	if len(w.If) > 127 || len(w.Puts)+len(w.Deletes) > 128 {
		s.bad = append(s.bad, fmt.Sprintf("write of %d guards, %d operations", len(w.If), len(w.Puts)+len(w.Deletes)))
	}
	before := s.m.now
	s.m.do(func(m map[string]kv.Entry, rev int64) {
		for _, p := range w.Puts {
			put(m, p.Key, p.Value, rev)
		}
		for _, d := range w.Deletes {
			delete(m, d)
		}
	})
	s.trace = append(s.trace, "")
	n, rev, now := len(s.trace)-1, s.m.rev, s.now.Format("04:05")
	s.lazy = append(s.lazy, func() { s.trace[n] = fmt.Sprintf("%s r%d %d writes %s", now, rev, l.term, brief(w)) })
	if f := s.after; f != nil {
		s.after = nil
		f()
	}
	s.bad = append(s.bad, checkWrite(before, s.m.now)...)
	for _, p := range s.procs {
		s.notice(p)
	}
	return true
}

// notice: a worker whose key is gone goes on until it notices, for no longer than the leader waits.
func (s *sim) notice(p *proc) {
	if p.alive && !p.gone && s.m.now[tree.Worker(p.name)].CreateRev != p.brain.Incarnation {
		p.last = s.m.rev
		for p.last > 0 && s.m.past[p.last][tree.Worker(p.name)].CreateRev != p.brain.Incarnation {
			p.last--
		}
		p.gone, p.until = true, s.now.Add((simTTL+simLimit-1)*time.Second)
	}
	if p.gone && p.alive && !s.now.Before(p.until) {
		s.lastAct(p)
		p.alive = false
		s.log("worker %s (%d) is over", p.name, p.brain.Incarnation)
	}
}

// lastAct is the worst a process can do whose key is gone: to act as late as it can, on all that it saw in time.
func (s *sim) lastAct(p *proc) {
	for ; p.seen <= p.last; p.seen++ {
		for range 3 {
			p.brain.Step(s.m.at(p.seen))
		}
	}
}

// work lets a worker take a step; false: it has nothing to do.
func (s *sim) work(p *proc) bool {
	s.notice(p)
	if p.frozen || !p.alive || p.gone && (s.rnd == nil || s.rnd.Intn(2) == 0) {
		return false
	}
	if !p.leave.IsZero() && !p.gone && s.left(p) {
		return true
	}
	most := s.m.rev
	if p.gone {
		most = max(p.seen, p.last)
	}
	p.seen = s.pick(p.seen, most)
	did := false
	for _, w := range p.brain.Step(s.m.at(p.seen)) {
		if s.m.now[tree.Worker(p.name)].CreateRev != p.brain.Incarnation {
			continue
		}
		if w.Word != 0 && s.m.now[tree.Pipeline(w.Ref.Job, w.Ref.Pipeline)].ModRev != w.Word {
			if !p.gone {
				p.seen = s.m.rev
			}
			did = true
			continue
		}
		if string(s.m.now[w.Key].Value) == string(w.Value) {
			continue // its view lags behind its own write
		}
		s.m.do(func(m map[string]kv.Entry, rev int64) { put(m, w.Key, w.Value, rev) })
		p.seen = s.m.rev
		s.log("%s writes %s=%s", p.name, strings.TrimPrefix(w.Key, tree.Prefix()), w.Value)
		did = true
	}
	return did
}

// sigterm asks a process to end: it says so in its key, goes on, and ends when nothing is assigned to it any more, or
// after a while: then it stops its tasks, says so, and gives its key back.
func (s *sim) sigterm(p *proc) {
	key := tree.Worker(p.name)
	if !p.alive || s.m.now[key].CreateRev != p.brain.Incarnation {
		return
	}
	s.m.do(func(m map[string]kv.Entry, rev int64) {
		w, _ := record.Decode[record.Worker](m[key].Value)
		w.Leaving = true
		put(m, key, record.MustEncode(w), rev)
	})
	p.leave = s.now.Add(5 * time.Second)
	s.log("worker %s (%d) leaves", p.name, p.brain.Incarnation)
}

func (s *sim) left(p *proc) bool {
	idle := len(s.m.at(s.m.rev).List(tree.Tasks(p.name))) == 0
	if !idle && s.now.Before(p.leave) {
		return false
	}
	for range 3 {
		for _, w := range p.brain.End(s.m.at(s.m.rev)) {
			s.m.do(func(m map[string]kv.Entry, rev int64) { put(m, w.Key, w.Value, rev) })
			s.log("%s ends and writes %s=%s", p.name, strings.TrimPrefix(w.Key, tree.Prefix()), w.Value)
		}
	}
	p.alive = false
	s.expire(p)
	return true
}

// kill ends a process; its key stays until expire.
func (s *sim) kill(p *proc) {
	p.alive = false
	s.log("worker %s (%d) is killed", p.name, p.brain.Incarnation)
}

func (s *sim) expire(p *proc) {
	key := tree.Worker(p.name)
	if s.m.now[key].CreateRev != p.brain.Incarnation {
		return
	}
	s.m.do(func(m map[string]kv.Entry, rev int64) { delete(m, key) })
	s.log("key of %s (%d) is gone", p.name, p.brain.Incarnation)
	s.notice(p)
}

func (s *sim) status() *record.JobStatus {
	st, _ := record.Decode[record.JobStatus](s.m.now[tree.JobStatus(simJob)].Value)
	return st
}

// ended: a job whose spec was deleted before anybody saw it never was one.
func (s *sim) ended() bool {
	if st := s.status(); st != nil {
		return st.Phase.Terminal()
	}
	return !s.m.now[tree.Job(simJob)].Exists()
}

// clean says that nothing of the workers' keys is left.
func (s *sim) clean() bool {
	for k := range s.m.now {
		switch p, _ := tree.Parse(k); p.Kind {
		case keys.KindTask, keys.KindTaskStatus, keys.KindAck, keys.KindSlot:
			return false
		}
	}
	return true
}

// settle runs without further faults until nothing is left to do, time passing only when everybody waits.
func (s *sim) settle(until func() bool) bool {
	s.onWrite = nil
	for range 20_000 {
		if len(s.bad) > 0 || until() {
			return until()
		}
		did := false
		for _, p := range s.procs {
			if !p.later.IsZero() && !s.now.Before(p.later) {
				p.later, did = time.Time{}, true
				if p.frozen = !p.alive; p.frozen {
					s.expire(p)
				}
			}
		}
		for s.step() {
			did = true
			if len(s.bad) > 0 || until() {
				return until()
			}
		}
		for _, p := range s.procs {
			did = s.work(p) || did
		}
		if did {
			continue
		}
		if s.lead.seen < s.m.rev || slices.ContainsFunc(s.procs, func(p *proc) bool { return p.alive && !p.gone && !p.frozen && p.seen < s.m.rev }) {
			if s.rnd == nil {
				for _, p := range s.procs {
					if !p.gone {
						p.seen = s.m.rev
					}
				}
			}
			continue
		}
		if len(s.late) > 0 {
			s.late[0]()
			s.late = s.late[1:]
			continue
		}
		next := s.lead.wake
		for _, p := range s.procs {
			if p.gone && p.alive && (next.IsZero() || p.until.Before(next)) {
				next = p.until
			}
			if !p.later.IsZero() && (next.IsZero() || p.later.Before(next)) {
				next = p.later
			}
			if p.alive && !p.gone && !p.frozen && !p.leave.IsZero() && (next.IsZero() || p.leave.Before(next)) {
				next = p.leave
			}
		}
		if next.IsZero() {
			return until()
		}
		s.now = next
		if s.now.Sub(t0) > 2*time.Hour {
			return false
		}
	}
	return until()
}

func (s *sim) fatal(format string, args ...any) {
	s.t.Helper()
	for _, f := range s.lazy {
		f()
	}
	n := max(0, len(s.trace)-60)
	s.t.Fatalf("%s\n%s\n--- trace\n%s", fmt.Sprintf(format, args...), strings.Join(s.bad, "\n"), strings.Join(s.trace[n:], "\n"))
}

// finish settles and checks the end.
func (s *sim) finish(what string, want ...state.Job) {
	s.t.Helper()
	if !s.settle(func() bool { return s.ended() && s.clean() }) || len(s.bad) > 0 {
		s.fatal("%s: did not come to a clean end (ended %v, clean %v)", what, s.ended(), s.clean())
	}
	for _, p := range s.procs { // whoever lost its key notices at last
		if p.alive && p.gone {
			s.lastAct(p)
		}
	}
	st := s.status()
	if st == nil {
		return
	}
	if len(want) > 0 && !slices.Contains(want, st.Phase) {
		s.fatal("%s: ended %s (%s: %s), want %v", what, st.Phase, st.Reason, st.Message, want)
	}
	subtasks := 0
	for _, p := range s.plan.Pipelines {
		for _, v := range p.Sinks() {
			if v.Sink.TwoPhase || v.Sink.Aggregated {
				subtasks += v.Parallelism
			}
		}
	}
	if bad := s.target.Check(string(simJob), subtasks, st.Phase == state.JobFinished); len(bad) > 0 {
		s.bad = append(s.bad, bad...)
		s.fatal("%s: ended %s", what, st.Phase)
	}
	if h := s.m.now[tree.History(simJob)]; !h.Exists() {
		s.fatal("%s: no history", what)
	}
}
