package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"strait/checkpoint"
	"strait/transport/batch"
	"strait/transport/batch/batchtest"
	"strait/transport/stream"
)

var (
	someHello = Hello{
		Protocol: 1, Cluster: "c1", Worker: "a", Incarnation: 7, To: "b", Codecs: CodecNames(),
		Attempt: stream.AttemptKey{Job: "orders", Pipeline: 2, Attempt: 3}, Token: "t0ken",
	}
	someWelcome = Welcome{Protocol: 1, Verdict: NotYet, Reason: "not open", Worker: "b", Incarnation: 9, Codecs: CodecNames()}
	someBarrier = checkpoint.Barrier{ID: 42, Kind: checkpoint.Handover}
)

// everyKind is a frame of each kind.
func everyKind(t testing.TB) map[string][]byte {
	t.Helper()
	hello, err := AppendHello(nil, someHello)
	if err != nil {
		t.Fatal(err)
	}
	welcome, err := AppendWelcome(nil, someWelcome)
	if err != nil {
		t.Fatal(err)
	}
	s := batch.NewSchema(batchtest.Every(), 5)
	b := batchtest.Batch(batchtest.Rand(5), s, 13)
	frames := map[string][]byte{
		"hello": hello, "welcome": welcome,
		"open":     AppendOpen(nil, 1, Open{Edge: 2, Producer: 3, Consumer: 4}),
		"schema":   AppendSchema(nil, 1, 5, 0x0123456789abcdef),
		"announce": AppendBytes(nil, KindAnnounce, 1, 1000), "credit": AppendBytes(nil, KindCredit, 1, 2000),
		"recall": AppendFrame(nil, KindRecall, 1, nil), "return": AppendBytes(nil, KindReturn, 1, 3000),
		"barrier": AppendBarrier(nil, 2, 3, someBarrier), "end": AppendEnd(nil, 2, 3),
		"control": AppendFrame(nil, KindControl, 0, []byte("split 7")), "ping": AppendFrame(nil, KindPing, 0, nil),
		"stop": AppendStop(nil, false, "task 1/0/0: disk full"),
	}
	for c := CodecNone; c <= CodecZstd; c++ {
		buf, _, err := NewEncoder(c).Encode(b, 1)
		if err != nil {
			t.Fatal(err)
		}
		frames["data-"+c.String()] = bytes.Clone(buf.B)
		buf.Release()
	}
	return frames
}

// TestGoldenFrames: a frame of each kind reads as it did when version 1 was made, and all but compressed ones,
// whose bytes are the compressor's affair, are written as they were.
func TestGoldenFrames(t *testing.T) {
	for name, frame := range everyKind(t) {
		compressed := name == "data-s2" || name == "data-zstd"
		if !compressed || *update {
			golden(t, name+".frame", frame)
		}
		old, err := os.ReadFile("testdata/v1/" + name + ".frame")
		if err != nil {
			t.Fatal(err)
		}
		if err := readAll(old); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// readAll reads frames as a connection does, payloads parsed, until the input ends or is refused.
func readAll(raw []byte) error {
	s := batch.NewSchema(batchtest.Every(), 5)
	r := NewReader(bytes.NewReader(raw))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Kind == KindData {
			d, err := r.Data(h)
			if err != nil {
				return err
			}
			if _, err := d.Decode(s); err != nil {
				return err
			}
			continue
		}
		p, err := r.Small(h)
		if err != nil {
			return err
		}
		switch h.Kind {
		case KindHello:
			_, err = ParseHello(p)
		case KindWelcome:
			_, err = ParseWelcome(p)
		case KindOpen:
			ParseOpen(p)
		case KindSchema:
			ParseSchema(p)
		case KindAnnounce, KindCredit, KindReturn:
			_, err = ParseBytes(p)
		case KindBarrier:
			_, _, _, err = ParseBarrier(p)
		case KindEnd:
			ParseEnd(p)
		case KindStop:
			ParseStop(p)
		}
		if err != nil {
			return err
		}
	}
}

func TestSmallFrames(t *testing.T) {
	frames := everyKind(t)
	payload := func(name string) []byte {
		h, p, err := ReadFrame(bytes.NewReader(frames[name]))
		if err != nil || h.Kind.String() != name {
			t.Fatalf("%s: %+v %v", name, h, err)
		}
		return p
	}
	if o := ParseOpen(payload("open")); o != (Open{2, 3, 4}) {
		t.Errorf("open %+v", o)
	}
	if table, print := ParseSchema(payload("schema")); table != 5 || print != 0x0123456789abcdef {
		t.Errorf("schema %d %x", table, print)
	}
	if n, err := ParseBytes(payload("credit")); n != 2000 || err != nil {
		t.Errorf("credit %d %v", n, err)
	}
	if e, p, b, err := ParseBarrier(payload("barrier")); e != 2 || p != 3 || b != someBarrier || err != nil {
		t.Errorf("barrier %d %d %v %v", e, p, b, err)
	}
	if e, p := ParseEnd(payload("end")); e != 2 || p != 3 {
		t.Errorf("end %d %d", e, p)
	}
	if orderly, why := ParseStop(payload("stop")); orderly || why != "task 1/0/0: disk full" {
		t.Errorf("stop %v %q", orderly, why)
	}
	if h, err := ParseHello(payload("hello")); err != nil || h.Attempt != someHello.Attempt || h.Token != "t0ken" || h.To != "b" {
		t.Errorf("hello %+v %v", h, err)
	}
	if w, err := ParseWelcome(payload("welcome")); err != nil || w.Verdict != NotYet || w.Reason != "not open" {
		t.Errorf("welcome %+v %v", w, err)
	}
	if _, err := ParseWelcome([]byte(`{"verdict":"maybe"}`)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a verdict that is none: %v", err)
	}
	if _, err := ParseBytes(bytes.Repeat([]byte{0xff}, 8)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("credit of 2^64-1: %v", err)
	}
}

// TestEveryBitCounts: any single flipped bit in any kind of frame is found, and so is any truncation.
func TestEveryBitCounts(t *testing.T) {
	for name, frame := range everyKind(t) {
		step := 1
		if len(frame) > 500 {
			step = 7
		}
		if poison { // the race detector is on
			step = 101
		}
		for bit := 0; bit < len(frame)*8; bit += step {
			bad := bytes.Clone(frame)
			bad[bit/8] ^= 1 << (bit % 8)
			if err := readAll(bad); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s with bit %d flipped: %v", name, bit, err)
			}
		}
		for cut := 1; cut < len(frame); cut += step {
			if err := readAll(frame[:cut]); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%s cut at %d: %v", name, cut, err)
			}
		}
	}
}

func TestHeadersRefused(t *testing.T) {
	f := func(name string, change func(h []byte), want string) {
		t.Helper()
		h := AppendFrame(nil, KindPing, 0, nil)
		change(h)
		binary.LittleEndian.PutUint32(h[16:], Sum(h[:16])) // as a peer would that means it
		if _, err := ParseHeader(h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	f("another version", func(h []byte) { h[0] = 2 }, "run the same release")
	f("no such kind", func(h []byte) { h[1] = 99 }, "kind 99")
	f("codec on a ping", func(h []byte) { h[2] = 1 }, "codec")
	f("no such codec", func(h []byte) { h[1], h[2] = byte(KindData), 9 }, "codec")
	f("reserved", func(h []byte) { h[3] = 1 }, "unknown")
	f("long ping", func(h []byte) { h[8] = 1 }, "want 0 to 0")
	f("huge data", func(h []byte) { h[1] = byte(KindData); h[11] = 0xff }, "want 8 to")
	f("short open", func(h []byte) { h[1] = byte(KindOpen) }, "want 12 to 12")
	if _, err := ParseHeader(nil); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// TestReaderInAnyPieces: how the stream is cut into reads makes no difference.
func TestReaderInAnyPieces(t *testing.T) {
	var all []byte
	frames := everyKind(t)
	for range 30 {
		for _, name := range []string{"ping", "data-none", "stop", "data-s2", "open", "data-zstd", "control", "hello"} {
			all = append(all, frames[name]...)
		}
	}
	for name, src := range map[string]io.Reader{
		"whole": bytes.NewReader(all), "bytes": iotest.OneByteReader(bytes.NewReader(all)), "halves": iotest.HalfReader(bytes.NewReader(all)),
		"error with data": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		r, n := NewReader(src), 0
		for {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s, frame %d: %v", name, n, err)
			}
			if h.Kind == KindData {
				d, err := r.Data(h)
				if err != nil {
					t.Fatalf("%s, frame %d: %v", name, n, err)
				}
				d.Drop()
			} else if _, err := r.Small(h); err != nil {
				t.Fatalf("%s, frame %d: %v", name, n, err)
			}
			n++
		}
		if n != 240 {
			t.Errorf("%s: %d frames", name, n)
		}
	}
}

func TestReaddress(t *testing.T) {
	frame := everyKind(t)["data-none"]
	head := Readdress(frame, 77)
	moved := append(head[:], frame[HeaderLen:]...)
	if err := readAll(moved); err != nil {
		t.Fatal(err)
	}
	if h, _ := ParseHeader(moved); h.Channel != 77 {
		t.Errorf("channel %d", h.Channel)
	}
}

// TestBombs: a small frame that claims to be large costs no large allocation unless it is.
func TestBombs(t *testing.T) {
	s := batch.NewSchema(batchtest.Every(), 5)
	for _, h := range []string{"00000004 05000000 ff", "ffffffff 05000000 00", "00000004 05000000 8080802000"} {
		payload, _ := hex.DecodeString(strings.ReplaceAll(h, " ", ""))
		for c := CodecNone; c <= CodecZstd; c++ {
			frame := make([]byte, HeaderLen, 64)
			frame = append(frame, payload...)
			PutHeader(frame, Header{Kind: KindData, Codec: c, Length: uint32(len(payload)), Sum: Sum(payload)})
			r := NewReader(bytes.NewReader(frame))
			head, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			d, err := r.Data(head)
			if err == nil {
				_, err = d.Decode(s)
			}
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s with %s: %v", h, c, err)
			}
		}
	}
}

func TestBufferOwners(t *testing.T) {
	b := GetBuffer(10)
	b.Retain()
	b.Release()
	b.B = append(b.B, 1)
	b.Release()
	defer func() {
		if recover() == nil {
			t.Error("a second release went unnoticed")
		}
	}()
	large := GetBuffer(8 << 20)
	large.Release()
	large.Release()
}

// FuzzFrames: no panic, no unbounded allocation, whatever a peer sends. The sums are made right first, or nothing
// would get past them.
func FuzzFrames(f *testing.F) {
	for _, frame := range everyKind(f) {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		readAll(raw)
		fixed := bytes.Clone(raw)
		for at := 0; at+HeaderLen <= len(fixed); {
			length := int(binary.LittleEndian.Uint32(fixed[at+8:]))
			if length > len(fixed)-at-HeaderLen {
				length = len(fixed) - at - HeaderLen
				binary.LittleEndian.PutUint32(fixed[at+8:], uint32(length))
			}
			fixed[at] = Version
			binary.LittleEndian.PutUint32(fixed[at+12:], Sum(fixed[at+HeaderLen:][:length]))
			binary.LittleEndian.PutUint32(fixed[at+16:], Sum(fixed[at:][:16]))
			at += HeaderLen + length
		}
		readAll(fixed)
	})
}

func BenchmarkEncode(b *testing.B) {
	benchBatch(b, func(b *testing.B, e *Encoder, in *batch.Batch) {
		for range b.N {
			buf, _, err := e.Encode(in, 1)
			if err != nil {
				b.Fatal(err)
			}
			buf.Release()
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	benchBatch(b, func(b *testing.B, e *Encoder, in *batch.Batch) {
		buf, _, err := e.Encode(in, 1)
		if err != nil {
			b.Fatal(err)
		}
		src := bytes.NewReader(nil)
		for range b.N {
			src.Reset(buf.B)
			r := NewReader(src)
			h, _ := r.Next()
			d, err := r.Data(h)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := d.Decode(in.Schema); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchBatch(b *testing.B, f func(*testing.B, *Encoder, *batch.Batch)) {
	in := fourColumns(8192)
	for c := CodecNone; c <= CodecZstd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(in.Bytes())
			f(b, NewEncoder(c), in)
			b.ReportMetric(float64(in.Rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}
