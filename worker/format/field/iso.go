package field

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
	c.Nano, ok = Fraction(b[8:])
	return c, ok
}

// Fraction reads nothing, or a point (or comma) and one to nine digits.
func Fraction(b []byte) (int, bool) {
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
	if c.Nano, ok = Fraction(rest[:end]); !ok {
		return c, false
	}
	if end < len(rest) {
		if c.Offset, c.HasOffset = Offset(rest[end:]); !c.HasOffset {
			return c, false
		}
	}
	return c, c.valid()
}

// Offset reads the seconds east of UTC: Z, +hh, +hhmm, +hh:mm or +hh:mm:ss.
func Offset(b []byte) (int, bool) {
	m := matcher{b: b}
	if !m.offset() || m.at != len(b) {
		return 0, false
	}
	return m.c.Offset, true
}

var (
	isoDate  = mustPattern("yyyy-MM-dd")
	isoClock = mustPattern("HH:mm:ss")
)

// AppendISO writes yyyy-MM-ddTHH:mm:ss and as many digits of the second as there are, as Java's
// ISO_LOCAL_DATE_TIME does.
func AppendISO(dst []byte, v int64, scale int) []byte {
	c := clockOf(v, scale)
	dst = isoDate.Append(dst, &c)
	dst = append(dst, 'T')
	return appendClock(dst, &c)
}

// AppendISODate writes yyyy-MM-dd.
func AppendISODate(dst []byte, days int32) []byte {
	var c Clock
	c.Year, c.Month, c.Day = civil(int64(days))
	return isoDate.Append(dst, &c)
}

// AppendISOTime writes HH:mm:ss and as many digits of the second as there are.
func AppendISOTime(dst []byte, v int64, scale int) []byte {
	c := clockOf(v, scale)
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

// AppendJavaDate writes a date as LocalDate.toString does.
func AppendJavaDate(dst []byte, days int32) []byte {
	var c Clock
	c.Year, c.Month, c.Day = civil(int64(days))
	return appendJavaDate(dst, &c)
}

// AppendJavaTime writes a time of day as LocalTime.toString does: seconds and a fraction only where they are not
// zero, the fraction in three, six or nine digits.
func AppendJavaTime(dst []byte, v int64, scale int) []byte {
	c := clockOf(v, scale)
	return appendJavaClock(dst, &c)
}

// AppendJavaTimestamp writes a date and a time as LocalDateTime.toString does.
func AppendJavaTimestamp(dst []byte, v int64, scale int) []byte {
	c := clockOf(v, scale)
	return appendJavaClock(append(appendJavaDate(dst, &c), 'T'), &c)
}

func appendJavaDate(dst []byte, c *Clock) []byte {
	if c.Year > 9999 {
		dst = append(dst, '+')
	}
	return isoDate.Append(dst, c)
}

func appendJavaClock(dst []byte, c *Clock) []byte {
	dst = append(pad(dst, c.Hour, 2), ':')
	dst = pad(dst, c.Minute, 2)
	if c.Sec == 0 && c.Nano == 0 {
		return dst
	}
	dst = pad(append(dst, ':'), c.Sec, 2)
	switch {
	case c.Nano == 0:
		return dst
	case c.Nano%1e6 == 0:
		return pad(append(dst, '.'), c.Nano/1e6, 3)
	case c.Nano%1e3 == 0:
		return pad(append(dst, '.'), c.Nano/1e3, 6)
	}
	return pad(append(dst, '.'), c.Nano, 9)
}
