package logical

import (
	"time"

	"strait/plan/fault"
	"strait/plan/option"
)

// Env is the decoded env block of a job.
type Env struct {
	JobName            string // empty: not given
	Streaming          bool
	Parallelism        int
	CheckpointInterval time.Duration // 0: not given
	CheckpointTimeout  time.Duration // 0: not given
	CheckpointMinPause time.Duration
	RetryTimes         int
	RetryInterval      time.Duration
	SlotSharing        bool
	Priority           int           // of a job that waits for slots; the higher is placed first
	SlotMilliCPU       int           // of each slot; 0: not given
	SlotMemory         int64         // bytes of each slot; 0: not given
	ReadLimitRows      int64         // rows per second of each source subtask; 0: no limit
	ReadLimitBytes     int64         // bytes per second of each source subtask; 0: no limit
	TagFilter          []option.Pair // labels that a worker must have, all of them
}

// minCheckpointInterval is the least checkpoint.interval.
const minCheckpointInterval = 100 * time.Millisecond

// EnvSpec declares the keys of the env block.
var EnvSpec = option.Spec{
	Lenient: true,
	Options: []option.Option{
		{Name: "job.name", Type: option.TString, Doc: "Name of the job."},
		{Name: "job.mode", Type: option.TEnum, Enum: []string{"BATCH", "STREAMING"}, Default: "BATCH", Doc: "Whether the job ends by itself."},
		withAlias(parallelism("1", "Number of subtasks of every source that names none."), "execution.parallelism"),
		{Name: "checkpoint.interval", Aliases: []string{"execution.checkpoint.interval"}, Type: option.TDuration, Doc: "Time between two checkpoints, at least 100 ms."},
		{Name: "checkpoint.timeout", Aliases: []string{"execution.checkpoint.timeout"}, Type: option.TDuration, Doc: "After so long a checkpoint is given up."},
		{Name: "checkpoint.min-pause", Aliases: []string{"min-pause", "execution.checkpoint.min-pause"}, Type: option.TDuration, Default: "0", Doc: "Least time between the end of a checkpoint and the next."},
		{Name: "job.retry.times", Type: option.TInt, Default: "3", Min: option.Bound(0), Max: option.Bound(1 << 31), Doc: "How often a pipeline is restarted."},
		{Name: "job.retry.interval.seconds", Type: option.TDuration, Unit: "s", Default: "3", Doc: "Time before a restart."},
		{Name: "slot_sharing", Type: option.TBool, Default: "true", Doc: "The chains of a pipeline share slots; false gives every task group its own."},
		{Name: "job.priority", Type: option.TInt, Default: "0", Min: option.Bound(-1000), Max: option.Bound(1000), Doc: "Of jobs that wait for slots the one with the higher priority is placed first."},
		{Name: "slot.cpu", Type: option.TFloat, Min: option.Bound(0), Max: option.Bound(1024), Doc: "Cores that each slot of the job takes of its worker."},
		{Name: "slot.memory", Type: option.TBytes, Doc: "Memory that each slot of the job takes of its worker."},
		{Name: "read_limit.rows_per_second", Type: option.TInt, Min: option.Bound(0), Doc: "Most rows a second that each source subtask hands on; 0: no limit."},
		{Name: "read_limit.bytes_per_second", Type: option.TBytes, Doc: "Most bytes a second that each source subtask hands on; 0: no limit."},
		{Name: "tag_filter", Type: option.TStringMap, Columns: true, Doc: "Labels that a worker must have, all of them."},
		{Name: "custom_parameters", Type: option.TAny, Doc: "Carried along, not used."},
		{Name: "shade.identifier", Type: option.TString, Doc: "How secrets in the file are encoded: base64."},

		{Name: "pipeline_concurrency", Type: option.TAny},
		{Name: "sink.flush.interval", Type: option.TAny},
		{Name: "error_handler", Type: option.TAny},
		{Name: "transform_error_handler", Type: option.TAny},
		{Name: "sink_error_handler", Type: option.TAny},
		{Name: "multi_table.failure_policy", Type: option.TAny},
		{Name: "engine.observability", Type: option.TAny},
	},
	Ignored: map[string]string{
		"flink.*": "", "spark.*": "", "execution.*": "", "shade.*": "",
		"jars":                      "there is no JVM",
		"savemode.execute.location": "tables are prepared by the job itself",
	},
}

// notYet lists the keys whose work this build does not do, with what happens instead.
var notYet = []struct{ name, instead string }{
	{"pipeline_concurrency", "all pipelines run at once"},
	{"sink.flush.interval", "sinks flush at checkpoints and when they are full"},
	{"error_handler", "the first bad row fails the job"},
	{"transform_error_handler", "the first bad row fails the job"},
	{"sink_error_handler", "the first bad row fails the job"},
	{"multi_table.failure_policy", "a table that fails fails the job"},
	{"engine.observability", "the metrics of every job are on /metrics"},
}

func withAlias(o option.Option, alias string) option.Option {
	o.Aliases = append(o.Aliases, alias)
	return o
}

// ReadEnv decodes an env block; nil stands for an empty one. Mistakes and warnings go to l.
func ReadEnv(n *option.Node, l *fault.List) Env {
	v := EnvSpec.Decode(n, "env", l)
	for _, k := range notYet {
		if !v.Has(k.name) {
			continue
		}
		l.AddWarning(&fault.Mistake{Pos: v.Node(k.name).Pos, Path: v.Path(k.name),
			Found: "it is not in this build: " + k.instead, Err: ErrNotInBuild})
	}
	interval := v.Duration("checkpoint.interval")
	if v.Has("checkpoint.interval") && interval < minCheckpointInterval && l.Len() == 0 {
		n := v.Node("checkpoint.interval")
		l.Add(n.Pos, v.Path("checkpoint.interval"), n.Describe()+" is below 100 ms, the least allowed", "write checkpoint.interval = 10000 (milliseconds)")
	}
	return Env{
		JobName:            v.String("job.name"),
		Streaming:          v.String("job.mode") == "STREAMING",
		Parallelism:        int(v.Int("parallelism")),
		CheckpointInterval: interval,
		CheckpointTimeout:  v.Duration("checkpoint.timeout"),
		CheckpointMinPause: v.Duration("checkpoint.min-pause"),
		RetryTimes:         int(v.Int("job.retry.times")),
		RetryInterval:      v.Duration("job.retry.interval.seconds"),
		SlotSharing:        v.Bool("slot_sharing"),
		Priority:           int(v.Int("job.priority")),
		SlotMilliCPU:       int(v.Float("slot.cpu") * 1000),
		SlotMemory:         v.Int("slot.memory"),
		ReadLimitRows:      v.Int("read_limit.rows_per_second"),
		ReadLimitBytes:     v.Int("read_limit.bytes_per_second"),
		TagFilter:          v.Pairs("tag_filter"),
	}
}
