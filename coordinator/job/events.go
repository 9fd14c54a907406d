package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// told is an event of this step, before it is in the status: the same about several pipelines is told once.
type told struct {
	reason, text string
	warn         bool
	pipes        []plan.PipelineID
}

// tell notes an event about the job (p nil) or a pipeline. It goes into the status with what else the step changes,
// so it is only called where the step changes something that is not there yet: an event is never written alone.
func (x *stepper) tell(p *pipe, warn bool, reason, format string, args ...any) {
	t := told{reason: reason, warn: warn, text: fmt.Sprintf(format, args...)}
	if p != nil {
		t.pipes = []plan.PipelineID{p.id}
	}
	for i := range x.told {
		o := &x.told[i]
		if o.reason != t.reason || o.text != t.text || (p == nil) != (o.pipes == nil) {
			continue
		}
		if p != nil && !slices.Contains(o.pipes, p.id) {
			o.pipes = append(o.pipes, p.id)
		}
		return
	}
	x.told = append(x.told, t)
}

// events puts what was told into the status.
func (x *stepper) events() {
	now := x.now.UTC()
	for _, t := range x.told {
		text := t.text
		if t.pipes != nil && len(x.pipes) > 1 {
			text = pipelineNames(t.pipes) + ": " + text
		}
		text = clip(text, maxEvent) // as it will be stored: the next one may be the same
		if n := len(x.st.Events); n > 0 && x.st.Events[n-1].Reason == t.reason && x.st.Events[n-1].Message == text {
			last := &x.st.Events[n-1]
			last.Count = max(last.Count, 1) + 1
			last.Time = now
			continue
		}
		x.st.Events = append(x.st.Events, record.Event{Time: now, Reason: t.reason, Message: text, Warn: t.warn})
	}
	x.told = nil
}

// pipelineNames is "pipeline 1" or "pipelines 1-3, 7".
func pipelineNames(ids []plan.PipelineID) string {
	if len(ids) == 1 {
		return fmt.Sprintf("pipeline %d", ids[0])
	}
	ids = slices.Sorted(slices.Values(ids))
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		switch {
		case j == i:
			parts = append(parts, fmt.Sprint(ids[i]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		}
		i = j + 1
	}
	return "pipelines " + strings.Join(parts, ", ")
}

// eventOf are the reasons of the events that tell of a condition.
var eventOf = map[string]string{WishRefused: record.EventRefused, SpecChanged: record.EventRefused, Draining: record.EventDraining,
	Unreadable: record.EventUnreadable, PlanWarned: record.EventPlanWarning}

// tellTrouble names the cause of an attempt's end.
func (x *stepper) tellTrouble(p *pipe, t *trouble) {
	reason := t.kind
	if reason == "" {
		reason = record.EventTaskFailed
	}
	x.tell(p, reason != record.EventMoving, reason, "attempt %d: %s", p.word.Attempt, t.text)
}

// tellAttempt says what the newest attempt of a word is to do, and when.
func (x *stepper) tellAttempt(p *pipe, reason string, pause time.Duration) {
	w := p.word
	text := fmt.Sprintf("attempt %d", w.Attempt)
	switch {
	case reason == record.EventRestarting && w.RestartsUsed > 0:
		text += fmt.Sprintf(", restart %d of %d", w.RestartsUsed, x.env.RetryTimes)
	case reason == record.EventReplaying:
		text += fmt.Sprintf(" of committers only, towards %s", w.Outcome)
	}
	if pause > 0 {
		text += fmt.Sprintf(", in %v", pause)
	}
	x.tell(p, false, reason, "%s", text)
}

// tellPlaced says where an attempt goes: slots on each worker.
func (x *stepper) tellPlaced(p *pipe, a plan.Attempt, slots map[string]int) {
	var on []string
	n := 0
	for _, name := range sorted(slots) {
		n += slots[name]
		on = append(on, fmt.Sprintf("%s %d", name, slots[name]))
	}
	x.tell(p, false, record.EventPlaced, "attempt %d: %s on %s", a, count(n, "slot"), strings.Join(on, ", "))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// tellEnd is the last event of a job.
func (x *stepper) tellEnd() {
	text := fmt.Sprintf("%s after %v", x.st.Phase, x.st.Finished.Sub(x.st.Submitted).Round(time.Millisecond))
	attempts := 0
	for _, p := range x.pipes {
		if p.word != nil {
			attempts += int(p.word.Attempt) - 1
		}
	}
	if attempts > 0 {
		text += ", with " + count(attempts, "further attempt")
	}
	if first, _, _ := strings.Cut(x.st.Message, "\n"); first != "" {
		text += ": " + first
	}
	x.tell(nil, x.st.Phase == state.JobFailed, record.EventEnded, "%s", text)
}
