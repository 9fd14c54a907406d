// Package embed runs an etcd server inside this process. It is the only importer of etcd's server.
//
//	owner ── Start ──► lock data dir ─► open db + wal ─► campaign at once ─► leader ─► Server
//	  │                                                                                │  │
//	  │                 kv.Open(Config{Client: srv.Client()})  in process, no socket ◄─┘  │
//	  │                 kv.Open(Config{Endpoints: srv.Endpoints()})  over TCP  ◄──────────┘
//	  └── close mirrors, sessions, stores ── then Server.Close
//
// What it settles, once, for everybody:
//
//   - A data directory belongs to one process. The lock is taken before etcd opens the directory,
//     because etcd itself would wait without a word for a locked database.
//   - A single member on loopback ticks at 10/100 ms and campaigns at once, so that the first put
//     does not wait for an election timeout. Members of a cluster keep etcd's own ticks.
//   - Compaction is on and a quota is set: etcd has neither by default. A database that is full of old
//     revisions is compacted, defragmented and takes writes again (maintain.go); one that is full of live
//     data waits for its operator.
//   - While a member waits for a quorum, it says how the others are; one that can never join, because the
//     others belong to another cluster, or its directory does, ends with that (peers.go).
//   - WAL segments and the number of raft entries kept in memory are small.
//   - Each new data directory gets its own cluster id, so that a client notices when a directory
//     was thrown away (kv.ErrWentBack).
//   - etcd ends the process when its disk is full or a file is damaged, without a word where its log
//     is silent. Here that is Done and Err (ErrFailed, with directory and cause), and the owner ends.
//   - Silence: nothing is logged unless a logger is given, and then only warnings and errors.
//
// It refuses: a data directory in use (ErrLocked), a port in use (ErrPortInUse), several members
// with random ports, a directory of another cluster (ErrForeign), and NoFsync together with more than one member.
//
// Close order: mirrors, sessions and stores of this process first, so that what they still have to
// say (resign, revoke) gets through. Clients elsewhere may stay: their calls fail from then on. A
// member that leads a cluster hands leadership over first, which may take seconds.
package embed
