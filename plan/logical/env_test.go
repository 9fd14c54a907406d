package logical

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"strait/plan/fault"
	"strait/plan/option"
)

// envKeys is every key that the env block of a job may have, by its name or an older one: what it does here, or what is
// said of it where it does nothing. All of them run a job file of SeaTunnel unchanged; none is an error.
var envKeys = []struct {
	key    string
	value  string
	does   func(*Env) // nil: carried, nothing else
	warned string     // behind the position
}{
	{"job.name", "orders", func(e *Env) { e.JobName = "orders" }, ""},
	{"job.mode", "STREAMING", func(e *Env) { e.Streaming = true }, ""},
	{"job.mode", "batch", func(e *Env) {}, ""},
	{"parallelism", "4", func(e *Env) { e.Parallelism = 4 }, ""},
	{"execution.parallelism", "4", func(e *Env) { e.Parallelism = 4 }, ""},
	{"checkpoint.interval", "10000", func(e *Env) { e.CheckpointInterval = 10 * time.Second }, ""},
	{"execution.checkpoint.interval", "10000", func(e *Env) { e.CheckpointInterval = 10 * time.Second }, ""},
	{"checkpoint.timeout", "60000", func(e *Env) { e.CheckpointTimeout = time.Minute }, ""},
	{"execution.checkpoint.timeout", "60000", func(e *Env) { e.CheckpointTimeout = time.Minute }, ""},
	{"min-pause", "500", func(e *Env) { e.CheckpointMinPause = 500 * time.Millisecond }, ""},
	{"checkpoint.min-pause", "500", func(e *Env) { e.CheckpointMinPause = 500 * time.Millisecond }, ""},
	{"execution.checkpoint.min-pause", "500", func(e *Env) { e.CheckpointMinPause = 500 * time.Millisecond }, ""},
	{"job.retry.times", "7", func(e *Env) { e.RetryTimes = 7 }, ""},
	{"job.retry.times", "0", func(e *Env) { e.RetryTimes = 0 }, ""},
	{"job.retry.interval.seconds", "10", func(e *Env) { e.RetryInterval = 10 * time.Second }, ""},
	{"read_limit.rows_per_second", "400", func(e *Env) { e.ReadLimitRows = 400 }, ""},
	{"read_limit.bytes_per_second", "7000000", func(e *Env) { e.ReadLimitBytes = 7000000 }, ""},
	{"read_limit.bytes_per_second", `"7MB"`, func(e *Env) { e.ReadLimitBytes = 7000000 }, ""},
	{"tag_filter", `{ group = a, "zone" = "b c" }`, func(e *Env) { e.TagFilter = []option.Pair{{Key: "group", Value: "a"}, {Key: "zone", Value: "b c"}} }, ""},
	{"custom_parameters", `{ owner = x, list = [1, 2] }`, nil, ""},
	{"shade.identifier", "base64", nil, ""},
	{"shade.properties", `{ suffix = "x" }`, nil, ""},

	// Of Strait.
	{"slot_sharing", "false", func(e *Env) { e.SlotSharing = false }, ""},
	{"job.priority", "5", func(e *Env) { e.Priority = 5 }, ""},
	{"slot.cpu", "0.5", func(e *Env) { e.SlotMilliCPU = 500 }, ""},
	{"slot.memory", `"64MiB"`, func(e *Env) { e.SlotMemory = 64 << 20 }, ""},

	// Without a meaning here.
	{"jars", `"file:///x.jar"`, nil, `option "jars" has no effect; there is no JVM`},
	{"savemode.execute.location", "CLIENT", nil, `option "savemode.execute.location" has no effect; tables are prepared by the job itself`},

	// Of other engines: carried, and not a word.
	{"flink.table.exec.resource.default-parallelism", "2", nil, ""},
	{"flink", "{ execution { checkpointing { mode = EXACTLY_ONCE } } }", nil, ""},
	{"spark.app.name", "x", nil, ""},
	{"spark.executor.memory", "1g", nil, ""},
	{"spark.streaming.batchDuration", "5", nil, ""},
	{"execution.time-characteristic", "ProcessingTime", nil, ""},
	{"execution.buffer.timeout", "100", nil, ""},

	// Not in this build.
	{"pipeline_concurrency", "2", nil, "pipeline_concurrency: it is not in this build: all pipelines run at once"},
	{"sink.flush.interval", "1000", nil, "sink.flush.interval: it is not in this build: sinks flush at checkpoints and when they are full"},
	{"error_handler", "{ mode = LOG }", nil, "error_handler: it is not in this build: the first bad row fails the job"},
	{"transform_error_handler", "{ mode = LOG }", nil, "transform_error_handler: it is not in this build: the first bad row fails the job"},
	{"sink_error_handler", "{ mode = LOG }", nil, "sink_error_handler: it is not in this build: the first bad row fails the job"},
	{"multi_table.failure_policy", "CONTINUE_OTHER_TABLES", nil, "multi_table.failure_policy: it is not in this build: a table that fails fails the job"},
	{"engine.observability", "{ enabled = true, bucket_ms = 5000 }", nil, "engine.observability: it is not in this build: the metrics of every job are on /metrics"},
}

// TestEnvKeys: every key is accepted, does what it says or says that it does not, and goes with the job.
func TestEnvKeys(t *testing.T) {
	base := ReadEnv(nil, &fault.List{})
	for _, k := range envKeys {
		job := parse(t, "env {\n"+k.key+" = "+k.value+"\n}\nsource { Fake { schema { fields { id = bigint } } } }\nsink { Out { } }")
		var l fault.List
		got := ReadEnv(job.Env, &l)
		errs, warns := lines(l.Err(), l.Warnings())
		want := base
		if k.does != nil {
			k.does(&want)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", k.key, d)
		}
		if k.does != nil && k.key != "job.mode" && cmp.Equal(got, base) {
			t.Errorf("%s has no effect", k.key)
		}
		said := k.warned
		if said != "" {
			said = "job.conf:2: env: " + said
		}
		if errs != "" || warns != said {
			t.Errorf("%s: errors %q, warnings\n%s\nwant\n%s", k.key, errs, warns, said)
		}
		if d, _, err := Build(t.Context(), job, &fakeCatalog{}, Overrides{}); err != nil || d.EnvNode == nil {
			t.Errorf("%s: a job with it: %v", k.key, err)
		} else if head, _, _ := strings.Cut(k.key, "."); !slices.ContainsFunc(d.EnvNode.Fields, func(f option.Field) bool { return strings.HasPrefix(f.Key, head) }) {
			t.Errorf("%s does not go with the job: %v", k.key, d.EnvNode.Fields)
		}
	}
}

// TestEnvKeysAreAllListed: no key is declared that the table does not have.
func TestEnvKeysAreAllListed(t *testing.T) {
	listed := func(name string) bool {
		prefix, open := strings.CutSuffix(name, "*")
		for _, k := range envKeys {
			if k.key == name || open && strings.HasPrefix(k.key, prefix) {
				return true
			}
		}
		return false
	}
	for _, o := range EnvSpec.Options {
		for _, name := range append([]string{o.Name}, o.Aliases...) {
			if !listed(name) {
				t.Errorf("%s is declared and not in the table", name)
			}
		}
	}
	for name := range EnvSpec.Ignored {
		if !listed(name) {
			t.Errorf("%s is ignored and not in the table", name)
		}
	}
	for _, k := range notYet {
		if !listed(k.name) {
			t.Errorf("%s is not in the table", k.name)
		}
	}
}

// TestEnvMistakes: what cannot be meant is refused, with what to write.
func TestEnvMistakes(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		job := parse(t, "env {\n"+text+"\n}\nsource { Fake { schema { fields { id = bigint } } } }\nsink { Out { } }")
		var l fault.List
		ReadEnv(job.Env, &l)
		if errs, _ := lines(l.Err(), nil); !strings.HasPrefix(errs, "job.conf:2: env: "+want) {
			t.Errorf("%s: %q, want %q", text, errs, want)
		}
	}
	f("read_limit.rows_per_second = -1", "read_limit.rows_per_second: -1 is below 0")
	f("read_limit.rows_per_second = many", `read_limit.rows_per_second: "many" is not a`)
	f("read_limit.bytes_per_second = \"7 bananas\"", `read_limit.bytes_per_second: "7 bananas"`)
	f("job.retry.times = -1", "job.retry.times: -1 is below 0")
	f("job.retry.interval.seconds = soon", `job.retry.interval.seconds: "soon"`)
	f("parallelism = 0", "parallelism: 0 is below 1")
	f("job.mode = SOMETIMES", `job.mode: "SOMETIMES" is not one of BATCH, STREAMING`)
	f("tag_filter = a", "tag_filter: ")
}
