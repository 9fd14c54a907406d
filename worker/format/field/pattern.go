package field

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Clock is a date and a time of day in parts, with the offset from UTC where the text has one.
type Clock struct {
	Year, Month, Day    int
	Hour, Minute, Sec   int
	Nano                int
	Offset              int // seconds east of UTC
	HasOffset, HasClock bool
}

// Pattern is a Java date-time pattern such as yyyy-MM-dd HH:mm:ss, compiled to a small program.
//
// Letters: y u (year), M L (month), d (day), H (0-23), k (1-24), h K (12 hours, with a), m, s, S (fraction), n (nanoseconds), a,
// X x Z (offset). Text stands in quotes, [ ] encloses a part that may be absent. Others are refused.
type Pattern struct {
	text string
	ops  []op
	fast layout
}

type opKind uint8

const (
	opLiteral opKind = iota
	opYear
	opMonth
	opMonthName
	opDay
	opHour
	opHour24 // 1-24
	opHour12 // 1-12
	opHour11 // 0-11
	opMinute
	opSecond
	opFraction
	opNano
	opHalf // AM, PM
	opOffset
	opOptional // skip to jump where the part does not match
	opEnd      // of an optional part
)

type op struct {
	kind opKind
	n    int // letters
	lit  string
	jump int
	z    bool // opOffset: Z stands for zero
	next bool // digits of another number follow at once: exactly n digits
}

// layout is a pattern of the form yyyy?MM?dd or yyyy?MM?dd?HH?mm?ss, possibly with a point and a fraction: one
// length check, digits at known places.
type layout struct {
	kind     uint8 // 0: none, 1: date, 2: date and time
	fraction int   // digits, with the byte before them in sep[5]
	sep      [6]byte
}

// ParsePattern compiles a pattern.
func ParsePattern(s string) (*Pattern, error) {
	p := &Pattern{text: s}
	var open []int
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\'':
			lit, n, err := quoted(s[i:])
			if err != nil {
				return nil, fmt.Errorf("pattern %q: %w", s, err)
			}
			p.literal(lit)
			i += n
		case c == '[':
			open = append(open, len(p.ops))
			p.ops = append(p.ops, op{kind: opOptional})
			i++
		case c == ']':
			if len(open) == 0 {
				return nil, fmt.Errorf("pattern %q has a ] without a [", s)
			}
			p.ops = append(p.ops, op{kind: opEnd})
			p.ops[open[len(open)-1]].jump = len(p.ops)
			open = open[:len(open)-1]
			i++
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			n := 1
			for i+n < len(s) && s[i+n] == c {
				n++
			}
			o, err := letter(c, n)
			if err != nil {
				return nil, fmt.Errorf("pattern %q: %w", s, err)
			}
			p.ops = append(p.ops, o)
			i += n
		case c == '{' || c == '}' || c == '#':
			return nil, fmt.Errorf("pattern %q: %q is reserved; put it in single quotes", s, c)
		default:
			_, n := utf8.DecodeRuneInString(s[i:])
			p.literal(s[i : i+n])
			i += n
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("pattern %q has a [ without a ]", s)
	}
	if len(p.ops) == 0 {
		return nil, fmt.Errorf("the pattern is empty")
	}
	for i := range p.ops {
		p.ops[i].next = i+1 < len(p.ops) && p.ops[i].number() && p.ops[i+1].number()
	}
	p.fast = p.layout()
	return p, nil
}

// MustPattern is ParsePattern for patterns known to be right.
func MustPattern(s string) *Pattern {
	p, err := ParsePattern(s)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return p
}

// String is the pattern as written.
func (p *Pattern) String() string { return p.text }

func quoted(s string) (string, int, error) {
	if strings.HasPrefix(s, "''") {
		return "'", 2, nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != '\'' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '\'' {
			b.WriteByte('\'')
			i++
			continue
		}
		return b.String(), i + 1, nil
	}
	return "", 0, fmt.Errorf("a quote is not closed")
}

func (p *Pattern) literal(s string) {
	if n := len(p.ops); n > 0 && p.ops[n-1].kind == opLiteral {
		p.ops[n-1].lit += s
		return
	}
	p.ops = append(p.ops, op{kind: opLiteral, lit: s})
}

func letter(c byte, n int) (op, error) {
	switch c {
	case 'y', 'u':
		return op{kind: opYear, n: n}, nil
	case 'M', 'L':
		if n >= 3 {
			return op{kind: opMonthName, n: n}, nil
		}
		return op{kind: opMonth, n: n}, nil
	case 'd':
		return op{kind: opDay, n: n}, nil
	case 'H':
		return op{kind: opHour, n: n}, nil
	case 'k':
		return op{kind: opHour24, n: n}, nil
	case 'h':
		return op{kind: opHour12, n: n}, nil
	case 'K':
		return op{kind: opHour11, n: n}, nil
	case 'm':
		return op{kind: opMinute, n: n}, nil
	case 's':
		return op{kind: opSecond, n: n}, nil
	case 'S':
		if n > 9 {
			return op{}, fmt.Errorf("a fraction has at most 9 digits")
		}
		return op{kind: opFraction, n: n}, nil
	case 'n':
		return op{kind: opNano, n: n}, nil
	case 'a':
		return op{kind: opHalf, n: n}, nil
	case 'X':
		return op{kind: opOffset, n: n, z: true}, nil
	case 'x', 'Z':
		return op{kind: opOffset, n: n}, nil
	}
	return op{}, fmt.Errorf("letter %q is not known", c)
}

func (o op) number() bool {
	switch o.kind {
	case opYear, opMonth, opDay, opHour, opHour24, opHour12, opHour11, opMinute, opSecond, opFraction, opNano:
		return true
	}
	return false
}

func (p *Pattern) layout() layout {
	want := []struct {
		kind opKind
		n    int
	}{{opYear, 4}, {opMonth, 2}, {opDay, 2}, {opHour, 2}, {opMinute, 2}, {opSecond, 2}}
	var l layout
	for i, w := range want {
		at := 2 * i
		if at >= len(p.ops) {
			return layout{}
		}
		if o := p.ops[at]; o.kind != w.kind || o.n != w.n {
			return layout{}
		}
		if at+1 == len(p.ops) {
			switch i {
			case 2:
				l.kind = 1
			case 5:
				l.kind = 2
			}
			return l
		}
		sep := p.ops[at+1]
		if sep.kind != opLiteral || len(sep.lit) != 1 {
			return layout{}
		}
		l.sep[i] = sep.lit[0]
	}
	if len(p.ops) == 13 && p.ops[12].kind == opFraction {
		l.kind, l.fraction = 2, p.ops[12].n
		return l
	}
	return layout{}
}

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

var monthDays = [13]int8{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func (c *Clock) valid() bool {
	if uint(c.Month-1) > 11 || c.Day < 1 || c.Day > int(monthDays[c.Month]) {
		return false
	}
	if c.Month == 2 && c.Day == 29 && !leap(c.Year) {
		return false
	}
	return uint(c.Hour) < 24 && uint(c.Minute) < 60 && uint(c.Sec) < 60
}

func leap(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

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
		return m.offset(o)
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
func (m *matcher) offset(*op) bool {
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

var monthNames = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September",
	"October", "November", "December"}

// Append writes the clock by the pattern. Optional parts are written.
func (p *Pattern) Append(dst []byte, c *Clock) []byte {
	if p.fast.kind != 0 && c.Year >= 0 && c.Year <= 9999 {
		return p.fast.append(dst, c)
	}
	for i := range p.ops {
		o := &p.ops[i]
		switch o.kind {
		case opLiteral:
			dst = append(dst, o.lit...)
		case opYear:
			y := c.Year
			if o.n == 2 {
				y = (y%100 + 100) % 100
			}
			if y < 0 {
				dst, y = append(dst, '-'), -y
			}
			dst = pad(dst, y, o.n)
		case opMonth:
			dst = pad(dst, c.Month, o.n)
		case opMonthName:
			name := monthNames[c.Month-1]
			if o.n == 3 {
				name = name[:3]
			}
			dst = append(dst, name...)
		case opDay:
			dst = pad(dst, c.Day, o.n)
		case opHour:
			dst = pad(dst, c.Hour, o.n)
		case opHour24:
			dst = pad(dst, (c.Hour+23)%24+1, o.n)
		case opHour12:
			dst = pad(dst, (c.Hour+11)%12+1, o.n)
		case opHour11:
			dst = pad(dst, c.Hour%12, o.n)
		case opMinute:
			dst = pad(dst, c.Minute, o.n)
		case opSecond:
			dst = pad(dst, c.Sec, o.n)
		case opFraction:
			v := c.Nano
			for k := o.n; k < 9; k++ {
				v /= 10
			}
			dst = pad(dst, v, o.n)
		case opNano:
			dst = pad(dst, c.Nano, o.n)
		case opHalf:
			if c.Hour < 12 {
				dst = append(dst, "AM"...)
			} else {
				dst = append(dst, "PM"...)
			}
		case opOffset:
			dst = appendOffset(dst, c.Offset, o)
		}
	}
	return dst
}

func (l *layout) append(dst []byte, c *Clock) []byte {
	dst = append(dst, byte('0'+c.Year/1000), byte('0'+c.Year/100%10), byte('0'+c.Year/10%10), byte('0'+c.Year%10), l.sep[0])
	dst = append(dst, byte('0'+c.Month/10), byte('0'+c.Month%10), l.sep[1], byte('0'+c.Day/10), byte('0'+c.Day%10))
	if l.kind == 1 {
		return dst
	}
	dst = append(dst, l.sep[2], byte('0'+c.Hour/10), byte('0'+c.Hour%10), l.sep[3], byte('0'+c.Minute/10), byte('0'+c.Minute%10),
		l.sep[4], byte('0'+c.Sec/10), byte('0'+c.Sec%10))
	if l.fraction > 0 {
		dst = append(dst, l.sep[5])
		v := c.Nano
		for k := l.fraction; k < 9; k++ {
			v /= 10
		}
		dst = pad(dst, v, l.fraction)
	}
	return dst
}

func pad(dst []byte, v, n int) []byte {
	var buf [20]byte
	i := len(buf)
	for v > 0 || i == len(buf) {
		i--
		buf[i] = byte('0' + v%10)
		v /= 10
	}
	for len(buf)-i < n {
		i--
		buf[i] = '0'
	}
	return append(dst, buf[i:]...)
}

func appendOffset(dst []byte, off int, o *op) []byte {
	if off == 0 && o.z {
		return append(dst, 'Z')
	}
	sign := byte('+')
	if off < 0 {
		sign, off = '-', -off
	}
	dst = append(dst, sign)
	dst = pad(dst, off/3600, 2)
	if o.n == 3 || o.n == 5 {
		dst = append(dst, ':')
	}
	return pad(dst, off/60%60, 2)
}
