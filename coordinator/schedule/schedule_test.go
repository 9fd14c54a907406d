package schedule

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

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
	w := Worker{Name: name, Incarnation: 7, Slots: slots, Protocol: [2]int{1, 1}}
	for _, n := range taken {
		hold(&w, Held{Slot: n, Job: "other", Pipeline: 1})
	}
	return w
}

// cut is a worker with dynamic slots.
func cut(name string, milli int, memory int64) Worker {
	return Worker{Name: name, Incarnation: 7, Dynamic: true, Total: record.Profile{MilliCPU: milli, Memory: memory}, Protocol: [2]int{1, 1}}
}

func hold(w *Worker, h Held) {
	if h.Profile == (record.Profile{}) {
		h.Profile = w.Slot(record.Profile{})
	}
	w.Held = append(w.Held, h)
	slices.SortFunc(w.Held, func(a, b Held) int { return a.Slot - b.Slot })
	w.Used.MilliCPU += h.Profile.MilliCPU
	w.Used.Memory += h.Profile.Memory
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
		slices.SortFunc(fleet, func(a, b Worker) int { return strings.Compare(a.Name, b.Name) })
		placed, short := Place(Need{Units: units, Last: last}, fleet)
		got, spots := "", placed.Spots
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
		"SlotsShort: needs 6 slots, 4 are free on 2 workers: w1 2/4, w2 2/4; no slot for 1/0/4, 1/0/5; held by other (4)")
	f("nobody", pipeline(1, 1), true, nil, nil, "NoWorkers: needs 1 slot, no worker is there; start one with `stctl serve worker`")
	full := worker("w1", 1, 0)
	f("one short", pipeline(1, 1), true, []Worker{full}, nil, "SlotsShort: needs 1 slot, 0 are free on 1 worker: w1 0/1; held by other (1)")
	leaving, old := worker("w1", 4), worker("w3", 4)
	leaving.Closed, old.Protocol = "leaving", [2]int{2, 3}
	f("closed", pipeline(1, 2), true, []Worker{leaving, worker("w2", 1), old}, nil,
		"SlotsShort: needs 2 slots, 1 is free on 1 worker: w2 1/1; not counted: w1 (leaving), w3 (speaks protocol 2 to 3, this coordinator 1 to 1); no slot for 1/0/1; even with nothing else running there is room for 1: start more workers or lower the parallelism")
	f("all closed", pipeline(1, 2), true, []Worker{leaving, old}, nil,
		"NoWorkers: needs 2 slots, but nothing new is placed on w1 (leaving), w3 (speaks protocol 2 to 3, this coordinator 1 to 1)")
}

func TestLabels(t *testing.T) {
	a, b := worker("w1", 4), worker("w2", 4)
	a.Labels = map[string]string{"zone": "a"}
	b.Labels = map[string]string{"zone": "b", "disk": "ssd"}
	units := Units(pipeline(1, 2), true)
	placed, short := Place(Need{Units: units, Labels: map[string]string{"zone": "b"}}, []Worker{a, b})
	if short != nil || chains(Chains(units, placed.Spots)) != "0:w2[0,2)" {
		t.Error(placed, short)
	}
	_, short = Place(Need{Units: units, Labels: map[string]string{"zone": "c"}}, []Worker{a, b})
	if short == nil || short.Reason != LabelMismatch || short.Message != "needs a worker labelled zone=c, none of the 2 workers is; start one with --label or change env.tag_filter" {
		t.Error(short)
	}
}

// A full fleet can restart: what the pipeline holds itself is free to it, and used again in place.
func TestOwnSlots(t *testing.T) {
	w := worker("w1", 4, 0, 3)
	hold(&w, Held{Slot: 1, Job: "j", Pipeline: 2})
	hold(&w, Held{Slot: 2, Job: "j", Pipeline: 1})
	units := append(Units(pipeline(1, 1), true), Units(pipeline(2, 1), true)...)
	placed, short := Place(Need{Job: "j", Units: units, Holds: map[string]bool{"w1": true}}, []Worker{w})
	if want := []Spot{{Worker: "w1", Slot: 2}, {Worker: "w1", Slot: 1}}; short != nil || !reflect.DeepEqual(placed.Spots, want) {
		t.Error(placed, short)
	}
	// On a worker that cuts slots what a pipeline has no use for is used before a new number: never more than fits.
	d := cut("d1", 1000, 1<<30)
	for i := range 4 {
		hold(&d, Held{Slot: i, Job: "j", Pipeline: plan.PipelineID(1 + i/2)})
	}
	placed, short = Place(Need{Job: "j", Units: append(Units(pipeline(1, 3), true), Units(pipeline(2, 1), true)...), Holds: map[string]bool{"d1": true}}, []Worker{d})
	for i, want := range []int{0, 1, 3, 2} {
		if short != nil || placed.Spots[i].Slot != want {
			t.Error(placed, short)
			break
		}
	}
}

func TestSingles(t *testing.T) {
	p := pipeline(1, 4, 2)
	cs := []record.PlacedChain{{Chain: 0, Worker: "w1", Range: plan.Range{From: 0, To: 4}}, {Chain: 1, Worker: "w3", Range: plan.Range{From: 0, To: 1}}, {Chain: 1, Worker: "w2", Range: plan.Range{From: 1, To: 2}}}
	en, co := Singles(p, cs)
	if en["v0"] != "w1" || co["v1"] != "w3" || len(en)+len(co) != 2 {
		t.Error(en, co)
	}
	got, short := Committers(p, &record.Placement{Committers: co}, Need{}, []Worker{worker("w1", 1), worker("w3", 1)})
	if short != nil || got["v1"] != "w3" {
		t.Error(got, short)
	}
	full := worker("w2", 1, 0)
	full.Closed = "leaving"
	if got, short = Committers(p, &record.Placement{Committers: co}, Need{}, []Worker{full}); short != nil || got["v1"] != "w2" {
		t.Error("committers go anywhere rather than nowhere:", got, short)
	}
	lost := &Avoid{Suspects: map[string]bool{"w3": true}}
	if got, short = Committers(p, &record.Placement{Committers: co}, Need{Avoid: lost}, []Worker{worker("w1", 1), worker("w3", 1)}); short != nil || got["v1"] != "w1" {
		t.Error("committers go to a worker that nobody hears of:", got, short)
	}
	if _, short = Committers(p, nil, Need{}, nil); short == nil {
		t.Error("no worker at all")
	}
}
