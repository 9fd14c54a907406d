package ledger

import (
	"fmt"
	"sort"

	"strait/plan"
	"strait/worker/connector"
)

// Bounds of what is handed out at once: splits and bytes a reader, bytes a Deal. Small splits travel together, the
// last ones alone.
const (
	maxDeal      = 16
	maxDealBytes = 128 << 10
	maxBurst     = 1 << 20
)

// Handed is a split with the position from which to read it; nil is its start.
type Handed struct {
	connector.Split
	Position []byte `json:"position,omitempty"`
}

type stateOf uint8

const (
	unassigned stateOf = iota + 1
	assigned
	finished
)

// entry is the enumerator's line for a split. position is where it was handed out, or will be.
type entry struct {
	split    connector.Split
	state    stateOf
	reader   int
	position []byte
}

// Enumerator is the book of one source. One goroutine owns it.
type Enumerator struct {
	entries map[string]*entry
	pool    []string // unassigned, in the order of discovery
	cursor  []byte
	done    bool // nothing will be discovered any more

	registered []bool
	missing    int    // readers that have not registered
	asking     []bool // it stands in line
	line       []int  // readers that ask, in order
	told       []bool // that there are no more splits
	open       bool   // every reader has registered, or waiting for them was given up

	cuts []cutOf // snapshots of barriers not yet known to be complete or aborted
}

// cutOf remembers what a snapshot showed as finished, and by whom.
type cutOf struct {
	barrier  plan.CheckpointID
	finished map[int][]string
}

// NewEnumerator makes the book of a source with a number of reading subtasks.
func NewEnumerator(readers int) *Enumerator {
	return &Enumerator{
		entries:    map[string]*entry{},
		registered: make([]bool, readers),
		missing:    readers,
		asking:     make([]bool, readers),
		told:       make([]bool, readers),
	}
}

// Cursor is where the next discovery starts.
func (e *Enumerator) Cursor() []byte { return e.cursor }

// Done says that discovery has ended.
func (e *Enumerator) Done() bool { return e.done }

// Discover takes the answer of one discovery step: new splits and the cursor behind them, together. A split that is
// known already is passed over.
func (e *Enumerator) Discover(d connector.Discovery) {
	for _, s := range d.Splits {
		if e.entries[s.ID] != nil {
			continue
		}
		e.entries[s.ID] = &entry{split: s, state: unassigned}
		e.pool = append(e.pool, s.ID)
	}
	e.cursor, e.done = d.Cursor, d.Done
}

// Register takes a reader in: it is new, holds nothing, and asks. It is told again that there are no more splits.
func (e *Enumerator) Register(reader int) error {
	if err := e.check(reader); err != nil {
		return err
	}
	if !e.registered[reader] {
		e.registered[reader] = true
		e.missing--
	}
	e.told[reader] = false
	e.ask(reader)
	if e.missing == 0 {
		e.Open()
	}
	return nil
}

func (e *Enumerator) ask(reader int) {
	if !e.asking[reader] {
		e.asking[reader] = true
		e.line = append(e.line, reader)
	}
}

// Open ends the wait for readers that have not registered: those that did are served, in order of their index.
func (e *Enumerator) Open() {
	if !e.open {
		e.open = true
		sort.Ints(e.line)
	}
}

// Opened says that splits are dealt.
func (e *Enumerator) Opened() bool { return e.open }

// Ask notes what a reader finished and that it has nothing left.
func (e *Enumerator) Ask(reader int, done []string) error {
	if err := e.check(reader); err != nil {
		return err
	}
	for _, id := range done {
		x := e.entries[id]
		switch {
		case x == nil:
			return fmt.Errorf("reader %d finished split %q, which nobody discovered", reader, id)
		case x.state == finished:
			continue
		case x.state != assigned || x.reader != reader:
			return fmt.Errorf("reader %d finished split %q, which is not assigned to it", reader, id)
		}
		x.state, x.position = finished, nil
	}
	e.ask(reader)
	return nil
}

func (e *Enumerator) check(reader int) error {
	if reader < 0 || reader >= len(e.registered) {
		return fmt.Errorf("reader %d of %d", reader, len(e.registered))
	}
	return nil
}

// Deal is what one reader is to be sent.
type Deal struct {
	Reader int
	Splits []Handed
	NoMore bool // nothing will follow
}

// Deal hands out what can be handed out now: readers that ask are served in line, so that they share evenly what
// is there when all have registered. Until then nobody is served (Open). more says that it stopped at a burst of
// bytes: what carries frames is bounded too (Invariant 6).
func (e *Enumerator) Deal() (out []Deal, more bool) {
	if !e.open {
		return nil, false
	}
	bytes := 0
	for len(e.line) > 0 && len(e.pool) > 0 {
		if bytes > maxBurst {
			return out, true
		}
		splits, size := e.assign(e.line[0])
		bytes += size
		out = append(out, Deal{Reader: e.next(), Splits: splits})
	}
	if len(e.pool) > 0 || !e.done {
		return out, false
	}
	for len(e.line) > 0 {
		if r := e.next(); !e.told[r] {
			e.told[r] = true
			out = append(out, Deal{Reader: r, NoMore: true})
		}
	}
	return out, false
}

// next takes the first reader out of the line.
func (e *Enumerator) next() int {
	r := e.line[0]
	e.line = e.line[1:]
	e.asking[r] = false
	return r
}

func (e *Enumerator) assign(reader int) (out []Handed, bytes int) {
	n := min(max(len(e.pool)/(4*len(e.registered)), 1), maxDeal)
	for _, id := range e.pool[:n] {
		x := e.entries[id]
		size := len(id) + len(x.split.Data) + len(x.position)
		if len(out) > 0 && bytes+size > maxDealBytes {
			break
		}
		bytes += size
		x.state, x.reader = assigned, reader
		out = append(out, Handed{Split: x.split, Position: x.position})
	}
	e.pool = e.pool[len(out):]
	return out, bytes
}

// Drained says that nothing is left to discover or to hand out.
func (e *Enumerator) Drained() bool { return e.done && len(e.pool) == 0 }

// Counts are the splits by state, for status and logs.
func (e *Enumerator) Counts() (waiting, reading, done int) {
	for _, x := range e.entries {
		switch x.state {
		case unassigned:
			waiting++
		case assigned:
			reading++
		case finished:
			done++
		}
	}
	return waiting, reading, done
}

// Snapshot is the book at barrier n, as versioned bytes.
func (e *Enumerator) Snapshot(n plan.CheckpointID) []byte {
	s := enumeratorState{Version: Version, Cursor: e.cursor, Done: e.done}
	c := cutOf{barrier: n, finished: map[int][]string{}}
	for _, id := range e.ids() {
		x := e.entries[id]
		line := splitState{Handed: Handed{Split: x.split, Position: x.position}, State: x.state.word()}
		if x.state == finished {
			line.Split.Data = nil
			c.finished[x.reader] = append(c.finished[x.reader], id)
		}
		s.Splits = append(s.Splits, line)
	}
	e.cuts = append(e.cuts, c)
	return encode(s)
}

// ids lists the splits in a fixed order: the pool as it is, the others by name.
func (e *Enumerator) ids() []string {
	rest := make([]string, 0, len(e.entries)-len(e.pool))
	for id, x := range e.entries {
		if x.state != unassigned {
			rest = append(rest, id)
		}
	}
	sort.Strings(rest)
	return append(rest, e.pool...)
}

// Completed takes note that checkpoint n is complete and returns, per reader, the finished splits that its snapshot
// shows: only these may a reader drop from its list. Snapshots of barriers up to n are forgotten.
func (e *Enumerator) Completed(n plan.CheckpointID) map[int][]string {
	var out map[int][]string
	kept := e.cuts[:0]
	for _, c := range e.cuts {
		switch {
		case c.barrier == n:
			out = c.finished
		case c.barrier > n:
			kept = append(kept, c)
		}
	}
	e.cuts = kept
	return out
}

// Aborted forgets the snapshot of a barrier that will not complete.
func (e *Enumerator) Aborted(n plan.CheckpointID) {
	kept := e.cuts[:0]
	for _, c := range e.cuts {
		if c.barrier != n {
			kept = append(kept, c)
		}
	}
	e.cuts = kept
}
