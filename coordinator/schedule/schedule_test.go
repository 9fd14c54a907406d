package schedule

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/config"
	"strait/plan/logical"
	"strait/plan/physical"
)

// pipeline makes chains of the given parallelisms; the first is a source, the last a sink with a committer.
func pipeline(id plan.PipelineID, par ...int) *physical.Pipeline {
	p := &physical.Pipeline{ID: id, Bounded: true}
	for i, n := range par {
		v := &physical.Vertex{ID: plan.VertexID(fmt.Sprintf("v%d", i)), Section: config.Transform, Parallelism: n, Chain: plan.ChainID(i)}
		switch i {
		case 0:
			v.Section = config.Source
		case len(par) - 1:
			v.Section, v.Sink = config.Sink, &logical.SinkInfo{TwoPhase: true}
		}
		p.Vertices = append(p.Vertices, v)
		p.Chains = append(p.Chains, &physical.Chain{ID: plan.ChainID(i), Vertices: []plan.VertexID{v.ID}, Parallelism: n})
	}
	return p
}

func worker(name string, slots int, taken ...int) Worker {
	w := Worker{Name: name, Incarnation: 7, Slots: slots, Protocol: [2]int{1, 1}, Taken: map[int]bool{}, Own: map[int]plan.PipelineID{}}
	for _, n := range taken {
		w.Taken[n] = true
	}
	return w
}

func chains(cs []record.PlacedChain) string {
	var out []string
	for _, c := range cs {
		out = append(out, fmt.Sprintf("%d:%s[%d,%d)", c.Chain, c.Worker, c.From, c.To))
	}
	return strings.Join(out, " ")
}

func TestPlace(t *testing.T) {
	f := func(name string, p *physical.Pipeline, sharing bool, fleet []Worker, last func(plan.TaskGroup) string, want string) {
		t.Helper()
		units := Units(p, sharing)
		spots, short := Place(Need{Units: units, Last: last}, fleet)
		got := ""
		if short != nil {
			got = short.Reason + ": " + short.Message
		} else {
			got = chains(Chains(units, spots))
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
	two := func() []Worker { return []Worker{worker("w2", 4), worker("w1", 4)} }
	f("one", pipeline(1, 1), true, two(), nil, "0:w1[0,1)")
	f("spread", pipeline(1, 4), true, two(), nil, "0:w1[0,2) 0:w2[2,4)")
	f("sharing puts subtask i of all chains together", pipeline(1, 4, 2), true, two(), nil, "0:w1[0,2) 0:w2[2,4) 1:w1[0,2)")
	f("no sharing: a slot a group", pipeline(1, 4, 2), false, two(), nil, "0:w1[0,3) 0:w2[3,4) 1:w2[0,2)")
	f("least used first", pipeline(1, 2), true, []Worker{worker("w1", 4, 0, 1), worker("w2", 4)}, nil, "0:w2[0,2)")
	f("share, not number", pipeline(1, 3), true, []Worker{worker("w1", 2), worker("w2", 8)}, nil, "0:w1[0,1) 0:w2[1,3)")
	f("last worker preferred", pipeline(1, 2), true, two(), func(g plan.TaskGroup) string { return []string{"w2", "w2"}[g.Index] }, "0:w2[0,2)")
	f("last worker gone", pipeline(1, 2), true, two(), func(g plan.TaskGroup) string { return []string{"w9", "w2"}[g.Index] }, "0:w1[0,1) 0:w2[1,2)")
	f("too few", pipeline(1, 6), true, []Worker{worker("w1", 4, 0, 1), worker("w2", 4, 2, 3)}, nil,
		"SlotsShort: needs 6 slots, 4 are free on 2 workers: w1 2/4, w2 2/4")
	f("nobody", pipeline(1, 1), true, nil, nil, "NoWorkers: needs 1 slot, no worker is there; start one with `stctl serve worker`")
	full := worker("w1", 1, 0)
	f("one short", pipeline(1, 1), true, []Worker{full}, nil, "SlotsShort: needs 1 slot, 0 are free on 1 worker: w1 0/1")
	leaving, old := worker("w1", 4), worker("w3", 4)
	leaving.Closed, old.Protocol = "leaving", [2]int{2, 3}
	f("closed", pipeline(1, 2), true, []Worker{leaving, worker("w2", 1), old}, nil,
		"SlotsShort: needs 2 slots, 1 is free on 1 worker: w2 1/1; not counted: w1 (leaving), w3 (speaks protocol 2 to 3, this coordinator 1 to 1)")
	f("all closed", pipeline(1, 2), true, []Worker{leaving, old}, nil,
		"NoWorkers: needs 2 slots, but nothing new is placed on w1 (leaving), w3 (speaks protocol 2 to 3, this coordinator 1 to 1)")
}

func TestLabels(t *testing.T) {
	a, b := worker("w1", 4), worker("w2", 4)
	a.Labels = map[string]string{"zone": "a"}
	b.Labels = map[string]string{"zone": "b", "disk": "ssd"}
	units := Units(pipeline(1, 2), true)
	spots, short := Place(Need{Units: units, Labels: map[string]string{"zone": "b"}}, []Worker{a, b})
	if short != nil || chains(Chains(units, spots)) != "0:w2[0,2)" {
		t.Error(spots, short)
	}
	_, short = Place(Need{Units: units, Labels: map[string]string{"zone": "c"}}, []Worker{a, b})
	if short == nil || short.Reason != LabelMismatch || short.Message != "needs a worker labelled zone=c, none of the 2 workers is; start one with --label or change env.tag_filter" {
		t.Error(short)
	}
}

// A full fleet can restart: what the pipeline holds itself is free to it, and used again in place.
func TestOwnSlots(t *testing.T) {
	w := worker("w1", 4, 0, 3)
	w.Own[1], w.Own[2] = 2, 1
	units := append(Units(pipeline(1, 1), true), Units(pipeline(2, 1), true)...)
	spots, short := Place(Need{Units: units}, []Worker{w})
	if want := []Spot{{"w1", 2}, {"w1", 1}}; short != nil || !reflect.DeepEqual(spots, want) {
		t.Error(spots, short)
	}
}

func TestSingles(t *testing.T) {
	p := pipeline(1, 4, 2)
	cs := []record.PlacedChain{{Chain: 0, Worker: "w1", Range: plan.Range{From: 0, To: 4}}, {Chain: 1, Worker: "w3", Range: plan.Range{From: 0, To: 1}}, {Chain: 1, Worker: "w2", Range: plan.Range{From: 1, To: 2}}}
	en, co := Singles(p, cs)
	if en["v0"] != "w1" || co["v1"] != "w3" || len(en)+len(co) != 2 {
		t.Error(en, co)
	}
	got, short := Committers(p, &record.Placement{Committers: co}, []Worker{worker("w1", 1), worker("w3", 1)})
	if short != nil || got["v1"] != "w3" {
		t.Error(got, short)
	}
	full := worker("w2", 1, 0)
	full.Closed = "leaving"
	if got, short = Committers(p, &record.Placement{Committers: co}, []Worker{full}); short != nil || got["v1"] != "w2" {
		t.Error("committers go anywhere rather than nowhere:", got, short)
	}
	if _, short = Committers(p, nil, nil); short == nil {
		t.Error("no worker at all")
	}
}

func TestPlaceHoldsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := []Worker{}
		capacity := 0
		for i := range rapid.IntRange(0, 5).Draw(t, "workers") {
			w := worker(fmt.Sprintf("w%d", i), rapid.IntRange(0, 5).Draw(t, "slots"))
			for s := range w.Slots {
				switch rapid.IntRange(0, 3).Draw(t, "slot") {
				case 0:
					w.Taken[s] = true
				case 1:
					w.Own[s] = plan.PipelineID(rapid.IntRange(1, 2).Draw(t, "own"))
				}
			}
			capacity += w.Slots - len(w.Taken)
			fleet = append(fleet, w)
		}
		sharing := rapid.Bool().Draw(t, "sharing")
		par := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 3)
		var units []Unit
		for id := range rapid.IntRange(1, 2).Draw(t, "pipelines") {
			p := pipeline(plan.PipelineID(id+1), par.Draw(t, "parallelism")...)
			us := Units(p, sharing)
			if len(us) != p.Slots(sharing) {
				t.Fatalf("%d units, the plan needs %d slots", len(us), p.Slots(sharing))
			}
			units = append(units, us...)
		}
		last := map[plan.TaskGroup]string{}
		for _, u := range units {
			last[u.Groups[0]] = fmt.Sprintf("w%d", rapid.IntRange(0, 9).Draw(t, "last"))
		}
		need := Need{Units: units, Last: func(g plan.TaskGroup) string { return last[g] }}
		spots, short := Place(need, fleet)
		if (short == nil) != (len(units) <= capacity && len(fleet) > 0) {
			t.Fatalf("%d units, %d free slots: %v", len(units), capacity, short)
		}
		again, _ := Place(need, fleet)
		if !reflect.DeepEqual(spots, again) {
			t.Fatalf("equal arguments, two results: %v, %v", spots, again)
		}
		if short != nil {
			return
		}
		seen := map[Spot]bool{}
		for i, s := range spots {
			var w *Worker
			for j := range fleet {
				if fleet[j].Name == s.Worker {
					w = &fleet[j]
				}
			}
			if w == nil || s.Slot < 0 || s.Slot >= w.Slots || w.Taken[s.Slot] || seen[s] {
				t.Fatalf("unit %d: %v of %+v, given before: %v", i, s, w, seen[s])
			}
			seen[s] = true
		}
		for _, p := range []plan.PipelineID{1, 2} {
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
	})
}

func BenchmarkPlace(b *testing.B) {
	units := Units(pipeline(1, 10_000, 10_000), true)
	var fleet []Worker
	for i := range 200 {
		fleet = append(fleet, worker(fmt.Sprintf("w%03d", i), 64))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, short := Place(Need{Units: units}, fleet); short != nil {
			b.Fatal(short)
		}
	}
}
