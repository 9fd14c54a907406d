// Package client is how stctl and other programs in Go speak to a fleet: through the keys alone, so it works while
// no coordinator is up, and what it writes anybody could write with etcdctl.
//
//	Submit ──▶ [jobtexts/<job>/…] jobs/<job>          Wish ──▶ wishes/<job>
//	List, Get, Describe ◀── everything of a job, at one revision
//	Watch ◀── jobstatus/<job>, pipelines/<job>/…, in order
//
// It depends on nothing of the coordinator. Every write is guarded: a job id is taken once, a wish is put on the
// life of the id that was read.
package client
