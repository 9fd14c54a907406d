//go:build !race

package harness

// RaceEnabled says that binaries and tests have the race detector.
const RaceEnabled = false
