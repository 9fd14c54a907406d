// Package keys is the key tree of design section 4: the one place where keys are built and parsed.
//
//	<prefix>meta/version                          leader/…
//	<prefix>workers/<worker>                      workerwishes/<worker>
//	<prefix>jobs/<job>  wishes/<job>              jobstatus/<job>  history/<job>
//	<prefix>plans/<job>[/<chunk>]                 jobtexts/<job>/<chunk>
//	<prefix>pipelines/<job>/<pipeline>            placements/<job>/<pipeline>
//	<prefix>tasks/<worker>/<job>/<pipeline>       taskstatus/<worker>/<job>/<pipeline>
//	<prefix>acks/<job>/<pipeline>/<worker>        checkpoints/<job>/<pipeline>/<checkpoint>
//	<prefix>slots/<worker>/<n>                    fenced/<worker>/<incarnation>
//
// Numbers that are compared as text by readers (checkpoints, chunks) are padded, so that etcdctl lists them in
// order. The tree is a public interface: a golden test holds it.
package keys
