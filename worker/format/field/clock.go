package field

// Clock is a date and a time of day in parts, with the offset from UTC where the text has one.
type Clock struct {
	Year, Month, Day    int
	Hour, Minute, Sec   int
	Nano                int
	Offset              int // seconds east of UTC
	HasOffset, HasClock bool
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

// clockOf splits an instant in the unit of a scale.
func clockOf(v int64, scale int) Clock {
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
	c.Year, c.Month, c.Day = civil(day)
	return c
}

// instant is the clock in the unit of a scale; nanoseconds reach from 1677 to 2262 only.
func (c *Clock) instant(scale int) (int64, error) {
	secs := dayNumber(c.Year, c.Month, c.Day)*86400 + int64(c.Hour*3600+c.Minute*60+c.Sec) - int64(c.Offset)
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

// dayNumber counts from 1970-01-01 in the proleptic Gregorian calendar.
func dayNumber(y, m, d int) int64 {
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

// civil is the inverse of dayNumber.
func civil(days int64) (y, m, d int) {
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
