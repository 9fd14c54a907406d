package schedule

import (
	"slices"
	"sort"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
)

// Chains turns spots into ranges, by chain and first subtask. units and spots are those of one pipeline.
func Chains(units []Unit, spots []Spot) []record.PlacedChain {
	var out []record.PlacedChain
	open := map[plan.ChainID]int{} // chain -> its last range in out
	for i, u := range units {
		for _, g := range u.Groups {
			if at, ok := open[g.Chain]; ok && out[at].Worker == spots[i].Worker && out[at].To == g.Index {
				out[at].To++
				continue
			}
			open[g.Chain] = len(out)
			out = append(out, record.PlacedChain{Chain: g.Chain, Worker: spots[i].Worker, Range: plan.Range{From: g.Index, To: g.Index + 1}})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Chain < out[j].Chain || out[i].Chain == out[j].Chain && out[i].From < out[j].From
	})
	return out
}

// At is the worker of a task group in a placement, or "".
func At(p *record.Placement, chain plan.ChainID, index int) string {
	if p == nil {
		return ""
	}
	for _, c := range p.Chains {
		if c.Chain == chain && c.From <= index && index < c.To {
			return c.Worker
		}
	}
	return ""
}

// Singles places what exists once and needs no slot: an enumerator per source and, for every sink that has one, a
// committer, on the worker of subtask 0 of their chain.
func Singles(p *physical.Pipeline, chains []record.PlacedChain) (enumerators, committers map[plan.VertexID]string) {
	at := func(c plan.ChainID) string { return At(&record.Placement{Chains: chains}, c, 0) }
	enumerators = map[plan.VertexID]string{}
	for _, v := range p.Sources() {
		enumerators[v.ID] = at(v.Chain)
	}
	committers = map[plan.VertexID]string{}
	for _, v := range p.Sinks() {
		if Commits(v) {
			committers[v.ID] = at(v.Chain)
		}
	}
	return enumerators, committers
}

// Commits says that a sink prepares commits, so that its pipeline has something to replay or abandon.
func Commits(v *physical.Vertex) bool { return v.Sink != nil && (v.Sink.TwoPhase || v.Sink.Aggregated) }

// Committers places the committers of a committers-only attempt: where they were, else on the least used worker.
// Suspects, and workers that must not be taken, are taken only rather than none.
func Committers(p *physical.Pipeline, last *record.Placement, n Need, fleet []Worker) (map[plan.VertexID]string, *Short) {
	var open []bin
	var short *Short
	for _, closed := range []bool{true, false} {
		// Closing has no use for slots, so it runs where nothing new would be placed rather than nowhere.
		at := fleet
		if !closed {
			at = slices.Clone(fleet)
			for i := range at {
				at[i].Closed = ""
			}
			n.Without = nil
		}
		if open, short = eligible(&n, at); short == nil {
			break
		}
	}
	if short != nil {
		return nil, &Short{short.Reason, "committers need a worker; " + short.Message}
	}
	if n.Avoid != nil {
		if trusted := slices.DeleteFunc(slices.Clone(open), func(b bin) bool { return n.Avoid.Suspects[b.w.Name] }); len(trusted) > 0 {
			open = trusted
		}
	}
	least := 0
	live := map[string]bool{}
	for i := range open {
		live[open[i].w.Name] = true
		if open[i].ratio() < open[least].ratio() {
			least = i
		}
	}
	out := map[plan.VertexID]string{}
	for _, v := range p.Sinks() {
		if !Commits(v) {
			continue
		}
		out[v.ID] = open[least].w.Name
		if last != nil && live[last.Committers[v.ID]] {
			out[v.ID] = last.Committers[v.ID]
		}
	}
	return out, nil
}
