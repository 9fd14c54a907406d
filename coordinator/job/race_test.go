//go:build race

package job

// sparse says how few combinations a simulation takes: there is one goroutine, so races are not found by more of them.
const sparse = 128
