// Package bench measures the figures that the project promises, each against a bare loop of integration/bench/
// yardstick in the same run.
//
//	scripts/bench [name …] ─▶ integration/bench/run ─▶ Run(name) ─▶ Figure{value, yardstick, ratio, wanted}
//
//	figures of fleets: deploy, burst, row, takeover, idle, paper
//	  cluster (real coordinators and workers on loopback, simFleet for paper) ─ client, store, /metrics, /proc ─▶ Figure
//
// -scale makes the fleets smaller; at a small size what is counted and not timed is tested (fleet_test.go).
// STRAIT_BENCH_PROFILES names a folder for profiles of the roles, STRAIT_BENCH_KEEP leaves their folders and logs.
//
// A measured pair alternates engine and yardstick several times and takes the median of each, so that a busy
// machine disturbs both. Each file registers its figures with Register from init.
package bench
