// Package storage keeps the files of checkpoints: state files and manifests that are too large for etcd.
//
//	Put(name, data)                                   Get(handle)
//	  zstd ─▶ .tmp-… ─▶ fsync ─▶ link to name           read ─▶ size, sha256 ─▶ expand ─▶ data
//	                              │ exists already?        │
//	                              ├ same content: success  └ anything else: ErrMissing, ErrDamaged
//	                              └ other content: ErrDifferent
//	          ─▶ fsync of the folder
//
// What holds:
//
//   - A name is created once and never changes. A file that can be seen under its name is whole and durable.
//   - What Put returned is enough to verify what Get reads: a torn or swapped file is found, never used.
//   - Names hold attempt and incarnation (StateName, ManifestName), so that nothing two processes write meets,
//     and a sweep of orphans never meets a live upload.
//
// It refuses names that leave its folder, and it never decides what may be deleted: that is the collector's.
package storage
