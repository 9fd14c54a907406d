// Package ops is the side of every role that operators and machines look at: its HTTP port, and what it tells its
// supervisor.
//
//	/metrics   Prometheus text     /healthz  the process is alive, also without etcd
//	/debug/pprof/…                 /readyz   it can do its work now; 503 with the reason otherwise
//	/about     who it is, JSON     /time     its clock, at once
//	/logs/<job>?after=&since=&level=&follow=   what it logged of a job, a JSON object a line
//
//	slog records with a job ─▶ Logs (the newest, bounded in bytes, fair to jobs) ─▶ /logs ─▶ Client ─▶ stctl job logs
//
// Roles add their own paths (live counters). What holds:
//
//   - The port serves no secrets and changes nothing.
//   - No caller can block the role: every answer has a deadline, connections and readers of logs are limited, and
//     a log is never held for a reader; what is pushed out before it was read is lost, and said to be.
//   - Notifier speaks to a supervisor only of what is so: READY once the role is ready, WATCHDOG only while its
//     loops answer.
package ops
