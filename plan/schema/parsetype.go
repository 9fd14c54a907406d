package schema

import (
	"fmt"
	"strconv"
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
)

// maxPrecision is the widest decimal that has a layout (256 bits).
const maxPrecision = 76

// maxDepth bounds how deep types may nest, so that a hostile text cannot exhaust the stack.
const maxDepth = 32

// oldWords are spellings that SeaTunnel accepts beside the documented ones.
var oldWords = map[string]Kind{"long": BigInt, "short": SmallInt, "byte": TinyInt}

// typeWords are the words a remedy may suggest.
var typeWords = kindWords[:]

// ParseType reads a type as a schema block writes it, without regard to case: int, decimal(10, 2),
// array<string>, map<string, array<int>>, timestamp(3), and rows in place: {a = int, b = "string"} in HOCON
// or JSON, or row<a int, b string> as String writes them. The error is a *fault.Mistake without a place.
func ParseType(word string) (Type, error) {
	p := typeParser{text: word}
	t, m := p.typ(0)
	if m == nil {
		p.space()
		if p.at < len(p.text) {
			m = mistake(fmt.Sprintf("%q is not a type: %q is left over behind %s", word, shorten(p.text[p.at:]), t), "")
		}
	}
	if m != nil {
		return Type{}, m
	}
	return t, nil
}

func mistake(found, remedy string) *fault.Mistake {
	return &fault.Mistake{Found: found, Remedy: remedy}
}

func shorten(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:57], "") + "..."
	}
	return s
}

// typeParser is a recursive descent over one type text.
type typeParser struct {
	text string
	at   int
}

func (p *typeParser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// take skips blanks and takes the byte c if it is next.
func (p *typeParser) take(c byte) bool {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *typeParser) word() string {
	p.space()
	from := p.at
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n<>(){},=:\"", p.text[p.at]) < 0 {
		p.at++
	}
	return p.text[from:p.at]
}

func (p *typeParser) typ(depth int) (Type, *fault.Mistake) {
	if depth > maxDepth {
		return Type{}, mistake(fmt.Sprintf("the type nests deeper than %d levels", maxDepth), "flatten it")
	}
	if p.take('{') {
		return p.row('}', depth)
	}
	word := p.word()
	k, ok := kindOf(word)
	if !ok {
		return Type{}, p.unknown(word)
	}
	switch k {
	case Decimal:
		return p.decimal()
	case Time, Timestamp, TimestampTZ:
		return p.scaled(k)
	case Array:
		if !p.take('<') {
			return Type{}, mistake("array has no element type", `write for example "array<int>"`)
		}
		e, m := p.typ(depth + 1)
		if m != nil {
			return Type{}, m
		}
		if !p.take('>') {
			return Type{}, p.unclosed("array", '>')
		}
		return ArrayOf(e), nil
	case Map:
		return p.mapType(depth)
	case Row:
		if !p.take('<') {
			return Type{}, mistake("row has no fields", "write the fields as an object: { a = int, b = string }")
		}
		return p.row('>', depth)
	}
	return Of(k), nil
}

func kindOf(word string) (Kind, bool) {
	w := strings.ToLower(word)
	for k, s := range kindWords {
		if s == w {
			return Kind(k), true
		}
	}
	k, ok := oldWords[w]
	return k, ok
}

func (p *typeParser) unknown(word string) *fault.Mistake {
	if word == "" {
		if strings.TrimSpace(p.text) == "" {
			return mistake("the type is empty", "write a type such as string or int")
		}
		return mistake(fmt.Sprintf("a type is missing in %q", shorten(p.text)), "write a type such as string or int")
	}
	if near := option.Nearest(word, typeWords); near != "" {
		return mistake(fmt.Sprintf("%q is not a type", shorten(word)), fmt.Sprintf("did you mean %s?", near))
	}
	return mistake(fmt.Sprintf("%q is not a type", shorten(word)), "the types are "+strings.Join(typeWords, ", "))
}

func (p *typeParser) unclosed(what string, c byte) *fault.Mistake {
	return mistake(fmt.Sprintf("%s is not closed with %q in %q", what, c, shorten(p.text)), fmt.Sprintf("add the %q", c))
}

// numbers reads (n) or (n, m).
func (p *typeParser) numbers() (ns []int, ok bool) {
	for {
		n, err := strconv.Atoi(p.word())
		if err != nil {
			return nil, false
		}
		ns = append(ns, n)
		if p.take(')') {
			return ns, true
		}
		if !p.take(',') || len(ns) == 2 {
			return nil, false
		}
	}
}

func (p *typeParser) decimal() (Type, *fault.Mistake) {
	const remedy = `write precision and scale: "decimal(10, 2)"`
	if !p.take('(') {
		return Type{}, mistake("decimal has no precision and scale", remedy)
	}
	ns, ok := p.numbers()
	switch {
	case !ok:
		return Type{}, mistake(fmt.Sprintf("precision and scale of the decimal cannot be read in %q", shorten(p.text)), remedy)
	case len(ns) != 2:
		return Type{}, mistake("decimal has no scale", remedy)
	case ns[0] < 1 || ns[0] > maxPrecision:
		return Type{}, mistake(fmt.Sprintf("decimal precision %d is out of range", ns[0]), fmt.Sprintf("it may be 1 to %d", maxPrecision))
	case ns[1] < 0 || ns[1] > ns[0]:
		return Type{}, mistake(fmt.Sprintf("decimal scale %d is out of range", ns[1]), fmt.Sprintf("it may be 0 to the precision, %d", ns[0]))
	}
	return DecimalOf(ns[0], ns[1]), nil
}

func (p *typeParser) scaled(k Kind) (Type, *fault.Mistake) {
	t := Of(k)
	if !p.take('(') {
		return t, nil
	}
	ns, ok := p.numbers()
	if !ok || len(ns) != 1 {
		return Type{}, mistake(fmt.Sprintf("the scale of %s cannot be read in %q", k, shorten(p.text)), fmt.Sprintf("write for example %s(3)", k))
	}
	if ns[0] < 0 || ns[0] > 9 {
		return Type{}, mistake(fmt.Sprintf("%s scale %d is out of range", k, ns[0]), "it may be 0 to 9")
	}
	t.Scale = ns[0]
	return t, nil
}

func (p *typeParser) mapType(depth int) (Type, *fault.Mistake) {
	const remedy = `write for example "map<string, int>"`
	if !p.take('<') {
		return Type{}, mistake("map has no key and value types", remedy)
	}
	k, m := p.typ(depth + 1)
	if m != nil {
		return Type{}, m
	}
	switch k.Kind {
	case Null, Array, Map, Row, BinaryVector, FloatVector, Float16Vector, BFloat16Vector, SparseFloatVector:
		return Type{}, mistake(fmt.Sprintf("%s cannot be the key of a map", k), "use a plain type such as string or bigint")
	}
	if !p.take(',') {
		return Type{}, mistake(fmt.Sprintf("map has no value type in %q", shorten(p.text)), remedy)
	}
	v, m := p.typ(depth + 1)
	if m != nil {
		return Type{}, m
	}
	if !p.take('>') {
		return Type{}, p.unclosed("map", '>')
	}
	return MapOf(k, v), nil
}

// row reads the fields of a row up to its closing byte: } for HOCON and JSON, > for the form of Type.String.
func (p *typeParser) row(end byte, depth int) (Type, *fault.Mistake) {
	t := Type{Kind: Row}
	seen := map[string]bool{}
	for {
		if p.take(end) {
			break
		}
		if p.space(); p.at == len(p.text) {
			return Type{}, p.unclosed("row", end)
		}
		name, m := p.name()
		if m != nil {
			return Type{}, m
		}
		if seen[name] {
			return Type{}, mistake(fmt.Sprintf("field %q stands twice in the row", name), "give each field its own name")
		}
		seen[name] = true
		ft, m := p.field(end, depth)
		if m != nil {
			m.Found = fmt.Sprintf("field %q: %s", name, m.Found)
			return Type{}, m
		}
		t.Fields = append(t.Fields, Col(name, ft))
		if !p.separator(end) {
			return Type{}, mistake(fmt.Sprintf("a comma is missing behind field %q in %q", name, shorten(p.text)), "separate fields with commas")
		}
	}
	if len(t.Fields) == 0 {
		return Type{}, mistake("the row has no fields", "write the fields as an object: { a = int, b = string }")
	}
	return t, nil
}

func (p *typeParser) name() (string, *fault.Mistake) {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == '"' {
		return p.quoted()
	}
	if w := p.word(); w != "" {
		return w, nil
	}
	return "", mistake(fmt.Sprintf("the name of a field is missing in %q", shorten(p.text)), "write { a = int, b = string }")
}

func (p *typeParser) quoted() (string, *fault.Mistake) {
	rest := p.text[p.at:]
	prefix, err := strconv.QuotedPrefix(rest)
	if err == nil {
		var s string
		if s, err = strconv.Unquote(prefix); err == nil {
			p.at += len(prefix)
			return s, nil
		}
	}
	return "", mistake(fmt.Sprintf("a quote is not closed in %q", shorten(rest)), "close it")
}

// field reads what follows a field's name. The type itself may stand in quotes.
func (p *typeParser) field(end byte, depth int) (Type, *fault.Mistake) {
	if end == '}' && !p.take('=') && !p.take(':') {
		p.space()
		if p.at == len(p.text) || p.text[p.at] != '{' {
			return Type{}, mistake("it has no type", "write name = type")
		}
	}
	p.space()
	if p.at < len(p.text) && p.text[p.at] == '"' {
		text, m := p.quoted()
		if m != nil {
			return Type{}, m
		}
		inner := typeParser{text: text}
		t, m := inner.typ(depth + 1)
		if m == nil {
			if inner.space(); inner.at < len(text) {
				m = mistake(fmt.Sprintf("%q is not a type", shorten(text)), "")
			}
		}
		return t, m
	}
	return p.typ(depth + 1)
}

// separator takes what stands between two fields: a comma, or a line break in HOCON; before the end nothing.
func (p *typeParser) separator(end byte) bool {
	from := p.at
	if p.take(',') {
		return true
	}
	if p.at == len(p.text) || p.text[p.at] == end {
		return true
	}
	return end == '}' && strings.ContainsRune(p.text[from:p.at], '\n')
}
