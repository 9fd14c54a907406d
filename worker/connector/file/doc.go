// Package file reads and writes files in folders: LocalFile, and what other file systems share with it.
//
//	source:  path ──discover (sorted, filtered)──▶ splits (whole files or byte ranges between records)
//	         split ──blocks of bytes──▶ worker/format decoder ──▶ batches + columns from k=v folders
//	sink:    rows ──by table and partition folder──▶ worker/format encoder ──▶ files below tmp_path
//	         Prepare: fsync, close, list temp → final     Commit: rename     Abandon: remove
//
// Invariants:
//   - A split begins and ends where a record does; its position is a byte offset at which a record begins.
//   - Nothing below `path` appears before its commit; a file appears whole, by a rename.
//   - Every name is decided before Prepare returns and stands in the prepared entry, so a replay, by any process,
//     gives the same files. A temp file that is gone while its target is there with the same size was committed.
//   - Temp folders are tmp_path/seatunnel/<job>/<cluster, pipeline and vertex>/<attempt>/<checkpoint>_<subtask>/…:
//     what older attempts left is found by the prefix up to the vertex.
//   - At most maxOpen files are open in a writer; the least recently used one is closed and continued in a new part.
//
// Row kinds are not written: every row is a record, whatever it does, as in SeaTunnel.
package file
