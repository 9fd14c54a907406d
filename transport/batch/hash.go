package batch

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
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

// prime is the multiplier of XXH3 for short input.
const prime = 0x9fb21c651e98df25

// Hash appends to dst the hash of the key columns of every row. Equal keys have equal hashes in every batch, on
// every host and in every release: state is placed by them. Integers hash by value whatever their width; 0 and
// -0 are equal, and so are all NaNs. One type switch is made per column, none per row.
func Hash(dst []uint64, b *Batch, keys []int) []uint64 {
	at := len(dst)
	dst = slices.Grow(dst, 2*b.Rows) // the second half is scratch for further keys
	out := dst[at:][:b.Rows]
	for i, k := range keys {
		if i == 0 {
			hashColumn(out, b.Cols[k])
			continue
		}
		more := dst[at+b.Rows : at+2*b.Rows]
		hashColumn(more, b.Cols[k])
		for j, h := range more {
			out[j] = hash8(bits.RotateLeft64(out[j], 17) ^ h*prime)
		}
	}
	if len(keys) == 0 {
		clear(out)
	}
	return dst[:at+b.Rows]
}

// hashColumn sets out to the hashes of the elements of a.
func hashColumn(out []uint64, a arrow.Array) {
	switch t := a.(type) {
	case *array.Int64:
		hashInts(out, t.Int64Values())
	case *array.Int32:
		hashInts(out, t.Int32Values())
	case *array.Int16:
		hashInts(out, t.Int16Values())
	case *array.Int8:
		hashInts(out, t.Int8Values())
	case *array.Timestamp:
		hashInts(out, t.TimestampValues())
	case *array.Date32:
		hashInts(out, t.Date32Values())
	case *array.Time64:
		hashInts(out, t.Time64Values())
	case *array.Float64:
		for i, v := range t.Float64Values()[:len(out)] {
			out[i] = hash8(floatBits(v))
		}
	case *array.Float32:
		for i, v := range t.Float32Values()[:len(out)] {
			out[i] = hash8(floatBits(float64(v)))
		}
	case *array.String:
		hashData(out, t.ValueOffsets(), buffer(t.Data(), 2))
	case *array.Binary:
		hashData(out, t.ValueOffsets(), buffer(t.Data(), 2))
	case *array.Null:
		for i := range out {
			out[i] = nullHash
		}
		return
	default: // seldom keys
		for i := range out {
			out[i] = hashValue(a, i)
		}
		return
	}
	if a.NullN() > 0 {
		valid, at := a.NullBitmapBytes(), a.Data().Offset()
		for i := range out {
			if !bitutil.BitIsSet(valid, at+i) {
				out[i] = nullHash
			}
		}
	}
}

func hashInts[T ~int8 | ~int16 | ~int32 | ~int64](out []uint64, values []T) {
	for i, v := range values[:len(out)] {
		out[i] = hash8(uint64(int64(v)))
	}
}

func hashData(out []uint64, offsets []int32, data []byte) {
	if len(out) == 0 {
		return
	}
	from := offsets[0]
	for i, to := range offsets[1:][:len(out)] {
		out[i] = xxh3.Hash(data[from:to])
		from = to
	}
}

// hash8 is xxh3.Hash of the eight bytes of v in little-endian order, inlined.
func hash8(v uint64) uint64 {
	const flip = 0xc73ab174c5ecd5a2 // of the eight-byte case of XXH3 with its default secret and no seed
	h := bits.RotateLeft64(v, 32) ^ flip
	h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
	h *= prime
	h ^= (h >> 35) + 8
	h *= prime
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
