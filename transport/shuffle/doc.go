// Package shuffle carries rows, barriers and control frames between the subtasks of one pipeline attempt, in
// one process and over TCP.
//
//	                 worker a                                  worker b
//	producer ─Output─▶ link a→b ══ one TCP connection ══▶ reader ─▶ Input ─ consumer
//	            │      link b→a ◀═ one TCP connection ══ …
//	            └────▶ transport/local ─▶ Input ─ consumer on the same worker
//
// A Service is what a worker process runs: one listener, one accept loop. An Attempt is one deployment of one
// pipeline as seen from this worker: its edges, its peers, a connection per ordered pair of workers.
package shuffle
