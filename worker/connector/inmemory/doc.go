// Package inmemory is the sink InMemory of SeaTunnel's tests: it takes rows, keeps none and fails when told to.
//
//	Write     throw_out_of_memory, throw_runtime_exception_list (entry number attempt), writer_sleep, write_delay_ms
//	Prepare   throw_exception, checkpoint_sleep
//	Commit    throw_exception_of_committer (in the aggregated committer)
//
// The failures are not marked fatal: the engine tries again as often as the job allows, and reports the last one.
// SeaTunnel counts restores of the process for throw_runtime_exception_list; here the attempt is the count, so that
// two jobs in one process do not meet.
package inmemory
