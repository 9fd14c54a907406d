package field

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

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

// mustPattern is ParsePattern for patterns known to be right.
func mustPattern(s string) *Pattern {
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

func (p *Pattern) hasOffset() bool {
	for i := range p.ops {
		if p.ops[i].kind == opOffset {
			return true
		}
	}
	return false
}
