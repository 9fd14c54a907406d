package job

import (
	"encoding/json"
	"strings"

	"strait/kv/record"
)

// What a status and a history may take of their key, in bytes as they are encoded: a message full of quotes or control
// characters grows up to sixfold. Each part has its own bound, so that cutting one does not change another at the next
// step: facts that did not change give no write.
const (
	maxValue    = 60 << 10 // a value of the store is under 64 KiB
	maxMessage  = 10 << 10 // what is told to people in one message
	maxText     = 2 << 10  // of one failure
	maxOld      = 200      // of a failure that is not among the newest
	maxFailures = 26 << 10 // all of them
	maxEvent    = 400      // of one event
	maxEvents   = 12 << 10 // all of them
	maxNote     = 1 << 10  // of one condition
	maxName     = 512
	fullTexts   = 10 // failures that keep their whole text
)

// encoded is the size of a text in a record.
func encoded(s string) int {
	data, _ := json.Marshal(s) // a string always marshals
	return len(data)
}

func size(v any) int {
	data, _ := json.Marshal(v) // records always marshal
	return len(data)
}

// clip shortens a text that would not fit into its share of a key, at a line where there is one.
func clip(s string, most int) string {
	if len(s) <= most/6 || len(s) <= most && encoded(s) <= most {
		return s
	}
	const long, short = "\n… (shortened; the log of the coordinator or the worker has the rest)", "…"
	tail := long
	if most < 4*len(long) {
		tail = short
	}
	for n := min(len(s), most); ; n = n * 3 / 4 {
		cut := strings.ToValidUTF8(s[:n], "")
		if i := strings.LastIndexByte(cut, '\n'); i > n/2 {
			cut = cut[:i]
		}
		if n == 0 || encoded(cut+tail) <= most {
			return cut + tail
		}
	}
}

// bound cuts a status to its shares. What is within them stays as it is.
func bound(st *record.JobStatus) {
	st.Name, st.Reason, st.Message = clip(st.Name, maxName), clip(st.Reason, maxNote), clip(st.Message, maxMessage)
	for i := range st.Conditions {
		st.Conditions[i].Message = clip(st.Conditions[i].Message, maxNote)
	}
	st.Failures, st.Earlier = boundFailures(st.Failures, st.Earlier)
	for i := range st.Events {
		st.Events[i].Message = clip(st.Events[i].Message, maxEvent)
	}
	st.Events = st.Events[max(0, len(st.Events)-record.MaxEvents):]
	for len(st.Events) > maxEvents/(2*maxEvent) && size(st.Events) > maxEvents {
		st.Events = st.Events[1:]
	}
}

// boundFailures keeps the whole text of the newest failures and the beginning of older ones. Where they are too many
// the first stays, since it is often the cause of the others, and those behind it go, counted.
func boundFailures(in []record.Failure, earlier int) ([]record.Failure, int) {
	out := make([]record.Failure, 0, len(in))
	for i, f := range in {
		most := maxText
		if len(in)-i > fullTexts {
			most = maxOld
		}
		f.Message, f.Position = clip(f.Message, most), clip(f.Position, maxOld)
		f.Group, f.Worker = clip(f.Group, maxOld), clip(f.Worker, maxOld)
		out = append(out, f)
	}
	for len(out) > 2 && (len(out) > record.MaxFailures || size(out) > maxFailures) {
		out, earlier = append(out[:1], out[2:]...), earlier+1
	}
	if len(out) == 0 {
		return nil, earlier
	}
	return out, earlier
}

// encode is the status within its bounds, over what a newer build wrote beside it.
func (x *stepper) encode() ([]byte, error) {
	bound(&x.st)
	data, err := record.Encode(&x.st, x.f.Status.Raw)
	if err == nil && len(data) > maxValue { // very many pipelines: their words say the same
		x.st.Pipelines = nil
		data, err = record.Encode(&x.st, x.f.Status.Raw)
	}
	return data, err
}

// fit encodes a history; one of very many vertices keeps as many as fit.
func fit(h *record.History) []byte {
	h.Name, h.Message = clip(h.Name, maxName), clip(h.Message, maxMessage)
	h.Failures, h.Earlier = boundFailures(h.Failures, h.Earlier)
	for {
		data := record.MustEncode(h)
		if len(data) <= maxValue {
			return data
		}
		switch {
		case len(h.Vertices) > 0:
			h.Vertices = h.Vertices[:len(h.Vertices)/2]
		case len(h.Left) > 0:
			h.Left = h.Left[:len(h.Left)/2]
		case len(h.Events) > 0:
			h.Events = h.Events[(len(h.Events)+1)/2:]
		case len(h.Failures) > 0:
			h.Failures = h.Failures[:len(h.Failures)/2]
		default:
			h.Message = clip(h.Message, len(h.Message)/2)
		}
	}
}
