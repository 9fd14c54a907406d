// Package record has the values under the key tree: one JSON object a key, with stable field names. What is
// wanted (specs, wishes, control words, placements, assignments) is written by one party, what is so (statuses,
// acks) by another, so writers never contend.
//
//	stctl, REST ── Spec, wish ──▶ leader ── Word, Placement, Grant, Assignment ──▶ workers
//	leader ◀── Worker, TaskStatus, Ack ── workers        leader ── JobStatus, Checkpoint, History ──▶ everybody
//
// Rules: fields this build does not know survive a rewrite (Encode takes the old value); a record of a newer
// apiVersion is refused by Decode; times are RFC 3339 in UTC; values stay below 64 KiB, larger ones are cut into
// zstd chunks (Chunks), the only raw bytes in the tree. A golden test holds the field names.
package record
