package config

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"strait/plan/fault"
)

// reserved are the characters HOCON does not allow outside quotes.
const reserved = "$\"{}[]:=,+#`^?!@*&\\"

// typeLook bounds the search for the end of decimal(10,2) or map<string, int>.
const typeLook = 256

// lexer walks over the text of a job file. It only moves forward, so that lines and columns cost one pass.
type lexer struct {
	src   string
	off   int
	file  string
	line  int // of off, from 1
	col   int // of off in characters, from 1
	text  int // offset of the first character of the line that is no blank
	fixed *fault.Position
	list  *fault.List
	where func() string // the option path for messages; may be nil
	// broken says that a quote was left open: brackets further on cannot be trusted.
	broken   bool
	comments []span // of text that was read
}

func newLexer(src, file string, list *fault.List) *lexer {
	x := &lexer{src: src, file: file, line: 1, col: 1, list: list}
	x.beginLine()
	return x
}

// beginLine notes the indentation of the line that begins at off.
func (x *lexer) beginLine() {
	x.text = x.off
	for x.text < len(x.src) && (x.src[x.text] == ' ' || x.src[x.text] == '\t') {
		x.text++
	}
}

// indent is the number of blanks before the line's first character.
func (x *lexer) indent() int {
	start := x.text
	for start > 0 && (x.src[start-1] == ' ' || x.src[start-1] == '\t') {
		start--
	}
	return x.text - start
}

func (x *lexer) fault(at fault.Position, found, remedy string) {
	path := ""
	if x.where != nil {
		path = x.where()
	}
	mistake(x.list, at, path, found, remedy)
}

// pos is the place of the next character. Text that came in by a variable has the variable's place.
func (x *lexer) pos() fault.Position {
	if x.fixed != nil {
		return *x.fixed
	}
	return fault.Position{File: x.file, Line: x.line, Column: x.col}
}

func (x *lexer) atEnd() bool { return x.off >= len(x.src) }

// peek is the next byte, 0 at the end.
func (x *lexer) peek() byte {
	if x.atEnd() {
		return 0
	}
	return x.src[x.off]
}

func (x *lexer) has(prefix string) bool { return strings.HasPrefix(x.src[x.off:], prefix) }

// advance steps over n bytes and returns them.
func (x *lexer) advance(n int) string {
	start, s := x.off, x.src[x.off:x.off+n]
	for i := 0; i < n; i++ {
		if s[i] == '\n' {
			x.line++
			x.col = 1
			x.off = start + i + 1
			x.beginLine()
		} else if utf8.RuneStart(s[i]) {
			x.col++
		}
	}
	x.off = start + n
	return s
}

// isSpace follows HOCON: Unicode spaces, the byte order mark and the spaces that do not break, but no newline.
func isSpace(c rune) bool {
	switch c {
	case '\n':
		return false
	case '\u00a0', '\u2007', '\u202f', '\ufeff', 0x1c, 0x1d, 0x1e, 0x1f:
		return true
	}
	return unicode.IsSpace(c)
}

// space steps over blanks within the line and returns them.
func (x *lexer) space() string {
	n := 0
	for x.off+n < len(x.src) {
		c, w := utf8.DecodeRuneInString(x.src[x.off+n:])
		if !isSpace(c) {
			break
		}
		n += w
	}
	return x.advance(n)
}

func (x *lexer) atComment() bool { return x.peek() == '#' || x.has("//") }

// toLineEnd steps to the newline, which stays.
func (x *lexer) toLineEnd() {
	n := strings.IndexByte(x.src[x.off:], '\n')
	if n < 0 {
		n = len(x.src) - x.off
	}
	x.advance(n)
}

// blank steps over blanks, newlines and comments, and says whether a newline was among them.
func (x *lexer) blank() (newline bool) {
	for {
		x.space()
		switch {
		case x.peek() == '\n':
			newline = true
			x.advance(1)
		case x.atComment():
			from := x.off
			x.toLineEnd()
			x.comments = append(x.comments, span{from, x.off})
		default:
			return newline
		}
	}
}

// quoted reads a string in quotes or triple quotes; the next character is a quote. Of an unclosed string it
// reports the line it was opened on and reads to the end of that line.
func (x *lexer) quoted() string {
	at := x.pos()
	if x.has(`"""`) {
		return x.triple(at)
	}
	x.advance(1)
	var b strings.Builder
	plain := x.off // start of what is not yet copied
	for {
		n := strings.IndexAny(x.src[x.off:], "\"\\\n")
		if n < 0 || x.src[x.off+n] == '\n' {
			if n < 0 {
				n = len(x.src) - x.off
			}
			x.advance(n)
			b.WriteString(x.src[plain:x.off])
			x.broken = true
			x.fault(at, `the quote opened here is not closed on its line`,
				`write the closing " (text over several lines stands between """ and """)`)
			return b.String()
		}
		x.advance(n)
		b.WriteString(x.src[plain:x.off])
		if x.peek() == '"' {
			x.advance(1)
			return b.String()
		}
		x.escape(&b)
		plain = x.off
	}
}

func (x *lexer) triple(at fault.Position) string {
	x.advance(3)
	n := strings.Index(x.src[x.off:], `"""`)
	if n < 0 {
		x.advance(len(x.src) - x.off)
		x.broken = true
		x.fault(at, `the """ opened here is never closed`, `write """ behind the text`)
		return ""
	}
	for x.off+n+3 < len(x.src) && x.src[x.off+n+3] == '"' {
		n++ // of four quotes and more the last three close
	}
	s := x.advance(n)
	x.advance(3)
	return s
}

// escape reads one escape sequence; the next character is a backslash.
func (x *lexer) escape(b *strings.Builder) {
	at := x.pos()
	x.advance(1)
	if x.atEnd() {
		return // quoted reports the open quote
	}
	c, w := utf8.DecodeRuneInString(x.src[x.off:])
	if c == '\n' {
		return
	}
	x.advance(w)
	switch c {
	case '"', '\\', '/':
		b.WriteRune(c)
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'n':
		b.WriteByte('\n')
	case 'r':
		b.WriteByte('\r')
	case 't':
		b.WriteByte('\t')
	case 'u':
		x.unicode(b, at)
	default:
		if c < ' ' {
			c = ' '
		}
		x.fault(at, `\`+string(c)+` is no escape sequence`,
			`write \\ for a backslash (in a path or a regular expression), or put the text between """ and """`)
	}
}

// unicode reads the four digits behind \u, and the second half of a surrogate pair.
func (x *lexer) unicode(b *strings.Builder, at fault.Position) {
	c, ok := x.hex4()
	if ok && c >= 0xd800 && c < 0xdc00 && x.has(`\u`) {
		x.advance(2)
		var low rune
		if low, ok = x.hex4(); ok {
			ok = low >= 0xdc00 && low < 0xe000
			c = (c-0xd800)<<10 + (low - 0xdc00) + 0x10000
		}
	}
	if !ok || c >= 0xd800 && c < 0xe000 {
		x.fault(at, `\u is not followed by the four hexadecimal digits of a character`,
			`write for example \u0001, or \\u for a backslash and a u`)
		return
	}
	b.WriteRune(c)
}

func (x *lexer) hex4() (rune, bool) {
	if len(x.src)-x.off < 4 {
		return 0, false
	}
	var c rune
	for i := 0; i < 4; i++ {
		d := x.src[x.off+i]
		switch {
		case d >= '0' && d <= '9':
			d -= '0'
		case d >= 'a' && d <= 'f':
			d -= 'a' - 10
		case d >= 'A' && d <= 'F':
			d -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | rune(d)
	}
	x.advance(4)
	return c, true
}

// word reads text outside quotes up to a blank, a comment or a reserved character. In a value it may hold the
// commas of decimal(10,2) and map<string, int>, and with colons the ones of http://host:80/x. Nothing is read
// where the next character is reserved.
func (x *lexer) word(value, colons bool) string {
	n, number := 0, false
	src := x.src[x.off:]
	if src != "" && (src[0] == '-' || src[0] >= '0' && src[0] <= '9') {
		number = true // the sign of 1e+5 belongs to the number
	}
	for n < len(src) {
		c, w := utf8.DecodeRuneInString(src[n:])
		switch {
		case c == '\n' || isSpace(c):
			return x.advance(n)
		case c == '/' && strings.HasPrefix(src[n:], "//"):
			if n == 0 || src[n-1] != ':' {
				return x.advance(n)
			}
			w = 2
		case c == ':' && value && colons && n > 0 && wordGoesOn(src[n+1:]):
		case c == '+' && number && n > 0 && (src[n-1] == 'e' || src[n-1] == 'E') && digit(src[n+1:]):
		case c < 0x80 && strings.ContainsRune(reserved, c) || c < ' ' || c == 0x7f:
			return x.advance(n)
		case value && (c == '(' || c == '<') && n > 0 && src[n-1] >= '0' && src[n-1] != '<':
			if end := typeEnd(src[n:]); end > 0 {
				w = end
			}
		}
		if number && !strings.ContainsRune("0123456789eE+-.", c) {
			number = false
		}
		n += w
	}
	return x.advance(n)
}

func digit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

func wordGoesOn(s string) bool {
	c, _ := utf8.DecodeRuneInString(s)
	return s != "" && c != '\n' && !isSpace(c) && !strings.ContainsRune(reserved, c)
}

// typeEnd finds the end of the brackets a type name goes on with: (10,2) or <string, array<int>>. It gives 0 when
// they are not closed on the line or hold anything but names, numbers and commas.
func typeEnd(s string) int {
	depth := 0
	for i := 0; i < len(s) && i < typeLook; i++ {
		switch c := s[i]; {
		case c == '(' || c == '<':
			depth++
		case c == ')' || c == '>':
			if depth--; depth == 0 {
				return i + 1
			}
		case c == ',' || c == ' ' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		default:
			return 0
		}
	}
	return 0
}

// variable reads ${…} and returns what stands between the braces; the next characters are ${. An unclosed one is
// reported and read to the end of the line.
func (x *lexer) variable() string {
	at := x.pos()
	rest := x.src[x.off:]
	if line := strings.IndexByte(rest, '\n'); line >= 0 {
		rest = rest[:line]
	}
	end := variableEnd(rest, true)
	if end < 0 {
		x.toLineEnd()
		x.broken = true
		x.fault(at, "the ${ opened here is not closed on its line", "write ${name} or ${name:default}")
		return ""
	}
	return x.advance(end)[2 : end-1]
}

// variableEnd gives the length of the ${…} at the beginning of s, or -1. A default may hold further ${…}, and
// outside of quoted text (quotes is true) a string in quotes.
func variableEnd(s string, quotes bool) int {
	depth := 1
	for i := 2; i < len(s); i++ {
		switch {
		case s[i] == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case s[i] == '$' && i+1 < len(s) && s[i+1] == '{':
			depth++
			i++
		case s[i] == '"' && quotes:
			n := strings.IndexByte(s[i+1:], '"')
			if n < 0 {
				return -1
			}
			i += n + 1
		}
	}
	return -1
}
