package driver

import (
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"strait/checkpoint"
	"strait/checkpoint/protocol"
	"strait/checkpoint/storage"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// manifestInline is the size of an encoded manifest up to which the checkpoints key carries it: base64 makes it a
// third larger, and a value must stay under 64 KiB.
const manifestInline = 44 << 10

// State is what this leader remembers of a pipeline's checkpoints.
type State struct {
	Attempt plan.Attempt // of what follows; another attempt or id makes it void
	ID      plan.CheckpointID
	Asked   bool       // Publish was given out
	Answer  *Published // and answered
	// Opened and Owed are since when this leader sees the barrier open, and its commits owed by an attempt that runs:
	// a barrier and its commits have their time under every leader, whatever the clock of the last one showed.
	Opened, Owed time.Time
}

// look notes since when this leader sees what has a time limit.
func (s *State) look(w *record.Word, now time.Time) {
	if w.Barrier.State == record.BarrierOpen && s.Opened.IsZero() {
		s.Opened = now
	}
	if w.Phase == state.PipelineRunning && w.Committed < w.Completed && s.Owed.IsZero() {
		s.Owed = now
	}
}

// Publish asks the shell to check that every handle exists with its size, and to store the manifest under Name.
type Publish struct {
	Pipeline plan.PipelineID
	Attempt  plan.Attempt
	ID       plan.CheckpointID
	Name     string
	Manifest []byte
	Handles  []checkpoint.Handle
}

// Published is the answer.
type Published struct {
	Pipeline plan.PipelineID
	Attempt  plan.Attempt
	ID       plan.CheckpointID
	Handle   checkpoint.Handle
	Err      string
}

// Input is the view of one pipeline.
type Input struct {
	Facts    protocol.Facts
	Pipeline plan.PipelineID
	Job      string // id and create revision of the spec
	Leader   int64  // create revision of the leadership; in the manifest's name
	Answer   *Published
}

// Output is what to do. Word nil: the word stays as it is.
type Output struct {
	Word    *record.Word
	PointID plan.CheckpointID
	Point   *record.Checkpoint
	Publish *Publish
	Restart string // why the attempt cannot go on
	Waits   string // what the pipeline waits for, for people
	Wake    time.Time
}

// Step decides until there is nothing more to do at this revision.
func Step(s State, in Input) (State, Output) {
	var out Output
	f := in.Facts
	word := *f.Word
	if s.Attempt != word.Attempt || s.ID != word.Barrier.ID {
		s = State{Attempt: word.Attempt, ID: word.Barrier.ID}
	}
	if a := in.Answer; a != nil && a.Attempt == s.Attempt && a.ID == s.ID {
		s.Answer = a
	}
	if s.Answer != nil && s.Answer.Err != "" {
		f.NoStorage = s.Answer.Err
	}
	for {
		s.look(&word, f.Now)
		f.Word, f.Opened, f.Owed = &word, s.Opened, s.Owed
		d := protocol.Decide(&f)
		switch d.Act {
		case protocol.Wait:
			out.Waits, out.Wake = d.Why, d.Until
			return s, out
		case protocol.Restart:
			out.Restart = d.Why
			return s, out
		case protocol.Complete:
			point, publish, err := complete(&s, &in, &word)
			if err != nil {
				f.NoStorage = err.Error()
				continue
			}
			if point == nil {
				out.Publish = publish
				out.Waits = fmt.Sprintf("the manifest of checkpoint %d is being stored", d.ID)
				out.Wake = f.Now.Add(f.Timeout)
				return s, out
			}
			out.Point, out.PointID, f.Checkpoint = point, d.ID, point
		}
		word = protocol.Apply(word, d, d.Act == protocol.Complete && f.Commits(), f.Now)
		next := word
		out.Word = &next
		// An abort is seen by everybody before anything newer; a stop is the end.
		if d.Act == protocol.Abort || d.Act == protocol.Trigger || d.Act == protocol.Stop {
			if d.Act == protocol.Trigger {
				out.Wake = f.Now.Add(f.Timeout)
			}
			return s, out
		}
	}
}

// complete makes the checkpoints key, or the request to store the manifest first.
func complete(s *State, in *Input, w *record.Word) (*record.Checkpoint, *Publish, error) {
	m := record.Manifest{Version: 1, Job: in.Job, Pipeline: in.Pipeline, Checkpoint: w.Barrier.ID, Attempt: w.Attempt}
	point := &record.Checkpoint{Header: record.Head, Kind: w.Barrier.Kind, Attempt: w.Attempt, Started: w.Barrier.Triggered.UTC(), State: protocol.CheckpointLive}
	point.Took = max(0, in.Facts.Now.Sub(w.Barrier.Triggered).Seconds())
	names := make([]string, 0, len(in.Facts.Workers))
	for name := range in.Facts.Workers {
		names = append(names, name)
	}
	sort.Strings(names)
	inline := true
	var handles []checkpoint.Handle
	for _, name := range names {
		a := in.Facts.Acks[name]
		m.Files = append(m.Files, record.ManifestFile{Worker: name, Incarnation: a.Incarnation, State: a.State, Prepared: a.Prepared})
		point.Size += a.State.Size
		point.Prepared += a.Prepared
		if a.State.Location != "" {
			inline = false
			handles = append(handles, a.State)
		}
	}
	data, err := json.Marshal(&m)
	if err != nil {
		return nil, nil, fmt.Errorf("BUG: manifest: %w", err)
	}
	if inline && len(data) <= manifestInline {
		point.Manifest = storage.Inline(data)
		return point, nil, nil
	}
	if s.Answer != nil {
		point.Manifest = s.Answer.Handle
		return point, nil, nil
	}
	if s.Asked {
		return nil, nil, nil
	}
	s.Asked = true
	return nil, &Publish{Pipeline: in.Pipeline, Attempt: w.Attempt, ID: w.Barrier.ID, Manifest: data, Handles: handles,
		Name: storage.ManifestName(in.Job, in.Pipeline, w.Barrier.ID, w.Attempt, in.Leader)}, nil
}
