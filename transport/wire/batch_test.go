package wire

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/transport/batch/batchtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file that holds what this version writes, for ever.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "v1", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes differ from the %d of version 1; a change of the format is a new version", name, len(got), len(want))
	}
}

func TestRoundTrip(t *testing.T) {
	for seed := range uint64(400) {
		r := batchtest.Rand(seed)
		s := batch.NewSchema(batchtest.Table(r), 0)
		b := batchtest.Batch(r, s, 1+r.IntN(70))
		if seed%2 == 0 {
			b = batchtest.Sliced(r, s, r.IntN(70))
		}
		raw := AppendBatch(nil, b)
		if bound := EncodedBound(b); int64(len(raw)) > bound || len(raw)%8 != 0 {
			t.Fatalf("seed %d: %d bytes, bound %d", seed, len(raw), bound)
		}
		got, err := DecodeBatch(s, raw)
		if err != nil {
			t.Fatalf("seed %d, %s: %v", seed, s.Arrow, err)
		}
		if err := batchtest.Equal(b, got); err != nil {
			t.Fatalf("seed %d, %s: %v", seed, s.Arrow, err)
		}
		if again := AppendBatch(nil, got); !bytes.Equal(again, raw) {
			t.Fatalf("seed %d, %s: encoded again it differs", seed, s.Arrow)
		}
	}
}

func TestGoldenBatch(t *testing.T) {
	r := batchtest.Rand(3)
	s := batch.NewSchema(batchtest.Every(), 0)
	b := batchtest.Batch(r, s, 13)
	raw := AppendBatch(nil, b)
	golden(t, "every.batch", raw)
	old, err := os.ReadFile("testdata/v1/every.batch")
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeBatch(s, old)
	if err != nil {
		t.Fatal(err)
	}
	if err := batchtest.Equal(b, got); err != nil {
		t.Error(err)
	}
	golden(t, "every.fingerprint", fmt.Appendf(nil, "%016x", Fingerprint(s)))
}

func TestFingerprintTellsTablesApart(t *testing.T) {
	seen := map[uint64]string{}
	for seed := range uint64(300) {
		tab := batchtest.Table(batchtest.Rand(seed))
		text := tab.Path.String()
		for _, c := range tab.Columns {
			text += " " + c.Name + " " + c.Type.String()
		}
		print := Fingerprint(batch.NewSchema(tab, 0))
		if old, ok := seen[print]; ok && old != text {
			t.Errorf("%s and %s have one fingerprint", old, text)
		}
		seen[print] = text
	}
}

func TestEveryCodec(t *testing.T) {
	for c := CodecNone; c <= CodecZstd; c++ {
		t.Run(c.String(), func(t *testing.T) {
			s := batch.NewSchema(batchtest.Every(), 3)
			e := NewEncoder(c)
			for seed := range uint64(20) {
				r := batchtest.Rand(seed)
				b := batchtest.Batch(r, s, 1+r.IntN(3000)/(1+int(seed)))
				buf, raw, err := e.Encode(b, 9)
				if err != nil {
					t.Fatal(err)
				}
				rd := NewReader(bytes.NewReader(append(AppendFrame(nil, KindPing, 0, nil), buf.B...)))
				buf.Release()
				if h, err := rd.Next(); err != nil || h.Kind != KindPing {
					t.Fatal(h, err)
				}
				h, err := rd.Next()
				if err != nil || h.Kind != KindData || h.Channel != 9 {
					t.Fatalf("%+v %v", h, err)
				}
				d, err := rd.Data(h)
				if err != nil {
					t.Fatal(err)
				}
				if d.Table != 3 || d.Raw != raw {
					t.Fatalf("table %d, %d bytes, want 3, %d", d.Table, d.Raw, raw)
				}
				got, err := d.Decode(s)
				if err != nil {
					t.Fatal(err)
				}
				if err := batchtest.Equal(b, got); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestBatchOwnsItsMemory: frames are freed and used again while the batch lives. Under the race detector freed
// frames are overwritten.
func TestBatchOwnsItsMemory(t *testing.T) {
	for c := CodecNone; c <= CodecZstd; c++ {
		s := batch.NewSchema(batchtest.Every(), 0)
		var want, got []*batch.Batch
		for seed := range uint64(10) {
			b := batchtest.Batch(batchtest.Rand(seed), s, 50)
			buf, _, err := NewEncoder(c).Encode(b, 0)
			if err != nil {
				t.Fatal(err)
			}
			rd := NewReader(bytes.NewReader(bytes.Clone(buf.B)))
			buf.Release()
			h, _ := rd.Next()
			d, err := rd.Data(h)
			if err != nil {
				t.Fatal(err)
			}
			g, err := d.Decode(s)
			if err != nil {
				t.Fatal(err)
			}
			want, got = append(want, b), append(got, g)
		}
		for i := range want {
			if err := batchtest.Equal(want[i], got[i]); err != nil {
				t.Fatalf("%s: batch %d: %v", c, i, err)
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	s := batch.NewSchema(&schema.Table{Columns: []schema.Column{schema.Col("text", schema.Of(schema.String))}}, 0)
	if _, err := DecodeBatch(s, make([]byte, MaxRaw+8)); err == nil {
		t.Error("a batch over the limit was decoded")
	}
	b := batch.NewBuilder(s)
	b.Field(0).(*array.StringBuilder).Append(strings.Repeat("x", MaxRaw))
	b.EndRow(schema.Insert)
	if _, _, err := NewEncoder(CodecNone).Encode(b.Finish(), 0); err == nil || !strings.Contains(err.Error(), "a frame holds") {
		t.Errorf("a row over the limit: %v", err)
	}
}

// FuzzDecodeBatch: no panic, no unbounded allocation, and what decodes encodes to a fixed point.
func FuzzDecodeBatch(f *testing.F) {
	s := batch.NewSchema(batchtest.Every(), 0)
	for seed := range uint64(12) {
		r := batchtest.Rand(seed)
		if raw := AppendBatch(nil, batchtest.Batch(r, s, 1+r.IntN(4))); len(raw) < 4000 { // long ones take minutes to minimise
			f.Add(raw)
		}
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		body := append(make([]byte, 0, len(raw)+8), raw...)
		b, err := DecodeBatch(s, body)
		if err != nil {
			return
		}
		one := AppendBatch(nil, b)
		again, err := DecodeBatch(s, one)
		if err != nil {
			t.Fatalf("what was decoded and encoded does not decode: %v", err)
		}
		if two := AppendBatch(nil, again); !bytes.Equal(one, two) {
			t.Fatal("encoding is not stable")
		}
		b.Bytes()
	})
}
