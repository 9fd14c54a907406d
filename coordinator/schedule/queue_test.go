package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"strait/kv/record"
	"strait/plan"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// yard is a fleet with a queue before it, and jobs that come and go: what the leader does, without keys.
type yard struct {
	t       testing.TB
	q       *Queue
	fleet   []Worker
	jobs    map[plan.JobID]*simJob
	now     time.Time
	looks   int
	placed  []plan.JobID
	touched map[plan.JobID]bool
}

type simJob struct {
	n        int
	ask      record.Profile
	labels   map[string]string
	priority int
	created  int64
	takes    time.Duration
	endless  bool
	came     time.Time
	began    time.Time
	restart  bool
}

func newYard(t testing.TB, fleet ...Worker) *yard {
	return &yard{t: t, q: NewQueue(time.Minute), fleet: fleet, jobs: map[plan.JobID]*simJob{}, now: t0, touched: map[plan.JobID]bool{}}
}

func (y *yard) submit(id plan.JobID, j simJob) {
	j.came, j.created = y.now, int64(len(y.jobs)+1)
	y.jobs[id] = &j
	y.q.Come(id, j.priority, j.created, y.now)
	y.pass()
}

func (y *yard) pass() {
	y.q.Pass(y.now, func() []Worker { return y.fleet }, func(id plan.JobID) bool { return y.touched[id] }, func(id plan.JobID, kept map[string]plan.JobID) {
		y.looks++
		j := y.jobs[id]
		need := Need{Job: id, Units: Units(pipeline(1, j.n), true), Ask: j.ask, Labels: j.labels, Kept: kept}
		placed, short := Place(need, y.fleet)
		if short != nil {
			y.q.Put(Waiter{Job: id, Restart: j.restart, Priority: j.priority, Created: j.created, Units: j.n, Ask: j.ask, Labels: j.labels}, y.now)
			return
		}
		y.q.Remove(id)
		j.began = y.now
		y.placed = append(y.placed, id)
		for _, s := range placed.Spots {
			w := y.worker(s.Worker)
			hold(w, Held{Slot: s.Slot, Job: id, Pipeline: 1, Profile: s.Profile, Endless: j.endless})
			if w.Used.MilliCPU > w.Total.MilliCPU || w.Used.Memory > w.Total.Memory || !w.Dynamic && len(w.Held) > w.Slots {
				y.t.Fatalf("%s holds too much: %+v", w.Name, w)
			}
		}
	})
}

func (y *yard) worker(name string) *Worker {
	return &y.fleet[slices.IndexFunc(y.fleet, func(w Worker) bool { return w.Name == name })]
}

// end takes a job off its workers.
func (y *yard) end(id plan.JobID) {
	for i := range y.fleet {
		w := &y.fleet[i]
		w.Held = slices.DeleteFunc(w.Held, func(h Held) bool { return h.Job == id })
		w.Used = record.Profile{}
		for _, h := range w.Held {
			w.Used.MilliCPU, w.Used.Memory = w.Used.MilliCPU+h.Profile.MilliCPU, w.Used.Memory+h.Profile.Memory
		}
	}
	delete(y.jobs, id)
	y.q.Remove(id)
	y.pass()
}

// tick lets time pass and ends what is over.
func (y *yard) tick(d time.Duration) {
	y.now = y.now.Add(d)
	var over []plan.JobID
	for id, j := range y.jobs {
		if !j.began.IsZero() && !j.endless && !y.now.Before(j.began.Add(j.takes)) {
			over = append(over, id)
		}
	}
	slices.Sort(over)
	for _, id := range over {
		y.end(id)
	}
	y.pass()
}

func (y *yard) running(id plan.JobID) bool { return y.jobs[id] != nil && !y.jobs[id].began.IsZero() }

func TestQueueOrder(t *testing.T) {
	y := newYard(t, worker("w1", 2))
	y.submit("first", simJob{n: 2})
	for _, j := range []struct {
		id       plan.JobID
		priority int
		restart  bool
	}{{"old", 0, false}, {"young", 0, false}, {"high", 5, false}, {"low", -5, false}, {"back", -9, true}} {
		y.submit(j.id, simJob{n: 2, priority: j.priority, restart: j.restart})
	}
	if y.q.Len() != 5 || y.q.Turn("back") != 1 || y.q.Turn("low") != 5 || y.q.Turn("nobody") != 6 {
		t.Error(y.q.Len(), y.q.Turn("back"), y.q.Turn("low"))
	}
	for _, id := range []plan.JobID{"first", "back", "high", "old", "young", "low"} {
		y.end(id)
	}
	if got := fmt.Sprint(y.placed); got != "[first back high old young low]" {
		t.Error(got)
	}
}

// TestBackfillAndPatience: small jobs pass a big one until it has waited for its time; then what gets free where it
// will go is kept for it, and only there.
func TestBackfillAndPatience(t *testing.T) {
	y := newYard(t, worker("w1", 4), worker("w2", 4))
	y.submit("a", simJob{n: 3})
	y.submit("b", simJob{n: 3})
	y.submit("big", simJob{n: 8})
	y.submit("c", simJob{n: 1})
	if !y.running("c") || y.running("big") {
		t.Fatal("a small job must pass a big one that has not waited for long:", y.placed)
	}
	y.now = y.now.Add(time.Minute)
	y.submit("d", simJob{n: 1})
	if y.running("d") {
		t.Fatal("it takes what is kept:", y.placed)
	}
	kept := Keep(Waiter{Units: 8}, y.fleet, nil)
	if fmt.Sprint(kept) != "[w1 w2]" {
		t.Fatal(kept)
	}
	_, short := Place(Need{Job: "d", Units: Units(pipeline(1, 1), true), Kept: map[string]plan.JobID{"w1": "big", "w2": "big"}}, y.fleet[:2])
	if short.Reason != RoomKept || short.Message != "needs 1 slot, but what is free is kept for jobs that come first: w1 (kept for job big), w2 (kept for job big)" {
		t.Fatal(short)
	}
	y.end("a")
	y.end("c")
	if y.running("d") || y.running("big") {
		t.Fatal(y.placed)
	}
	y.end("b")
	if !y.running("big") || y.running("d") {
		t.Fatal(y.placed)
	}
	y.end("big")
	if !y.running("d") {
		t.Fatal(y.placed)
	}
}

// TestOnlyWhatIsNeededIsKept: a job that fits on one worker has that one kept which has most room already.
func TestOnlyWhatIsNeededIsKept(t *testing.T) {
	y := newYard(t, worker("w1", 4, 0, 1, 2), worker("w2", 4, 0, 1), worker("w3", 4, 0, 1, 2, 3))
	y.submit("four", simJob{n: 4})
	y.now = y.now.Add(time.Minute)
	y.submit("one", simJob{n: 1})
	if at := y.fleet[0].Held; !y.running("one") || at[len(at)-1].Job != "one" {
		t.Fatal(y.placed, y.fleet)
	}
	y.submit("two", simJob{n: 1})
	if y.running("two") {
		t.Fatal("it took what is kept", y.fleet)
	}
}

// TestPriorityKeepsAtOnce: against jobs of lower priority room is kept without patience.
func TestPriorityKeepsAtOnce(t *testing.T) {
	y := newYard(t, worker("w1", 4, 0, 1, 2))
	y.submit("high", simJob{n: 2, priority: 1})
	y.submit("low", simJob{n: 1})
	if y.running("low") {
		t.Fatal("it took the slot of a job of higher priority")
	}
	y.submit("equal", simJob{n: 1, priority: 1})
	if !y.running("equal") {
		t.Fatal("against its equals it keeps nothing yet")
	}
}

// TestNothingIsKeptInVain: for a job that would not fit even if all that ends had ended nothing is kept.
func TestNothingIsKeptInVain(t *testing.T) {
	y := newYard(t, worker("w1", 4))
	y.submit("stream", simJob{n: 2, endless: true})
	y.submit("huge", simJob{n: 5, priority: 9})
	y.submit("never", simJob{n: 3, priority: 9})
	y.now = y.now.Add(time.Hour)
	y.submit("small", simJob{n: 2})
	if !y.running("small") {
		t.Fatal(y.placed)
	}
	_, short := Place(Need{Units: Units(pipeline(1, 3), true)}, y.fleet)
	const want = "needs 3 slots, 0 are free on 1 worker: w1 0/4; jobs without an end hold all but 2; held by small (2), stream (2)"
	if short.Message != want {
		t.Errorf("got  %s\nwant %s", short.Message, want)
	}
}

// TestTwoBigJobs: neither holds a half that the other needs.
func TestTwoBigJobs(t *testing.T) {
	y := newYard(t, worker("w1", 4), worker("w2", 4))
	y.submit("a", simJob{n: 4, takes: time.Second})
	y.submit("big1", simJob{n: 8, takes: time.Minute})
	y.submit("big2", simJob{n: 8, takes: time.Minute})
	for range 60 {
		y.tick(10 * time.Second)
	}
	if fmt.Sprint(y.placed) != "[a big1 big2]" || y.q.Len() != 0 {
		t.Fatal(y.placed, y.q.Len())
	}
}

// TestNoStarvation: however many small jobs keep coming, on slots or on cut memory, a big one begins as soon as what
// ran when its patience was over has ended.
func TestNoStarvation(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		var fleet []Worker
		for i := range 1 + r.IntN(5) {
			if name := fmt.Sprintf("w%d", i); r.IntN(2) == 0 {
				fleet = append(fleet, worker(name, 1+r.IntN(6)))
				fleet[i].Total = record.Profile{MilliCPU: 1000 * fleet[i].Slots, Memory: 1 << 30}
			} else {
				fleet = append(fleet, cut(name, 1000*(1+r.IntN(3)), 256<<20))
			}
		}
		y := newYard(t, fleet...)
		ask := record.Profile{MilliCPU: 1 + r.IntN(400), Memory: int64(1 + r.IntN(150<<20))}
		whole := 0
		for i := range fleet {
			whole += fleet[i].room(fleet[i].Slot(ask), 0, record.Profile{})
		}
		if whole < 2 {
			continue
		}
		const longest = 90 * time.Second
		n := 2 + r.IntN(whole-1)
		var began time.Duration
		for i := range whole * 8 {
			y.submit(plan.JobID(fmt.Sprint("first", i)), simJob{n: 1, takes: time.Duration(1+r.IntN(90)) * time.Second})
		}
		for id := range y.jobs { // what does not run does not wait either: nobody is before the big one
			if !y.running(id) {
				y.q.Remove(id)
			}
		}
		y.submit("big", simJob{n: n, ask: ask, takes: time.Hour})
		for i := range 400 {
			for k := range 1 + r.IntN(4) {
				y.submit(plan.JobID(fmt.Sprintf("s%d-%d", i, k)), simJob{n: 1, takes: time.Duration(1+r.IntN(90)) * time.Second, ask: record.Profile{Memory: int64(r.IntN(60 << 20))}})
			}
			y.tick(time.Second)
			if y.running("big") {
				began = y.jobs["big"].began.Sub(y.jobs["big"].came)
				break
			}
		}
		if !y.running("big") || began > y.q.Patience+longest+time.Second {
			t.Errorf("seed %d: a job of %d of %d waited %v", seed, n, whole, began)
		}
	}
}

// TestEveryJobBegins: jobs of all sizes and priorities come for a while; each begins once nothing new of higher
// priority comes.
func TestEveryJobBegins(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 2))
		y := newYard(t, worker("w1", 3), worker("w2", 5), cut("w3", 2000, 1<<30), cut("w4", 1000, 100<<20))
		y.fleet[1].Labels = map[string]string{"a": "b"}
		for i := range 60 {
			j := simJob{n: 1 + r.IntN(12), priority: r.IntN(3), takes: time.Duration(r.IntN(120)) * time.Second}
			if r.IntN(5) == 0 {
				j.labels, j.n = map[string]string{"a": "b"}, 1+r.IntN(5)
			}
			y.submit(plan.JobID(fmt.Sprint("j", i)), j)
			y.tick(time.Duration(r.IntN(20)) * time.Second)
		}
		for i := 0; y.q.Len() > 0; i++ {
			if y.tick(time.Second); i > 60*200 {
				t.Fatalf("seed %d: %d jobs wait for ever", seed, y.q.Len())
			}
		}
	}
}

// TestManyWaitCheaply: a freed slot among thousands of waiting jobs costs looks at those that fit, not at all.
func TestManyWaitCheaply(t *testing.T) {
	y := newYard(t, worker("w1", 4))
	for i := range 2000 {
		y.submit(plan.JobID(fmt.Sprintf("j%04d", i)), simJob{n: 1 + i%4, takes: time.Minute})
	}
	y.looks = 0
	y.end("j0000")
	if y.looks > 3 {
		t.Errorf("%d looks for one slot", y.looks)
	}
}

func TestStrategies(t *testing.T) {
	units := Units(pipeline(1, 6), true)
	count := func(n Need, fleet []Worker) string {
		placed, short := Place(n, fleet)
		if short != nil {
			t.Fatal(short)
		}
		c := map[string]int{}
		for _, s := range placed.Spots {
			c[s.Worker]++
		}
		var out []string
		for _, w := range fleet {
			out = append(out, fmt.Sprint(c[w.Name]))
		}
		return strings.Join(out, " ")
	}
	three := func() []Worker { return []Worker{worker("w1", 8), worker("w2", 8), worker("w3", 8)} }
	if got := count(Need{Units: units}, three()); got != "2 2 2" {
		t.Error(got)
	}
	// One slot at a time: ties take turns.
	seen := map[string]bool{}
	for seed := range uint64(3) {
		seen[count(Need{Units: units[:1], Seed: seed}, three())] = true
	}
	if len(seen) != 3 {
		t.Error(seen)
	}
	busy := three()
	busy[0].Load = Load{Known: true, Busy: 900_000}
	busy[1].Load = Load{Known: true, Busy: 100_000}
	busy[2].Load = Load{Known: true, Busy: 100_000}
	if got := count(Need{Units: units, Strategy: SystemLoad}, busy); got != "0 3 3" {
		t.Error(got)
	}
	busy[1].Load.Since = 8 // was just given much, which the sample does not show
	if got := count(Need{Units: units[:2], Strategy: SystemLoad}, busy); got != "0 0 2" {
		t.Error(got)
	}
	for i := range busy {
		busy[i].Load = Load{}
	}
	if got := count(Need{Units: units, Strategy: SystemLoad}, busy); got != "2 2 2" {
		t.Error("unknown is as slot ratio:", got)
	}
	if a, b := count(Need{Units: units, Strategy: Random, Seed: 1}, three()), count(Need{Units: units, Strategy: Random, Seed: 2}, three()); a == b && a == "2 2 2" {
		t.Error("not random:", a, b)
	}
	if Weigh([]int{100, 0, 0, 0, 0}) != 40 || Weigh([]int{0, 100, 100}) != 50 || Weigh(nil) != 0 {
		t.Error("weights")
	}
}

// TestMessages: what is told where something does not fit.
func TestMessages(t *testing.T) {
	f := func(n Need, fleet []Worker, want string) {
		t.Helper()
		_, short := Place(n, fleet)
		if got := short.Reason + ": " + short.Message; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
	us := Units(pipeline(1, 5), true)
	d := cut("d1", 2000, 512<<20)
	hold(&d, Held{Slot: 0, Job: "etl", Pipeline: 1, Profile: record.Profile{MilliCPU: 500, Memory: 400 << 20}})
	f(Need{Units: us}, []Worker{d}, "MemoryShort: needs 5 slots of 0.25 cores and 64.0 MiB, 1 is free on 1 worker: d1 1 (1.5 of 2 cores, 112.0 MiB of 512.0 MiB free); no slot for 1/0/1, 1/0/2, 1/0/3, 1/0/4; held by etl (1)")
	f(Need{Units: us, Ask: record.Profile{MilliCPU: 1000, Memory: 1}}, []Worker{d}, "CPUShort: needs 5 slots of 1 core and 1 B, 1 is free on 1 worker: d1 1 (1.5 of 2 cores, 112.0 MiB of 512.0 MiB free); no slot for 1/0/1, 1/0/2, 1/0/3, 1/0/4; even with nothing else running there is room for 2: start more workers or lower the parallelism; held by etl (1)")
	m := worker("m1", 8)
	m.Total = record.Profile{MilliCPU: 8000, Memory: 8 << 30}
	f(Need{Units: us, Ask: record.Profile{Memory: 2 << 30}}, []Worker{m}, "MemoryShort: needs 5 slots of 2.0 GiB, 4 are free on 1 worker: m1 4/8 (8 of 8 cores, 8.0 GiB of 8.0 GiB free); no slot for 1/0/4; even with nothing else running there is room for 4: start more workers or lower the parallelism")
	f(Need{Units: us[:1], Ask: record.Profile{Memory: 2 << 30}}, []Worker{worker("untold", 8)}, "MemoryShort: needs 1 slot of 2.0 GiB, 0 are free on 1 worker: untold 0/8 (0 of 0 cores, 0 B of 0 B free); no worker is large enough for one, even empty: ask for less in env.slot.cpu and env.slot.memory, or start a larger one")
	old := worker("old", 8)
	old.Protocol = [2]int{7, 8}
	f(Need{Units: us}, []Worker{old}, "ProtocolMismatch: needs 5 slots, but no worker speaks a protocol of this coordinator: old (speaks protocol 7 to 8, this coordinator 1 to 1); bring both to one version")
	full := worker("f1", 30)
	for i := range 30 {
		hold(&full, Held{Slot: i, Job: plan.JobID(fmt.Sprintf("j%02d", i*i%11))})
	}
	f(Need{Units: us}, []Worker{full}, "SlotsShort: needs 5 slots, 0 are free on 1 worker: f1 0/30; held by j03 (6), j05 (6), j01 (5), j04 (5), j09 (5), j00 (3)")
	many := []Worker{}
	for i := range 200 {
		w := worker(fmt.Sprintf("w%03d", i), 1)
		hold(&w, Held{Job: plan.JobID(fmt.Sprintf("a-job-with-a-rather-long-name-%03d", i))})
		many = append(many, w)
	}
	if _, short := Place(Need{Units: Units(pipeline(1, 500), true)}, many); len(short.Message) > 1000 {
		t.Errorf("%d bytes: %s", len(short.Message), short.Message)
	}
}

func TestAvoid(t *testing.T) {
	us := Units(pipeline(1, 4), true)
	fleet := func() []Worker {
		return []Worker{worker("w1", 4), worker("w2", 4), worker("w3", 4)}
	}
	f := func(a Avoid, last string, fleet []Worker, want, note string) {
		t.Helper()
		placed, short := Place(Need{Units: us, Avoid: &a, Last: func(plan.TaskGroup) string { return last }}, fleet)
		if short != nil || chains(Chains(us, placed.Spots)) != want || placed.Note != note {
			t.Errorf("%s %q %v, want %s %q", chains(Chains(us, placed.Spots)), placed.Note, short, want, note)
		}
	}
	f(Avoid{Pairs: [][2]string{{"w1", "w2"}}}, "", fleet(), "0:w1[0,2) 0:w3[2,4)", "")
	f(Avoid{Pairs: [][2]string{{"w1", "w2"}}}, "w2", fleet(), "0:w2[0,4)", "")
	f(Avoid{Pairs: [][2]string{{"w1", "w2"}, {"w1", "w3"}}}, "", fleet(), "0:w2[0,2) 0:w3[2,4)", "")
	f(Avoid{Suspects: map[string]bool{"w1": true}, Pairs: [][2]string{{"w1", "w2"}}}, "", fleet(), "0:w2[0,2) 0:w3[2,4)", "")
	f(Avoid{Pairs: [][2]string{{"w1", "w9"}}}, "", fleet(), "0:w1[0,2) 0:w2[2,3) 0:w3[3,4)", "")
	small := []Worker{worker("w1", 2), worker("w2", 2), worker("w3", 1)}
	f(Avoid{Pairs: [][2]string{{"w1", "w2"}}}, "", small, "0:w1[0,2) 0:w2[2,3) 0:w3[3,4)", "w2 is taken although a link to there broke a short while ago: there is no other room")
}

func BenchmarkPass(b *testing.B) {
	var fleet []Worker
	for i := range 1000 {
		taken := []int{}
		for s := range 8 {
			taken = append(taken, s)
		}
		fleet = append(fleet, worker(fmt.Sprintf("w%04d", i), 8, taken...))
	}
	y := newYard(b, fleet...)
	y.q.Patience = time.Hour
	for i := range 10_000 {
		id := plan.JobID(fmt.Sprintf("j%05d", i))
		y.jobs[id] = &simJob{n: 1 + i%100, created: int64(i)}
		y.q.Put(Waiter{Job: id, Created: int64(i), Units: 1 + i%100}, y.now)
	}
	b.ReportAllocs()
	for b.Loop() {
		y.pass()
	}
}
