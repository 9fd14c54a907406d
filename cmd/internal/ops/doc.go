// Package ops is the HTTP side of every role, for operators and machines that watch it:
//
//	/metrics   Prometheus text     /healthz  the process is alive, also without etcd
//	/debug/pprof/…                 /readyz   it can do its work now; 503 with the reason otherwise
//
// Roles add their own paths (live counters). It serves no secrets and changes nothing.
package ops
