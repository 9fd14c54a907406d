package field

import "encoding/binary"

// The quick ways read dates and timestamps of the usual layout, yyyy?MM?dd and yyyy?MM?dd?HH?mm?ss, eight bytes at
// a time. They say no to anything else, also to what is right but rare; then the general way decides.

// quick holds the layout's separators in place, zeros for the digits.
type quick struct {
	kind uint8  // as layout
	date uint64 // bytes 0 to 7: 0000?00?
	gap  byte   // between day and hour
	time uint64 // bytes 11 to 18: 00?00?00
}

func (l *layout) quick() quick {
	if l.kind == 0 || l.fraction > 0 {
		return quick{}
	}
	word := func(digits string, at1, at2 int, s1, s2 byte) uint64 {
		b := []byte(digits)
		b[at1], b[at2] = s1, s2
		return binary.LittleEndian.Uint64(b)
	}
	q := quick{kind: l.kind, date: word("0000-00-", 4, 7, l.sep[0], l.sep[1]), gap: l.sep[2]}
	if l.kind == 2 {
		q.time = word("00:00:00", 2, 5, l.sep[3], l.sep[4])
	}
	return q
}

// Added to a byte that should be a digit (0 to 9) or a separator (0), these set its high bit where it is not.
const (
	dateCheck = 0x7f76767f76767676
	timeCheck = 0x76767f76767f7676
	highBits  = 0x8080808080808080
)

// monthStart is the day of the year on which a month begins; leap years second.
var monthStart = [2][14]int16{
	{0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365},
	{0, 0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366},
}

// days reads the first ten bytes of b, which has them.
func (q *quick) days(b []byte) (int64, bool) {
	x := binary.LittleEndian.Uint64(b) ^ q.date
	d1, d2 := uint(b[8])-'0', uint(b[9])-'0'
	if ((x+dateCheck)|x)&highBits != 0 || d1 > 9 || d2 > 9 {
		return 0, false
	}
	t := x*10 + x>>8
	y := uint(t&0xff)*100 + uint(t>>16&0xff)
	m := uint(t >> 40 & 0xff)
	d := d1*10 + d2
	if m-1 > 11 {
		return 0, false
	}
	l := 0
	if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		l = 1
	}
	from := uint(monthStart[l][m])
	if d-1 >= uint(monthStart[l][m+1])-from {
		return 0, false
	}
	// days before the year, counted from year 1, then from 1970. Year 0 has 366 days and is a leap year.
	p := int64(y) - 1
	before := p*365 + p>>2 - p/100 + p/400
	if y == 0 {
		before = -366
	}
	return before - 719162 + int64(from) + int64(d) - 1, true
}

// QuickDate reads days since 1970-01-01.
func (f *Formats) QuickDate(b []byte) (int32, bool) {
	if len(b) != 10 || f.quickDate.kind != 1 {
		return 0, false
	}
	d, ok := f.quickDate.days(b)
	return int32(d), ok
}

// QuickTimestamp reads seconds since 1970-01-01 00:00:00.
func (f *Formats) QuickTimestamp(b []byte) (int64, bool) {
	q := &f.quickStamp
	if len(b) != 19 || q.kind != 2 || b[10] != q.gap {
		return 0, false
	}
	x := binary.LittleEndian.Uint64(b[11:]) ^ q.time
	if ((x+timeCheck)|x)&highBits != 0 {
		return 0, false
	}
	t := x*10 + x>>8
	h, m, s := t&0xff, t>>24&0xff, t>>48&0xff
	if h > 23 || m > 59 || s > 59 {
		return 0, false
	}
	d, ok := q.days(b)
	return d*86400 + int64(h*3600+m*60+s), ok
}
