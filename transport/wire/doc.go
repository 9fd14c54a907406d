// Package wire is how workers talk on a data connection: frames, the hello, and batches as bytes.
//
//	┌─────────┬──────┬───────┬───┬─────────┬────────┬───────────┬──────────┐┌─────────┐
//	│ version │ kind │ codec │ 0 │ channel │ length │ CRC of    │ CRC of   ││ payload │
//	│ 1       │ 1    │ 1     │ 1 │ 4       │ 4      │ payload 4 │ header 4 ││ length  │
//	└─────────┴──────┴───────┴───┴─────────┴────────┴───────────┴──────────┘└─────────┘
//
// All numbers are little-endian, both sums are CRC-32C. The header has its own sum because a wrong length would
// otherwise make the reader wait for bytes that never come.
//
// A batch (Encoder, Decode) is its columns one after the other, each a node header followed by raw buffers that
// begin at multiples of eight bytes: a validity bitmap only where there are nulls; values of fixed width as they
// lie in memory; lengths and data of strings and bytes; lengths and children of lists and maps; children of rows.
// testdata/v1 holds one of each kind, for ever.
//
// Invariants:
//   - No input makes a decoder panic or allocate more than a fixed bound; limits stand beside the kinds.
//   - What is decoded once encodes to the same bytes as its canonical form.
//   - A batch never references a pooled frame: decoding copies out of it, or the batch owns the buffer. With the
//     race detector on, freed frames are overwritten with a pattern.
//
// Text is not checked to be UTF-8 again: whoever builds a batch has done so.
package wire
