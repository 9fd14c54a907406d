package workermodel

import (
	"fmt"
	"sort"
	"sync"

	"strait/checkpoint"
	"strait/plan"
)

// Target is where prepared commits go. Safe for concurrent use.
type Target struct {
	mu   sync.Mutex
	all  map[string]*entry
	Bad  []string // promises that were broken
	Done int      // commits done
}

type entry struct {
	p     checkpoint.Prepared
	state string // prepared, committed, abandoned
}

// NewTarget is an empty target.
func NewTarget() *Target { return &Target{all: map[string]*entry{}} }

func (t *Target) bad(format string, args ...any) { t.Bad = append(t.Bad, fmt.Sprintf(format, args...)) }

// Prepare makes a commit durable but unseen.
func (t *Target) Prepare(p checkpoint.Prepared) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := p.CommitID()
	if e := t.all[id]; e != nil {
		t.bad("same commit id twice: %s is %s", id, e.state)
		return
	}
	t.all[id] = &entry{p, "prepared"}
}

// Commit makes a prepared commit visible.
func (t *Target) Commit(p checkpoint.Prepared) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.all[p.CommitID()]
	switch {
	case e == nil:
		t.bad("LOST: %s was never prepared", p.CommitID())
	case e.state == "abandoned":
		t.bad("ROLLED BACK: %s was abandoned and is to be committed", p.CommitID())
	case e.state == "prepared":
		e.state = "committed"
		t.Done++
	}
}

// Abandon removes what attempts before older left, but for keep.
func (t *Target) Abandon(job string, pipe plan.PipelineID, v plan.VertexID, older plan.Attempt, keep []checkpoint.Prepared) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := map[string]bool{}
	for i := range keep {
		kept[keep[i].CommitID()] = true
	}
	for id, e := range t.all {
		if e.state == "prepared" && e.p.Job == job && e.p.Pipeline == pipe && e.p.Vertex == v && e.p.Attempt < older && !kept[id] {
			e.state = "abandoned"
		}
	}
}

// Check looks at the end of a job: nothing is left prepared, no subtask's rows are there twice, and where the job
// finished every one is there once.
func (t *Target) Check(job string, subtasks int, finished bool) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := append([]string(nil), t.Bad...)
	count := map[string]int{}
	for id, e := range t.all {
		if e.p.Job != job {
			continue
		}
		switch e.state {
		case "prepared":
			out = append(out, "LEFT OPEN: "+id)
		case "committed":
			count[fmt.Sprintf("%d/%s/%d", e.p.Pipeline, e.p.Vertex, e.p.Subtask)]++
		}
	}
	total := 0
	for k, n := range count {
		if n > 1 {
			out = append(out, fmt.Sprintf("TWICE: %s is there %d times", k, n))
		}
		total++
	}
	if finished && total != subtasks {
		out = append(out, fmt.Sprintf("LOST: %d of %d subtasks are there", total, subtasks))
	}
	sort.Strings(out)
	return out
}
