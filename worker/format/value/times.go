package value

import (
	"strings"
	"time"

	"strait/worker/format/field"
)

// The forms SeaTunnel recognises by itself; digits behind the second are always optional.
var (
	dateForms  = field.Patterns("yyyy-M-d", "yyyy/M/d", "yyyy.MM.dd", "yyyyMMdd", "yyyy年MM月dd日")
	clockForms = field.Patterns("H:mm:ss", "HHmmss")
	minuteForm = field.Patterns("H:mm")
	stampForm  = field.Patterns("yyyyMMddHHmmss")
	isoForm    = field.Patterns("yyyy-MM-dd") // before a time with an offset
)

// parseAny reads text of one of the forms; none of them begins with the sign of a year.
func parseAny(text string, forms []*field.Pattern) (field.Clock, bool) {
	for _, p := range forms {
		if c, ok := p.Parse([]byte(text)); ok && text[0] != '-' {
			return c, true
		}
	}
	return field.Clock{}, false
}

// parseDate reads a date; a time behind it is refused.
func parseDate(text string) (field.Clock, bool) { return parseAny(text, dateForms) }

// parseTime reads a time of day. Of its fraction nine digits count.
func parseTime(text string) (field.Clock, bool) {
	i := strings.IndexAny(text, ".,")
	if i < 0 {
		if c, ok := parseAny(text, clockForms); ok {
			return c, true
		}
		return parseAny(text, minuteForm)
	}
	c, ok := parseAny(text[:i], clockForms)
	frac := text[i:]
	if len(frac) > 10 {
		ok = ok && strings.Trim(frac[10:], "0123456789") == ""
		frac = frac[:10]
	}
	if ok {
		c.Nano, ok = field.Fraction([]byte(frac))
	}
	return c, ok
}

// parseTimestamp reads a date and a time with T or a blank between, or a date alone (midnight).
func parseTimestamp(text string) (field.Clock, bool) {
	if c, ok := parseDate(text); ok {
		return c, true
	}
	for _, sep := range []string{"T", " "} {
		if c, ok := join(text, sep, dateForms); ok {
			return c, true
		}
	}
	return parseAny(text, stampForm)
}

// join reads a date of one of the forms and a time.
func join(text, sep string, forms []*field.Pattern) (field.Clock, bool) {
	d, t, _ := strings.Cut(text, sep)
	date, ok := parseAny(d, forms)
	if !ok {
		return date, false
	}
	c, ok := parseTime(t)
	c.Year, c.Month, c.Day = date.Year, date.Month, date.Day
	return c, ok
}

// parseInstant reads a timestamp with an offset or Z; without one it counts as UTC.
func parseInstant(text string) (field.Clock, bool) {
	s := strings.Replace(text, " ", "T", 1)
	if from := strings.IndexByte(s, 'T'); from >= 0 {
		if i := strings.IndexAny(s[from:], "Z+-"); i >= 0 {
			clock, offset := s[:from+i], s[from+i:]
			c, ok := join(clock, "T", isoForm)
			c.Offset, c.HasOffset = field.Offset([]byte(offset))
			return c, ok && c.HasOffset && fullOffset(clock[from:], offset)
		}
	}
	return parseTimestamp(text)
}

// fullOffset says that an offset has hours and minutes, and a colon as the time before it has.
func fullOffset(clock, offset string) bool {
	switch len(offset) {
	case 1, 6:
		return strings.Contains(clock, ":")
	case 5:
		return strings.Count(clock, ":") == 2
	}
	return false
}

// timeOf is the instant of a clock.
func timeOf(c *field.Clock) time.Time {
	return time.Date(c.Year, time.Month(c.Month), c.Day, c.Hour, c.Minute, c.Sec-c.Offset, c.Nano, time.UTC)
}
