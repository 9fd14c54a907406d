package keys

import (
	"fmt"
	"strconv"
	"strings"

	"strait/plan"
)

// DefaultPrefix is where the tree lives unless a fleet says otherwise.
const DefaultPrefix = "/strait/v1/"

// Tree builds and parses the keys below one prefix.
type Tree struct{ prefix string }

// New returns the tree below prefix; a missing final slash is added, "" means DefaultPrefix.
func New(prefix string) Tree {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return Tree{prefix}
}

// Prefix is the root of the tree, with its final slash.
func (t Tree) Prefix() string { return t.prefix }

func (t Tree) at(parts ...string) string { return t.prefix + strings.Join(parts, "/") }

// MetaVersion holds format version and cluster id.
func (t Tree) MetaVersion() string { return t.at("meta", "version") }

// Leader is the prefix of the election.
func (t Tree) Leader() string { return t.at("leader", "") }

// Workers is the prefix of the worker keys.
func (t Tree) Workers() string { return t.at("workers", "") }

// Worker is the liveness key of a worker; its create revision is the incarnation.
func (t Tree) Worker(worker string) string { return t.at("workers", worker) }

// WorkerWish is what anybody wants of a worker: active or drain; record.ParseWorkerWish reads it.
func (t Tree) WorkerWish(worker string) string { return t.at("workerwishes", worker) }

// Jobs is the prefix of the specs.
func (t Tree) Jobs() string { return t.at("jobs", "") }

// Job is the spec of a job.
func (t Tree) Job(job plan.JobID) string { return t.at("jobs", string(job)) }

// Wish is what anybody wants of a job: running, cancelled, savepoint or stopped.
func (t Tree) Wish(job plan.JobID) string { return t.at("wishes", string(job)) }

// Wishes is the prefix of all wishes.
func (t Tree) Wishes() string { return t.at("wishes", "") }

// JobStatus is the leader's word on a job.
func (t Tree) JobStatus(job plan.JobID) string { return t.at("jobstatus", string(job)) }

// JobStatuses is the prefix of all job statuses.
func (t Tree) JobStatuses() string { return t.at("jobstatus", "") }

// History is the summary of a terminal job.
func (t Tree) History(job plan.JobID) string { return t.at("history", string(job)) }

// Histories is the prefix of all summaries.
func (t Tree) Histories() string { return t.at("history", "") }

// Plan names the chunks of the physical plan.
func (t Tree) Plan(job plan.JobID) string { return t.at("plans", string(job)) }

// PlanChunk is one chunk of the plan, from 0.
func (t Tree) PlanChunk(job plan.JobID, n int) string { return t.at("plans", string(job), chunk(n)) }

// PlanChunks is the prefix of the chunks of the plan.
func (t Tree) PlanChunks(job plan.JobID) string { return t.at("plans", string(job), "") }

// JobTextChunks is the prefix of the chunks of a job text.
func (t Tree) JobTextChunks(job plan.JobID) string { return t.at("jobtexts", string(job), "") }

// JobTextChunk is one chunk of a job text over 48 KiB, from 0.
func (t Tree) JobTextChunk(job plan.JobID, n int) string {
	return t.at("jobtexts", string(job), chunk(n))
}

// Pipeline is the control word.
func (t Tree) Pipeline(job plan.JobID, p plan.PipelineID) string {
	return t.at("pipelines", string(job), pipeline(p))
}

// Pipelines is the prefix of the control words of a job.
func (t Tree) Pipelines(job plan.JobID) string { return t.at("pipelines", string(job), "") }

// Placement is where an attempt runs.
func (t Tree) Placement(job plan.JobID, p plan.PipelineID) string {
	return t.at("placements", string(job), pipeline(p))
}

// Placements is the prefix of the placements of a job.
func (t Tree) Placements(job plan.JobID) string { return t.at("placements", string(job), "") }

// Task is the assignment of one worker and pipeline.
func (t Tree) Task(worker string, job plan.JobID, p plan.PipelineID) string {
	return t.at("tasks", worker, string(job), pipeline(p))
}

// Tasks is the prefix of the assignments of one worker.
func (t Tree) Tasks(worker string) string { return t.at("tasks", worker, "") }

// TaskStatus is what a worker says of its part of a pipeline.
func (t Tree) TaskStatus(worker string, job plan.JobID, p plan.PipelineID) string {
	return t.at("taskstatus", worker, string(job), pipeline(p))
}

// TaskStatuses is the prefix of what one worker says of a job.
func (t Tree) TaskStatuses(worker string, job plan.JobID) string {
	return t.at("taskstatus", worker, string(job), "")
}

// TaskStatusesOf is the prefix of what one worker says of all jobs.
func (t Tree) TaskStatusesOf(worker string) string { return t.at("taskstatus", worker, "") }

// TasksOf is the prefix of the assignments of one worker and job.
func (t Tree) TasksOf(worker string, job plan.JobID) string {
	return t.at("tasks", worker, string(job), "")
}

// Ack is the ack of one worker, overwritten per checkpoint.
func (t Tree) Ack(job plan.JobID, p plan.PipelineID, worker string) string {
	return t.at("acks", string(job), pipeline(p), worker)
}

// Acks is the prefix of the acks of a pipeline.
func (t Tree) Acks(job plan.JobID, p plan.PipelineID) string {
	return t.at("acks", string(job), pipeline(p), "")
}

// AcksOf is the prefix of the acks of a job.
func (t Tree) AcksOf(job plan.JobID) string { return t.at("acks", string(job), "") }

// Checkpoints is the prefix of the completed checkpoints of a job.
func (t Tree) Checkpoints(job plan.JobID) string { return t.at("checkpoints", string(job), "") }

// Checkpoint is the commit point of a checkpoint, created once.
func (t Tree) Checkpoint(job plan.JobID, p plan.PipelineID, n plan.CheckpointID) string {
	return t.at("checkpoints", string(job), pipeline(p), fmt.Sprintf("%012d", n))
}

// Slot is a grant.
func (t Tree) Slot(worker string, n int) string { return t.at("slots", worker, fmt.Sprintf("%04d", n)) }

// SlotsOf is the prefix of the grants on one worker.
func (t Tree) SlotsOf(worker string) string { return t.at("slots", worker, "") }

// Slots is the prefix of all grants.
func (t Tree) Slots() string { return t.at("slots", "") }

// Fenced says that this incarnation of a worker is known to be dead.
func (t Tree) Fenced(worker string, incarnation int64) string {
	return t.at("fenced", worker, strconv.FormatInt(incarnation, 10))
}

func chunk(n int) string                { return fmt.Sprintf("%06d", n) }
func pipeline(p plan.PipelineID) string { return strconv.Itoa(int(p)) }

// Kind names a branch of the tree.
type Kind string

// The branches, as they are spelled in keys.
const (
	KindMeta       Kind = "meta"
	KindLeader     Kind = "leader"
	KindWorker     Kind = "workers"
	KindWorkerWish Kind = "workerwishes"
	KindJob        Kind = "jobs"
	KindWish       Kind = "wishes"
	KindJobStatus  Kind = "jobstatus"
	KindHistory    Kind = "history"
	KindPlan       Kind = "plans"
	KindJobText    Kind = "jobtexts"
	KindPipeline   Kind = "pipelines"
	KindPlacement  Kind = "placements"
	KindTask       Kind = "tasks"
	KindTaskStatus Kind = "taskstatus"
	KindAck        Kind = "acks"
	KindCheckpoint Kind = "checkpoints"
	KindSlot       Kind = "slots"
	KindFenced     Kind = "fenced"
)

// Parsed is a key taken apart; what a branch does not have is zero.
type Parsed struct {
	Kind     Kind
	Job      plan.JobID
	Pipeline plan.PipelineID
	Worker   string
	Number   int64 // checkpoint, slot, chunk (-1: the key that names the chunks) or incarnation
	Rest     string
}

var shapes = map[Kind]string{ // j job, p pipeline, w worker, n number, c optional chunk, * anything
	KindMeta: "*", KindLeader: "*", KindWorker: "w", KindWorkerWish: "w", KindJob: "j", KindWish: "j",
	KindJobStatus: "j", KindHistory: "j", KindPlan: "jc", KindJobText: "jn", KindPipeline: "jp",
	KindPlacement: "jp", KindTask: "wjp", KindTaskStatus: "wjp", KindAck: "jpw", KindCheckpoint: "jpn",
	KindSlot: "wn", KindFenced: "wn",
}

// Parse takes a key apart. A key outside the tree, or with parts missing, gives ok = false: readers skip it.
func (t Tree) Parse(key string) (p Parsed, ok bool) {
	rest, found := strings.CutPrefix(key, t.prefix)
	if !found {
		return p, false
	}
	kind, rest, found := strings.Cut(rest, "/")
	shape, known := shapes[Kind(kind)]
	if !found || !known {
		return p, false
	}
	p.Kind = Kind(kind)
	if shape == "*" {
		p.Rest = rest
		return p, true
	}
	parts := strings.Split(rest, "/")
	if strings.HasSuffix(shape, "c") && len(parts) == len(shape)-1 {
		shape, p.Number = shape[:len(shape)-1], -1
	}
	if len(parts) != len(shape) {
		return Parsed{}, false
	}
	for i, c := range shape {
		switch c {
		case 'j':
			if plan.CheckName("job", parts[i]) != nil {
				return Parsed{}, false
			}
			p.Job = plan.JobID(parts[i])
		case 'w':
			if plan.CheckName("worker", parts[i]) != nil {
				return Parsed{}, false
			}
			p.Worker = parts[i]
		default:
			n, err := strconv.ParseInt(parts[i], 10, 64)
			if err != nil || n < 0 {
				return Parsed{}, false
			}
			if c == 'p' {
				p.Pipeline = plan.PipelineID(n)
			} else {
				p.Number = n
			}
		}
	}
	return p, true
}
