package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// APIVersion is what this build writes and the newest it reads.
const APIVersion = "strait/v1"

// ErrNewer is the error of Decode for a record that a newer build wrote.
var ErrNewer = errors.New("written by a newer version of strait")

// Encode marshals a record (a pointer to one of this package's structs) and carries over fields of old that
// the record's type does not declare. old may be nil.
func Encode(v any, old []byte) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	if len(old) == 0 {
		return data, nil
	}
	var before map[string]json.RawMessage
	if json.Unmarshal(old, &before) != nil {
		return data, nil // not an object: nothing to carry over
	}
	declared := declaredNames(reflect.TypeOf(v))
	var extra []byte
	for _, name := range sortedKeys(before) {
		if declared[name] {
			continue
		}
		key, _ := json.Marshal(name)
		extra = append(extra, ',')
		extra = append(extra, key...)
		extra = append(extra, ':')
		extra = append(extra, before[name]...)
	}
	if len(extra) == 0 {
		return data, nil
	}
	if len(data) == 2 { // {}
		extra = extra[1:]
	}
	return append(append(data[:len(data)-1:len(data)-1], extra...), '}'), nil
}

// MustEncode is Encode for records without an older value; the types here always marshal.
func MustEncode(v any) []byte {
	data, err := Encode(v, nil)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return data
}

// ours is how every record begins that this build wrote.
var ours = []byte(`{"apiVersion":"` + APIVersion + `"`)

// Decode unmarshals a record. Unknown fields are allowed, a newer apiVersion is not.
func Decode[T any](data []byte) (*T, error) {
	// The version is looked at before the rest, which a newer one may have changed. What we wrote ourselves need not
	// be read twice for that.
	if !bytes.HasPrefix(data, ours) {
		var head struct {
			APIVersion string `json:"apiVersion"`
		}
		if err := json.Unmarshal(data, &head); err != nil {
			return nil, fmt.Errorf("not a record: %w", err)
		}
		if head.APIVersion != APIVersion && head.APIVersion != "" {
			return nil, fmt.Errorf("apiVersion %q: %w", head.APIVersion, ErrNewer)
		}
	}
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("not a %T: %w", *v, err)
	}
	return v, nil
}

var declared sync.Map // reflect.Type -> map[string]bool: what fieldNames said

func declaredNames(t reflect.Type) map[string]bool {
	if names, ok := declared.Load(t); ok {
		return names.(map[string]bool)
	}
	names := fieldNames(t)
	declared.Store(t, names)
	return names
}

func fieldNames(t reflect.Type) map[string]bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	names := map[string]bool{}
	if t.Kind() != reflect.Struct {
		return names
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			for n := range fieldNames(f.Type) {
				names[n] = true
			}
		case tag != "" && tag != "-":
			names[tag] = true
		}
	}
	return names
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	for i := 1; i < len(keys); i++ { // few keys
		for j := i; j > 0 && keys[j] < keys[j-1]; j-- {
			keys[j], keys[j-1] = keys[j-1], keys[j]
		}
	}
	return keys
}

// ChunkBytes is the size of a chunk: below etcd's comfortable value size with room for the key.
const ChunkBytes = 48 << 10

// MaxUnpacked bounds what Unpack expands to.
const MaxUnpacked = 64 << 20

// Chunks names the parts of something large that is stored as zstd chunks.
type Chunks struct {
	Number int    `json:"number"`
	SHA256 string `json:"sha256"` // of the joined chunks, hex
	Size   int    `json:"size"`   // of the content before compression
}

// zipper and unzipper are made once: their tables are larger than most plans. Both may be used by many at once.
var (
	zipper = sync.OnceValue(func() *zstd.Encoder {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
		if err != nil {
			panic("BUG: zstd: " + err.Error())
		}
		return enc
	})
	unzipper = sync.OnceValue(func() *zstd.Decoder {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(MaxUnpacked))
		if err != nil {
			panic("BUG: zstd: " + err.Error())
		}
		return dec
	})
)

// Pack compresses data into chunks.
func Pack(data []byte) (Chunks, [][]byte) {
	packed := zipper().EncodeAll(data, nil)
	sum := sha256.Sum256(packed)
	var parts [][]byte
	for len(packed) > 0 {
		n := min(len(packed), ChunkBytes)
		parts = append(parts, packed[:n:n])
		packed = packed[n:]
	}
	return Chunks{Number: len(parts), SHA256: hex.EncodeToString(sum[:]), Size: len(data)}, parts
}

// Unpack joins chunks and checks them.
func Unpack(c Chunks, parts [][]byte) ([]byte, error) {
	if len(parts) != c.Number {
		return nil, fmt.Errorf("found %d chunks, want %d", len(parts), c.Number)
	}
	joined := bytes.Join(parts, nil)
	if sum := sha256.Sum256(joined); hex.EncodeToString(sum[:]) != c.SHA256 {
		return nil, errors.New("chunks do not have the checksum their key names")
	}
	data, err := unzipper().DecodeAll(joined, nil)
	if err != nil {
		return nil, fmt.Errorf("chunks do not expand: %w", err)
	}
	if len(data) != c.Size {
		return nil, fmt.Errorf("chunks expand to %d bytes, want %d", len(data), c.Size)
	}
	return data, nil
}
