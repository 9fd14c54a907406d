package text

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Regex is a Java regular expression.
type Regex struct {
	re *regexp.Regexp
	// again: an empty match may follow a match at once, as Java has it and Go does not.
	again bool
}

// Compile translates a Java regular expression. The error names the construct that cannot be translated.
func Compile(pattern string) (*Regex, error) {
	tr := translator{in: pattern, dotAll: dotAllFlag.MatchString(pattern)}
	if err := tr.run(); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(tr.out.String())
	if err != nil {
		if e, ok := err.(*syntax.Error); ok {
			return nil, fmt.Errorf("is not a regular expression: %s at %q", e.Code, e.Expr)
		}
		return nil, err
	}
	r := &Regex{re: re}
	if tree, err := syntax.Parse(tr.out.String(), syntax.Perl); err == nil {
		r.again = re.MatchString("") && !looksBack(tree)
	}
	return r, nil
}

var dotAllFlag = regexp.MustCompile(`\(\?[a-z]*s[a-z]*[-:)]`)

// looksBack says that a match depends on what stands before it.
func looksBack(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	for _, s := range re.Sub {
		if looksBack(s) {
			return true
		}
	}
	return false
}

// each calls f with the places of the matches, as Java's find gives them, until it returns false.
func (r *Regex) each(s string, f func(loc []int) bool) {
	if !r.again {
		for _, loc := range r.re.FindAllStringSubmatchIndex(s, -1) {
			if !f(loc) {
				return
			}
		}
		return
	}
	for at := 0; at <= len(s); {
		loc := r.re.FindStringSubmatchIndex(s[at:])
		if loc == nil {
			return
		}
		for i := range loc {
			if loc[i] >= 0 {
				loc[i] += at
			}
		}
		if !f(loc) {
			return
		}
		at = loc[1]
		if loc[0] == loc[1] {
			_, n := utf8.DecodeRuneInString(s[at:])
			at += max(n, 1)
		}
	}
}

// translator rewrites one pattern.
type translator struct {
	in     string
	at     int
	dotAll bool
	out    strings.Builder
}

func refused(what string) error {
	return fmt.Errorf("uses %s, which this engine does not have", what)
}

const (
	lineEnds   = `\n\x0b\f\r\x{85}\x{2028}\x{2029}`
	blanks     = ` \t\x{a0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}`
	whitespace = ` \t\n\x0b\f\r`
)

func (t *translator) run() error {
	quantified := false // a quantifier has just been written
	for t.at < len(t.in) {
		c := t.in[t.at]
		rest := t.in[t.at:]
		wasQuantified := quantified
		quantified = false
		switch {
		case c == '\\':
			if err := t.escape(false); err != nil {
				return err
			}
			continue
		case c == '[':
			if err := t.class(); err != nil {
				return err
			}
			continue
		case strings.HasPrefix(rest, "(?"):
			if err := t.group(rest); err != nil {
				return err
			}
			continue
		case c == '.' && !t.dotAll:
			t.out.WriteString(`[^\n\r\x{85}\x{2028}\x{2029}]`)
		case c == '+' && wasQuantified:
			return refused("a possessive quantifier (such as *+)")
		case c == '?' && wasQuantified:
			t.out.WriteByte(c) // lazy
		case c == '*' || c == '+' || c == '?':
			t.out.WriteByte(c)
			quantified = true
		case c == '}':
			t.out.WriteByte(c)
			quantified = true
		default:
			t.out.WriteByte(c)
		}
		t.at++
	}
	return nil
}

// group writes the head of a group that begins with (?.
func (t *translator) group(rest string) error {
	for _, g := range [...]struct{ head, what string }{
		{"(?=", "look-ahead (?=…)"}, {"(?!", "look-ahead (?!…)"}, {"(?<=", "look-behind (?<=…)"}, {"(?<!", "look-behind (?<!…)"}, {"(?>", "an atomic group (?>…)"},
	} {
		if strings.HasPrefix(rest, g.head) {
			return refused(g.what)
		}
	}
	if strings.HasPrefix(rest, "(?<") {
		t.out.WriteString("(?P<")
		t.at += 3
		return nil
	}
	end := strings.IndexAny(rest, ":)")
	if end < 0 {
		return fmt.Errorf("is not a regular expression: a group is not closed")
	}
	flags := ""
	for _, f := range rest[2:end] {
		switch f {
		case 'i', 'm', 's', '-':
			flags += string(f)
		case 'u', 'd':
		default:
			return refused("the flag (?" + string(f) + ")")
		}
	}
	flags = strings.TrimSuffix(flags, "-")
	if rest[end] == ':' || flags != "" {
		t.out.WriteString("(?" + flags + rest[end:end+1])
	}
	t.at += end + 1
	return nil
}

func (t *translator) class() error {
	t.out.WriteByte('[')
	t.at++
	if t.at < len(t.in) && t.in[t.at] == '^' {
		t.out.WriteByte('^')
		t.at++
	}
	for first := true; t.at < len(t.in); first = false {
		rest := t.in[t.at:]
		switch c := rest[0]; {
		case c == ']' && !first:
			t.out.WriteByte(c)
			t.at++
			return nil
		case c == '[':
			return refused("a class within a class ([a[b]])")
		case strings.HasPrefix(rest, "&&"):
			return refused("an intersection of classes ([a&&b])")
		case c == '\\':
			if err := t.escape(true); err != nil {
				return err
			}
			continue
		default:
			t.out.WriteByte(c)
			t.at++
		}
	}
	return fmt.Errorf("is not a regular expression: a class is not closed")
}

// escape writes what begins with a backslash. inClass: it stands between brackets.
func (t *translator) escape(inClass bool) error {
	rest := t.in[t.at+1:]
	if rest == "" {
		return fmt.Errorf(`is not a regular expression: it ends with \`)
	}
	set := func(members string, not bool) error {
		t.at += 2
		return t.set(members, not, inClass, rest[:1])
	}
	switch c := rest[0]; c {
	case 'Q':
		quoted, _, _ := strings.Cut(rest[1:], `\E`)
		t.out.WriteString(regexp.QuoteMeta(quoted))
		t.at = min(t.at+2+len(quoted)+2, len(t.in))
		return nil
	case '1', '2', '3', '4', '5', '6', '7', '8', '9', 'k':
		return refused(`a back reference (\` + rest[:1] + ")")
	case 'G', 'X', 'N', 'Z':
		return refused(`\` + rest[:1])
	case 'R':
		t.out.WriteString(`(?:\r\n|[` + lineEnds + `])`)
		t.at += 2
		return nil
	case 's':
		return set(whitespace, false)
	case 'S':
		if inClass {
			break // Go's \S, which takes \x0b for no white space
		}
		return set(whitespace, true)
	case 'v', 'V':
		return set(lineEnds, c == 'V')
	case 'h', 'H':
		return set(blanks, c == 'H')
	case 'p', 'P':
		return t.property(rest, inClass)
	case 'e':
		return t.code("1b", 2)
	case 'u':
		if len(rest) >= 5 {
			return t.code(rest[1:5], 6)
		}
	case 'c':
		if len(rest) >= 2 {
			return t.code(strconv.FormatInt(int64(rest[1]^64), 16), 3)
		}
	case '0':
		n := 1
		for n < len(rest) && n < 4 && rest[n] >= '0' && rest[n] <= '7' {
			n++
		}
		if x, err := strconv.ParseInt(rest[1:n], 8, 32); err == nil {
			return t.code(strconv.FormatInt(x, 16), n+1)
		}
	}
	r, n := utf8.DecodeRuneInString(rest)
	if r < utf8.RuneSelf {
		t.out.WriteByte('\\')
	}
	t.out.WriteString(rest[:n])
	t.at += 1 + n
	return nil
}

// set writes members of a class, or all but them; name is what the pattern calls them.
func (t *translator) set(members string, not, inClass bool, name string) error {
	switch {
	case inClass && not:
		return refused(`\` + name + " within a class")
	case inClass:
		t.out.WriteString(members)
	case not:
		t.out.WriteString("[^" + members + "]")
	default:
		t.out.WriteString("[" + members + "]")
	}
	return nil
}

// code writes a character by its number in hex; n bytes of the input are done with.
func (t *translator) code(hex string, n int) error {
	t.out.WriteString(`\x{` + hex + `}`)
	t.at += n
	return nil
}

// properties are Java's names for what Go calls otherwise.
var properties = map[string]string{
	"Lower": "a-z", "Upper": "A-Z", "ASCII": `\x00-\x7f`, "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "0-9a-zA-Z", "XDigit": "0-9a-fA-F",
	"Punct": "!-/:-@\\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": ` \t`, "Cntrl": `\x00-\x1f\x7f`, "Space": whitespace,
	"javaLowerCase": `\p{Ll}`, "javaUpperCase": `\p{Lu}`, "javaWhitespace": whitespace, "IsAlphabetic": `\p{L}\p{Nl}`, "IsLetter": `\p{L}`,
	"IsDigit": `\p{Nd}`, "IsUppercase": `\p{Lu}`, "IsLowercase": `\p{Ll}`, "IsPunctuation": `\p{P}`, "IsWhite_Space": whitespace,
}

func (t *translator) property(rest string, inClass bool) error {
	name, n := rest[1:min(2, len(rest))], 2
	if strings.HasPrefix(rest, rest[:1]+"{") {
		end := strings.IndexByte(rest, '}')
		if end < 0 {
			return fmt.Errorf(`is not a regular expression: \%s{ is not closed`, rest[:1])
		}
		name, n = rest[2:end], end+1
	}
	t.at += 1 + n
	not := rest[0] == 'P'
	if members, ok := properties[name]; ok {
		return t.set(members, not, inClass, `P{`+name+`}`)
	}
	for _, prefix := range []string{"", "Is", "IsScript=", "script=", "sc=", "general_category=", "gc="} {
		short, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if _, err := regexp.Compile(`\p{` + short + `}`); err == nil {
			t.out.WriteString(`\` + rest[:1] + `{` + short + `}`)
			return nil
		}
	}
	return refused(`the property \` + rest[:1] + `{` + name + `}`)
}
