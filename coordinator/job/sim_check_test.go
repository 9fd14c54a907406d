package job

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"strait/checkpoint/protocol"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/config"
	"strait/plan/logical"
	"strait/plan/physical"
	"strait/plan/state"
)

// checkWrite are the promises about keys that hold after every write.
func checkWrite(before, after map[string]kv.Entry) []string {
	var bad []string
	fail := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	owners := map[string]string{}
	if told := onlyEvents(before, after); told != "" {
		fail("events are written alone: %s", told)
	}
	for k, e := range after {
		p, ok := tree.Parse(k)
		if !ok {
			continue
		}
		old, had := before[k]
		if had && old.ModRev == e.ModRev && p.Kind != keys.KindTask {
			continue
		}
		switch p.Kind {
		case keys.KindPipeline:
			to, err := record.Decode[record.Word](e.Value)
			if err != nil {
				continue
			}
			var from *record.Word
			if had {
				from, _ = record.Decode[record.Word](old.Value)
			}
			if err := protocol.CheckMove(from, to); err != nil && (!had || old.ModRev != e.ModRev) {
				fail("control word of pipeline %d: %v", p.Pipeline, err)
			}
		case keys.KindPlacement:
			to, _ := record.Decode[record.Placement](e.Value)
			if had && old.ModRev != e.ModRev {
				from, _ := record.Decode[record.Placement](old.Value)
				if to.Attempt <= from.Attempt {
					fail("attempt %d is placed over %d", to.Attempt, from.Attempt)
				}
			}
			for name := range to.Workers {
				if wr, err := record.Decode[record.Worker](before[tree.Worker(name)].Value); err != nil || !record.Speaks(wr.Protocol, to.Protocol) {
					fail("attempt %d of protocol %d is placed on %s: %+v", to.Attempt, to.Protocol, name, wr)
				}
			}
			w, err := record.Decode[record.Word](after[tree.Pipeline(p.Job, p.Pipeline)].Value)
			if err != nil || w.Attempt != to.Attempt {
				fail("a placement of attempt %d beside a word of %v", to.Attempt, w)
			}
		case keys.KindCheckpoint:
			if had && old.ModRev != e.ModRev {
				fail("commit point %d was written twice", p.Number)
			}
		case keys.KindTask:
			a, err := record.Decode[record.Assignment](e.Value)
			if err != nil {
				continue // spoiled by a test
			}
			for _, c := range a.Chains {
				for i := c.From; i < c.To; i++ {
					g := fmt.Sprintf("%s/%d/%d/%d attempt %d", p.Job, p.Pipeline, c.Chain, i, a.Attempt)
					if owners[g] != "" {
						fail("two owners of %s: %s and %s", g, owners[g], p.Worker)
					}
					owners[g] = p.Worker
				}
			}
			pl, err := record.Decode[record.Placement](after[tree.Placement(p.Job, p.Pipeline)].Value)
			if errors.Is(err, record.ErrNewer) {
				continue
			}
			if err != nil || pl.Attempt < a.Attempt || pl.Attempt == a.Attempt && pl.Workers[p.Worker].Incarnation != a.Incarnation {
				fail("assignment of %s, attempt %d, is not what is placed", p.Worker, a.Attempt)
			}
		case keys.KindJobStatus:
			to, _ := record.Decode[record.JobStatus](e.Value)
			if had {
				if from, _ := record.Decode[record.JobStatus](old.Value); from.Phase.Terminal() && from.SpecCreated == to.SpecCreated && from.Phase != to.Phase {
					fail("terminal %s became %s", from.Phase, to.Phase)
				}
			}
		}
		if len(e.Value) >= 64<<10 {
			fail("value of %d bytes at %s", len(e.Value), k)
		}
	}
	for k := range before {
		if p, _ := tree.Parse(k); p.Kind == keys.KindCheckpoint || p.Kind == keys.KindPipeline {
			if _, ok := after[k]; !ok {
				if st, err := record.Decode[record.JobStatus](before[tree.JobStatus(p.Job)].Value); err != nil || !st.Phase.Terminal() {
					fail("%s was deleted", k)
				}
			}
		}
	}
	return bad
}

// onlyEvents names the status whose events are all that a write changed; "" where there is more to it.
func onlyEvents(before, after map[string]kv.Entry) string {
	told := ""
	for k, e := range after {
		old := before[k]
		if old.ModRev == e.ModRev {
			continue
		}
		from, err := record.Decode[record.JobStatus](old.Value)
		p, _ := tree.Parse(k)
		if p.Kind != keys.KindJobStatus || err != nil {
			return ""
		}
		to, _ := record.Decode[record.JobStatus](e.Value)
		from.Events, to.Events = nil, nil
		if string(record.MustEncode(from)) != string(record.MustEncode(to)) {
			return ""
		}
		told = string(e.Value)
	}
	for k := range before {
		if _, ok := after[k]; !ok {
			return ""
		}
	}
	return told
}

// simPlan makes pipelines of one fused chain each.
func simPlan(kind string, parallelism ...int) *physical.Plan {
	p := &physical.Plan{Version: physical.Version, JobName: "sim", SlotSharing: true}
	for i, n := range parallelism {
		info := &logical.SinkInfo{Guarantee: "at least once"}
		switch kind {
		case "two-phase":
			info = &logical.SinkInfo{Guarantee: "exactly once", TwoPhase: true}
		case "aggregated":
			info = &logical.SinkInfo{Guarantee: "exactly once", Aggregated: true, TwoPhase: true}
		case "upsert":
			info.Guarantee = "at least once, converging after the call limit"
		}
		p.Pipelines = append(p.Pipelines, &physical.Pipeline{ID: plan.PipelineID(i + 1), Bounded: true,
			Vertices: []*physical.Vertex{{ID: "source.In.0", Section: config.Source, Plugin: "In", Parallelism: n, Bounded: true}, {ID: "sink.Out.0", Section: config.Sink, Plugin: "Out", Parallelism: n, Sink: info}},
			Chains:   []*physical.Chain{{ID: 0, Vertices: []plan.VertexID{"source.In.0", "sink.Out.0"}, Parallelism: n}}})
	}
	return p
}

var kinds = []string{"two-phase", "aggregated", "none", "upsert"}

func TestSimFinish(t *testing.T) {
	for _, kind := range kinds {
		s := newSim(t, simPlan(kind, 2, 1), 2, 2)
		s.submit("x")
		s.finish(kind, state.JobFinished)
		for _, e := range s.m.at(s.m.rev).List(tree.Pipelines(simJob)) {
			w, _ := record.Decode[record.Word](e.Value)
			if w.Attempt != 1 || len(s.status().Failures) > 0 {
				s.fatal("%s: a restart without a cause", kind)
			}
		}
		if s.now.Sub(t0) > time.Second {
			s.fatal("%s: it waited %v for nothing", kind, s.now.Sub(t0))
		}
		t.Logf("%s: %d writes of the leader, revision %d", kind, s.writes, s.m.rev)
	}
}
