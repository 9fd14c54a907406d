package batch

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/zeebo/xxh3"
)

// KeyGroups is the number of groups that keys fall into. State is kept by group, and a consumer owns a run of
// groups, so that another parallelism redistributes whole groups.
const KeyGroups = 1 << 15

// KeyGroup is the group of a key with that hash.
func KeyGroup(hash uint64) int { return int(hash >> (64 - 15)) }

// GroupOwner is the consumer among n that owns a key group.
func GroupOwner(group, n int) int { return group * n / KeyGroups }

// nullHash stands for a null in a key.
const nullHash = 0x9e3779b97f4a7c15

// Hash appends to dst the hash of the key columns of every row. Equal keys have equal hashes in every batch, on
// every host and in every release: state is placed by them. Integers hash by value whatever their width; 0 and
// -0 are equal, and so are all NaNs. One type switch is made per column, none per row.
func Hash(dst []uint64, b *Batch, keys []int) []uint64 {
	at := len(dst)
	for range b.Rows {
		dst = append(dst, 0)
	}
	for i, k := range keys {
		hashColumn(dst[at:], b.Cols[k], i > 0)
	}
	return dst
}

func hashColumn(out []uint64, a arrow.Array, more bool) {
	switch t := a.(type) {
	case *array.Int64:
		hashInts(out, t, t.Int64Values(), more)
	case *array.Int32:
		hashInts(out, t, t.Int32Values(), more)
	case *array.Int16:
		hashInts(out, t, t.Int16Values(), more)
	case *array.Int8:
		hashInts(out, t, t.Int8Values(), more)
	case *array.Timestamp:
		hashInts(out, t, t.TimestampValues(), more)
	case *array.Date32:
		hashInts(out, t, t.Date32Values(), more)
	case *array.Time64:
		hashInts(out, t, t.Time64Values(), more)
	case *array.Float64:
		for i, v := range t.Float64Values() {
			fold(out, i, t, hash8(floatBits(v)), more)
		}
	case *array.Float32:
		for i, v := range t.Float32Values() {
			fold(out, i, t, hash8(floatBits(float64(v))), more)
		}
	case *array.String:
		o, data := t.ValueOffsets(), stringData(t)
		for i := range t.Len() {
			fold(out, i, t, xxh3.Hash(data[o[i]:o[i+1]]), more)
		}
	case *array.Null:
		for i := range out {
			combine(out, i, nullHash, more)
		}
	default:
		for i := range out {
			combine(out, i, hashValue(a, i), more)
		}
	}
}

// stringData is the whole data buffer behind an array, which its offsets point into.
func stringData(t *array.String) []byte {
	if b := t.Data().Buffers()[2]; b != nil {
		return b.Bytes()
	}
	return nil
}

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64
}

func hashInts[T integer](out []uint64, a arrow.Array, values []T, more bool) {
	if a.NullN() == 0 && !more {
		out = out[:len(values)]
		for i, v := range values {
			out[i] = hash8(uint64(int64(v)))
		}
		return
	}
	for i, v := range values {
		fold(out, i, a, hash8(uint64(int64(v))), more)
	}
}

// fold combines the hash of a value that may be null.
func fold(out []uint64, i int, a arrow.Array, h uint64, more bool) {
	if a.NullN() > 0 && a.IsNull(i) {
		h = nullHash
	}
	combine(out, i, h, more)
}

func combine(out []uint64, i int, h uint64, more bool) {
	if more {
		h = hash8(bits.RotateLeft64(out[i], 17) ^ h*0x9fb21c651e98df25)
	}
	out[i] = h
}

// hash8 is xxh3.Hash of the eight bytes of v in little-endian order, inlined.
func hash8(v uint64) uint64 {
	const flip = 0xc73ab174c5ecd5a2 // of the eight-byte case of XXH3 with its default secret and no seed
	h := bits.RotateLeft64(v, 32) ^ flip
	h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
	h *= 0x9fb21c651e98df25
	h ^= (h >> 35) + 8
	h *= 0x9fb21c651e98df25
	return h ^ h>>28
}

func floatBits(v float64) uint64 {
	switch {
	case v == 0:
		return 0
	case v != v:
		return 0x7ff8000000000001
	}
	return math.Float64bits(v)
}

// hashValue is for types that are seldom keys.
func hashValue(a arrow.Array, i int) uint64 {
	if a.IsNull(i) {
		return nullHash
	}
	switch t := a.(type) {
	case *array.Boolean:
		if t.Value(i) {
			return hash8(1)
		}
		return hash8(0)
	case *array.Int8:
		return hash8(uint64(int64(t.Value(i))))
	case *array.Int16:
		return hash8(uint64(int64(t.Value(i))))
	case *array.Int32:
		return hash8(uint64(int64(t.Value(i))))
	case *array.Int64:
		return hash8(uint64(t.Value(i)))
	case *array.Date32:
		return hash8(uint64(int64(t.Value(i))))
	case *array.Time64:
		return hash8(uint64(t.Value(i)))
	case *array.Timestamp:
		return hash8(uint64(t.Value(i)))
	case *array.Float32:
		return hash8(floatBits(float64(t.Value(i))))
	case *array.Float64:
		return hash8(floatBits(t.Value(i)))
	case *array.String:
		return xxh3.HashString(t.Value(i))
	case *array.Binary:
		return xxh3.Hash(t.Value(i))
	case *array.Decimal128:
		v := t.Value(i)
		var raw [16]byte
		binary.LittleEndian.PutUint64(raw[:], v.LowBits())
		binary.LittleEndian.PutUint64(raw[8:], uint64(v.HighBits()))
		return xxh3.Hash(raw[:])
	case *array.Decimal256:
		v := t.Value(i).Array()
		return xxh3.Hash(unsafe.Slice((*byte)(unsafe.Pointer(&v)), len(v)*8))
	case *array.Map:
		from, to := t.ValueOffsets(i)
		h := hash8(uint64(to - from))
		for e := int(from); e < int(to); e++ { // entries are a set: their order does not count
			h += hash8(hashValue(t.Keys(), e) ^ bits.RotateLeft64(hashValue(t.Items(), e), 17))
		}
		return h
	case *array.List:
		from, to := t.ValueOffsets(i)
		h := hash8(uint64(to - from))
		for e := int(from); e < int(to); e++ {
			h = hash8(bits.RotateLeft64(h, 17) ^ hashValue(t.ListValues(), e))
		}
		return h
	case *array.Struct:
		h := uint64(t.NumField())
		for f := range t.NumField() {
			h = hash8(bits.RotateLeft64(h, 17) ^ hashValue(t.Field(f), i))
		}
		return h
	case *array.Null:
		return nullHash
	}
	panic("BUG: no hash for " + a.DataType().String())
}
