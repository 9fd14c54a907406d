package settings

import (
	"strait/kv/keys"
	"strait/plan/option"
)

// DefaultEtcd is where the embedded etcd listens and clients look for one.
const DefaultEtcd = "127.0.0.1:2379"

// Table is every setting, in the order of help and sample. What stands before the first dot is its group there.
var Table = []Setting{
	{Path: "name", Flag: "name", Roles: Roles, Example: "c1", Doc: "unique `NAME` of this role; the host's otherwise"},
	{Path: "data-dir", Flag: "data-dir", Roles: Roles, Example: "/var/lib/strait",
		Doc: "`FOLDER` of this role: of a coordinator the embedded etcd and checkpoint files, needed unless --etcd-endpoints is given; of a worker what it leaves for its supervisor"},
	{Path: "ttl", Flag: "ttl", Type: Duration, Roles: Roles, Default: "10s", Doc: "`DURATION` that a vanished role is waited for"},
	{Path: "ops.listen", Flag: "ops-listen", Roles: Roles, Example: "0.0.0.0:9180",
		Doc: "`HOST:PORT` of /metrics, /healthz, /readyz, logs of jobs, live counters and pprof; a free port of the address that this host reaches etcd from otherwise"},
	{Path: "checkpoint.dir", Flag: "checkpoint-dir", Roles: Roles, Example: "/mnt/strait/checkpoints",
		Doc: "`FOLDER` of checkpoint files, the same on all hosts; otherwise below the --data-dir of the coordinator"},
	{Path: "log.level", Flag: "log-level", Type: Enum, Enum: []string{"debug", "info", "warn", "error"}, Roles: Roles | Run, Example: "info",
		Doc: "`LEVEL` of the log on standard error: debug, info, warn or error; serve: info, else error"},
	{Path: "log.memory", Flag: "log-memory", Type: Bytes, Min: option.Bound(64 << 10), Roles: Roles, Default: "8MiB",
		Doc: "`BYTES` of memory for what this process has logged of jobs, the newest, for stctl job logs"},

	{Path: "etcd.endpoints", Flag: "etcd-endpoints", Type: List, Roles: Client | Roles, Example: DefaultEtcd,
		Doc: "etcd of the fleet, `HOST:PORT,…`; " + DefaultEtcd + " otherwise"},
	{Path: "etcd.prefix", Flag: "prefix", Roles: Everyone, Default: keys.DefaultPrefix, Doc: "`KEY` that all keys of the fleet begin with"},
	{Path: "etcd.listen", Flag: "etcd-listen", Roles: Coordinator, Default: DefaultEtcd,
		Doc: "`HOST:PORT` of the embedded etcd; 0.0.0.0:2379 for workers on other hosts"},

	{Path: "secret.key-file", Flag: "secret-key-file", Roles: Run | Roles | Sealer, Example: "/etc/strait/secret.keys",
		Doc: "`FILE` with the keys that seal the secrets of jobs, the same on every host; stctl secret key new makes one"},

	{Path: "coordinator.strategy", Flag: "strategy", Type: Enum, Enum: []string{"wait", "reject"}, Roles: Coordinator, Default: "wait",
		Doc: "`WHAT` becomes of a job that does not fit: wait or reject"},
	{Path: "coordinator.placement", Flag: "placement", Type: Enum, Enum: []string{"slot-ratio", "random", "system-load"}, Roles: Coordinator, Default: "slot-ratio",
		Doc: "`WHICH` worker takes the next slot: slot-ratio (the one least in use), random, or system-load (the one whose host has least to do)"},
	{Path: "coordinator.queue", Flag: "queue", Type: Int, Min: option.Bound(1), Roles: Coordinator, Default: "10000",
		Doc: "`N` jobs may wait for slots at once; a further one that does not fit fails with reason QueueFull"},
	{Path: "coordinator.patience", Flag: "patience", Type: Duration, Roles: Coordinator, Default: "1m",
		Doc: "`DURATION` that a job waits before the slots that get free are kept for it; until then smaller jobs may pass it"},
	{Path: "coordinator.linger", Flag: "job-linger", Type: Duration, Roles: Coordinator, Default: "1m",
		Doc: "`DURATION` that the keys of an ended job stay; then its history is left"},
	{Path: "coordinator.history.keep", Flag: "history-keep", Type: Int, Min: option.Bound(1), Roles: Coordinator, Default: "1000",
		Doc: "`N` histories of ended jobs are kept, the newest"},
	{Path: "coordinator.history.expire", Flag: "history-expire", Type: Duration, Roles: Coordinator, Default: "24h",
		Doc: "`DURATION` that the history of an ended job is kept"},

	{Path: "worker.slots", Flag: "slots", Type: Int, Min: option.Bound(1), Word: "dynamic", Roles: Worker, Example: "4",
		Doc: "`N` slots of an N-th of this worker's cpu and memory, each for a task group; or dynamic: cut from them as large as jobs ask for (env slot.cpu, slot.memory); the number of processors otherwise"},
	{Path: "worker.memory", Flag: "memory", Type: Bytes, Min: option.Bound(16 << 20), Roles: Worker, Example: "4GiB",
		Doc: "`BYTES` that its tasks may reserve for rows; otherwise half of what the process may use: the least of the host's memory, its cgroup's limit and GOMEMLIMIT"},
	{Path: "worker.labels", Flag: "label", Env: "STRAIT_LABELS", Type: Pairs, Roles: Worker, Example: "{ zone = a }",
		Doc: "`KEY=VALUE` for env.tag_filter of jobs; may be repeated"},
	{Path: "worker.data.listen", Flag: "data-listen", Roles: Worker, Example: "0.0.0.0:2390",
		Doc: "`HOST:PORT` that other workers send rows to; a free port of the address that this host reaches etcd from otherwise"},
	{Path: "worker.data.address", Flag: "data-address", Roles: Worker, Example: "w1.example.com:2390",
		Doc: "`HOST:PORT` that other workers dial, where it differs from --data-listen"},
	{Path: "worker.data.codec", Flag: "codec", Type: Enum, Enum: []string{"none", "s2", "zstd"}, Roles: Worker, Example: "s2",
		Doc: "`NAME` of the compression between workers: none, s2 or zstd; s2 between hosts otherwise"},
	{Path: "worker.call-limit", Flag: "call-limit", Type: Duration, Roles: Worker, Default: "30s",
		Doc: "`DURATION` that one call of a sink may take"},
}
