// Package format is the part that all file and message formats share. Each format is a package below.
//
//	bytes ──Decoder──▶ batches of one table      (csv, text, json)
//	batch ──Encoder──▶ the caller's []byte        (csv, text, json)
//	parquet has readers and writers of its own: its columns are not bytes of records
//
// Invariants:
//   - A decoder consumes whole records only, so the number of bytes consumed is a position to resume from.
//   - Which rows come out does not depend on how the bytes are cut into calls.
//   - A record that does not fit the table stops the decoder with a RowError; nothing is skipped or nulled.
package format
