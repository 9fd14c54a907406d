package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Version is the format that this build writes and the only one it reads.
const Version = 1

// HeaderLen is the length of a frame's header.
const HeaderLen = 20

// Limits in bytes.
const (
	MaxRaw     = 64 << 20           // encoded batch before compression; also what decompression may give
	MaxData    = MaxRaw + MaxRaw/64 // payload of a data frame
	MaxControl = 1 << 20            // payload of a control frame
	maxHello   = 64 << 10
	maxReason  = 4 << 10
)

// Kind says what a frame is.
type Kind uint8

// The kinds of frames. The direction is from the dialling end (producers) or to it (consumers).
const (
	KindHello    Kind = 1  // from: who dials
	KindWelcome  Kind = 2  // to: the answer
	KindOpen     Kind = 3  // from: channel = (edge, producer, consumer)
	KindSchema   Kind = 4  // from: fingerprint of one table of a channel
	KindData     Kind = 5  // from: a batch
	KindAnnounce Kind = 6  // from: bytes that wait on a channel for credit
	KindCredit   Kind = 7  // to: bytes that a channel may send
	KindRecall   Kind = 8  // to: give unused credit back
	KindReturn   Kind = 9  // from: unused credit
	KindBarrier  Kind = 10 // from: barrier of a producer, for all its consumers at the other end
	KindEnd      Kind = 11 // from: no more rows of a producer
	KindControl  Kind = 12 // from: opaque to the transport
	KindPing     Kind = 13 // both: alive
	KindStop     Kind = 14 // both: this end leaves, and why
)

var kindNames = [...]string{1: "hello", 2: "welcome", 3: "open", 4: "schema", 5: "data", 6: "announce", 7: "credit",
	8: "recall", 9: "return", 10: "barrier", 11: "end", 12: "control", 13: "ping", 14: "stop"}

// String is the name of the kind in messages.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// payloadLimits gives the least and the greatest payload of a kind.
func (k Kind) payloadLimits() (low, high uint32, ok bool) {
	switch k {
	case KindHello, KindWelcome:
		return 2, maxHello, true
	case KindOpen:
		return 12, 12, true
	case KindSchema:
		return 12, 12, true
	case KindData:
		return dataPrefix, MaxData, true
	case KindAnnounce, KindCredit, KindReturn:
		return 8, 8, true
	case KindRecall, KindPing:
		return 0, 0, true
	case KindBarrier:
		return 17, 17, true
	case KindEnd:
		return 8, 8, true
	case KindControl:
		return 0, MaxControl, true
	case KindStop:
		return 1, 1 + maxReason, true
	}
	return 0, 0, false
}

// Header is the head of a frame.
type Header struct {
	Kind    Kind
	Codec   Codec
	Channel uint32
	Length  uint32 // of the payload
	Sum     uint32 // CRC-32C of the payload
}

// ErrCorrupt is wrapped by every error that says: these are not the bytes that were sent.
var ErrCorrupt = errors.New("corrupt frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the CRC-32C of a payload.
func Sum(p []byte) uint32 { return crc32.Update(0, castagnoli, p) }

// PutHeader writes h into the first HeaderLen bytes of dst.
func PutHeader(dst []byte, h Header) {
	_ = dst[HeaderLen-1]
	dst[0], dst[1], dst[2], dst[3] = Version, byte(h.Kind), byte(h.Codec), 0
	binary.LittleEndian.PutUint32(dst[4:], h.Channel)
	binary.LittleEndian.PutUint32(dst[8:], h.Length)
	binary.LittleEndian.PutUint32(dst[12:], h.Sum)
	binary.LittleEndian.PutUint32(dst[16:], Sum(dst[:16]))
}

// ParseHeader reads the header in the first HeaderLen bytes of b and checks it, the limits of its kind included.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, fmt.Errorf("%w: header has %d bytes, want %d", ErrCorrupt, len(b), HeaderLen)
	}
	if Sum(b[:16]) != binary.LittleEndian.Uint32(b[16:]) {
		return Header{}, fmt.Errorf("%w: checksum of the header is wrong", ErrCorrupt)
	}
	h := Header{
		Kind:    Kind(b[1]),
		Codec:   Codec(b[2]),
		Channel: binary.LittleEndian.Uint32(b[4:]),
		Length:  binary.LittleEndian.Uint32(b[8:]),
		Sum:     binary.LittleEndian.Uint32(b[12:]),
	}
	if b[0] != Version {
		return h, fmt.Errorf("frame version %d, this build reads %d; run the same release on all workers", b[0], Version)
	}
	low, high, ok := h.Kind.payloadLimits()
	if !ok || b[3] != 0 || h.Codec > CodecZstd || h.Codec != CodecNone && h.Kind != KindData {
		return h, fmt.Errorf("%w: %s with codec %d is unknown", ErrCorrupt, h.Kind, h.Codec)
	}
	if h.Length < low || h.Length > high {
		return h, fmt.Errorf("%w: %s frame of %d bytes, want %d to %d", ErrCorrupt, h.Kind, h.Length, low, high)
	}
	return h, nil
}

// Check compares the payload with the sum in the header.
func (h Header) Check(payload []byte) error {
	if Sum(payload) != h.Sum {
		return fmt.Errorf("%w: checksum of a %s frame of %d bytes on channel %d is wrong", ErrCorrupt, h.Kind, h.Length, h.Channel)
	}
	return nil
}

// AppendFrame appends a whole frame; it is for the small kinds. A payload over the limit of its kind is a bug.
func AppendFrame(dst []byte, kind Kind, channel uint32, payload []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, HeaderLen)...)
	dst = append(dst, payload...)
	return seal(dst, at, kind, channel)
}

// seal fills in the header of the frame that begins at dst[at:] and is complete but for it.
func seal(dst []byte, at int, kind Kind, channel uint32) []byte {
	payload := dst[at+HeaderLen:]
	if _, high, ok := kind.payloadLimits(); !ok || len(payload) > int(high) {
		panic(fmt.Sprintf("BUG: %s frame with a payload of %d bytes", kind, len(payload)))
	}
	PutHeader(dst[at:], Header{Kind: kind, Channel: channel, Length: uint32(len(payload)), Sum: Sum(payload)})
	return dst
}

// ReadFrame reads one frame of a small kind from r, with a buffer of its own. It is for handshakes and tests;
// connections use Reader.
func ReadFrame(r io.Reader) (Header, []byte, error) {
	var head [HeaderLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Header{}, nil, err
	}
	h, err := ParseHeader(head[:])
	if err != nil {
		return h, nil, err
	}
	if h.Kind == KindData {
		return h, nil, fmt.Errorf("%w: a data frame where none may be", ErrCorrupt)
	}
	payload := make([]byte, h.Length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return h, nil, noEOF(err)
	}
	return h, payload, h.Check(payload)
}

// noEOF turns the end of the stream inside a frame into what it is.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
