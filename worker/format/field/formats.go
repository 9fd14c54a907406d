package field

import (
	"fmt"

	"strait/plan/schema"
)

// Formats are the patterns of the date-time columns of a file.
type Formats struct {
	date, time, stamp          *Pattern
	dateFree, timeFree, stFree bool // not set by the job: other usual forms are taken too
	zoned                      *Pattern
	quickDate, quickStamp      quick
}

// Defaults of the patterns, as SeaTunnel has them.
const (
	DefaultDate      = "yyyy-MM-dd"
	DefaultTime      = "HH:mm:ss"
	DefaultTimestamp = "yyyy-MM-dd HH:mm:ss"
)

// NewFormats compiles patterns; an empty one stands for the default and for every other usual form.
func NewFormats(date, time, stamp string) (*Formats, error) {
	f := &Formats{dateFree: date == "", timeFree: time == "", stFree: stamp == ""}
	var err error
	for _, p := range []struct {
		dst           **Pattern
		text, def, as string
	}{{&f.date, date, DefaultDate, "date_format"}, {&f.time, time, DefaultTime, "time_format"}, {&f.stamp, stamp, DefaultTimestamp, "datetime_format"}} {
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

func (p *Pattern) hasOffset() bool {
	for i := range p.ops {
		if p.ops[i].kind == opOffset {
			return true
		}
	}
	return false
}

// Usual forms, tried in order where the job names no pattern.
var (
	usualDates = patterns("yyyy-M-d", "yyyy/M/d", "yyyyMMdd", "yyyy.M.d", "yyyy年M月d日")
	usualTimes = patterns("HH:mm:ss.SSSSSSSSS", "HH:mm")
	usualISO   = patterns("yyyy-M-d H:m:s", "yyyy/M/d H:m:s", "yyyyMMddHHmmss", "yyyy.M.d H:m:s", "yyyy-M-d H:m", "yyyy/M/d H:m",
		"yyyy-MM-dd", "yyyy/MM/dd", "yyyy年M月d日 H时m分s秒")
)

func patterns(texts ...string) []*Pattern {
	out := make([]*Pattern, len(texts))
	for i, t := range texts {
		out[i] = MustPattern(t)
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
	return int32(Days(c.Year, c.Month, c.Day)), nil
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

// instant is the clock in the unit of a scale; nanoseconds reach from 1677 to 2262 only.
func (c *Clock) instant(scale int) (int64, error) {
	secs := Days(c.Year, c.Month, c.Day)*86400 + int64(c.Hour*3600+c.Minute*60+c.Sec) - int64(c.Offset)
	unit := UnitNanos(scale)
	per := 1000000000 / unit
	if secs > (1<<63-1)/per-1 || secs < -(1<<63-1)/per+1 {
		return 0, errRange
	}
	return secs*per + int64(c.Nano)/unit, nil
}

// UnitNanos is the length in nanoseconds of the unit in which date-times of a scale are kept.
func UnitNanos(scale int) int64 {
	if scale > 6 {
		return 1
	}
	return 1000
}

// Days counts from 1970-01-01 in the proleptic Gregorian calendar.
func Days(y, m, d int) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	yoe := y - era*400
	doy := (153*(m-3)+2)/5 + d - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return int64(era)*146097 + int64(doe) - 719468
}

// Civil is the inverse of Days.
func Civil(days int64) (y, m, d int) {
	z := days + 719468
	era := z / 146097
	if z < 0 {
		era = (z - 146096) / 146097
	}
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = int(doy - (153*mp+2)/5 + 1)
	m = int(mp + 3)
	if m > 12 {
		m -= 12
	}
	y = int(yoe + era*400)
	if m <= 2 {
		y++
	}
	return y, m, d
}

// clock reads HH:mm:ss with an optional fraction of up to nine digits.
func clock(b []byte) (c Clock, ok bool) {
	if len(b) < 8 || b[2] != ':' || b[5] != ':' {
		return c, false
	}
	h, m, s := two(b), two(b[3:]), two(b[6:])
	if h > 23 || m > 59 || s > 59 {
		return c, false
	}
	c = Clock{Year: 1970, Month: 1, Day: 1, Hour: int(h), Minute: int(m), Sec: int(s), HasClock: true}
	c.Nano, ok = fraction(b[8:])
	return c, ok
}

// fraction reads nothing, or a point (or comma) and one to nine digits.
func fraction(b []byte) (int, bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] != '.' && b[0] != ',' || len(b) < 2 || len(b) > 10 {
		return 0, false
	}
	n := 0
	for _, c := range b[1:] {
		c -= '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int(c)
	}
	for i := len(b); i < 10; i++ {
		n *= 10
	}
	return n, true
}

// isoStamp reads yyyy-MM-dd (or with slashes), T or a blank, HH:mm[:ss[.fraction]], and an optional offset.
func isoStamp(b []byte) (c Clock, ok bool) {
	if len(b) < 16 || b[4] != b[7] || b[4] != '-' && b[4] != '/' || b[10] != 'T' && b[10] != ' ' || b[13] != ':' {
		return c, false
	}
	y1, y2, mo, d, h, mi := two(b), two(b[2:]), two(b[5:]), two(b[8:]), two(b[11:]), two(b[14:])
	if y1|y2|mo|d|h|mi > 127 {
		return c, false
	}
	c = Clock{Year: int(y1*100 + y2), Month: int(mo), Day: int(d), Hour: int(h), Minute: int(mi), HasClock: true}
	rest := b[16:]
	if len(rest) >= 3 && rest[0] == ':' {
		s := two(rest[1:])
		if s > 59 {
			return c, false
		}
		c.Sec = int(s)
		rest = rest[3:]
	}
	end := 0
	for end < len(rest) && rest[end] != 'Z' && rest[end] != '+' && rest[end] != '-' {
		end++
	}
	if c.Nano, ok = fraction(rest[:end]); !ok {
		return c, false
	}
	if end < len(rest) {
		m := matcher{b: rest, at: end}
		if !m.offset(nil) || m.at != len(rest) {
			return c, false
		}
		c.Offset, c.HasOffset = m.c.Offset, true
	}
	return c, c.valid()
}

// ClockOf splits an instant in the unit of a scale.
func ClockOf(v int64, scale int) Clock {
	unit := UnitNanos(scale)
	per := 1000000000 / unit
	secs, part := v/per, v%per
	if part < 0 {
		secs, part = secs-1, part+per
	}
	day, in := secs/86400, secs%86400
	if in < 0 {
		day, in = day-1, in+86400
	}
	c := Clock{Hour: int(in / 3600), Minute: int(in / 60 % 60), Sec: int(in % 60), Nano: int(part * unit), HasClock: true}
	c.Year, c.Month, c.Day = Civil(day)
	return c
}

// AppendDate writes days since 1970-01-01.
func (f *Formats) AppendDate(dst []byte, days int32) []byte {
	var c Clock
	c.Year, c.Month, c.Day = Civil(int64(days))
	return f.date.Append(dst, &c)
}

// AppendTime writes a time of day kept in the unit of a scale.
func (f *Formats) AppendTime(dst []byte, v int64, scale int) []byte {
	c := ClockOf(v, scale)
	return f.time.Append(dst, &c)
}

// AppendTimestamp writes a date and time without zone.
func (f *Formats) AppendTimestamp(dst []byte, v int64, scale int) []byte {
	c := ClockOf(v, scale)
	return f.stamp.Append(dst, &c)
}

// AppendTimestampTZ writes an instant, by the pattern where it has an offset, else as ISO 8601 in UTC.
func (f *Formats) AppendTimestampTZ(dst []byte, v int64, scale int) []byte {
	c := ClockOf(v, scale)
	c.HasOffset = true
	if f.zoned != nil {
		return f.zoned.Append(dst, &c)
	}
	return append(AppendISO(dst, v, scale), 'Z')
}

var (
	isoDate  = MustPattern("yyyy-MM-dd")
	isoClock = MustPattern("HH:mm:ss")
)

// AppendISO writes yyyy-MM-ddTHH:mm:ss and as many digits of the second as there are, as Java's
// ISO_LOCAL_DATE_TIME does.
func AppendISO(dst []byte, v int64, scale int) []byte {
	c := ClockOf(v, scale)
	dst = isoDate.Append(dst, &c)
	dst = append(dst, 'T')
	return appendClock(dst, &c)
}

// AppendISODate writes yyyy-MM-dd.
func AppendISODate(dst []byte, days int32) []byte {
	var c Clock
	c.Year, c.Month, c.Day = Civil(int64(days))
	return isoDate.Append(dst, &c)
}

// AppendISOTime writes HH:mm:ss and as many digits of the second as there are.
func AppendISOTime(dst []byte, v int64, scale int) []byte {
	c := ClockOf(v, scale)
	return appendClock(dst, &c)
}

func appendClock(dst []byte, c *Clock) []byte {
	dst = isoClock.Append(dst, c)
	if c.Nano == 0 {
		return dst
	}
	n, width := c.Nano, 9
	for n%10 == 0 {
		n /= 10
		width--
	}
	return pad(append(dst, '.'), n, width)
}

// Temporal says that a kind is read by Formats.
func Temporal(k schema.Kind) bool {
	return k == schema.Date || k == schema.Time || k == schema.Timestamp || k == schema.TimestampTZ
}
