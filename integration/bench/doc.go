// Package bench measures the figures that the project promises, each against a bare loop of integration/bench/
// yardstick in the same run.
//
//	scripts/bench [name …] ─▶ integration/bench/run ─▶ Run(name) ─▶ Figure{value, yardstick, ratio, wanted}
//
// A measured pair alternates engine and yardstick several times and takes the median of each, so that a busy
// machine disturbs both. Each file registers its figures with Register from init.
package bench
