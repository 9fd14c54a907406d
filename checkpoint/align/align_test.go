package align

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"strait/checkpoint"
	"strait/plan"
	"strait/transport/stream"
)

var (
	row = stream.Element{Kind: stream.Rows}
	end = stream.Element{Kind: stream.End}
)

func barrier(id int) stream.Element {
	return stream.Element{Kind: stream.Barrier, Barrier: checkpoint.Barrier{ID: plan.CheckpointID(id), Kind: checkpoint.Periodic}}
}

// TestScripts: a script is steps "channel element", the trace what the aligner said. rN, bN and e are elements;
// "abort N" is an abort.
func TestScripts(t *testing.T) {
	f := func(name string, channels int, script, want string) {
		t.Helper()
		a := New(channels)
		var got []string
		for _, step := range strings.Split(script, "; ") {
			var c, id int
			if _, err := fmt.Sscanf(step, "abort %d", &id); err == nil {
				got = append(got, fmt.Sprintf("release=%v", a.Abort(plan.CheckpointID(id))))
				continue
			}
			el := row
			if _, err := fmt.Sscanf(step, "%d b%d", &c, &id); err == nil {
				el = barrier(id)
			} else if _, err := fmt.Sscanf(step, "%d e", &c); err == nil && strings.HasSuffix(step, "e") {
				el = end
			} else {
				fmt.Sscanf(step, "%d r", &c)
			}
			v, err := a.Step(c, el)
			if err != nil {
				got = append(got, "error")
				continue
			}
			s := v.Action.String()
			if v.Release {
				s += "+release"
			}
			if v.Ended {
				s += "+ended"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%s\n got %s\nwant %s", name, s, want)
		}
	}
	f("one channel never holds", 1, "0 r; 0 b1; 0 r; 0 b2", "deliver; complete; deliver; complete")
	f("two channels", 2, "0 b1; 1 r; 1 b1; 0 r", "hold; deliver; complete+release; deliver")
	f("a held channel gives nothing", 2, "0 b1; 0 r", "hold; error")
	f("a higher barrier ends a lower", 3, "0 b1; 1 b1; 2 b2; 0 r; 0 b2; 1 b2", "hold; hold; hold+release; deliver; hold; complete+release")
	f("a lower barrier is dropped", 2, "0 b2; 1 b1; 1 r; 1 b2; 0 b2", "hold; drop; deliver; complete+release; drop")
	f("an aborted barrier is dropped", 2, "0 b1; abort 1; 0 r; 1 b1; 1 b2; 0 b2", "hold; release=true; deliver; drop; hold; complete+release")
	f("aborted before it came", 2, "abort 1; 0 b1; 1 b1; 0 b2; 1 b2", "release=false; drop; drop; hold; complete+release")
	f("an older abort leaves a newer alignment", 2, "0 b2; abort 1; 1 b2", "hold; release=false; complete+release")
	f("an end is no barrier", 2, "0 e; 1 b1; 0 b1", "deliver; hold; complete+release")
	f("the last end is marked", 2, "0 e; 1 r; 1 e; 0 b1; 1 b1", "deliver; deliver; deliver+ended; hold; complete+release")
	f("rows behind an end", 1, "0 e; 0 r", "deliver+ended; error")
	f("twice ended", 1, "0 e; 0 e", "deliver+ended; error")
	f("no such channel", 1, "1 r", "error")
}

func TestKindsMustAgree(t *testing.T) {
	a := New(2)
	if _, err := a.Step(0, barrier(1)); err != nil {
		t.Fatal(err)
	}
	el := barrier(1)
	el.Barrier.Kind = checkpoint.Final
	if _, err := a.Step(1, el); err == nil {
		t.Error("barrier 1 was periodic and final")
	}
	if got := a.Missing(); !slices.Equal(got, []int{1}) {
		t.Errorf("missing %v", got)
	}
}

// TestAlignment: random channels, random arrival. No row passes a barrier in either direction; what came on all
// channels and was not aborted completes, in order, once; nothing is lost.
func TestAlignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "channels")
		top := rapid.IntRange(1, 6).Draw(t, "barriers")
		aborts := rapid.Bool().Draw(t, "aborts")
		chans := make([][]stream.Element, n)
		common := map[int]int{} // barrier -> channels that have it
		for c := range chans {
			ended := false
			for id := 1; id <= top; id++ {
				for range rapid.IntRange(0, 3).Draw(t, "rows") {
					if !ended {
						chans[c] = append(chans[c], row)
					}
				}
				if !ended && rapid.IntRange(0, 5).Draw(t, "ends") == 0 {
					ended = true
					chans[c] = append(chans[c], end)
				}
				if id == top || rapid.IntRange(0, 4).Draw(t, "missed") > 0 {
					chans[c] = append(chans[c], barrier(id))
					common[id]++
				}
			}
			if !ended {
				chans[c] = append(chans[c], end)
			}
		}
		a, at, held := New(n), make([]int, n), make([]bool, n)
		behind := make([]int, n) // highest barrier taken per channel
		var completed []int
		aborted := map[int]bool{}
		ends := 0
		for {
			var can []int
			for c := range chans {
				if !held[c] && at[c] < len(chans[c]) {
					can = append(can, c)
				}
			}
			if len(can) == 0 {
				break
			}
			if open := int(a.Open().ID); aborts && open != 0 && open != top && rapid.IntRange(0, 9).Draw(t, "abort") == 0 {
				aborted[open] = true
				if a.Abort(plan.CheckpointID(open)) {
					clear(held)
				}
				continue
			}
			c := rapid.SampledFrom(can).Draw(t, "channel")
			el := chans[c][at[c]]
			at[c]++
			if el.Kind == stream.Barrier {
				behind[c] = int(el.Barrier.ID)
			}
			v, err := a.Step(c, el)
			if err != nil {
				t.Fatal(err)
			}
			if v.Release {
				clear(held)
			}
			switch v.Action {
			case Deliver:
				if o := int(a.Open().ID); o != 0 && behind[c] >= o {
					t.Fatalf("channel %d gives rows behind barrier %d, which is open", c, o)
				}
				if el.Kind == stream.End {
					if ends++; v.Ended != (ends == n) {
						t.Fatalf("end %d of %d: Ended is %v", ends, n, v.Ended)
					}
				}
			case Hold:
				held[c] = true
			case Complete:
				id := int(v.Barrier.ID)
				if len(completed) > 0 && completed[len(completed)-1] >= id {
					t.Fatalf("%d complete after %v", id, completed)
				}
				for d := range chans {
					if behind[d] != id {
						t.Fatalf("barrier %d complete while channel %d is behind %d", id, d, behind[d])
					}
				}
				completed = append(completed, id)
			}
		}
		for c := range chans {
			if at[c] != len(chans[c]) {
				t.Fatalf("channel %d is stuck at %d of %d", c, at[c], len(chans[c]))
			}
		}
		for id := 1; id <= top; id++ {
			if want := common[id] == n && !aborted[id]; want != slices.Contains(completed, id) {
				t.Fatalf("barrier %d on %d of %d channels: complete %v", id, common[id], n, completed)
			}
		}
	})
}
