package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"strait/transport/stream"
)

// Hello is what the dialling end says first.
type Hello struct {
	Protocol    int               `json:"protocol"`
	Cluster     string            `json:"cluster"`
	Worker      string            `json:"worker"`
	Incarnation int64             `json:"incarnation"`
	To          string            `json:"to"` // the worker it means to reach
	Codecs      []string          `json:"codecs"`
	Attempt     stream.AttemptKey `json:"attempt"`
	Token       string            `json:"token"`
}

// Verdict is the answer to a hello.
type Verdict string

// The verdicts. NotYet asks to come again: the attempt is not open here yet. Refused is for good.
const (
	Accepted Verdict = "accepted"
	NotYet   Verdict = "not yet"
	Refused  Verdict = "refused"
)

// Welcome is what the accepting end answers.
type Welcome struct {
	Protocol    int      `json:"protocol"`
	Verdict     Verdict  `json:"verdict"`
	Reason      string   `json:"reason,omitempty"`
	Worker      string   `json:"worker"`
	Incarnation int64    `json:"incarnation"`
	Codecs      []string `json:"codecs"`
}

// AppendHello appends a hello frame.
func AppendHello(dst []byte, h Hello) ([]byte, error) { return appendJSON(dst, KindHello, h) }

// AppendWelcome appends a welcome frame.
func AppendWelcome(dst []byte, w Welcome) ([]byte, error) { return appendJSON(dst, KindWelcome, w) }

func appendJSON(dst []byte, kind Kind, v any) ([]byte, error) {
	p, err := json.Marshal(v)
	if err != nil {
		return dst, err
	}
	if len(p) > maxHello {
		return dst, fmt.Errorf("%s of %d bytes, at most %d", kind, len(p), maxHello)
	}
	return AppendFrame(dst, kind, 0, p), nil
}

// ParseHello reads the payload of a hello frame. Fields of newer releases are ignored.
func ParseHello(p []byte) (h Hello, err error) {
	if err = json.Unmarshal(p, &h); err != nil {
		return h, fmt.Errorf("%w: hello: %w", ErrCorrupt, err)
	}
	return h, nil
}

// ParseWelcome reads the payload of a welcome frame.
func ParseWelcome(p []byte) (w Welcome, err error) {
	if err = json.Unmarshal(p, &w); err != nil {
		return w, fmt.Errorf("%w: welcome: %w", ErrCorrupt, err)
	}
	if !slices.Contains([]Verdict{Accepted, NotYet, Refused}, w.Verdict) {
		return w, fmt.Errorf("%w: welcome with verdict %q", ErrCorrupt, w.Verdict)
	}
	return w, nil
}
