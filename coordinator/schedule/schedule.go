package schedule

import (
	"cmp"
	"slices"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
)

// Worker is a live worker as the scheduler sees it. It is read, never changed.
type Worker struct {
	Name        string
	Incarnation int64
	Dynamic     bool           // slots are cut from Total on demand
	Slots       int            // of a worker that is not dynamic
	Total       record.Profile // what tasks may take; a zero field: the worker does not say
	Labels      map[string]string
	Protocol    [2]int
	Closed      string // why nothing new is placed here: leaving, draining, …; empty: open
	// Held are the slots granted here, or promised by a write under way, by number. Used is what they take together.
	Held []Held
	Used record.Profile
	Load Load
}

// Held is a slot in use.
type Held struct {
	Slot     int
	Job      plan.JobID
	Pipeline plan.PipelineID
	Profile  record.Profile
	Endless  bool // not given back before somebody ends the job
}

// DefaultProfile is what a slot of a dynamic worker takes where the job does not say.
var DefaultProfile = record.Profile{MilliCPU: 250, Memory: 64 << 20}

// Slot is what one slot of a job that asks for ask takes here. A fixed slot is at least its share of the worker.
func (w *Worker) Slot(ask record.Profile) record.Profile {
	least := DefaultProfile
	if w.Dynamic {
		if ask.MilliCPU > 0 {
			least.MilliCPU = 0
		}
		if ask.Memory > 0 {
			least.Memory = 0
		}
	} else if least = (record.Profile{}); w.Slots > 0 {
		least = record.Profile{MilliCPU: w.Total.MilliCPU / w.Slots, Memory: w.Total.Memory / int64(w.Slots)}
	}
	return record.Profile{MilliCPU: max(ask.MilliCPU, least.MilliCPU), Memory: max(ask.Memory, least.Memory)}
}

// room is how many slots of that size there are beside n in use that take used together.
func (w *Worker) room(per record.Profile, n int, used record.Profile) int {
	room := w.Slots - n
	if w.Dynamic {
		room = maxSlots - n
	}
	if per.MilliCPU > 0 {
		room = min(room, (w.Total.MilliCPU-used.MilliCPU)/per.MilliCPU)
	}
	if per.Memory > 0 {
		room = min(room, int((w.Total.Memory-used.Memory)/per.Memory))
	}
	return max(room, 0)
}

// maxSlots bounds the slots of a dynamic worker: the numbers stay small whatever it says of itself.
const maxSlots = 4096

// Unit is what occupies one slot: these task groups of one pipeline.
type Unit struct {
	Pipeline plan.PipelineID
	Groups   []plan.TaskGroup
}

// Need is what has to be placed at once, for one job.
type Need struct {
	Job    plan.JobID
	Units  []Unit
	Ask    record.Profile    // what the job says that a slot of it takes; zero fields: it does not say
	Labels map[string]string // every one must match
	// Last tells where a task group ran last; that worker is taken again where it can be.
	Last func(g plan.TaskGroup) string
	// Holds are the workers where slots are held by these pipelines themselves: they are used again first.
	Holds map[string]bool
	// Without are workers that must not be taken, and why.
	Without map[string]string
	// Kept are workers whose room is kept for another job that waits.
	Kept map[string]plan.JobID
	// Avoid are workers better not taken.
	Avoid *Avoid

	// Protocol is the oldest and newest that the leader speaks; zero: those of this build.
	Protocol [2]int

	Strategy Strategy
	Seed     uint64 // decides ties, and all of it with Random

	pipelines map[plan.PipelineID]bool // of Units
}

// Spot is where a unit goes and what it takes there.
type Spot struct {
	Worker  string
	Slot    int
	Profile record.Profile
}

// Placed is the answer of Place. Note says, in plain words, which wish of the need was not met. Protocol is the newest
// that the leader and every worker of the spots speak.
type Placed struct {
	Spots    []Spot
	Note     string
	Protocol int
}

// Units lists the units of a pipeline, in an order in which neighbours should share a worker.
func Units(p *physical.Pipeline, sharing bool) []Unit {
	var out []Unit
	if !sharing {
		for _, c := range p.Chains {
			for i := range c.Parallelism {
				out = append(out, Unit{p.ID, []plan.TaskGroup{{Pipeline: p.ID, Chain: c.ID, Index: i}}})
			}
		}
		return out
	}
	for i := range p.Slots(true) {
		u := Unit{Pipeline: p.ID}
		for _, c := range p.Chains {
			if i < c.Parallelism {
				u.Groups = append(u.Groups, plan.TaskGroup{Pipeline: p.ID, Chain: c.ID, Index: i})
			}
		}
		out = append(out, u)
	}
	return out
}

// Place finds a spot for every unit, in their order, or says why there is none. fleet is sorted by name. Workers of
// one placement have a protocol in common, the newest for which there is room enough.
func Place(n Need, fleet []Worker) (Placed, *Short) {
	speaks := n.speaks()
	for v := speaks[1]; v >= speaks[0]; v-- {
		n.Protocol = [2]int{v, v}
		p, short := place(n, fleet)
		if short == nil {
			p.Protocol = v
			return p, nil
		}
		if speaks[0] == speaks[1] {
			return Placed{}, short
		}
	}
	n.Protocol = speaks
	if _, short := place(n, fleet); short != nil {
		return Placed{}, short
	}
	return Placed{}, apart(&n, fleet)
}

// speaks are the versions of the leader.
func (n *Need) speaks() [2]int {
	if n.Protocol == [2]int{} {
		return record.Protocol
	}
	return n.Protocol
}

// place is Place for workers that speak any version of the need.
func place(n Need, fleet []Worker) (Placed, *Short) {
	if len(n.Holds) > 0 {
		n.pipelines = map[plan.PipelineID]bool{}
		for _, u := range n.Units {
			n.pipelines[u.Pipeline] = true
		}
	}
	open, short := eligible(&n, fleet)
	if short != nil {
		return Placed{}, short
	}
	if room(open) < len(n.Units) {
		return Placed{}, shortOf(&n, open, fleet)
	}
	open, note := n.Avoid.leave(&n, open)
	owner := assign(&n, open)
	return Placed{Spots: number(&n, open, owner), Note: note}, nil
}

func room(open []bin) int {
	n := 0
	for i := range open {
		n += open[i].room
	}
	return n
}

// assign gives every unit a worker: the last one where it can be, the others as the strategy says.
func assign(n *Need, open []bin) []int {
	owner := make([]int, len(n.Units)) // index into open, -1: not yet
	rest := len(n.Units)
	for i := range owner {
		owner[i] = -1
	}
	if n.Last != nil {
		byName := make(map[string]int, len(open))
		for i := range open {
			byName[open[i].w.Name] = i
		}
		for i, u := range n.Units {
			if at, ok := byName[last(n, u)]; ok && open[at].given < open[at].room {
				open[at].given++
				owner[i], rest = at, rest-1
			}
		}
	}
	got := make([]int, len(open))
	n.Strategy.spread(n, open, rest, got)
	fill(owner, got)
	return owner
}

func last(n *Need, u Unit) string {
	for _, g := range u.Groups {
		if w := n.Last(g); w != "" {
			return w
		}
	}
	return ""
}

// fill hands the counts out in runs: neighbours share a worker, which keeps ranges few.
func fill(owner, got []int) {
	at := 0
	for i := range owner {
		if owner[i] >= 0 {
			continue
		}
		for got[at] == 0 {
			at++
		}
		owner[i] = at
		got[at]--
	}
}

// number chooses the slots: those that the unit's pipeline holds already, then what the others being placed hold,
// then the smallest free numbers. So what is held besides never grows over the room of a worker.
func number(n *Need, open []bin, owner []int) []Spot {
	spots := make([]Spot, len(owner))
	for i, at := range owner {
		b := &open[at]
		spots[i] = Spot{b.w.Name, -1, b.per}
		if j := slices.IndexFunc(b.own, func(h Held) bool { return h.Pipeline == n.Units[i].Pipeline }); j >= 0 {
			spots[i].Slot = b.own[j].Slot
			b.own = slices.Delete(b.own, j, j+1)
		}
	}
	for i, at := range owner {
		if spots[i].Slot < 0 {
			spots[i].Slot = open[at].number()
		}
	}
	return spots
}

// bin is a worker while units are given out.
type bin struct {
	w     *Worker
	per   record.Profile // what a slot takes here
	room  int            // slots that can be given
	given int
	used  int            // slots in use by others
	taken record.Profile // what those take
	own   []Held         // slots of the pipelines being placed
	rank  int            // decides ties
	// next free number: at, and how far Held was looked through
	at, seen int
}

func (b *bin) number() int {
	if len(b.own) > 0 {
		n := b.own[0].Slot
		b.own = b.own[1:]
		return n
	}
	for ; ; b.at++ {
		for b.seen < len(b.w.Held) && b.w.Held[b.seen].Slot < b.at {
			b.seen++
		}
		if b.seen == len(b.w.Held) || b.w.Held[b.seen].Slot != b.at {
			b.at++
			return b.at - 1
		}
	}
}

// newBin looks how much room a worker has for a need.
func newBin(n *Need, w *Worker) bin {
	b := bin{w: w, per: w.Slot(n.Ask), used: len(w.Held), taken: w.Used}
	if n.Holds[w.Name] {
		for _, h := range w.Held {
			if h.Job == n.Job && n.pipelines[h.Pipeline] {
				b.own = append(b.own, h)
				b.used--
				b.taken = minus(b.taken, h.Profile)
			}
		}
	}
	b.room = w.room(b.per, b.used, b.taken)
	return b
}

func minus(a, b record.Profile) record.Profile {
	return record.Profile{MilliCPU: a.MilliCPU - b.MilliCPU, Memory: a.Memory - b.Memory}
}

// refused says why a worker takes nothing of a need; empty: it does.
func refused(n *Need, w *Worker) string {
	if why := unfit(n, w); why != "" {
		return why
	}
	if w.Closed != "" {
		return w.Closed
	}
	if why := n.Without[w.Name]; why != "" {
		return why
	}
	if job, ok := n.Kept[w.Name]; ok {
		return "kept for job " + string(job)
	}
	return ""
}

// unfit is refused as far as it does not pass with time.
func unfit(n *Need, w *Worker) string {
	if !match(n.Labels, w.Labels) {
		return labelsDiffer
	}
	if _, ok := record.CommonProtocol(n.speaks(), w.Protocol); !ok {
		return protocolDiffers(n, w)
	}
	return ""
}

// eligible are the workers that may take units, by name.
func eligible(n *Need, fleet []Worker) ([]bin, *Short) {
	open := make([]bin, 0, len(fleet))
	turn := 0
	if len(fleet) > 0 {
		turn = int(n.Seed % uint64(len(fleet)))
	}
	for i := range fleet {
		w := &fleet[i]
		if refused(n, w) != "" {
			continue
		}
		b := newBin(n, w)
		if b.rank = i - turn; b.rank < 0 {
			b.rank += len(fleet)
		}
		open = append(open, b)
	}
	if len(open) == 0 {
		return nil, nobody(n, fleet)
	}
	if !slices.IsSortedFunc(open, func(a, b bin) int { return cmp.Compare(a.w.Name, b.w.Name) }) {
		slices.SortFunc(open, func(a, b bin) int { return cmp.Compare(a.w.Name, b.w.Name) })
	}
	return open, nil
}

func match(want, have map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}
