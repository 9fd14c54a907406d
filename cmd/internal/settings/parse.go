package settings

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"strait/plan/option"
	"strait/plan/units"
)

// parse reads a value as flags and variables write it; writes is what stands before it, --slots and a space. The
// text of the error goes behind the value.
func (s *Setting) parse(text []string, writes string) (any, error) {
	t := strings.TrimSpace(text[0])
	switch s.Type {
	case Int:
		if s.Word != "" && strings.EqualFold(t, s.Word) {
			return int64(WordValue), nil
		}
		n, err := strconv.ParseInt(t, 10, 64)
		if err != nil {
			return nil, fmt.Errorf(": not a whole number; write for example %s4%s", writes, s.orWord())
		}
		if s.Min != nil && n < *s.Min {
			return nil, fmt.Errorf(": write a number from %d on%s", *s.Min, s.orWord())
		}
		return n, nil
	case Duration:
		d, err := units.ParseDuration(t, time.Second)
		if err != nil {
			return nil, fmt.Errorf(": not a duration; write for example %s30s or 5m", writes)
		}
		return d, nil
	case Bytes:
		n, err := units.ParseBytes(t)
		if err != nil {
			return nil, fmt.Errorf(": not a size; write for example %s64MiB", writes)
		}
		if s.Min != nil && n < *s.Min {
			return nil, fmt.Errorf(": write a size from %d bytes on", *s.Min)
		}
		return n, nil
	case Enum:
		for _, e := range s.Enum {
			if strings.EqualFold(e, t) {
				return e, nil
			}
		}
		return nil, fmt.Errorf(" is not known; write %s", words(s.Enum))
	case List:
		out := []string{}
		for _, e := range strings.Split(t, ",") {
			if e = strings.TrimSpace(e); e != "" {
				out = append(out, e)
			}
		}
		return out, nil
	case Pairs:
		var out []option.Pair
		for _, g := range text {
			for _, kv := range SplitPairs(g) {
				k, v, ok := strings.Cut(kv, "=")
				if k = strings.TrimSpace(k); !ok || k == "" {
					return nil, fmt.Errorf(": write %sKEY=VALUE", writes)
				}
				out = append(out, option.Pair{Key: k, Value: v})
			}
		}
		return out, nil
	}
	return text[0], nil
}

func (s *Setting) orWord() string {
	if s.Word == "" {
		return ""
	}
	return ", or " + s.Word
}

// words joins alternatives: a, b or c.
func words(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// SplitPairs takes apart what one flag says of several: a=1,b=2. A comma inside quotes or brackets, or one that no
// KEY= follows, belongs to the value.
func SplitPairs(s string) []string {
	var out []string
	depth, quote, from := 0, byte(0), 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' && strings.IndexByte(s[i+1:], '"') >= 0:
			quote = c
		case c == '[' || c == '{' || c == '(':
			depth++
		case (c == ']' || c == '}' || c == ')') && depth > 0:
			depth--
		case c == ',' && depth == 0 && beginsPair(s[i+1:]):
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

// beginsPair says whether s begins with a name and =.
func beginsPair(s string) bool {
	s = strings.TrimLeft(s, " ")
	i := strings.IndexByte(s, '=')
	if i <= 0 {
		return false
	}
	for _, r := range s[:i] {
		if !(r == '_' || r == '-' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return false
		}
	}
	return true
}
