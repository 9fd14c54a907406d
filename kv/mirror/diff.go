package mirror

import (
	"cmp"
	"slices"
	"strings"

	"strait/kv"
)

// target is a prefix (ends in "/") or one key.
type target struct{ from string }

func (t target) prefix() bool { return strings.HasSuffix(t.from, "/") }

func (t target) end() string {
	if t.prefix() {
		return kv.PrefixEnd(t.from)
	}
	return t.from + "\x00"
}

func (t target) has(key string) bool {
	return key == t.from || t.prefix() && strings.HasPrefix(key, t.from)
}

type targets struct{ list []target }

// newTargets drops what another one covers.
func newTargets(in []string) targets {
	in = slices.Clone(in)
	slices.Sort(in) // a prefix sorts before what it covers
	var ts targets
	for _, s := range in {
		if s != "" && !ts.has(s) {
			ts.list = append(ts.list, target{s})
		}
	}
	return ts
}

func (ts targets) has(key string) bool {
	for _, t := range ts.list {
		if t.has(key) {
			return true
		}
	}
	return false
}

// span is the smallest range that holds every target; end "" means the one key.
func (ts targets) span() (from, end string) {
	from = ts.list[0].from
	if len(ts.list) == 1 && !ts.list[0].prefix() {
		return from, ""
	}
	for _, t := range ts.list {
		end = max(end, t.end())
	}
	return from, end
}

// String names the targets in errors and logs.
func (ts targets) String() string {
	names := make([]string, len(ts.list))
	for i, t := range ts.list {
		names[i] = t.from
	}
	return strings.Join(names, ", ")
}

// difference is the events that lead from old to now, which was listed at rev: deletes first, in
// key order, then puts in the order of their revisions.
func difference(old, now map[string]kv.Entry, rev int64) []Event {
	var gone, puts []Event
	for key, prev := range old {
		cur, ok := now[key]
		if !ok || cur.CreateRev != prev.CreateRev {
			gone = append(gone, Event{Kind: Delete, Entry: kv.Entry{Key: key, ModRev: rev}, Prev: prev})
		}
	}
	for key, cur := range now {
		prev, ok := old[key]
		switch {
		case !ok || prev.CreateRev != cur.CreateRev:
			puts = append(puts, Event{Kind: Put, Entry: cur, Prev: kv.Entry{Key: key}})
		case prev.ModRev != cur.ModRev:
			puts = append(puts, Event{Kind: Put, Entry: cur, Prev: prev})
		}
	}
	slices.SortFunc(gone, func(a, b Event) int { return cmp.Compare(a.Entry.Key, b.Entry.Key) })
	slices.SortFunc(puts, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Entry.ModRev, b.Entry.ModRev), cmp.Compare(a.Entry.Key, b.Entry.Key))
	})
	return append(gone, puts...)
}
