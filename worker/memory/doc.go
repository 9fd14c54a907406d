// Package memory divides the memory of a worker, so that one job cannot take what others run on.
//
//	what the process may use   Host: the least of host, cgroup and GOMEMLIMIT
//	  └─ worker's budget       Budget: what tasks may reserve; published, the scheduler counts with it
//	       └─ an attempt's bound    admitted whole, before anything of the attempt is made
//	            └─ Shares           queues, batches, gathered rows, buffers of writers; fixed for the attempt
//	            └─ Large            elements above their share pass a few at a time
//
// Shares are fixed and not lent between the parts of an attempt: a sink never waits for memory that only its source
// could give back, so nothing can lock up. What is left of a bound goes to the inboxes that grow
// (transport/local.Budget).
//
// Sizes are those of rows (batch.Batch.Bytes), not of the process: copies of an element on its way and garbage that is
// not collected yet come on top. That is why a budget is half of what the process may use by default, and why an
// element counts several times (Copies) where it is large.
//
// Invariant 6: what an attempt holds on a worker is bounded by its bound, and one element beyond it in each queue.
package memory
