package batch

import (
	"encoding/binary"
	"testing"

	"github.com/zeebo/xxh3"
)

func TestHash8IsXXH3(t *testing.T) {
	for _, v := range []uint64{0, 1, 2, 1 << 40, 0xdeadbeefcafe, ^uint64(0)} {
		var raw [8]byte
		binary.LittleEndian.PutUint64(raw[:], v)
		if got, want := hash8(v), xxh3.Hash(raw[:]); got != want {
			t.Errorf("hash8(%x) = %x, xxh3 %x", v, got, want)
		}
	}
}
