package field

import "strings"

// Parse reads text of the pattern. All of b must match and the parts must exist in the calendar.
func (p *Pattern) Parse(b []byte) (Clock, bool) {
	if p.fast.kind != 0 {
		if c, ok := p.fast.parse(b); ok {
			return c, true
		}
	}
	m := matcher{b: b, c: Clock{Year: 1970, Month: 1, Day: 1}, half: -1}
	if !m.run(p.ops, 0) || m.at != len(b) {
		return Clock{}, false
	}
	if m.half >= 0 {
		if m.c.Hour > 12 {
			return Clock{}, false
		}
		m.c.Hour = m.c.Hour%12 + 12*m.half
	}
	return m.c, m.c.valid()
}

func (l *layout) parse(b []byte) (c Clock, ok bool) {
	n := 10
	if l.kind == 2 {
		n = 19
		if l.fraction > 0 {
			n = 20 + l.fraction
		}
	}
	if len(b) != n || b[4] != l.sep[0] || b[7] != l.sep[1] {
		return c, false
	}
	y1, y2 := two(b[0:]), two(b[2:])
	mo, d := two(b[5:]), two(b[8:])
	bad := y1 | y2 | mo | d
	c.Year, c.Month, c.Day = int(y1*100+y2), int(mo), int(d)
	if l.kind == 2 {
		if b[10] != l.sep[2] || b[13] != l.sep[3] || b[16] != l.sep[4] {
			return c, false
		}
		h, mi, s := two(b[11:]), two(b[14:]), two(b[17:])
		bad |= h | mi | s
		c.Hour, c.Minute, c.Sec, c.HasClock = int(h), int(mi), int(s), true
		if l.fraction > 0 {
			if b[19] != l.sep[5] {
				return c, false
			}
			nano, scale := 0, 1000000000
			for _, x := range b[20:] {
				x -= '0'
				if x > 9 {
					return c, false
				}
				nano = nano*10 + int(x)
				scale /= 10
			}
			c.Nano = nano * scale
		}
	}
	if bad > 99 {
		return c, false
	}
	return c, c.valid()
}

// two reads two digits; anything else gives a number with bit 16 set.
func two(b []byte) uint32 {
	hi, lo := uint32(b[0])-'0', uint32(b[1])-'0'
	if hi > 9 || lo > 9 {
		return 1 << 16
	}
	return hi*10 + lo
}

type matcher struct {
	b    []byte
	at   int
	c    Clock
	half int // 0 AM, 1 PM, -1 not given
}

// run matches ops from pc on. An optional part that does not match is passed over, as java.time does.
func (m *matcher) run(ops []op, pc int) bool {
	for pc < len(ops) {
		o := &ops[pc]
		if o.kind == opOptional {
			save := *m
			if m.run(ops[:o.jump-1], pc+1) {
				pc = o.jump
				continue
			}
			*m = save
			pc = o.jump
			continue
		}
		if o.kind != opEnd && !m.step(o) {
			return false
		}
		pc++
	}
	return true
}

func (m *matcher) step(o *op) bool {
	switch o.kind {
	case opLiteral:
		if len(m.b)-m.at < len(o.lit) || string(m.b[m.at:m.at+len(o.lit)]) != o.lit {
			return false
		}
		m.at += len(o.lit)
		return true
	case opMonthName:
		for i, name := range monthNames {
			if o.n == 3 {
				name = name[:3]
			}
			if len(m.b)-m.at >= len(name) && strings.EqualFold(string(m.b[m.at:m.at+len(name)]), name) {
				m.at += len(name)
				m.c.Month = i + 1
				return true
			}
		}
		return false
	case opHalf:
		if len(m.b)-m.at < 2 || m.b[m.at+1]|0x20 != 'm' {
			return false
		}
		switch m.b[m.at] | 0x20 {
		case 'a':
			m.half = 0
		case 'p':
			m.half = 1
		default:
			return false
		}
		m.at += 2
		return true
	case opOffset:
		return m.offset()
	case opFraction:
		v, n := m.digits(o.n)
		if n != o.n {
			return false
		}
		for ; n < 9; n++ {
			v *= 10
		}
		m.c.Nano = v
		return true
	}
	return m.number(o)
}

func (m *matcher) number(o *op) bool {
	atMost := 19
	if o.next || o.n == 2 || o.kind == opYear && o.n == 4 {
		atMost = o.n
	} else if o.n == 1 && o.kind != opYear && o.kind != opNano {
		atMost = 2
	}
	neg := false
	if o.kind == opYear && m.at < len(m.b) && m.b[m.at] == '-' {
		neg = true
		m.at++
	}
	v, n := m.digits(atMost)
	if n == 0 || n < o.n {
		return false
	}
	if neg {
		v = -v
	}
	switch o.kind {
	case opYear:
		if o.n == 2 {
			v += 2000
		}
		m.c.Year = v
	case opMonth:
		m.c.Month = v
	case opDay:
		m.c.Day = v
	case opHour:
		m.c.Hour, m.c.HasClock = v, true
	case opHour24:
		if v < 1 || v > 24 {
			return false
		}
		m.c.Hour, m.c.HasClock = v%24, true
	case opHour12:
		if v < 1 || v > 12 {
			return false
		}
		m.c.Hour, m.c.HasClock = v, true
	case opHour11:
		if v > 11 {
			return false
		}
		m.c.Hour, m.c.HasClock = v, true
	case opMinute:
		m.c.Minute = v
	case opSecond:
		m.c.Sec = v
	case opNano:
		if v > 999999999 {
			return false
		}
		m.c.Nano = v
	}
	return true
}

// digits reads up to atMost digits.
func (m *matcher) digits(atMost int) (v, n int) {
	for n < atMost && n < 9 && m.at < len(m.b) {
		c := m.b[m.at] - '0'
		if c > 9 {
			break
		}
		v = v*10 + int(c)
		m.at++
		n++
	}
	return v, n
}

// offset reads Z, +hh, +hhmm or +hh:mm, whatever the number of letters.
func (m *matcher) offset() bool {
	if m.at >= len(m.b) {
		return false
	}
	m.c.HasOffset = true
	sign := 1
	switch m.b[m.at] {
	case 'Z', 'z':
		m.at++
		return true
	case '-':
		sign = -1
	case '+':
	default:
		return false
	}
	m.at++
	h, n := m.digits(2)
	if n != 2 || h > 18 {
		return false
	}
	if m.at < len(m.b) && m.b[m.at] == ':' {
		m.at++
	}
	minutes, n := m.digits(2)
	if n != 0 && n != 2 || minutes > 59 {
		return false
	}
	seconds := 0
	if n == 2 && m.at+2 < len(m.b) && m.b[m.at] == ':' {
		m.at++
		if seconds, n = m.digits(2); n != 2 || seconds > 59 {
			return false
		}
	}
	m.c.Offset = sign * (h*3600 + minutes*60 + seconds)
	return true
}
