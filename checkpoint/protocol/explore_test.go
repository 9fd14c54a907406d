package protocol

import (
	"fmt"
	"strings"
	"time"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// The cases of the design's control model, with the decisions made by this package: one pipeline, two workers with a
// two-phase sink each, every interleaving of leader, workers, failures that are reported while their owner lives on,
// aborted checkpoints and leader writes that land late. A worker acts on the word it last saw, however old.
const (
	workers  = 2
	attempts = 4 // 1..3
	ids      = 5 // 1..4
)

type commit uint8

const (
	none commit = iota
	prepared
	committed
	abandoned
)

type word struct {
	attempt, barrier, completed, committed, restore, failed uint8
	phase                                                   uint8 // 0 deploying, 1 running, 2 closing, 3 stopped
	open, aborted, holders, settled                         bool
	outcome                                                 uint8 // 1 finished, 2 cancelled
}

type ack struct {
	attempt, id, marked uint8
	prepared            uint8 // ids listed, as bits
}

type run struct {
	attempt, handled, todo uint8
	live, read, wrote      bool // live: started; read: its rows are there; wrote: they are prepared
	seen                   word
}

type world struct {
	w      word
	acks   [workers]ack
	runs   [workers]run
	points [ids]uint8          // attempt that completed it; 0: none
	lists  [ids][workers]uint8 // what the manifest lists
	target [workers][attempts][ids]commit
	late   word // a leader write under way, and what it compares
	from   word
	point  uint8 // the late write creates this commit point
	hasLate,
	wish bool
	fails, aborts, lates uint8
}

var phases = []state.Pipeline{state.PipelineDeploying, state.PipelineRunning, state.PipelineClosing, state.PipelineStopped}

func (w word) record() *record.Word {
	r := &record.Word{Attempt: plan.Attempt(w.attempt), Phase: phases[w.phase], Completed: plan.CheckpointID(w.completed), Committed: plan.CheckpointID(w.committed),
		Restore: plan.CheckpointID(w.restore), FailedPoints: int(w.failed), Abandoned: w.settled}
	r.Barrier.ID = plan.CheckpointID(w.barrier)
	switch {
	case w.open:
		r.Barrier.State = record.BarrierOpen
	case w.aborted:
		r.Barrier.State = record.BarrierAborted
	case w.barrier > 0:
		r.Barrier.State = record.BarrierComplete
	}
	if w.barrier > 0 {
		r.Barrier.Kind = checkpoint.Final
	}
	if w.holders {
		r.Holders = []record.Holder{{Worker: "x"}}
	}
	r.Outcome = []record.Outcome{"", record.Finished, record.Cancelled}[w.outcome]
	return r
}

func (w word) with(r record.Word) word {
	w.barrier, w.completed, w.committed, w.failed = uint8(r.Barrier.ID), uint8(r.Completed), uint8(r.Committed), uint8(r.FailedPoints)
	w.open, w.aborted = r.Barrier.State == record.BarrierOpen, r.Barrier.State == record.BarrierAborted
	for i, p := range phases {
		if r.Phase == p {
			w.phase = uint8(i)
		}
	}
	if r.Phase == state.PipelineStopped {
		w.outcome = map[record.Outcome]uint8{record.Finished: 1, record.Cancelled: 2}[r.Outcome]
	}
	return w
}

var names = [workers]string{"w0", "w1"}

func (s *world) facts(noStorage string) *Facts {
	f := &Facts{Word: s.w.record(), Workers: map[string]int64{}, Acks: map[string]*record.Ack{}, Bounded: true, Drained: true, Replayers: map[string]bool{names[0]: true},
		NoStorage: noStorage, Timeout: time.Hour, Tolerated: 9, Now: time.Time{}.Add(time.Second)}
	for i := range workers {
		f.Workers[names[i]] = int64(i + 1)
		f.Acks[names[i]] = &record.Ack{Incarnation: int64(i + 1), Attempt: plan.Attempt(s.acks[i].attempt), Checkpoint: plan.CheckpointID(s.acks[i].id),
			Committed: plan.CheckpointID(s.acks[i].marked), Prepared: bits(s.acks[i].prepared)}
		r := s.runs[i]
		f.Drained = f.Drained && r.attempt == s.w.attempt && r.read
	}
	if p := s.points[s.w.completed]; s.w.completed > 0 {
		f.Checkpoint = &record.Checkpoint{Kind: checkpoint.Final, Attempt: plan.Attempt(p)}
	}
	return f
}

func bits(m uint8) (n int) {
	for ; m > 0; m &= m - 1 {
		n++
	}
	return n
}

// older says that an attempt before the word's may still act.
func (s *world) older() bool {
	for _, r := range s.runs {
		if r.attempt != 0 && r.attempt < s.w.attempt {
			return true
		}
	}
	return false
}

func (s *world) next(breakRule string, emit func(world, string)) {
	write := func(to word, point uint8, name string) {
		t := *s
		t.land(to, point)
		emit(t, name)
		if s.lates > 0 && !s.hasLate {
			t = *s
			t.lates--
			t.hasLate, t.from, t.late, t.point = true, s.w, to, point
			emit(t, "late: "+name)
		}
	}
	if s.hasLate {
		t := *s
		if t.hasLate = false; s.from == s.w || breakRule == "no-compare" {
			t.land(s.late, s.point)
		}
		t.from, t.late, t.point = word{}, word{}, 0
		emit(t, "the late write arrives")
	}
	s.leader(breakRule, write, emit)
	if s.fails > 0 && s.w.phase < 2 && s.w.attempt < attempts-1 { // reported; its owner lives on
		t := *s
		t.fails--
		t.raise(breakRule)
		emit(t, "attempt+1")
	}
	if s.wish && s.w.phase < 2 && s.w.attempt < attempts-1 {
		t := *s
		t.wish = false
		if s.w.completed > 0 && s.w.phase == 1 {
			emit(t, "cancel after the commit point")
		} else {
			out := uint8(2)
			if s.w.completed > 0 {
				out = 1
			}
			t.raise(breakRule)
			t.w.phase, t.w.outcome = 2, out
			emit(t, "cancel")
		}
	}
	for i := range workers {
		s.worker(i, breakRule, emit)
	}
}

func (s *world) land(to word, point uint8) {
	if point > 0 {
		s.points[point] = to.attempt
		for i := range workers {
			s.lists[point][i] = s.acks[i].prepared
		}
	}
	s.w = to
}

func (s *world) raise(breakRule string) {
	res := Resolve(Restore{Attempt: plan.Attempt(s.w.attempt), Word: s.w.record(), Checkpoint: s.facts("").Checkpoint})
	s.w.attempt++
	s.w.restore, s.w.failed, s.w.settled = s.w.completed, 0, false
	if s.w.open && breakRule != "keep-barrier" {
		s.w.open, s.w.aborted = false, true
	}
	s.w.holders = true
	s.w.phase = 0
	if res.Start == ReplayOnly && breakRule != "run-after-final" {
		s.w.phase, s.w.outcome = 2, 1
	}
}

func (s *world) leader(breakRule string, write func(word, uint8, string), emit func(world, string)) {
	w := s.w
	if w.holders && !s.older() || w.holders && breakRule == "no-wait" {
		to := w
		to.holders = false
		write(to, 0, "holders are out")
		return
	}
	ready := true
	for _, r := range s.runs {
		ready = ready && r.attempt == w.attempt
	}
	if w.phase == 0 && ready && !w.holders && w.attempt > 0 {
		to := w
		to.phase = 1
		write(to, 0, "run")
	}
	noStorage := ""
	if s.aborts > 0 && w.open {
		noStorage = "the folder is full"
	}
	for _, why := range []string{"", noStorage}[:1+min(len(noStorage), 1)] {
		f := s.facts(why)
		d := Decide(f)
		if breakRule == "stop-unsettled" && d.Act == Wait && w.phase == 1 && w.completed > 0 && w.completed == w.committed {
			d = Decision{Act: Stop}
		}
		if d.Act == Wait || d.Act == Restart || d.Act == Trigger && int(d.ID) >= ids {
			continue
		}
		to := Apply(*f.Word, d, d.Act == Complete && f.Commits(), f.Now)
		if err := CheckMove(f.Word, &to); err != nil && breakRule == "" {
			panic(fmt.Sprintf("%s: %v", d.Act, err))
		}
		next, point := w.with(to), uint8(0)
		if d.Act == Complete {
			point = uint8(d.ID)
		}
		if d.Act == Abort {
			t := *s
			t.aborts--
			t.land(next, 0)
			emit(t, "abort")
			continue
		}
		write(next, point, d.Act.String())
	}
}

func (s *world) worker(i int, breakRule string, emit func(world, string)) {
	r := s.runs[i]
	if r.attempt < s.w.attempt && s.w.phase < 3 || r.seen != s.w.view() { // sees the word: stops older attempts, builds the new one
		t := *s
		q := &t.runs[i]
		if q.attempt < s.w.attempt && (i == 0 || s.w.phase != 2) {
			*q = run{attempt: s.w.attempt}
		} else if q.attempt < s.w.attempt {
			*q = run{attempt: s.w.attempt} // committers only: this worker has none, but reports that it stopped
		}
		q.seen = s.w.view()
		emit(t, "sees the word")
	}
	v := r.seen
	if r.attempt == 0 || v.attempt != r.attempt {
		return
	}
	// STARTING: worker 0 replays, and abandons once nobody older can act.
	if !r.live && (v.phase == 1 || v.phase == 2 && !v.holders) {
		if i == 0 && v.restore > 0 {
			a := s.points[v.restore]
			for w := range workers {
				for n := 1; n < ids; n++ { // also what was prepared for an aborted barrier before it
					if c := s.target[w][a][n]; s.lists[v.restore][w]&(1<<n) != 0 && c != committed {
						t := *s
						t.target[w][a][n] = committed
						if c == abandoned {
							t.target[w][0][0] = 1 // rolled back
						}
						emit(t, "replay")
						return
					}
				}
			}
		}
		t := *s
		t.runs[i].live = true
		emit(t, "starts")
		return
	}
	if !r.live {
		return
	}
	guard := s.w.attempt == r.attempt
	if i == 0 && v.restore > 0 && guard && (s.acks[0].attempt != r.attempt || s.acks[0].marked < v.restore) && s.w.committed < v.restore {
		t := *s
		t.acks[0] = ack{attempt: r.attempt, marked: v.restore}
		emit(t, "marks the replay")
	}
	if i == 0 && !v.holders && !v.settled && !s.w.settled && guard {
		t := *s
		for w := range workers {
			for a := 1; a < int(r.attempt); a++ {
				for n := 1; n < ids; n++ {
					if s.target[w][a][n] == prepared && !s.covered(w, a, n) {
						t.target[w][a][n] = abandoned
					}
				}
			}
		}
		t.w.settled = true // the leader notes the report
		emit(t, "abandons")
	}
	if v.phase == 1 && !r.read {
		t := *s
		t.runs[i].read = true
		emit(t, "reads to its end")
	}
	if v.phase == 1 && v.open && r.handled < v.barrier {
		t := *s
		q := &t.runs[i]
		q.handled = v.barrier
		if r.read && !r.wrote {
			t.target[i][r.attempt][v.barrier] = prepared
			q.todo, q.wrote = 1<<v.barrier, true
		}
		emit(t, "prepares")
	}
	if s.w.open && guard && r.handled == s.w.barrier && v.barrier == r.handled && (s.acks[i].attempt != r.attempt || s.acks[i].id != r.handled) {
		t := *s
		t.acks[i] = ack{attempt: r.attempt, id: r.handled, prepared: r.todo}
		emit(t, "acks")
	}
	if v.completed > 0 && s.points[v.completed] == r.attempt && r.handled >= v.completed {
		for n := uint8(1); n <= v.completed; n++ {
			if r.todo&(1<<n) != 0 {
				t := *s
				if t.target[i][r.attempt][n] == abandoned {
					t.target[i][0][0] = 1
				}
				t.target[i][r.attempt][n] = committed
				t.runs[i].todo &^= 1 << n
				emit(t, "commits")
				return
			}
		}
		if guard && s.acks[i].attempt == r.attempt && s.acks[i].marked < v.completed {
			t := *s
			t.acks[i].marked = v.completed
			emit(t, "marks its commits")
		}
	}
}

// covered says that a completed checkpoint lists a commit.
func (s *world) covered(w, a, n int) bool {
	for p := 1; p < ids; p++ {
		if s.points[p] == uint8(a) && s.lists[p][w]&(1<<n) != 0 {
			return true
		}
	}
	return false
}

// view is what a worker looks at in a word.
func (w word) view() word {
	w.committed, w.failed, w.outcome, w.aborted = 0, 0, 0, false
	return w
}

// wrong names the promise that a world breaks.
func (s *world) wrong() string {
	for w := range workers {
		n, left := 0, false
		for a := 1; a < attempts; a++ {
			for id := 1; id < ids; id++ {
				switch s.target[w][a][id] {
				case committed:
					n++
				case prepared:
					left = true
				case abandoned:
					if s.covered(w, a, id) {
						return "ROLLED BACK"
					}
				}
			}
		}
		if n > 1 {
			return "TWICE"
		}
		if s.target[w][0][0] != 0 {
			return "ROLLED BACK"
		}
		if s.w.phase == 3 {
			if left {
				return "LEFT OPEN"
			}
			if s.w.outcome == 1 && n != 1 {
				return "LOST"
			}
		}
	}
	return ""
}

// explore visits every world and says what went wrong, or that one cannot reach an end.
func explore(start world, breakRule string, most int) (string, int) {
	index := map[world]int{start: 0}
	all := []world{start}
	how := []string{"start"}
	parent := []int{-1}
	back := [][]int32{nil}
	trace := func(i int) string {
		var out []string
		for ; i >= 0; i = parent[i] {
			out = append([]string{how[i]}, out...)
		}
		return strings.Join(out, ", ")
	}
	for i := 0; i < len(all); i++ {
		if len(all) > most {
			return fmt.Sprintf("over %d worlds", most), len(all)
		}
		s := all[i]
		if bad := s.wrong(); bad != "" {
			return bad + ": " + trace(i), len(all)
		}
		s.next(breakRule, func(t world, name string) {
			j, ok := index[t]
			if !ok {
				j = len(all)
				index[t] = j
				all, how, parent, back = append(all, t), append(how, name), append(parent, i), append(back, nil)
			}
			back[j] = append(back[j], int32(i))
		})
	}
	can := make([]bool, len(all))
	var todo []int32
	for i := range all {
		if all[i].w.phase == 3 {
			can[i] = true
			todo = append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, j := range back[i] {
			if !can[j] {
				can[j] = true
				todo = append(todo, j)
			}
		}
	}
	for i := range all {
		if !can[i] {
			return fmt.Sprintf("stuck: %s: %+v", trace(i), all[i].w), len(all)
		}
	}
	return "", len(all)
}
