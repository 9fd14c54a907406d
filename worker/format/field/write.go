package field

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
