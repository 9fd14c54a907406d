package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"strait/plan"
)

// Kind says what a Frame is about.
type Kind uint8

// The kinds of frames.
const (
	Register Kind = iota + 1 // reader → enumerator: here I am, I hold nothing
	Ask                      // reader → enumerator: IDs are finished, nothing is left
	Assign                   // enumerator → reader: read Splits
	NoMore                   // enumerator → reader: nothing will follow
	Covered                  // enumerator → reader: a completed snapshot shows IDs as finished
)

// Frame is one message between an enumerator and a reader. Frames travel on the shuffle's connections, never
// through etcd.
type Frame struct {
	Kind    Kind
	Vertex  plan.VertexID
	Subtask int // the reader
	Attempt plan.Attempt
	Barrier plan.CheckpointID // the last barrier its sender handled
	Splits  []Handed
	IDs     []string
}

// frameVersion is the first byte of a frame.
const frameVersion = 1

// Limits of what Decode takes memory for.
const (
	maxList = 1 << 16
	maxIDs  = 1024     // that a sender puts in one frame
	maxText = 64 << 10 // bytes of them
)

// Fit returns how many of the ids go into one frame: at least one where there is any.
func Fit(ids []string) int {
	bytes := 0
	for i, id := range ids {
		if bytes += len(id); i == maxIDs || i > 0 && bytes > maxText {
			return i
		}
	}
	return len(ids)
}

var errFrame = errors.New("damaged split frame")

// Append appends the encoded frame.
func (f *Frame) Append(b []byte) []byte {
	b = append(b, frameVersion, byte(f.Kind))
	b = appendBytes(b, []byte(f.Vertex))
	b = binary.AppendUvarint(b, uint64(f.Subtask))
	b = binary.AppendUvarint(b, uint64(f.Attempt))
	b = binary.AppendUvarint(b, uint64(f.Barrier))
	b = binary.AppendUvarint(b, uint64(len(f.Splits)))
	for _, s := range f.Splits {
		b = appendBytes(b, []byte(s.ID))
		b = appendOptional(b, s.Data)
		b = appendOptional(b, s.Position)
	}
	b = binary.AppendUvarint(b, uint64(len(f.IDs)))
	for _, id := range f.IDs {
		b = appendBytes(b, []byte(id))
	}
	return b
}

func appendBytes(b, s []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendOptional tells nil from empty: a nil position is the start of a split.
func appendOptional(b, s []byte) []byte {
	if s == nil {
		return append(b, 0)
	}
	return appendBytes(append(b, 1), s)
}

// Decode takes a frame apart. What it returns does not share memory with data.
func Decode(data []byte) (*Frame, error) {
	if len(data) < 2 {
		return nil, fmt.Errorf("%w: %d bytes", errFrame, len(data))
	}
	if data[0] != frameVersion {
		return nil, fmt.Errorf("split frame of version %d, this build reads %d", data[0], frameVersion)
	}
	f := &Frame{Kind: Kind(data[1])}
	if f.Kind < Register || f.Kind > Covered {
		return nil, fmt.Errorf("%w: kind %d", errFrame, data[1])
	}
	d := decoder{rest: data[2:]}
	f.Vertex = plan.VertexID(d.bytes())
	f.Subtask = int(d.number(1 << 31))
	f.Attempt = plan.Attempt(d.number(1 << 62))
	f.Barrier = plan.CheckpointID(d.number(1 << 62))
	for range d.count() {
		s := Handed{}
		s.ID, s.Data, s.Position = string(d.bytes()), d.optional(), d.optional()
		if d.bad {
			break
		}
		f.Splits = append(f.Splits, s)
	}
	for range d.count() {
		id := string(d.bytes())
		if d.bad {
			break
		}
		f.IDs = append(f.IDs, id)
	}
	if d.bad || len(d.rest) > 0 {
		return nil, errFrame
	}
	return f, nil
}

type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) number(limit uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	if d.bad || n <= 0 || v >= limit {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) count() int { return int(d.number(maxList)) }

func (d *decoder) bytes() []byte {
	n := d.number(1 << 31)
	if d.bad || n > uint64(len(d.rest)) {
		d.bad = true
		return nil
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

func (d *decoder) optional() []byte {
	if d.bad || len(d.rest) == 0 {
		d.bad = true
		return nil
	}
	flag := d.rest[0]
	d.rest = d.rest[1:]
	switch flag {
	case 0:
		return nil
	case 1:
		return append([]byte{}, d.bytes()...)
	}
	d.bad = true
	return nil
}
