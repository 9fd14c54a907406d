package history

import (
	"cmp"
	"fmt"
	"slices"

	"strait/kv"
	"strait/kv/keys"
	"strait/kv/kvtest"
)

// Writes holds what a coordinator wrote, as its Tap saw it, against the recording: every transaction with a key that
// only a leader writes compares the leadership key, and that key leads at the revision before. So a leader that was
// deposed has written nothing.
func Writes(tree keys.Tree, first []kv.Entry, revs []Revision, name string, done []kvtest.Done) []string {
	var faults []string
	lead := map[string]kv.Entry{}
	take := func(c kv.Change) {
		if p, ok := tree.Parse(c.Entry.Key); !ok || p.Kind != keys.KindLeader {
			return
		}
		if c.Deleted {
			delete(lead, c.Entry.Key)
		} else {
			lead[c.Entry.Key] = c.Entry
		}
	}
	for _, e := range first {
		take(kv.Change{Entry: e})
	}
	at := 0
	done = slices.Clone(done)
	slices.SortFunc(done, func(a, b kvtest.Done) int { return cmp.Compare(a.Rev, b.Rev) })
	for _, d := range done {
		if !d.OK {
			continue
		}
		theirs := ""
		for _, key := range d.Puts() {
			if p, ok := tree.Parse(key); ok && leaders(p.Kind) {
				theirs = key
			}
		}
		if theirs == "" {
			continue
		}
		for ; at < len(revs) && revs[at].Rev < d.Rev; at++ {
			for _, c := range revs[at].Changes {
				take(c)
			}
		}
		var oldest kv.Entry
		for _, e := range lead {
			if !oldest.Exists() || e.CreateRev < oldest.CreateRev {
				oldest = e
			}
		}
		switch key, rev := d.Fence(tree.Leader()); {
		case key == "":
			faults = append(faults, fmt.Sprintf("revision %d: %s writes %s without naming its leadership", d.Rev, name, theirs))
		case key != oldest.Key || rev != oldest.CreateRev:
			faults = append(faults, fmt.Sprintf("revision %d: %s writes %s as %s (%d), the leader is %s (%d)", d.Rev, name, theirs, key, rev, oldest.Key, oldest.CreateRev))
		}
	}
	return faults
}

// Writes holds what a coordinator wrote against what was recorded so far.
func (r *Recorder) Writes(name string, tap *kvtest.Tap) []string {
	done := tap.Done()
	return Writes(r.tree, r.first, r.Revisions(), name, done)
}
