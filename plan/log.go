package plan

// The names of attributes in logs, the same in every process, so that the records of a job can be found and read
// together. A record that carries LogJob is kept for `stctl job logs`.
const (
	LogJob        = "job"        // job id
	LogPipeline   = "pipeline"   // number of a pipeline
	LogAttempt    = "attempt"    // number of its deployment
	LogWorker     = "worker"     // name of a worker
	LogGroup      = "group"      // task group: pipeline/chain/index
	LogVertex     = "vertex"     // vertex id
	LogCheckpoint = "checkpoint" // number of a checkpoint
	LogErr        = "err"        // what went wrong
)
