//go:build !(linux && amd64)

package harness

import "time"

type ahead struct{}

// ShiftClock skips the test: how a clock is shifted is known for linux/amd64 only.
func (f *Fleet) ShiftClock(string, time.Duration) {
	f.t.Helper()
	f.t.Skip("the clock of a process can be shifted on linux/amd64 only")
}
