package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"strait/plan/fault"
)

// The reader's limits. A job file that meets one is a mistake or an attack.
const (
	maxDepth  = 200
	maxValues = 500_000
	maxFaults = 30
)

// reader walks once through the lexer's text. It writes the sanitised text and fills the side table.
type reader struct {
	lx       *lexer
	list     *fault.List
	shape    *shape
	vars     *variables
	json     bool // a JSON file: source, transform and sink are lists already, deeper ones are plain objects
	out      []byte
	open     []opener
	depth    int
	path     []crumb
	plugged  map[string]int // plugins read so far of a section of the root
	hint     string         // which bracket looks unclosed by its indentation
	quit     bool           // a limit was met or too much is wrong: stop reading
	indentOf int            // the line that indent is of
	indent   int
	ended    bool // the end of the text inside a bracket was reported
}

func newReader(lx *lexer, vars *variables) *reader {
	r := &reader{lx: lx, list: lx.list, shape: &shape{}, vars: vars, plugged: map[string]int{}}
	lx.where = r.where
	return r
}

// opener is a bracket that waits for its end.
type opener struct {
	ch     byte
	pos    fault.Position
	indent int
}

// crumb is one step of the option path in messages.
type crumb struct {
	name    string
	ordinal int // of a plugin in its section, else -1
}

// where is the option path of what is being read.
func (r *reader) where() string {
	var b strings.Builder
	for i, c := range r.path {
		name := c.name
		if strings.ContainsFunc(name, unicode.IsControl) {
			name = strconv.Quote(name)
		}
		switch {
		case c.ordinal >= 0:
			fmt.Fprintf(&b, "[%d] (%s)", c.ordinal, name)
		case i == 0:
			b.WriteString(name)
		case r.path[i-1].ordinal >= 0:
			b.WriteString(": " + name)
		default:
			b.WriteString("." + name)
		}
		if b.Len() > 200 {
			return b.String()[:strings.LastIndexAny(b.String()[:200], ".: ")] + "..."
		}
	}
	return b.String()
}

func (r *reader) fault(at fault.Position, found, remedy string) {
	mistake(r.list, at, r.where(), found, remedy)
	if r.list.Len() >= maxFaults {
		r.quit = true
	}
}

func (r *reader) emit(parts ...string) {
	for _, s := range parts {
		r.out = append(r.out, s...)
	}
}

// root reads the whole text into scope 0.
func (r *reader) root() *scope {
	sc := r.shape.newScope(r.lx.pos())
	r.emit("{\n", `o="`, sc.id, "\"\n")
	r.lx.blank()
	if r.lx.peek() == '[' {
		remedy := "a job file is an object: env { … } source { … } sink { … }"
		if r.vars.plain {
			remedy = "write key = value or key { … }"
		}
		r.fault(r.lx.pos(), "the file begins with a list", remedy)
		return sc
	}
	if r.lx.peek() == '{' {
		r.push()
		r.fields(sc, '}')
		for !r.quit && !r.ended {
			if r.lx.blank(); r.lx.atEnd() {
				break
			}
			r.fault(r.lx.pos(), fmt.Sprintf("found %s behind the } that ends the file's object", r.found()), "move it before that }, or remove the outer braces")
			r.quit = true
		}
	} else {
		r.fields(sc, 0)
	}
	r.emit("}\n")
	return sc
}

// goesOn says that no limit is met.
func (r *reader) goesOn() bool {
	r.quit = r.quit || r.list.Len() >= maxFaults
	return !r.quit
}

// count bounds the number of values.
func (r *reader) count(at fault.Position) {
	if len(r.shape.leaves)+len(r.shape.scopes)+len(r.shape.lists) > maxValues && !r.quit {
		r.fault(at, fmt.Sprintf("more than %d values", maxValues), "")
		r.quit = true
	}
}

// push steps over the opening bracket.
func (r *reader) push() {
	x := r.lx
	if r.indentOf != x.line {
		r.indentOf, r.indent = x.line, x.indent()
	}
	r.open = append(r.open, opener{x.peek(), x.pos(), r.indent})
	if len(r.open) > maxDepth {
		r.tooDeep(x.pos())
	}
	x.advance(1)
}

func (r *reader) tooDeep(at fault.Position) {
	if !r.quit {
		r.fault(at, fmt.Sprintf("nesting deeper than %d", maxDepth), "")
		r.quit = true
	}
}

// closing handles a } or ] that is next; it says whether the innermost bracket ends here.
func (r *reader) closing() bool {
	x, n := r.lx, len(r.open)
	c := x.peek()
	if n == 0 {
		r.bracketFault(x.pos(), fmt.Sprintf("this %c closes nothing", c), "remove it, or look for a bracket closed too early before it")
		x.advance(1)
		return false
	}
	top := r.open[n-1]
	if (top.ch == '{') == (c == '}') {
		if x.off == x.text && r.hint == "" && x.indent() != top.indent {
			r.hint = fmt.Sprintf("by the indentation it is the %c of line %d, which the %c of line %d closes", top.ch, top.pos.Line, c, x.line)
		}
		x.advance(1)
		r.open = r.open[:n-1]
		return true
	}
	want := "}"
	if top.ch == '[' {
		want = "]"
	}
	r.bracketFault(x.pos(), fmt.Sprintf("found %q where the %c opened on line %d needs %s", string(c), top.ch, top.pos.Line, want), "")
	if top.pos.Line == x.line { // on one line it is a slip: the bracket was meant to close this one
		x.advance(1)
		r.open = r.open[:n-1]
		return true
	}
	for _, o := range r.open[:n-1] {
		if (o.ch == '{') == (c == '}') { // it closes one further out: the inner one ends here unclosed
			r.open = r.open[:n-1]
			return true
		}
	}
	x.advance(1)
	return false
}

// bracketFault reports a bracket unless a quote was left open before it, which may have swallowed its partner.
func (r *reader) bracketFault(at fault.Position, found, remedy string) {
	if !r.lx.broken {
		r.fault(at, found, remedy)
	}
}

// endInside reports the brackets that are open at the end of the text, the innermost first.
func (r *reader) endInside() {
	if r.ended {
		return
	}
	r.ended = true
	for i := len(r.open) - 1; i >= 0 && i >= len(r.open)-5; i-- {
		o, remedy := r.open[i], "write the closing }"
		if o.ch == '[' {
			remedy = "write the closing ]"
		}
		if r.hint != "" {
			remedy += "; " + r.hint
		}
		if !r.lx.broken {
			mistake(r.list, o.pos, "", fmt.Sprintf("the %c opened here is never closed", o.ch), remedy)
		}
	}
}

// fields reads the entries of an object up to its closer, or to the end of the text for the root (closer 0).
func (r *reader) fields(sc *scope, closer byte) {
	r.entries(closer, func(name []string, at fault.Position) { r.entry(sc, name, at) })
}

// entries reads key after key and has each one's value read by take, up to the closer of the object.
func (r *reader) entries(closer byte, take func(name []string, at fault.Position)) {
	comma := true // none may come first
	for r.goesOn() {
		r.lx.blank()
		switch c := r.lx.peek(); {
		case r.lx.atEnd():
			if closer != 0 {
				r.endInside()
			}
			return
		case c == '}' || c == ']':
			if r.closing() {
				return
			}
		case c == ',':
			if comma {
				r.fault(r.lx.pos(), "found a comma where a key is needed", "remove it")
			}
			comma = true
			r.lx.advance(1)
		default:
			comma = false
			at := r.lx.pos()
			name := r.key(at)
			if name == nil {
				r.skip()
				continue
			}
			depth := len(r.path)
			for _, n := range name {
				r.path = append(r.path, crumb{n, -1})
			}
			take(name, at)
			r.path = r.path[:depth]
		}
	}
}

// skip leaves the rest of a line that could not be read, up to a bracket that ends the object.
func (r *reader) skip() {
	for !r.lx.atEnd() {
		switch c := r.lx.peek(); {
		case c == '\n' || c == '}' || c == ']' || r.lx.atComment():
			return
		case c == '"':
			r.lx.quoted()
		case c == '{' || c == '[':
			r.skipBrackets()
		case r.lx.has("${"):
			r.lx.variable()
		default:
			r.lx.advance(1)
		}
	}
}

// skipBrackets leaves a bracketed part that could not be read.
func (r *reader) skipBrackets() {
	depth := 0
	for !r.lx.atEnd() {
		switch c := r.lx.peek(); {
		case r.lx.atComment():
			r.lx.toLineEnd()
			continue
		case c == '"':
			r.lx.quoted()
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				r.lx.advance(1)
				return
			}
		}
		r.lx.advance(1)
	}
}

// found names the next character in messages. Values are never shown: they may be secret.
func (r *reader) found() string {
	if r.lx.atEnd() {
		return "the end of the file"
	}
	c, _ := utf8.DecodeRuneInString(r.lx.src[r.lx.off:])
	switch {
	case c == '\n':
		return "the end of the line"
	case c == '"':
		return "a quote"
	case c < ' ' || c == 0x7f:
		return fmt.Sprintf("the control character 0x%02x", c)
	}
	return fmt.Sprintf("%q", string(c))
}

// key reads a key up to its separator, which stays. Dots do not nest, -> does. nil means that a mistake was
// reported.
func (r *reader) key(at fault.Position) []string {
	x := r.lx
	var names []string
	var cur strings.Builder
	quoted, blank, empty := false, "", true
	flush := func() bool {
		name := cur.String()
		if !quoted {
			name = strings.TrimSpace(name)
		}
		if name == "" && !quoted {
			r.fault(at, "a key is empty", `write the key's name, or "" in quotes`)
			return false
		}
		if names = append(names, name); len(names) > maxDepth {
			r.tooDeep(at)
			return false
		}
		cur.Reset()
		quoted = false
		return true
	}
	for {
		c := x.peek()
		switch {
		case x.atEnd() || c == '\n' || c == '=' || c == ':' || c == '{' || c == ',' || c == '}' || c == ']' || x.has("+=") || x.atComment():
			if empty {
				r.fault(at, "found "+r.found()+" where a key is needed", "write key = value")
				r.leave()
				return nil
			}
			if !flush() || !r.separator(at, names) {
				return nil
			}
			return names
		case c == '"':
			before := r.list.Len()
			cur.WriteString(blank)
			cur.WriteString(x.quoted())
			quoted = true
			if r.list.Len() > before && x.broken {
				return nil
			}
		default:
			word := x.word(false, false)
			if word == "" {
				remedy := "put the key in quotes if it belongs to it"
				if c == '$' {
					remedy = "a variable cannot stand in a key; it can stand in a value"
				}
				r.fault(x.pos(), "found "+r.found()+" in a key", remedy)
				return nil
			}
			if word == "include" && empty && r.include(at) {
				return nil
			}
			cur.WriteString(blank)
			for {
				head, tail, nests := strings.Cut(word, "->")
				cur.WriteString(head)
				if !nests {
					break
				}
				if !flush() {
					return nil
				}
				word = tail
			}
		}
		empty = false
		blank = x.space()
	}
}

// leave steps over a character at which reading would not go on by itself.
func (r *reader) leave() {
	switch c := r.lx.peek(); {
	case c == '{':
		r.skipBrackets() // an object without a key
	case c == '=' || c == ':':
		r.lx.advance(1)
	case r.lx.has("+="):
		r.lx.advance(2)
	}
}

// separator steps to =, :, += or { behind a key, which may stand on a later line.
func (r *reader) separator(at fault.Position, names []string) bool {
	before := *r.lx
	r.lx.blank()
	if c := r.lx.peek(); c == '=' || c == ':' || c == '{' || r.lx.has("+=") {
		return true
	}
	*r.lx = before
	// only the first word: behind it may stand a value whose = was forgotten
	name, _, _ := strings.Cut(strings.Join(names, "->"), " ")
	name = shorten(name)
	r.fault(at, fmt.Sprintf("the key %q has no value", name), fmt.Sprintf("write %s = value or %s { … }", name, name))
	return false
}

func shorten(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:57], "") + "..."
	}
	return s
}

// include refuses an include directive; the word itself has been read.
func (r *reader) include(at fault.Position) bool {
	rest := strings.TrimLeft(r.lx.src[r.lx.off:min(len(r.lx.src), r.lx.off+64)], " \t")
	for _, p := range []string{`"`, "file(", "url(", "classpath(", "required("} {
		if strings.HasPrefix(rest, p) {
			what, remedy := jobFile, "put the included text into this file, or pass values with -i"
			if r.vars.plain {
				what, remedy = settingsFile, "put the included text into this file, or take values from the environment with ${NAME}"
			}
			r.fault(at, "include is not supported: a "+what+" stands for itself", remedy)
			return true
		}
	}
	return false
}

// entry reads the value of a key into its scope.
func (r *reader) entry(sc *scope, name []string, at fault.Position) {
	f := sc.field(name[0], at)
	if len(name) > 1 { // a->b = 1 is a { b = 1 }
		p := r.shape.object(f, at)
		r.emit(p.key, "={\n", `o="`, p.scope.id, "\"\n")
		if r.depth++; r.depth > maxDepth {
			r.tooDeep(at)
		}
		r.entry(p.scope, name[1:], at)
		r.depth--
		r.emit("}\n")
		return
	}
	if r.lx.has("+=") {
		r.lx.advance(2)
		r.plusEquals(f, at)
		return
	}
	if r.lx.peek() != '{' {
		r.lx.advance(1)
	}
	r.value(&slot{f: f, begun: true, at: at, top: sc.id == "0"})
}

// plusEquals reads the value of key += value, a list of one element to add.
func (r *reader) plusEquals(f *field, at fault.Position) {
	p := part{key: r.shape.newKey(), pos: at}
	f.occs = append(f.occs, &occurrence{pos: at, append: true, parts: []part{p}})
	r.emit(p.key, "=[\n\"", r.shape.newList(listMark{pos: at}), "\",\n")
	r.value(&slot{at: at, element: true})
	r.emit("]\n")
}
