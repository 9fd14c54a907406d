package history

import (
	"strings"
	"testing"

	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

var tree = keys.New("")

// story makes revisions.
type story struct {
	revs    []Revision
	created map[string]int64
}

func (s *story) rev() int64 { return int64(len(s.revs)) + 1 }

// put writes keys in one revision; a nil value deletes.
func (s *story) put(kvs ...any) int64 {
	r := Revision{Rev: s.rev()}
	for i := 0; i < len(kvs); i += 2 {
		key := kvs[i].(string)
		if kvs[i+1] == nil {
			delete(s.created, key)
			r.Changes = append(r.Changes, kv.Change{Deleted: true, Entry: kv.Entry{Key: key, ModRev: r.Rev}})
			continue
		}
		if s.created[key] == 0 {
			s.created[key] = r.Rev
		}
		r.Changes = append(r.Changes, kv.Change{Entry: kv.Entry{Key: key, Value: record.MustEncode(kvs[i+1]), CreateRev: s.created[key], ModRev: r.Rev}})
	}
	s.revs = append(s.revs, r)
	return r.Rev
}

func word(a plan.Attempt, phase state.Pipeline, change ...func(*record.Word)) *record.Word {
	w := &record.Word{Header: record.Head, Attempt: a, Scope: record.ScopeAll, Phase: phase}
	for _, c := range change {
		c(w)
	}
	return w
}

func barrier(id plan.CheckpointID, st record.BarrierState, completed, committed plan.CheckpointID) func(*record.Word) {
	return func(w *record.Word) {
		w.Barrier, w.Completed, w.Committed = record.Barrier{ID: id, State: st}, completed, committed
	}
}

const (
	jobName  = plan.JobID("job")
	pipeline = plan.PipelineID(1)
)

var (
	wordKey      = tree.Pipeline(jobName, pipeline)
	placementKey = tree.Placement(jobName, pipeline)
	taskKey      = tree.Task("w1", jobName, pipeline)
	statusKey    = tree.TaskStatus("w1", jobName, pipeline)
	ackKey       = tree.Ack(jobName, pipeline, "w1")
	slotKey      = tree.Slot("w1", 0)
	pointKey     = tree.Checkpoint(jobName, pipeline, 1)
)

func placed(a plan.Attempt, worker string, incarnation int64) *record.Placement {
	return &record.Placement{Header: record.Head, Attempt: a, Workers: map[string]record.PlacedWorker{worker: {Incarnation: incarnation}},
		Chains: []record.PlacedChain{{Worker: worker, Range: plan.Range{From: 0, To: 1}}}}
}

func granted(job plan.JobID, a plan.Attempt, incarnation int64) *record.Grant {
	return &record.Grant{Header: record.Head, Incarnation: incarnation, Job: job, Pipeline: pipeline, Attempt: a}
}

func assigned(a plan.Attempt, worker string, incarnation int64) *record.Assignment {
	return &record.Assignment{Header: record.Head, Incarnation: incarnation, Attempt: a, Slots: []int{0}, Chains: []record.PlacedChain{{Worker: worker, Range: plan.Range{From: 0, To: 1}}}}
}

// runs is a job that runs on w1 (incarnation 2) with an open barrier.
func runs() *story {
	s := &story{created: map[string]int64{}}
	s.put(tree.Leader()+"a", record.Leader{Header: record.Head})
	s.put(tree.Worker("w1"), record.Worker{Header: record.Head, Slots: 1})
	s.put(tree.Worker("w2"), record.Worker{Header: record.Head, Slots: 1})
	s.put(slotKey, granted(jobName, 1, 2))
	s.put(wordKey, word(1, state.PipelineDeploying), placementKey, placed(1, "w1", 2))
	s.put(taskKey, assigned(1, "w1", 2))
	s.put(statusKey, record.TaskStatus{Header: record.Head, Incarnation: 2, Attempt: 1, State: state.TaskReady})
	s.put(wordKey, word(1, state.PipelineRunning))
	s.put(wordKey, word(1, state.PipelineRunning, barrier(1, record.BarrierOpen, 0, 0)))
	return s
}

// ends is the rest of its life.
func ends(s *story) {
	s.put(ackKey, record.Ack{Header: record.Head, Incarnation: 2, Attempt: 1, Checkpoint: 1})
	s.put(wordKey, word(1, state.PipelineRunning, barrier(1, record.BarrierComplete, 1, 0)), pointKey, record.Checkpoint{Header: record.Head, Attempt: 1})
	s.put(ackKey, record.Ack{Header: record.Head, Incarnation: 2, Attempt: 1, Checkpoint: 1, Committed: 1})
	s.put(wordKey, word(1, state.PipelineStopped, barrier(1, record.BarrierComplete, 1, 1), func(w *record.Word) { w.Outcome = record.Finished }))
	s.put(statusKey, record.TaskStatus{Header: record.Head, Incarnation: 2, Attempt: 1, Stopped: 1})
	s.put(taskKey, nil)
	s.put(slotKey, nil)
	s.put(slotKey, granted("next", 1, 2))
}

func TestWholeLife(t *testing.T) {
	s := runs()
	ends(s)
	if faults := Check(tree, nil, s.revs); len(faults) > 0 {
		t.Errorf("a job that did nothing wrong:\n%s", strings.Join(faults, "\n"))
	}
	// The same, seen from the middle on.
	now := map[string]kv.Entry{}
	for _, r := range s.revs[:6] {
		for _, c := range r.Changes {
			now[c.Entry.Key] = c.Entry
		}
	}
	var first []kv.Entry
	for _, e := range now {
		first = append(first, e)
	}
	if faults := Check(tree, first, s.revs[6:]); len(faults) > 0 {
		t.Errorf("seen from the middle on:\n%s", strings.Join(faults, "\n"))
	}
}

// TestEveryRule breaks every rule once.
func TestEveryRule(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(s *story)
	}{
		{"slot given twice", "is granted to job other", func(s *story) { s.put(slotKey, granted("other", 1, 2)) }},
		{"slot of a dead worker", "granted on incarnation 99", func(s *story) { s.put(tree.Slot("w2", 0), granted("other", 1, 99)) }},
		{"slot that is not there", "the worker has 1 slots", func(s *story) { s.put(tree.Slot("w2", 1), granted("other", 1, 3)) }},
		{"slot back to an older attempt", "is granted to job", func(s *story) {
			s.put(slotKey, granted(jobName, 2, 2))
			s.put(slotKey, granted(jobName, 1, 2))
		}},
		{"slot taken back too early", "is taken back", func(s *story) { s.put(slotKey, nil) }},
		{"too much memory", "of its 100 bytes", func(s *story) {
			rev := s.rev()
			s.put(tree.Worker("w3"), record.Worker{Header: record.Head, Dynamic: true, CPU: 4, Memory: 100})
			for i := range 2 {
				g := granted("other", 1, rev)
				g.Profile.Memory = 60
				s.put(tree.Slot("w3", i), g)
			}
		}},
		{"too much cpu", "of its 1 cores", func(s *story) {
			rev := s.rev()
			s.put(tree.Worker("w3"), record.Worker{Header: record.Head, Dynamic: true, CPU: 1, Memory: 100})
			g := granted("other", 1, rev)
			g.Profile.MilliCPU = 1001
			s.put(tree.Slot("w3", 0), g)
		}},
		{"placed twice", "is placed over attempt 1", func(s *story) { s.put(placementKey, placed(1, "w2", 3)) }},
		{"two owners", "belongs to w1 (incarnation 2) and is given to w2", func(s *story) { s.put(placementKey, placed(1, "w2", 3)) }},
		{"placed without a word", "beside another control word", func(s *story) { s.put(placementKey, placed(2, "w2", 3)) }},
		{"placed on the dead", "is placed on incarnation 7 of worker w2", func(s *story) {
			s.put(wordKey, word(2, state.PipelineDeploying, barrier(1, record.BarrierAborted, 0, 0)))
			s.put(placementKey, placed(2, "w2", 7))
		}},
		{"assigned and not placed", "it is not so placed", func(s *story) { s.put(tree.Task("w2", jobName, pipeline), assigned(1, "w2", 3)) }},
		{"assigned without a slot", "which is not granted to it", func(s *story) {
			a := assigned(1, "w1", 2)
			a.Slots = []int{4}
			s.put(taskKey, a)
		}},
		{"attempt back", "attempt 2 becomes 1", func(s *story) {
			s.put(wordKey, word(2, state.PipelineDeploying, barrier(1, record.BarrierAborted, 0, 0)))
			s.put(wordKey, word(1, state.PipelineDeploying, barrier(1, record.BarrierAborted, 0, 0)))
		}},
		{"attempt skipped", "attempt 1 becomes 3", func(s *story) {
			s.put(wordKey, word(3, state.PipelineDeploying, barrier(1, record.BarrierAborted, 0, 0)))
		}},
		{"open barrier of an older attempt", "begins with barrier 1 open", func(s *story) {
			s.put(wordKey, word(2, state.PipelineDeploying, barrier(1, record.BarrierOpen, 0, 0)))
		}},
		{"barrier back", "barrier goes from 1 to 0", func(s *story) { s.put(wordKey, word(1, state.PipelineRunning)) }},
		{"complete without its key", "its key was made at 0", func(s *story) {
			s.put(wordKey, word(1, state.PipelineRunning, barrier(1, record.BarrierComplete, 1, 0)))
		}},
		{"complete after an abort", "completes while barrier 1 is aborted", func(s *story) {
			s.put(wordKey, word(1, state.PipelineRunning, barrier(1, record.BarrierAborted, 0, 0)))
			s.put(wordKey, word(1, state.PipelineRunning, barrier(1, record.BarrierComplete, 1, 0)), pointKey, record.Checkpoint{Header: record.Head, Attempt: 1})
		}},
		{"commit point without a word", "does not complete it", func(s *story) { s.put(pointKey, record.Checkpoint{Header: record.Head, Attempt: 1}) }},
		{"commit point again", "is made again", func(s *story) {
			ends(s)
			s.put(pointKey, record.Checkpoint{Header: record.Head, Attempt: 2})
		}},
		{"committed before complete", "completed is only 0", func(s *story) {
			s.put(ackKey, record.Ack{Header: record.Head, Incarnation: 2, Attempt: 1, Checkpoint: 1, Committed: 1})
		}},
		{"ack of the dead", "is written by incarnation 8", func(s *story) {
			s.put(ackKey, record.Ack{Header: record.Head, Incarnation: 8, Attempt: 1, Checkpoint: 1})
		}},
		{"ack of an older attempt", "the control word is not", func(s *story) {
			s.put(wordKey, word(2, state.PipelineDeploying, barrier(1, record.BarrierAborted, 0, 0)))
			s.put(ackKey, record.Ack{Header: record.Head, Incarnation: 2, Attempt: 1, Checkpoint: 1})
		}},
		{"stopped and not stopped", "stopped attempt goes from 1 to 0", func(s *story) {
			s.put(statusKey, record.TaskStatus{Header: record.Head, Incarnation: 2, Attempt: 1, Stopped: 1})
			s.put(statusKey, record.TaskStatus{Header: record.Head, Incarnation: 2, Attempt: 1})
		}},
		{"status from the future", "the control word is at 1", func(s *story) {
			s.put(statusKey, record.TaskStatus{Header: record.Head, Incarnation: 2, Attempt: 2})
		}},
		{"stopped and deploying", "has stopped and becomes deploying", func(s *story) {
			ends(s)
			s.put(wordKey, word(2, state.PipelineDeploying, barrier(1, record.BarrierComplete, 1, 1)))
		}},
		{"illegal move", "cannot go from running to nowhere", func(s *story) {
			s.put(wordKey, word(1, "nowhere", barrier(1, record.BarrierOpen, 0, 0)))
		}},
		{"word deleted", "is deleted in phase running", func(s *story) { s.put(wordKey, nil) }},
		{"nobody leads", "while nobody leads", func(s *story) {
			s.put(tree.Leader()+"a", nil)
			s.put(wordKey, word(1, state.PipelineRunning, barrier(1, record.BarrierAborted, 0, 0)))
		}},
		{"terminal left", "goes from FINISHED to FAILED", func(s *story) {
			s.put(tree.JobStatus(jobName), record.JobStatus{Header: record.Head, Phase: state.JobFinished})
			s.put(tree.JobStatus(jobName), record.JobStatus{Header: record.Head, Phase: state.JobFailed})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := runs()
			c.do(s)
			if faults := strings.Join(Check(tree, nil, s.revs), "\n"); !strings.Contains(faults, c.want) {
				t.Errorf("%q is not told: %q", c.want, faults)
			}
		})
	}
}
