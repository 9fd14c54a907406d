package driver

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"strait/checkpoint"
	"strait/checkpoint/protocol"
	"strait/checkpoint/storage"
	"strait/kv/record"
	"strait/plan/state"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func input(w *record.Word) Input {
	return Input{Pipeline: 1, Job: "j.7", Leader: 9, Facts: protocol.Facts{Word: w, Workers: map[string]int64{"w1": 11, "w2": 12}, Acks: map[string]*record.Ack{},
		Bounded: true, Drained: true, Timeout: time.Minute, Tolerated: 2, Now: t0}}
}

func acked(in Input, w *record.Word, prepared int, h checkpoint.Handle) Input {
	for name, inc := range in.Facts.Workers {
		in.Facts.Acks[name] = &record.Ack{Incarnation: inc, Attempt: w.Attempt, Checkpoint: w.Barrier.ID, Prepared: prepared, State: h}
	}
	return in
}

func TestFromTriggerToStop(t *testing.T) {
	w := &record.Word{Attempt: 1, Phase: state.PipelineRunning, Abandoned: true}
	s, out := Step(State{}, input(w))
	if out.Word == nil || out.Word.Barrier.ID != 1 || out.Word.Barrier.State != record.BarrierOpen || !out.Wake.Equal(t0.Add(time.Minute)) {
		t.Fatalf("%+v", out)
	}
	w = out.Word
	if s, out = Step(s, input(w)); out.Word != nil || !strings.Contains(out.Waits, "w1, w2") {
		t.Fatalf("%+v", out)
	}
	s, out = Step(s, acked(input(w), w, 1, storage.Inline([]byte("state"))))
	if out.Word == nil || out.Point == nil || out.PointID != 1 || out.Word.Completed != 1 || out.Word.Committed != 0 || out.Point.Prepared != 2 || out.Point.Size != 10 {
		t.Fatalf("%+v", out)
	}
	var m record.Manifest
	if err := json.Unmarshal(out.Point.Manifest.Inline, &m); err != nil || m.Job != "j.7" || len(m.Files) != 2 || m.Files[0].Worker != "w1" || string(m.Files[1].State.Inline) != "state" {
		t.Fatalf("%+v, %v", m, err)
	}
	w = out.Word
	in := acked(input(w), w, 1, checkpoint.Handle{})
	in.Facts.Checkpoint = out.Point
	if s, out = Step(s, in); out.Word != nil {
		t.Fatalf("%+v", out)
	}
	for _, a := range in.Facts.Acks {
		a.Committed = 1
	}
	// Committed and stopped in one write.
	if _, out = Step(s, in); out.Word == nil || out.Word.Committed != 1 || out.Word.Phase != state.PipelineStopped || out.Word.Outcome != record.Finished {
		t.Fatalf("%+v", out)
	}
}

// Without commits the acks are the end: complete, committed and stopped in one write.
func TestNothingPrepared(t *testing.T) {
	w := &record.Word{Attempt: 1, Phase: state.PipelineRunning, Abandoned: true, Barrier: record.Barrier{ID: 1, Kind: checkpoint.Final, State: record.BarrierOpen, Triggered: t0}}
	_, out := Step(State{}, acked(input(w), w, 0, checkpoint.Handle{}))
	if out.Word == nil || out.Point == nil || out.Word.Phase != state.PipelineStopped || out.Word.Committed != 1 {
		t.Fatalf("%+v", out)
	}
}

// What does not fit into the key goes to storage first, once, and the answer completes the checkpoint.
func TestPublish(t *testing.T) {
	w := &record.Word{Attempt: 1, Phase: state.PipelineRunning, Abandoned: true, Barrier: record.Barrier{ID: 1, Kind: checkpoint.Final, State: record.BarrierOpen, Triggered: t0}}
	for name, h := range map[string]checkpoint.Handle{"stored": {Location: "x/y", Size: 3, SHA256: "00"}, "large": storage.Inline(make([]byte, 30<<10))} {
		in := acked(input(w), w, 1, h)
		s, out := Step(State{}, in)
		if out.Word != nil || out.Publish == nil || out.Publish.ID != 1 || !strings.Contains(out.Publish.Name, "manifest-a1-l9") || (len(out.Publish.Handles) == 2) != (name == "stored") {
			t.Fatalf("%s: %+v", name, out)
		}
		if s, out = Step(s, in); out.Word != nil || out.Publish != nil {
			t.Fatalf("%s: asked twice: %+v", name, out)
		}
		old := in
		old.Answer = &Published{Attempt: 1, ID: 0, Handle: checkpoint.Handle{Location: "stale"}}
		if s, out = Step(s, old); out.Word != nil {
			t.Fatalf("%s: an answer to something else was taken: %+v", name, out)
		}
		in.Answer = &Published{Attempt: 1, ID: 1, Handle: checkpoint.Handle{Location: "m", Size: 5}}
		if s, out = Step(s, in); out.Point == nil || out.Point.Manifest.Location != "m" || out.Word.Completed != 1 {
			t.Fatalf("%s: %+v", name, out)
		}
		in.Answer = &Published{Attempt: 1, ID: 1, Err: "no space left"}
		if _, out = Step(State{Attempt: 1, ID: 1, Asked: true}, in); out.Point != nil || out.Word == nil || out.Word.Barrier.State != record.BarrierAborted || !strings.Contains(out.Word.Message, "no space left") {
			t.Fatalf("%s: %+v", name, out)
		}
		_ = s
	}
}

// An abort is written before anything newer.
func TestAbortComesAlone(t *testing.T) {
	w := &record.Word{Attempt: 1, Phase: state.PipelineRunning, Abandoned: true, Barrier: record.Barrier{ID: 1, Kind: checkpoint.Final, State: record.BarrierOpen, Triggered: t0.Add(-time.Hour)}}
	s, out := Step(State{Attempt: 1, ID: 1, Opened: t0.Add(-time.Minute)}, input(w))
	if out.Word == nil || out.Word.Barrier.ID != 1 || out.Word.Barrier.State != record.BarrierAborted || out.Word.FailedPoints != 1 {
		t.Fatalf("%+v", out)
	}
	if s, out = Step(s, input(out.Word)); out.Word.Barrier.ID != 2 || out.Word.Barrier.State != record.BarrierOpen {
		t.Fatalf("%+v", out)
	}
	w = &record.Word{Attempt: 1, Phase: state.PipelineRunning, Barrier: record.Barrier{ID: 4, State: record.BarrierAborted}, FailedPoints: 3, Message: "slow"}
	if _, out = Step(s, input(w)); out.Word != nil || !strings.Contains(out.Restart, "3 checkpoints in a row") {
		t.Fatalf("%+v", out)
	}
}
