// Package workermodel is a worker without data: it reads and writes the keys as a worker does, and keeps a target in
// memory that notices when a commit is lost, done twice or left open. Tests of the coordinator use it, over a real
// store and over one in memory.
//
//	keys ─▶ Worker.Step ─▶ at most one write a pipeline        Target: prepare, commit, abandon; Check
//
// A row here is a sink subtask: what it wrote is prepared once at a barrier and must be committed exactly once.
package workermodel
