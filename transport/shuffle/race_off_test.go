//go:build !race

package shuffle

const raceDetector = false
