package wire

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Codec is how the payload of a data frame is compressed.
type Codec uint8

// The codecs; the numbers stand in frames.
const (
	CodecNone Codec = 0
	CodecS2   Codec = 1
	CodecZstd Codec = 2
)

var codecNames = []string{"none", "s2", "zstd"}

// CodecNames lists the codecs that this build reads and writes.
func CodecNames() []string { return append([]string(nil), codecNames...) }

// String is the name of a codec in settings and hellos.
func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// ParseCodec is the inverse of Codec.String.
func ParseCodec(s string) (Codec, error) {
	for i, n := range codecNames {
		if n == s {
			return Codec(i), nil
		}
	}
	return 0, fmt.Errorf("codec %q is unknown; use none, s2 or zstd", s)
}

// zstd coders are large; one of each serves all calls, and each call runs in its caller's goroutine.
var (
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return e
	})
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxRaw), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return d
	})
)

// bound is the most that compress may append for n bytes.
func (c Codec) bound(n int) int {
	switch c {
	case CodecS2:
		return s2.MaxEncodedLen(n)
	case CodecZstd:
		return zstdEncoder().MaxEncodedSize(n)
	}
	return n
}

// compress writes src compressed into dst, which has room for bound(len(src)), and returns the length.
func (c Codec) compress(dst, src []byte) int {
	switch c {
	case CodecS2:
		return len(s2.Encode(dst, src))
	case CodecZstd:
		return len(zstdEncoder().EncodeAll(src, dst[:0]))
	}
	return copy(dst, src)
}

// decompress writes src into dst, which must come out exactly full.
func (c Codec) decompress(dst, src []byte) error {
	switch c {
	case CodecNone:
		if len(src) != len(dst) {
			return fmt.Errorf("%w: %d bytes where %d were announced", ErrCorrupt, len(src), len(dst))
		}
		copy(dst, src)
		return nil
	case CodecS2:
		n, err := s2.DecodedLen(src)
		if err != nil || n != len(dst) {
			return fmt.Errorf("%w: s2 block of %d bytes where %d were announced (%v)", ErrCorrupt, n, len(dst), err)
		}
		if _, err = s2.Decode(dst, src); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return nil
	case CodecZstd:
		out, err := zstdDecoder().DecodeAll(src, dst[:0:len(dst)])
		if err != nil {
			return fmt.Errorf("%w: zstd: %w", ErrCorrupt, err)
		}
		if len(out) != len(dst) {
			return fmt.Errorf("%w: zstd frame of %d bytes where %d were announced", ErrCorrupt, len(out), len(dst))
		}
		return nil
	}
	return fmt.Errorf("%w: %s", ErrCorrupt, c)
}
