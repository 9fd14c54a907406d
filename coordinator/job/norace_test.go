//go:build !race

package job

// sparse says how few combinations a simulation takes.
const sparse = 16
