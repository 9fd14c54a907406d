package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/units"
)

// Short says why a job does not fit. Reason is one word for programs, Message for people.
type Short struct {
	Reason  string
	Message string
}

// Error implements error.
func (s *Short) Error() string { return s.Message }

// The reasons.
const (
	NoWorkers        = "NoWorkers"        // none that takes anything new
	LabelMismatch    = "LabelMismatch"    // none with the labels of env.tag_filter
	ProtocolMismatch = "ProtocolMismatch" // none that this coordinator can talk to
	SlotsShort       = "SlotsShort"       // too few slots are free
	MemoryShort      = "MemoryShort"      // slots would be free, their memory is not
	CPUShort         = "CPUShort"         // likewise
	RoomKept         = "RoomKept"         // what is free is kept for jobs that come first
)

const (
	most         = 8 // names in one list of a message
	labelsDiffer = "labels do not match"
)

func protocolDiffers(n *Need, w *Worker) string {
	own := n.speaks()
	return fmt.Sprintf("speaks protocol %d to %d, this coordinator %d to %d", w.Protocol[0], w.Protocol[1], own[0], own[1])
}

// apart says that there is room enough, but not among workers that speak one protocol.
func apart(n *Need, fleet []Worker) *Short {
	var told []string
	for i := range fleet {
		if w := &fleet[i]; refused(n, w) == "" {
			told = append(told, fmt.Sprintf("%s %d to %d", w.Name, w.Protocol[0], w.Protocol[1]))
		}
	}
	if len(told) > most {
		told = append(told[:most], fmt.Sprintf("%d more", len(told)-most))
	}
	return &Short{ProtocolMismatch, fmt.Sprintf("needs %s, and the workers with room for them speak no protocol in common: %s; bring them to one version", slots(len(n.Units)), strings.Join(told, ", "))}
}

// nobody says why no worker at all takes a need.
func nobody(n *Need, fleet []Worker) *Short {
	want := slots(len(n.Units))
	if len(fleet) == 0 {
		return &Short{NoWorkers, fmt.Sprintf("needs %s, no worker is there; start one with `stctl serve worker`", want)}
	}
	labels, protocol, kept := 0, 0, 0
	for i := range fleet {
		w := &fleet[i]
		_, for1 := n.Kept[w.Name]
		switch why := unfit(n, w); {
		case why == labelsDiffer:
			labels++
		case why != "":
			protocol++
		case w.Closed == "" && for1:
			kept++
		}
	}
	switch {
	case labels == len(fleet):
		return &Short{LabelMismatch, fmt.Sprintf("needs a worker labelled %s, none of the %s is; start one with --label or change env.tag_filter", pairs(n.Labels), workers(len(fleet)))}
	case labels+protocol == len(fleet):
		return &Short{ProtocolMismatch, fmt.Sprintf("needs %s, but no worker speaks a protocol of this coordinator: %s; bring both to one version", want, skipped(n, nil, fleet))}
	case kept > 0:
		return &Short{RoomKept, fmt.Sprintf("needs %s, but what is free is kept for jobs that come first: %s", want, skipped(n, nil, fleet))}
	}
	return &Short{NoWorkers, fmt.Sprintf("needs %s, but nothing new is placed on %s", want, skipped(n, nil, fleet))}
}

// shortOf says what is missing: how much is needed, what is free where, which task groups have no slot, what would
// not even fit into an empty fleet, who holds the rest.
func shortOf(n *Need, open []bin, fleet []Worker) *Short {
	need, free := len(n.Units), room(open)
	reason, bare, memory := SlotsShort, 0, 0
	for i := range open {
		b := &open[i]
		bare += b.w.room(record.Profile{}, b.used, b.taken)
		memory += b.w.room(record.Profile{Memory: b.per.Memory}, b.used, b.taken)
	}
	switch {
	case bare < need:
	case memory < need:
		reason = MemoryShort
	default:
		reason = CPUShort
	}
	var b strings.Builder
	fmt.Fprintf(&b, "needs %s%s, %d %s free on %s", slots(need), size(n, open), free, map[bool]string{true: "is", false: "are"}[free == 1], workers(len(open)))
	for i := range open {
		if i == most {
			fmt.Fprintf(&b, ", and %d more", len(open)-most)
			break
		}
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + open[i].told())
	}
	if names := skipped(n, open, fleet); names != "" {
		b.WriteString("; not counted: " + names)
	}
	if free > 0 {
		b.WriteString("; no slot for " + groups(n.Units[free:]))
	}
	// What does not fit for now only, because workers are kept or given up for lost, would fit then.
	later := *n
	later.Kept, later.Without = nil, nil
	all, _ := eligible(&later, fleet)
	switch whole, endless := empty(all); {
	case whole == 0 && reason != SlotsShort:
		b.WriteString("; no worker is large enough for one, even empty: ask for less in env.slot.cpu and env.slot.memory, or start a larger one")
	case whole < need:
		fmt.Fprintf(&b, "; even with nothing else running there is room for %d: start more workers or lower the parallelism", whole)
	case endless < need:
		fmt.Fprintf(&b, "; jobs without an end hold all but %d", endless)
	}
	if who := holders(open); who != "" {
		b.WriteString("; held by " + who)
	}
	if len(n.Kept) > 0 && room(all) >= need {
		reason = RoomKept
	}
	return &Short{reason, b.String()}
}

// size says what a slot takes, where that is more than one of a number.
func size(n *Need, open []bin) string {
	dynamic := false
	for i := range open {
		dynamic = dynamic || open[i].w.Dynamic
	}
	ask := n.Ask
	if dynamic {
		ask = (&Worker{Dynamic: true}).Slot(ask)
	}
	var parts []string
	if ask.MilliCPU > 0 {
		parts = append(parts, cores(ask.MilliCPU))
	}
	if ask.Memory > 0 {
		parts = append(parts, units.FormatBytes(ask.Memory))
	}
	if len(parts) == 0 {
		return ""
	}
	return " of " + strings.Join(parts, " and ")
}

func cores(milli int) string {
	if milli == 1000 {
		return "1 core"
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%03d", milli/1000, milli%1000), "0"), ".") + " cores"
}

// told is a worker with what is free there: of its slots, or of what it cuts them from.
func (b *bin) told() string {
	w, left := b.w, minus(b.w.Total, b.taken)
	of := func() string {
		return fmt.Sprintf("%s of %s, %s of %s", strings.TrimSuffix(strings.TrimSuffix(cores(left.MilliCPU), "s"), " core"), cores(w.Total.MilliCPU),
			units.FormatBytes(left.Memory), units.FormatBytes(w.Total.Memory))
	}
	if w.Dynamic {
		return fmt.Sprintf("%s %d (%s free)", w.Name, b.room, of())
	}
	text := fmt.Sprintf("%s %d/%d", w.Name, b.room, w.Slots)
	if b.room < w.Slots-b.used {
		text += fmt.Sprintf(" (%s free)", of())
	}
	return text
}

// empty is the room of workers that run nothing, and with what only somebody's hand ends left there.
func empty(open []bin) (whole, endless int) {
	for i := range open {
		b := &open[i]
		whole += b.w.room(b.per, 0, record.Profile{})
		endless += b.potential()
	}
	return whole, endless
}

// potential is the room of a worker once everything there has ended that ends by itself.
func (b *bin) potential() int {
	n, used := 0, record.Profile{}
	for _, h := range b.w.Held {
		if h.Endless && !slices.ContainsFunc(b.own, func(o Held) bool { return o.Slot == h.Slot }) {
			n++
			used.MilliCPU += h.Profile.MilliCPU
			used.Memory += h.Profile.Memory
		}
	}
	return b.w.room(b.per, n, used)
}

// holders lists the jobs that hold slots there, the biggest first.
func holders(open []bin) string {
	count := map[plan.JobID]int{}
	for i := range open {
		for _, h := range open[i].w.Held {
			count[h.Job]++
		}
		for _, h := range open[i].own {
			count[h.Job]--
		}
	}
	names := make([]plan.JobID, 0, len(count))
	for name, n := range count {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b plan.JobID) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	var out []string
	for i, name := range names {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more jobs", len(names)-most))
			break
		}
		text := string(name)
		if text == "" {
			text = "keys that cannot be read"
		}
		out = append(out, fmt.Sprintf("%s (%d)", text, count[name]))
	}
	return strings.Join(out, ", ")
}

// groups names the first task groups of units.
func groups(us []Unit) string {
	var out []string
	for i, u := range us {
		if i == 4 {
			out = append(out, fmt.Sprintf("and %d more", len(us)-4))
			break
		}
		if len(u.Groups) > 0 {
			out = append(out, u.Groups[0].String())
		}
	}
	return strings.Join(out, ", ")
}

// skipped names the workers that are not among open, and why.
func skipped(n *Need, open []bin, fleet []Worker) string {
	counted := make(map[string]bool, len(open))
	for i := range open {
		counted[open[i].w.Name] = true
	}
	var out []string
	for i := range fleet {
		if w := &fleet[i]; !counted[w.Name] {
			out = append(out, w.Name+" ("+refused(n, w)+")")
		}
	}
	sort.Strings(out)
	if len(out) > most {
		out = append(out[:most:most], fmt.Sprintf("and %d more", len(out)-most))
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
