package wire

import (
	"strconv"

	"github.com/zeebo/xxh3"

	"strait/transport/batch"
)

// Fingerprint tells tables apart whose rows are laid out or named differently. Both ends of a channel compare
// it once per table.
func Fingerprint(s *batch.Schema) uint64 {
	var b []byte
	b = append(b, s.Table.Path.String()...)
	for _, c := range s.Table.Columns {
		b = append(b, 0)
		b = append(strconv.AppendQuote(b, c.Name), ' ')
		b = append(b, c.Type.String()...)
	}
	return xxh3.Hash(b)
}
