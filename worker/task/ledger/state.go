package ledger

import (
	"encoding/json"
	"fmt"
	"sort"
)

// Version is the format of snapshots that this build writes; newer ones are refused.
const Version = 1

// enumeratorState is the content of an enumerator's snapshot.
type enumeratorState struct {
	Version int          `json:"version"`
	Cursor  []byte       `json:"cursor,omitempty"`
	Done    bool         `json:"done,omitempty"`
	Splits  []splitState `json:"splits,omitempty"`
}

type splitState struct {
	Handed
	State string `json:"state"`
}

// readerState is the content of a reader's snapshot.
type readerState struct {
	Version  int      `json:"version"`
	Held     []Handed `json:"held,omitempty"`
	Finished []string `json:"finished,omitempty"`
}

var words = map[stateOf]string{unassigned: "unassigned", assigned: "assigned", finished: "finished"}

func (s stateOf) word() string { return words[s] }

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("BUG: split ledger: " + err.Error())
	}
	return data
}

func decode[T any](what string, data []byte) (T, error) {
	var v T
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return v, fmt.Errorf("%s of the split ledger is damaged: %w", what, err)
	}
	if head.Version < 1 || head.Version > Version {
		return v, fmt.Errorf("%s of the split ledger has version %d, this build reads up to %d", what, head.Version, Version)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("%s of the split ledger is damaged: %w", what, err)
	}
	return v, nil
}

// Merge makes the book with which an attempt starts from the parts of a completed checkpoint: the enumerator's
// snapshot and those of all readers. Nobody reads yet: what readers held is in the pool at their positions, before
// what nobody had begun. readers is the new number of subtasks.
func Merge(enumerator []byte, parts [][]byte, readers int) (*Enumerator, error) {
	s, err := decode[enumeratorState]("the enumerator's part", enumerator)
	if err != nil {
		return nil, err
	}
	e := NewEnumerator(readers)
	e.cursor, e.done = s.Cursor, s.Done
	var fresh []string
	for _, line := range s.Splits {
		if e.entries[line.ID] != nil {
			return nil, fmt.Errorf("damaged checkpoint: split %q stands twice in the enumerator's part", line.ID)
		}
		x := &entry{split: line.Split, position: line.Position}
		switch line.State {
		case "unassigned":
			x.state = unassigned
			fresh = append(fresh, line.ID)
		case "assigned":
			x.state = assigned
		case "finished":
			x.state = finished
		default:
			return nil, fmt.Errorf("damaged checkpoint: split %q has state %q", line.ID, line.State)
		}
		e.entries[line.ID] = x
	}
	var begun []string
	holder := map[string]int{}
	for i, part := range parts {
		r, err := decode[readerState](fmt.Sprintf("reader %d's part", i), part)
		if err != nil {
			return nil, err
		}
		known := func(id string) (*entry, error) {
			x := e.entries[id]
			if x == nil || x.state == unassigned {
				return nil, fmt.Errorf("damaged checkpoint: reader %d knows split %q and the enumerator had not handed it out", i, id)
			}
			if other, twice := holder[id]; twice {
				return nil, fmt.Errorf("damaged checkpoint: readers %d and %d both list split %q", other, i, id)
			}
			holder[id] = i
			return x, nil
		}
		for _, h := range r.Held {
			x, err := known(h.ID)
			if err != nil {
				return nil, err
			}
			// The reader's entry wins, also over "finished": what it held had not wholly passed the cut.
			x.split, x.position = h.Split, h.Position
			begun = append(begun, h.ID)
		}
		for _, id := range r.Finished {
			x, err := known(id)
			if err != nil {
				return nil, err
			}
			x.state, x.position = finished, nil
		}
	}
	for id, x := range e.entries {
		if _, listed := holder[id]; !listed && x.state == assigned {
			begun = append(begun, id) // handed out and unknown to every reader: as it was handed out
		}
	}
	sort.Strings(begun)
	for _, id := range begun {
		e.entries[id].state = unassigned
	}
	e.pool = append(begun, fresh...)
	return e, nil
}
