package schedule

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"sort"
	"strings"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
)

// Worker is a live worker as the scheduler sees it.
type Worker struct {
	Name        string
	Incarnation int64
	Slots       int
	Labels      map[string]string
	Protocol    [2]int
	Closed      string // why nothing new is placed here: leaving, draining, …; empty: open
	// Taken are the slots in use by others than the pipelines being placed.
	Taken map[int]bool
	// Own are slots that these pipelines hold from older attempts on this incarnation; they are used again first.
	Own map[int]plan.PipelineID
}

// Unit is what occupies one slot: these task groups of one pipeline.
type Unit struct {
	Pipeline plan.PipelineID
	Groups   []plan.TaskGroup
}

// Need is what has to be placed at once.
type Need struct {
	Units  []Unit
	Labels map[string]string // every one must match
	// Last tells where a task group ran last; that worker is taken again where it can be.
	Last func(g plan.TaskGroup) string
}

// Spot is where a unit goes.
type Spot struct {
	Worker string
	Slot   int
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

// Short says why a job does not fit. Reason is one word for programs, Message for people.
type Short struct {
	Reason  string
	Message string
}

// Error implements error.
func (s *Short) Error() string { return s.Message }

// The reasons.
const (
	NoWorkers     = "NoWorkers"
	LabelMismatch = "LabelMismatch"
	SlotsShort    = "SlotsShort"
)

// Place finds a spot for every unit, in their order, or says why there is none.
func Place(n Need, fleet []Worker) ([]Spot, *Short) {
	open, short := eligible(n, fleet)
	if short != nil {
		return nil, short
	}
	free := 0
	for _, b := range open {
		free += len(b.free)
	}
	if free < len(n.Units) {
		return nil, shortOf(len(n.Units), free, open, fleet)
	}
	owner := make([]int, len(n.Units)) // index into open, -1: not yet
	byName := map[string]int{}
	for i, b := range open {
		byName[b.w.Name] = i
	}
	rest := 0
	for i, u := range n.Units {
		owner[i] = -1
		if at, ok := byName[last(n, u)]; ok && open[at].give(1) {
			owner[i] = at
		} else {
			rest++
		}
	}
	fill(owner, spread(open, rest))
	spots := make([]Spot, len(owner))
	for i, at := range owner {
		spots[i] = Spot{open[at].w.Name, open[at].slot(n.Units[i].Pipeline)}
	}
	return spots, nil
}

func last(n Need, u Unit) string {
	if n.Last == nil {
		return ""
	}
	for _, g := range u.Groups {
		if w := n.Last(g); w != "" {
			return w
		}
	}
	return ""
}

// bin is a worker while units are given out.
type bin struct {
	w     *Worker
	free  []int // slot numbers not taken, ascending
	used  int   // slots in use before
	given int   // units promised in this round
}

func (b *bin) give(n int) bool {
	if b.given+n > len(b.free) {
		return false
	}
	b.given += n
	return true
}

// slot takes a free slot: one the pipeline holds already, else one nobody does, else any.
func (b *bin) slot(p plan.PipelineID) int {
	best := 0
	rank := func(n int) int {
		switch own, held := b.w.Own[n]; {
		case held && own == p:
			return 0
		case !held:
			return 1
		}
		return 2
	}
	for i := range b.free {
		if rank(b.free[i]) < rank(b.free[best]) {
			best = i
		}
	}
	n := b.free[best]
	b.free = slices.Delete(b.free, best, best+1)
	return n
}

// before orders workers by the share of slots in use; ties by units given, then by name.
func (b *bin) before(o *bin) bool {
	x, y := (b.used+b.given)*o.w.Slots, (o.used+o.given)*b.w.Slots
	if x != y {
		return x < y
	}
	if b.given != o.given {
		return b.given < o.given
	}
	return b.w.Name < o.w.Name
}

type bins []*bin

func (h bins) Len() int           { return len(h) }
func (h bins) Less(i, j int) bool { return h[i].before(h[j]) }
func (h bins) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *bins) Push(x any)        { *h = append(*h, x.(*bin)) }
func (h *bins) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// spread gives n units to the workers least in use and returns how many each got, by index of open.
func spread(open []*bin, n int) []int {
	got := make([]int, len(open))
	index := map[*bin]int{}
	h := bins{}
	for i, b := range open {
		index[b] = i
		if b.given < len(b.free) {
			h = append(h, b)
		}
	}
	heap.Init(&h)
	for ; n > 0; n-- {
		b := h[0]
		b.given++
		got[index[b]]++
		if b.given < len(b.free) {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return got
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

// eligible sorts the workers that may take units by name.
func eligible(n Need, fleet []Worker) ([]*bin, *Short) {
	if len(fleet) == 0 {
		return nil, &Short{NoWorkers, fmt.Sprintf("needs %s, no worker is there; start one with `stctl serve worker`", slots(len(n.Units)))}
	}
	var out []*bin
	labels, closed := 0, 0
	for i := range fleet {
		w := &fleet[i]
		if !match(n.Labels, w.Labels) {
			labels++
			continue
		}
		if _, ok := record.CommonProtocol(record.Protocol, w.Protocol); !ok || w.Closed != "" {
			closed++
			continue
		}
		b := &bin{w: w}
		for s := range w.Slots {
			if w.Taken[s] {
				b.used++
			} else {
				b.free = append(b.free, s)
			}
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b *bin) int { return cmp.Compare(a.w.Name, b.w.Name) })
	if len(out) == 0 && labels > 0 {
		return nil, &Short{LabelMismatch, fmt.Sprintf("needs a worker labelled %s, none of the %s is; start one with --label or change env.tag_filter", pairs(n.Labels), workers(len(fleet)))}
	}
	if len(out) == 0 {
		return nil, &Short{NoWorkers, fmt.Sprintf("needs %s, but nothing new is placed on %s", slots(len(n.Units)), why(fleet))}
	}
	return out, nil
}

func match(want, have map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

func shortOf(need, free int, open []*bin, fleet []Worker) *Short {
	var b strings.Builder
	fmt.Fprintf(&b, "needs %s, %d %s free on %s", slots(need), free, map[bool]string{true: "is", false: "are"}[free == 1], workers(len(open)))
	const most = 8
	for i, x := range open {
		if i == most {
			fmt.Fprintf(&b, ", and %d more", len(open)-most)
			break
		}
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s %d/%d", sep, x.w.Name, len(x.free), x.w.Slots)
	}
	if len(open) < len(fleet) {
		fmt.Fprintf(&b, "; not counted: %s", skipped(open, fleet))
	}
	return &Short{SlotsShort, b.String()}
}

func skipped(open []*bin, fleet []Worker) string {
	var rest []Worker
	for _, w := range fleet {
		if !slices.ContainsFunc(open, func(b *bin) bool { return b.w.Name == w.Name }) {
			rest = append(rest, w)
		}
	}
	return why(rest)
}

func why(fleet []Worker) string {
	fleet = slices.Clone(fleet)
	sort.Slice(fleet, func(i, j int) bool { return fleet[i].Name < fleet[j].Name })
	var out []string
	for i, w := range fleet {
		if i == 8 {
			out = append(out, fmt.Sprintf("and %d more", len(fleet)-8))
			break
		}
		reason := w.Closed
		if _, ok := record.CommonProtocol(record.Protocol, w.Protocol); !ok {
			reason = fmt.Sprintf("speaks protocol %d to %d, this coordinator %d to %d", w.Protocol[0], w.Protocol[1], record.Protocol[0], record.Protocol[1])
		}
		if reason == "" {
			reason = "labels do not match"
		}
		out = append(out, w.Name+" ("+reason+")")
	}
	return strings.Join(out, ", ")
}

func slots(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return fmt.Sprintf("%d slots", n)
}

func workers(n int) string {
	if n == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", n)
}

func pairs(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return strings.Join(out, ",")
}
