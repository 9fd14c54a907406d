package session

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock tells the time since some fixed moment. It must go on while the machine is suspended: a
// clock that stops would call a lease proved that ended during the sleep.
type Clock interface {
	Now() time.Duration
}

// Boottime is CLOCK_BOOTTIME.
type Boottime struct{}

// Now implements Clock.
func (Boottime) Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("session: CLOCK_BOOTTIME: " + err.Error()) // since Linux 2.6.39 it is always there
	}
	return time.Duration(ts.Nano())
}
