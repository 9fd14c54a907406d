//go:build race

package shuffle

// raceDetector makes random tests about ten times slower, so fewer cases are run with it.
const raceDetector = true
