package field

import "fmt"

// Formats are the patterns of the date-time columns of a file.
type Formats struct {
	date, time, stamp          *Pattern
	dateFree, timeFree, stFree bool // not set by the job: other usual forms are taken too
	zoned                      *Pattern
	quickDate, quickStamp      quick
}

// Defaults of the patterns, as SeaTunnel has them.
const (
	defaultDate      = "yyyy-MM-dd"
	defaultTime      = "HH:mm:ss"
	defaultTimestamp = "yyyy-MM-dd HH:mm:ss"
)

// NewFormats compiles patterns; an empty one stands for the default and for every other usual form.
func NewFormats(date, time, stamp string) (*Formats, error) {
	f := &Formats{dateFree: date == "", timeFree: time == "", stFree: stamp == ""}
	var err error
	for _, p := range []struct {
		dst           **Pattern
		text, def, as string
	}{{&f.date, date, defaultDate, "date_format"}, {&f.time, time, defaultTime, "time_format"}, {&f.stamp, stamp, defaultTimestamp, "datetime_format"}} {
		if p.text == "" {
			p.text = p.def
		}
		if *p.dst, err = ParsePattern(p.text); err != nil {
			return nil, fmt.Errorf("%s: %w", p.as, err)
		}
	}
	f.quickDate, f.quickStamp = f.date.fast.quick(), f.stamp.fast.quick()
	f.zoned = f.stamp
	if !f.stamp.hasOffset() {
		f.zoned = nil // Java's ISO_OFFSET_DATE_TIME
	}
	return f, nil
}

// DefaultFormats are those of a job that sets none.
func DefaultFormats() *Formats {
	f, err := NewFormats("", "", "")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return f
}

// Usual forms, tried in order where the job names no pattern.
var (
	usualDates = Patterns("yyyy-M-d", "yyyy/M/d", "yyyyMMdd", "yyyy.M.d", "yyyy年M月d日")
	usualTimes = Patterns("HH:mm:ss.SSSSSSSSS", "HH:mm")
	usualISO   = Patterns("yyyy-M-d H:m:s", "yyyy/M/d H:m:s", "yyyyMMddHHmmss", "yyyy.M.d H:m:s", "yyyy-M-d H:m", "yyyy/M/d H:m",
		"yyyy-MM-dd", "yyyy/MM/dd", "yyyy年M月d日 H时m分s秒")
)

// Patterns are several patterns known to be right.
func Patterns(texts ...string) []*Pattern {
	out := make([]*Pattern, len(texts))
	for i, t := range texts {
		out[i] = mustPattern(t)
	}
	return out
}

// misfit says which pattern a text was read by and which option names another.
func misfit(what, option string, p *Pattern, free bool) error {
	if free {
		return fmt.Errorf("is not a %s of the pattern %s or another usual one; name its pattern with %s", what, p, option)
	}
	return fmt.Errorf("is not a %s of the pattern %s, which %s names", what, p, option)
}

// Date reads days since 1970-01-01.
func (f *Formats) Date(b []byte) (int32, error) {
	c, ok := f.date.Parse(b)
	if !ok && f.dateFree {
		for _, p := range usualDates {
			if c, ok = p.Parse(b); ok {
				break
			}
		}
		if !ok { // a date and time: the time of day is midnight or the text is no date
			if c, ok = isoStamp(b); ok && (c.Hour|c.Minute|c.Sec|c.Nano != 0 || c.HasOffset) {
				ok = false
			}
		}
	}
	if !ok {
		return 0, misfit("date", "date_format", f.date, f.dateFree)
	}
	return int32(dayNumber(c.Year, c.Month, c.Day)), nil
}

// Time reads the time of day in the unit of a scale (see UnitNanos).
func (f *Formats) Time(b []byte, scale int) (int64, error) {
	c, ok := f.time.Parse(b)
	if !ok && f.timeFree {
		if c, ok = clock(b); !ok {
			for _, p := range usualTimes {
				if c, ok = p.Parse(b); ok {
					break
				}
			}
		}
	}
	if !ok {
		return 0, misfit("time", "time_format", f.time, f.timeFree)
	}
	n := int64(c.Hour*3600+c.Minute*60+c.Sec)*1e9 + int64(c.Nano)
	return n / UnitNanos(scale), nil
}

// Timestamp reads a date and time without zone in the unit of a scale since 1970-01-01 00:00:00. An offset in the
// text is left out of account: the wall clock counts.
func (f *Formats) Timestamp(b []byte, scale int) (int64, error) {
	c, ok := f.stamp.Parse(b)
	if !ok && f.stFree {
		c, ok = isoStamp(b)
		for i := 0; !ok && i < len(usualISO); i++ {
			c, ok = usualISO[i].Parse(b)
		}
	}
	if !ok {
		return 0, misfit("timestamp", "datetime_format", f.stamp, f.stFree)
	}
	c.Offset = 0
	return c.instant(scale)
}

// TimestampTZ reads an instant in the unit of a scale. Text without an offset is taken as UTC.
func (f *Formats) TimestampTZ(b []byte, scale int) (int64, error) {
	c, ok := f.stamp.Parse(b)
	if !ok && (f.stFree || f.zoned == nil) {
		c, ok = isoStamp(b)
		for i := 0; !ok && f.stFree && i < len(usualISO); i++ {
			c, ok = usualISO[i].Parse(b)
		}
	}
	if !ok {
		return 0, misfit("timestamp", "datetime_format", f.stamp, f.stFree)
	}
	return c.instant(scale)
}

// AppendDate writes days since 1970-01-01.
func (f *Formats) AppendDate(dst []byte, days int32) []byte {
	var c Clock
	c.Year, c.Month, c.Day = civil(int64(days))
	return f.date.Append(dst, &c)
}

// AppendTime writes a time of day kept in the unit of a scale.
func (f *Formats) AppendTime(dst []byte, v int64, scale int) []byte {
	c := clockOf(v, scale)
	return f.time.Append(dst, &c)
}

// AppendTimestamp writes a date and time without zone.
func (f *Formats) AppendTimestamp(dst []byte, v int64, scale int) []byte {
	c := clockOf(v, scale)
	return f.stamp.Append(dst, &c)
}

// AppendTimestampTZ writes an instant, by the pattern where it has an offset, else as ISO 8601 in UTC.
func (f *Formats) AppendTimestampTZ(dst []byte, v int64, scale int) []byte {
	c := clockOf(v, scale)
	c.HasOffset = true
	if f.zoned != nil {
		return f.zoned.Append(dst, &c)
	}
	return append(AppendISO(dst, v, scale), 'Z')
}
