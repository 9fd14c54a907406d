package value

import (
	"strings"
	"time"
)

// The layouts SeaTunnel recognises by itself; digits behind the second are always optional.
var (
	dateLayouts = []string{"2006-01-02", "2006/01/02", "2006.01.02", "20060102", "2006年01月02日", "2006-1-2", "2006/1/2"}
	timeLayouts = []string{"15:04:05", "15:04", "150405"}
	// between date and time
	separators = []string{"T", " "}
)

func parseAny(text string, layouts []string) (time.Time, bool) {
	for _, l := range layouts {
		if t, err := time.Parse(l, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// ParseDate reads a date; a time behind it is refused.
func ParseDate(text string) (time.Time, bool) { return parseAny(text, dateLayouts) }

// ParseTime reads a time of day, as a time on the first of January of year 0.
func ParseTime(text string) (time.Time, bool) { return parseAny(text, timeLayouts) }

// ParseTimestamp reads a date and a time, or a date alone (midnight).
func ParseTimestamp(text string) (time.Time, bool) {
	if t, ok := ParseDate(text); ok {
		return t, true
	}
	for _, sep := range separators {
		d, c, found := strings.Cut(text, sep)
		if !found {
			continue
		}
		date, ok := ParseDate(d)
		if !ok {
			continue
		}
		clock, ok := ParseTime(c)
		if !ok {
			continue
		}
		return date.Add(clock.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))), true
	}
	if len(text) == 14 { // 20060102150405
		return parseAny(text, []string{"20060102150405"})
	}
	return time.Time{}, false
}

// ParseInstant reads a timestamp with an offset or Z; without one it counts as UTC.
func ParseInstant(text string) (time.Time, bool) {
	s := strings.Replace(text, " ", "T", 1)
	for _, l := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700"} {
		if t, err := time.Parse(l, s); err == nil {
			return t.UTC(), true
		}
	}
	return ParseTimestamp(text)
}
