package ledger

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	"strait/plan"
	"strait/worker/connector"
)

// The model of design's model/ledger.go, with the real books instead of a description of them: two readers, splits
// of a few rows, frames in flight both ways, barriers at enumerator and readers in any order, aborts, a crash.
// Every reachable state is visited.
type bounds struct{ readers, splits, rows, per, crashes, aborts int }

const most = 2 // readers

type side struct {
	book Reader
	cut  Cut[*Frame]
	in   []*Frame // on the way here
	out  []*Frame // on the way to the enumerator
}

type whole struct {
	b       bounds
	e       *Enumerator
	cut     Cut[*Frame]
	r       [most]side
	cursor  int
	base    map[string]int // rows covered by the restored checkpoint
	emitted map[string]int // rows passed in this attempt
	marked  [most]map[string]int

	n        plan.CheckpointID // triggered
	open     bool
	snapE    []byte
	snapR    [most][]byte
	snapRows map[string]int
	last     *completed
	crashes  int
	aborts   int
}

type completed struct {
	e    []byte
	r    [most][]byte
	rows map[string]int
}

func begin(b bounds) *whole {
	w := &whole{b: b, e: NewEnumerator(b.readers), base: map[string]int{}, emitted: map[string]int{}, crashes: b.crashes, aborts: b.aborts}
	w.register()
	return w
}

func (w *whole) register() {
	for i := range w.b.readers {
		w.r[i] = side{out: []*Frame{{Kind: Register, Subtask: i}}}
		w.r[i].book.Registered()
		w.marked[i] = map[string]int{}
	}
}

func (w *whole) clone() *whole {
	c := *w
	e := *w.e
	e.entries = map[string]*entry{}
	for id, x := range w.e.entries {
		y := *x
		e.entries[id] = &y
	}
	e.pool, e.registered, e.asking, e.told = slices.Clone(e.pool), slices.Clone(e.registered), slices.Clone(e.asking), slices.Clone(e.told)
	e.cuts = slices.Clone(e.cuts)
	c.e = &e
	c.cut.waiting = slices.Clone(c.cut.waiting)
	for i := range c.b.readers {
		s := &c.r[i]
		s.book.held, s.book.finished, s.book.report = slices.Clone(s.book.held), slices.Clone(s.book.finished), slices.Clone(s.book.report)
		s.cut.waiting = slices.Clone(s.cut.waiting)
		s.in, s.out = slices.Clone(s.in), slices.Clone(s.out)
		c.marked[i] = maps.Clone(c.marked[i])
	}
	c.base, c.emitted, c.snapRows = maps.Clone(c.base), maps.Clone(c.emitted), maps.Clone(c.snapRows)
	return &c
}

// key names a state; two states of one key have the same future.
func (w *whole) key() string {
	var b []byte
	num := func(ns ...int) {
		for _, n := range ns {
			b = append(b, byte(n))
		}
	}
	flag := func(fs ...bool) {
		for _, f := range fs {
			if f {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	text := func(s string) { b = append(append(b, byte(len(s)), byte(len(s)>>8)), s...) }
	list := func(ss []string) {
		num(len(ss))
		for _, s := range ss {
			text(s)
		}
	}
	counts := func(m map[string]int) {
		for i := range w.b.splits {
			num(m[strconv.Itoa(i)])
		}
	}
	cut := func(c *Cut[*Frame]) {
		num(int(c.handled), int(c.settled), len(c.waiting))
		for _, t := range c.waiting {
			text(string(t.v.Append(nil)))
		}
	}
	queue := func(fs []*Frame) {
		num(len(fs))
		for _, f := range fs {
			text(string(f.Append(nil)))
		}
	}
	for i := range w.b.splits {
		x := w.e.entries[strconv.Itoa(i)]
		if x == nil {
			num(0)
			continue
		}
		num(int(x.state), x.reader)
		text(string(x.position))
	}
	list(w.e.pool)
	flag(w.e.registered...)
	flag(w.e.asking...)
	flag(w.e.told...)
	flag(w.e.open, w.e.done, w.open, w.snapE == nil)
	num(len(w.e.line))
	num(w.e.line...)
	num(w.e.missing, w.cursor, int(w.n), w.crashes, w.aborts, len(w.e.cuts))
	for _, c := range w.e.cuts {
		num(int(c.barrier))
		list(c.finished[0])
		list(c.finished[1])
	}
	cut(&w.cut)
	counts(w.base)
	counts(w.emitted)
	counts(w.snapRows)
	text(string(w.snapE))
	for i := range w.b.readers {
		r := &w.r[i]
		num(len(r.book.held))
		for _, h := range r.book.held {
			text(h.ID)
			text(string(h.Position))
		}
		list(r.book.finished)
		list(r.book.report)
		flag(r.book.asked, r.book.noMore)
		cut(&r.cut)
		queue(r.in)
		queue(r.out)
		text(string(w.snapR[i]))
		counts(w.marked[i])
	}
	if w.last != nil {
		text(string(w.last.e))
		text(string(w.last.r[0]))
		text(string(w.last.r[1]))
		counts(w.last.rows)
	}
	return string(b)
}

// tend is what the enumerator does after every event.
func (w *whole) tend() error {
	for _, f := range w.cut.Take() {
		var err error
		switch f.Kind {
		case Register:
			err = w.e.Register(f.Subtask)
		case Ask:
			err = w.e.Ask(f.Subtask, f.IDs)
		}
		if err != nil {
			return err
		}
	}
	dealt, _ := w.e.Deal()
	for _, d := range dealt {
		f := &Frame{Kind: Assign, Splits: d.Splits, Barrier: w.cut.Tag()}
		if d.NoMore {
			f = &Frame{Kind: NoMore, Barrier: w.cut.Tag()}
		}
		w.r[d.Reader].in = append(w.r[d.Reader].in, f)
	}
	return nil
}

func (w *whole) take(i int) error {
	r := &w.r[i]
	for _, f := range r.cut.Take() {
		switch f.Kind {
		case Assign:
			if err := r.book.Assign(f.Splits); err != nil {
				return err
			}
			for _, s := range f.Splits {
				for j := range w.b.readers {
					for _, h := range w.r[j].book.held {
						if j != i && h.ID == s.ID {
							return fmt.Errorf("two readers hold split %s", s.ID)
						}
					}
				}
			}
		case NoMore:
			r.book.NoMore()
		case Covered:
			r.book.Covered(f.IDs)
		}
	}
	return nil
}

func at(h Handed) int {
	n, _ := strconv.Atoi(string(h.Position))
	return n
}

func (w *whole) total(id string) int { return w.base[id] + w.emitted[id] }

// next gives every state one step on.
func (w *whole) next(emit func(name string, n *whole, err error)) {
	if w.cursor < w.b.splits {
		t := w.clone()
		t.cursor++
		t.e.Discover(connector.Discovery{Splits: []connector.Split{{ID: strconv.Itoa(w.cursor)}}, Cursor: []byte(strconv.Itoa(t.cursor)), Done: t.cursor == w.b.splits})
		emit("discover", t, t.tend())
	}
	for i := range w.b.readers {
		if len(w.r[i].out) > 0 {
			t := w.clone()
			f := t.r[i].out[0]
			t.r[i].out = t.r[i].out[1:]
			t.cut.Offer(f.Barrier, f)
			emit(fmt.Sprint("enumerator hears ", i), t, t.tend())
		}
		if len(w.r[i].in) > 0 {
			t := w.clone()
			f := t.r[i].in[0]
			t.r[i].in = t.r[i].in[1:]
			t.r[i].cut.Offer(f.Barrier, f)
			emit(fmt.Sprint("reader hears ", i), t, t.take(i))
		}
		for k := range w.r[i].book.held {
			t := w.clone()
			h := t.r[i].book.held[k]
			pos := at(h)
			var err error
			if pos < w.b.rows {
				if n := w.total(h.ID); pos != n {
					err = fmt.Errorf("split %s resumes at %d, %d rows have passed", h.ID, pos, n)
				} else {
					t.emitted[h.ID]++
					t.marked[i][h.ID]++
					err = t.r[i].book.Passed(h.ID, []byte(strconv.Itoa(pos+1)), false)
				}
			} else {
				err = t.r[i].book.Passed(h.ID, h.Position, true)
			}
			emit(fmt.Sprint("read ", i, " ", h.ID), t, err)
		}
		for _, ahead := range []bool{false, true} {
			t := w.clone()
			if done, ok := t.r[i].book.Ask(ahead); ok {
				t.r[i].out = append(t.r[i].out, &Frame{Kind: Ask, Subtask: i, IDs: done, Barrier: t.r[i].cut.Tag()})
				emit(fmt.Sprint("ask ", i), t, nil)
			}
		}
		if w.open && w.snapR[i] == nil {
			t := w.clone()
			t.snapR[i] = t.r[i].book.Snapshot()
			for id, n := range t.marked[i] {
				t.snapRows[id] += n
			}
			t.r[i].cut.Handled(t.n)
			emit(fmt.Sprint("barrier at reader ", i), t, t.take(i))
		}
	}
	if w.open && w.snapE == nil {
		t := w.clone()
		t.snapE = t.e.Snapshot(t.n)
		t.cut.Handled(t.n)
		emit("barrier at enumerator", t, t.tend())
	}
	if w.open && w.snapE != nil && w.snapped() {
		t := w.clone()
		rows := map[string]int{}
		for _, m := range []map[string]int{t.base, t.snapRows} {
			for id, n := range m {
				rows[id] += n
			}
		}
		t.last = &completed{t.snapE, t.snapR, rows}
		t.shut()
		for r, ids := range t.e.Completed(t.n) {
			t.r[r].in = append(t.r[r].in, &Frame{Kind: Covered, IDs: ids, Barrier: t.cut.Tag()})
		}
		emit("complete", t, nil)
	}
	if !w.open && int(w.n) < w.b.per {
		t := w.clone()
		t.n++
		t.open, t.snapRows = true, map[string]int{}
		emit("trigger", t, nil)
	}
	if w.open && w.aborts > 0 {
		t := w.clone()
		t.aborts--
		t.shut()
		t.e.Aborted(t.n)
		t.cut.Settled(t.n)
		err := t.tend()
		for i := range t.b.readers {
			t.r[i].cut.Settled(t.n)
			if err == nil {
				err = t.take(i)
			}
		}
		emit("abort", t, err)
	}
	if w.crashes > 0 && w.last != nil {
		t := w.clone()
		t.crashes--
		e, err := Merge(t.last.e, t.last.r[:t.b.readers], t.b.readers)
		if err == nil {
			t.e, t.base, t.emitted, t.cut = e, maps.Clone(t.last.rows), map[string]int{}, Cut[*Frame]{}
			t.cursor, _ = strconv.Atoi(string(e.Cursor()))
			t.shut()
			t.register()
			for id, x := range e.entries {
				want, got := t.base[id], at(Handed{Position: x.position})
				if x.state == finished {
					got = w.b.rows
				}
				if got != want {
					err = fmt.Errorf("split %s is restored at %d, %d of its rows are before the cut", id, got, want)
				}
			}
		}
		emit("crash, restore", t, err)
	}
}

func (w *whole) snapped() bool {
	for i := range w.b.readers {
		if w.snapR[i] == nil {
			return false
		}
	}
	return true
}

func (w *whole) shut() {
	w.open, w.snapE, w.snapR, w.snapRows = false, nil, [most][]byte{}, nil
}

func (w *whole) over() bool {
	for i := range w.b.readers {
		if !w.r[i].book.Drained() {
			return false
		}
	}
	return true
}

func explore(t *testing.T, b bounds, limit int) {
	type node struct {
		w      *whole
		name   string
		parent *node
	}
	trace := func(x *node) string {
		s := ""
		for ; x.parent != nil; x = x.parent {
			s = "\n  " + x.name + s
		}
		return s
	}
	seen := map[string]bool{}
	first := begin(b)
	queue := []*node{{first, "", nil}}
	seen[first.key()] = true
	ends := 0
	for len(queue) > 0 {
		x := queue[0]
		queue = queue[1:]
		if x.w.over() {
			ends++
			for i := range b.splits {
				if n := x.w.total(strconv.Itoa(i)); n != b.rows {
					t.Fatalf("%d of %d rows of split %d at the end:%s", n, b.rows, i, trace(x))
				}
			}
		}
		x.w.next(func(name string, n *whole, err error) {
			if err != nil {
				t.Fatalf("%v:%s\n  %s", err, trace(x), name)
			}
			k := n.key()
			if !seen[k] {
				seen[k] = true
				queue = append(queue, &node{n, name, x})
			}
		})
		if len(seen) > limit {
			t.Fatalf("more than %d states", limit)
		}
	}
	if ends == 0 {
		t.Error("no run ends")
	}
	t.Logf("%+v: %d states, %d of them ends", b, len(seen), ends)
}

// TestEveryInterleaving: Invariants 1 and 2 for splits, over assign, deliver, read, finish, barrier at the
// enumerator, barrier at the readers, complete, abort and crash.
func TestEveryInterleaving(t *testing.T) {
	explore(t, bounds{readers: 2, splits: 1, rows: 1, per: 2, crashes: 1, aborts: 1}, 1<<20)
	explore(t, bounds{readers: 2, splits: 2, rows: 1, per: 1, crashes: 1}, 1<<20)
	explore(t, bounds{readers: 1, splits: 2, rows: 1, per: 2, crashes: 1}, 1<<20)
	if os.Getenv("STRAIT_LONG") != "" {
		explore(t, bounds{readers: 2, splits: 1, rows: 1, per: 3, crashes: 2, aborts: 1}, 1<<23)
		explore(t, bounds{readers: 1, splits: 2, rows: 2, per: 2, crashes: 1, aborts: 1}, 1<<23)
		explore(t, bounds{readers: 2, splits: 2, rows: 1, per: 2, crashes: 1}, 1<<23)
	}
}
