// Package blackhole is the sink Blackhole: it counts rows and bytes and drops them.
//
// Every writer prepares its counts so far, one entry with a line a table; the aggregated committer adds up the
// entries of a checkpoint and logs the totals of the job, once. With nothing to make visible the sink is exactly
// once in the dullest sense. It is Strait's own; SeaTunnel has none.
package blackhole
