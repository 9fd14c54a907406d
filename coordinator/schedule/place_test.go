package schedule

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"strait/kv/record"
	"strait/plan"
)

// anyFleet draws workers of both kinds with slots held by others and by job j.
func anyFleet(t *rapid.T) []Worker {
	fleet := []Worker{}
	for i := range rapid.IntRange(0, 5).Draw(t, "workers") {
		w := worker(fmt.Sprintf("w%d", i), rapid.IntRange(0, 5).Draw(t, "slots"))
		w.Total = record.Profile{MilliCPU: 1000 * rapid.IntRange(0, 3).Draw(t, "cpu"), Memory: int64(rapid.IntRange(0, 10).Draw(t, "memory")) << 26}
		if rapid.Bool().Draw(t, "dynamic") {
			w.Dynamic, w.Slots = true, 0
		}
		for s := range 6 {
			h := Held{Slot: s, Pipeline: plan.PipelineID(rapid.IntRange(1, 2).Draw(t, "pipeline"))}
			switch rapid.IntRange(0, 4).Draw(t, "slot") {
			case 0:
				h.Job, h.Endless = "other", rapid.Bool().Draw(t, "endless")
			case 1:
				h.Job = "j"
			default:
				continue
			}
			h.Profile = w.Slot(record.Profile{})
			if w.room(h.Profile, len(w.Held), w.Used) > 0 && (w.Dynamic || s < w.Slots) {
				hold(&w, h)
			}
		}
		w.Load = Load{Known: rapid.Bool().Draw(t, "known"), Busy: rapid.IntRange(0, million).Draw(t, "busy")}
		fleet = append(fleet, w)
	}
	return fleet
}

func anyNeed(t *rapid.T, fleet []Worker) Need {
	n := Need{Job: "j", Strategy: rapid.SampledFrom(Strategies).Draw(t, "strategy"), Seed: rapid.Uint64().Draw(t, "seed"), Holds: map[string]bool{}}
	sharing := rapid.Bool().Draw(t, "sharing")
	par := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 3)
	for id := range rapid.IntRange(1, 2).Draw(t, "pipelines") {
		p := pipeline(plan.PipelineID(id+1), par.Draw(t, "parallelism")...)
		us := Units(p, sharing)
		if len(us) != p.Slots(sharing) {
			t.Fatalf("%d units, the plan needs %d slots", len(us), p.Slots(sharing))
		}
		n.Units = append(n.Units, us...)
	}
	if rapid.Bool().Draw(t, "asks") {
		n.Ask = record.Profile{MilliCPU: rapid.IntRange(0, 1500).Draw(t, "ask cpu"), Memory: int64(rapid.IntRange(0, 4).Draw(t, "ask memory")) << 26}
	}
	last := map[plan.TaskGroup]string{}
	for _, u := range n.Units {
		last[u.Groups[0]] = fmt.Sprintf("w%d", rapid.IntRange(0, 9).Draw(t, "last"))
	}
	n.Last = func(g plan.TaskGroup) string { return last[g] }
	for _, w := range fleet {
		n.Holds[w.Name] = true
	}
	if rapid.Bool().Draw(t, "avoids") {
		n.Avoid = &Avoid{Suspects: map[string]bool{"w0": rapid.Bool().Draw(t, "suspect")}, Pairs: [][2]string{{"w1", "w2"}}}
		if !n.Avoid.Suspects["w0"] {
			n.Avoid.Suspects = nil
		}
	}
	return n
}

// TestPlaceHoldsItsPromises: a job is placed as a whole or not; no slot twice, none of others; what is held with it
// is never more than the worker has of slots, cpu and memory; equal arguments, equal result; what has a place where
// it ran last stays there.
func TestPlaceHoldsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := anyFleet(t)
		need := anyNeed(t, fleet)
		placed, short := Place(need, fleet)
		again, _ := Place(need, fleet)
		if !reflect.DeepEqual(placed, again) {
			t.Fatalf("equal arguments, two results: %v, %v", placed, again)
		}
		capacity := 0
		for i := range fleet {
			w := &fleet[i]
			n, used := 0, record.Profile{}
			for _, h := range w.Held {
				if h.Job != "j" || h.Pipeline > need.Units[len(need.Units)-1].Pipeline {
					n++
					used.MilliCPU, used.Memory = used.MilliCPU+h.Profile.MilliCPU, used.Memory+h.Profile.Memory
				}
			}
			capacity += w.room(w.Slot(need.Ask), n, used)
		}
		if (short == nil) != (len(need.Units) <= capacity && len(fleet) > 0) {
			t.Fatalf("%d units, room for %d: %v", len(need.Units), capacity, short)
		}
		if short != nil {
			return
		}
		at := map[string]*Worker{}
		after := map[string]map[int]record.Profile{}
		for i := range fleet {
			w := &fleet[i]
			at[w.Name], after[w.Name] = w, map[int]record.Profile{}
			for _, h := range w.Held {
				after[w.Name][h.Slot] = h.Profile
			}
		}
		seen := map[[2]any]bool{}
		for i, s := range placed.Spots {
			w := at[s.Worker]
			if w == nil || s.Slot < 0 || !w.Dynamic && s.Slot >= w.Slots || seen[[2]any{s.Worker, s.Slot}] || s.Profile != w.Slot(need.Ask) {
				t.Fatalf("unit %d: %v of %+v", i, s, w)
			}
			for _, h := range w.Held {
				if h.Slot == s.Slot && h.Job != "j" {
					t.Fatalf("unit %d: %v is held by another", i, s)
				}
			}
			seen[[2]any{s.Worker, s.Slot}] = true
			after[s.Worker][s.Slot] = s.Profile
		}
		// With what the job still holds from before, unless its slots were of another size.
		for name, held := range after {
			w, used := at[name], record.Profile{}
			for _, p := range held {
				used.MilliCPU, used.Memory = used.MilliCPU+p.MilliCPU, used.Memory+p.Memory
			}
			same := need.Ask == record.Profile{}
			if same && (used.MilliCPU > w.Total.MilliCPU || used.Memory > w.Total.Memory) || !w.Dynamic && len(held) > w.Slots {
				t.Fatalf("%s holds %+v of %+v", name, used, w.Total)
			}
		}
		for _, p := range []plan.PipelineID{1, 2} {
			sameRanges(t, p, need.Units, placed.Spots)
		}
		if need.Avoid != nil && placed.Note == "" {
			used := map[string]bool{}
			for _, s := range placed.Spots {
				used[s.Worker] = true
			}
			if used["w1"] && used["w2"] || need.Avoid.Suspects["w0"] && used["w0"] {
				t.Fatalf("what was to be avoided is used without a word: %v", placed)
			}
		}
		if need.Avoid == nil {
			staysWhereItWas(t, need, fleet, placed)
		}
	})
}

func staysWhereItWas(t *rapid.T, need Need, fleet []Worker, placed Placed) {
	moved, wanted := map[string]int{}, map[string]int{}
	for i, u := range need.Units {
		w := need.Last(u.Groups[0])
		wanted[w]++
		if placed.Spots[i].Worker != w {
			moved[w]++
		}
	}
	need.pipelines = map[plan.PipelineID]bool{}
	for _, u := range need.Units {
		need.pipelines[u.Pipeline] = true
	}
	for i := range fleet {
		b := newBin(&need, &fleet[i])
		if name := fleet[i].Name; moved[name] != max(0, wanted[name]-b.room) {
			t.Fatalf("%d units moved away from %s, which has room for %d of %d", moved[name], name, b.room, wanted[name])
		}
	}
}

// sameRanges: the ranges of a placement say what the spots do.
func sameRanges(t *rapid.T, p plan.PipelineID, units []Unit, spots []Spot) {
	var us []Unit
	var ss []Spot
	want := map[plan.TaskGroup]string{}
	for i, u := range units {
		if u.Pipeline == p {
			us, ss = append(us, u), append(ss, spots[i])
			for _, g := range u.Groups {
				want[g] = spots[i].Worker
			}
		}
	}
	cs := Chains(us, ss)
	n := 0
	for _, c := range cs {
		for i := c.From; i < c.To; i++ {
			n++
			if want[plan.TaskGroup{Pipeline: p, Chain: c.Chain, Index: i}] != c.Worker {
				t.Fatalf("%v does not say what %v does", cs, ss)
			}
		}
	}
	if n != len(want) {
		t.Fatalf("%d groups in ranges, %d placed", n, len(want))
	}
}

func BenchmarkPlace(b *testing.B) {
	units := Units(pipeline(1, 10_000, 10_000), true)
	var fleet []Worker
	for i := range 1000 {
		w := worker(fmt.Sprintf("w%04d", i), 64)
		w.Total = record.Profile{MilliCPU: 64_000, Memory: 64 << 30}
		if i%2 == 0 {
			w.Dynamic, w.Slots = true, 0
		}
		fleet = append(fleet, w)
	}
	for _, s := range Strategies {
		b.Run(string(s), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, short := Place(Need{Units: units, Strategy: s}, fleet); short != nil {
					b.Fatal(short)
				}
			}
		})
	}
}
