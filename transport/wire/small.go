package wire

import (
	"encoding/binary"
	"fmt"

	"strait/checkpoint"
	"strait/plan"
)

// Open is the payload of an open frame.
type Open struct{ Edge, Producer, Consumer int }

// AppendOpen appends an open frame.
func AppendOpen(dst []byte, channel uint32, o Open) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, HeaderLen)...)
	dst = le32(le32(le32(dst, o.Edge), o.Producer), o.Consumer)
	return seal(dst, at, KindOpen, channel)
}

// ParseOpen reads the payload of an open frame, whose length the header has bounded.
func ParseOpen(p []byte) Open { return Open{int32At(p, 0), int32At(p, 4), int32At(p, 8)} }

// AppendSchema appends a schema frame: the channel is going to carry that table.
func AppendSchema(dst []byte, channel uint32, table int, fingerprint uint64) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, HeaderLen)...)
	dst = binary.LittleEndian.AppendUint64(le32(dst, table), fingerprint)
	return seal(dst, at, KindSchema, channel)
}

// ParseSchema reads the payload of a schema frame.
func ParseSchema(p []byte) (table int, fingerprint uint64) {
	return int32At(p, 0), binary.LittleEndian.Uint64(p[4:])
}

// AppendBytes appends an announce, credit or return frame.
func AppendBytes(dst []byte, kind Kind, channel uint32, n int64) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, HeaderLen)...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	return seal(dst, at, kind, channel)
}

// maxCredit bounds the numbers in announce, credit and return frames, so that sums of them cannot overflow.
const maxCredit = 1 << 48

// ParseBytes reads the payload of an announce, credit or return frame.
func ParseBytes(p []byte) (int64, error) {
	n := int64(binary.LittleEndian.Uint64(p))
	if n < 0 || n > maxCredit {
		return 0, fmt.Errorf("%w: %d bytes announced or granted", ErrCorrupt, n)
	}
	return n, nil
}

var barrierKinds = [...]checkpoint.Kind{checkpoint.Periodic, checkpoint.Savepoint, checkpoint.Stop, checkpoint.Handover, checkpoint.Final}

// AppendBarrier appends a barrier frame of one producer of an edge.
func AppendBarrier(dst []byte, edge, producer int, b checkpoint.Barrier) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, HeaderLen)...)
	dst = le32(le32(dst, edge), producer)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.ID))
	for i, k := range barrierKinds {
		if k == b.Kind {
			return seal(append(dst, byte(i)), at, KindBarrier, 0)
		}
	}
	panic(fmt.Sprintf("BUG: barrier of kind %q", b.Kind))
}

// ParseBarrier reads the payload of a barrier frame.
func ParseBarrier(p []byte) (edge, producer int, b checkpoint.Barrier, err error) {
	if int(p[16]) >= len(barrierKinds) {
		return 0, 0, b, fmt.Errorf("%w: barrier of kind %d", ErrCorrupt, p[16])
	}
	b = checkpoint.Barrier{ID: plan.CheckpointID(binary.LittleEndian.Uint64(p[8:])), Kind: barrierKinds[p[16]]}
	return int32At(p, 0), int32At(p, 4), b, nil
}

// AppendEnd appends an end frame of one producer of an edge.
func AppendEnd(dst []byte, edge, producer int) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, HeaderLen)...)
	return seal(le32(le32(dst, edge), producer), at, KindEnd, 0)
}

// ParseEnd reads the payload of an end frame.
func ParseEnd(p []byte) (edge, producer int) { return int32At(p, 0), int32At(p, 4) }

// AppendStop appends a stop frame. An orderly stop fails nobody; any other carries its reason.
func AppendStop(dst []byte, orderly bool, reason string) []byte {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	flag := byte(0)
	if orderly {
		flag = 1
	}
	at := len(dst)
	dst = append(dst, make([]byte, HeaderLen)...)
	return seal(append(append(dst, flag), reason...), at, KindStop, 0)
}

// ParseStop reads the payload of a stop frame.
func ParseStop(p []byte) (orderly bool, reason string) { return p[0] == 1, string(p[1:]) }

func le32(dst []byte, v int) []byte { return binary.LittleEndian.AppendUint32(dst, uint32(v)) }

func int32At(p []byte, at int) int { return int(binary.LittleEndian.Uint32(p[at:])) }
