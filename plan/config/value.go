package config

import (
	"fmt"

	"strait/plan/fault"
	"strait/plan/option"
)

// slot is where a value goes: a field of the object being written, or an element of a list. An element that is
// more than a scalar becomes an object with one field (a cell), so that parts join the same way everywhere.
type slot struct {
	f       *field
	begun   bool // the field's object is open in the sanitised text
	element bool
	top     bool // a field of the file's root
	at      fault.Position

	occ       *occurrence // where further parts go
	container bool        // an object or list was read
	object    bool        // the first part was an object, which may be shared
	pieces    []piece
	from      fault.Position // of the first piece
	span      span           // of all pieces
}

// add takes in a piece that began at offset off and was read up to where the lexer stands.
func (r *reader) add(s *slot, p piece, at fault.Position, off int) {
	if len(s.pieces) == 0 {
		s.from, s.span.from = at, off
	}
	s.span.to = r.lx.off
	s.pieces = append(s.pieces, p)
}

// begin opens the cell of an element that needs one.
func (r *reader) begin(s *slot) {
	if s.begun {
		return
	}
	s.begun = true
	sc := r.shape.newScope(s.at)
	s.f = sc.field("", s.at)
	r.emit("{\n", `o="`, sc.id, "\"\n")
}

// group gives the occurrence for the next part.
func (s *slot) group() *occurrence {
	if s.occ == nil {
		s.occ = &occurrence{pos: s.at, joined: s.object}
		s.f.occs = append(s.f.occs, s.occ)
	}
	return s.occ
}

// value reads a value up to the end of its line, a comma or a closing bracket; parts on one line are joined.
func (r *reader) value(s *slot) {
	x := r.lx
	late := x.blank()
	for !r.quit {
		blank := x.space()
		c := x.peek()
		switch {
		case x.atEnd() || c == '\n' || c == ',' || c == '}' || c == ']' || x.atComment():
			r.finish(s)
			return
		case c == '{' || c == '[':
			if !r.beforeContainer(s) {
				r.skip()
				return
			}
			r.containerPart(s, c)
			s.container = true
			continue
		case s.container && !x.has("${"):
			r.fault(x.pos(), "found text behind a closing bracket on the same line", "put a comma or a new line between them")
			r.skip()
			return
		case c == '"':
			at, off := x.pos(), x.off
			r.add(s, piece{blank: blank, text: r.vars.expand(x.quoted(), at), quoted: true}, at, off)
		case x.has("${"):
			at, off := x.pos(), x.off
			r.add(s, piece{blank: blank, ref: r.reference(at)}, at, off)
		default:
			at, off := x.pos(), x.off
			word := x.word(true, len(s.pieces) == 0)
			if word == "" {
				r.notInValue(s, late)
				r.skip()
				return
			}
			if x.has("//") {
				warning(r.list, x.pos(), r.where(), "the text behind // is taken as a comment", "put the value in quotes if the // belongs to it")
			}
			r.add(s, piece{blank: blank, text: word}, at, off)
		}
	}
}

// reference reads a ${…} outside quotes.
func (r *reader) reference(at fault.Position) *reference {
	before, off := r.list.Len(), r.lx.off
	ref := newReference(r.lx.variable(), at)
	ref.span = span{off, r.lx.off}
	if ref.name == "" && r.list.Len() == before {
		r.fault(at, "${…} holds no name", "write ${name} or ${name:default}; put the text in quotes if it belongs to the value")
	}
	return ref
}

// notInValue reports a character that needs quotes.
func (r *reader) notInValue(s *slot, late bool) {
	found := r.found()
	switch r.lx.peek() {
	case '=', ':':
		if s.element {
			r.fault(r.lx.pos(), "found "+found+" in a list element", "write { key = value } for an object, or put the value in quotes")
			return
		}
		if late {
			r.fault(s.at, "the key has no value", `write "" for an empty text`)
			return
		}
		r.fault(r.lx.pos(), "found a second "+found+" on the line", "put the value in quotes if it belongs to it, or begin the next key on a new line")
	default:
		r.fault(r.lx.pos(), "found "+found+" in a value without quotes", `put the whole value in quotes: "…"`)
	}
}

// beforeContainer places the ${…} that stand before a { or [ as parts; text there is a mistake.
func (r *reader) beforeContainer(s *slot) bool {
	for _, p := range s.pieces {
		if p.ref == nil {
			r.fault(r.lx.pos(), "found "+r.found()+" behind text on the same line", "put a comma or a new line between them, or the value in quotes")
			return false
		}
	}
	r.begin(s)
	r.references(s)
	return true
}

// references writes the pieces, all of them ${…}, as parts.
func (r *reader) references(s *slot) {
	for _, p := range s.pieces {
		r.leafPart(s, leaf{pieces: []piece{p}, pos: p.ref.pos, span: p.ref.span})
	}
	s.pieces = s.pieces[:0]
}

func (r *reader) leafPart(s *slot, l leaf) {
	p := part{key: r.shape.newKey(), pos: l.pos}
	occ := s.group()
	occ.parts = append(occ.parts, p)
	r.emit(p.key, `="`, r.leaf(l), "\"\n")
}

func (r *reader) leaf(l leaf) string {
	r.count(l.pos)
	return r.shape.newLeaf(l)
}

// containerPart reads an object or list that is next, as a part of the value.
func (r *reader) containerPart(s *slot, c byte) {
	at := r.lx.pos()
	r.count(at)
	switch {
	case c == '{' && r.section(s):
		p := part{key: r.shape.newKey(), pos: at}
		occ := s.group()
		occ.parts = append(occ.parts, p)
		r.emit(p.key, "=[\n")
		r.plugins(s, at)
		r.emit("]\n")
	case c == '{' && s.occ == nil:
		p := r.shape.object(s.f, at)
		s.object = true
		r.emit(p.key, "={\n", `o="`, p.scope.id, "\"\n")
		r.push()
		r.fields(p.scope, '}')
		r.emit("}\n")
	case c == '{':
		p := part{key: r.shape.newKey(), pos: at}
		sc := r.shape.newScope(at)
		s.occ.parts = append(s.occ.parts, p)
		r.emit(p.key, "={\n", `o="`, sc.id, "\"\n")
		r.push()
		r.fields(sc, '}')
		r.emit("}\n")
	default:
		if s.occ == nil {
			r.duplicate(s)
		}
		p := part{key: r.shape.newKey(), pos: at}
		occ := s.group()
		occ.parts = append(occ.parts, p)
		r.emit(p.key, "=[\n")
		r.elements(at)
		r.emit("]\n")
	}
}

// section says whether an object in this place is a list of plugins.
func (r *reader) section(s *slot) bool {
	if r.vars.plain || s.element || r.json && !s.top {
		return false
	}
	switch Section(s.f.name) {
	case Source, Transform, Sink:
		return true
	}
	return false
}

// plugins reads { Name { … } Name { … } } as the elements of a list.
func (r *reader) plugins(s *slot, at fault.Position) {
	r.emit(`"`, r.shape.newList(listMark{pos: at, section: true}), "\",\n")
	ordinal := 0
	if s.top { // a section that stands twice goes on counting
		ordinal = r.plugged[s.f.name]
		defer func() { r.plugged[s.f.name] = ordinal }()
	}
	r.push()
	r.entries('}', func(name []string, at fault.Position) {
		r.path[len(r.path)-len(name)].ordinal = ordinal
		ordinal++
		sc := r.shape.newScope(at)
		r.emit("{\n", `o="`, sc.id, "\"\n")
		r.entry(sc, name, at)
		r.emit("},\n")
	})
}

// elements reads the elements of a list; the [ is next.
func (r *reader) elements(at fault.Position) {
	r.emit(`"`, r.shape.newList(listMark{pos: at}), "\",\n")
	r.push()
	comma := true // none may come first
	for r.goesOn() {
		r.lx.blank()
		switch c := r.lx.peek(); {
		case r.lx.atEnd():
			r.endInside()
			return
		case c == '}' || c == ']':
			if r.closing() {
				return
			}
		case c == ',':
			if comma {
				r.fault(r.lx.pos(), "found a comma where a list element is needed", "remove it")
			}
			comma = true
			r.lx.advance(1)
		default:
			comma = false
			r.value(&slot{element: true, at: r.lx.pos()})
		}
	}
}

// finish writes what is left of a value when its end was met.
func (r *reader) finish(s *slot) {
	switch {
	case s.container:
		r.references(s)
	case len(s.pieces) == 0:
		r.fault(s.at, "the key has no value", `write "" for an empty text`)
	case s.begun:
		r.duplicate(s)
		r.leafPart(s, r.scalar(s))
	default: // a scalar element needs no cell
		r.emit(`"`, r.leaf(r.scalar(s)), "\",\n")
	}
	if s.element && s.begun {
		r.emit("},\n")
	}
}

// duplicate warns of a key whose earlier value is lost.
func (r *reader) duplicate(s *slot) {
	n := len(s.f.occs)
	if n == 0 {
		return
	}
	for _, p := range s.pieces {
		if p.ref != nil { // it may name the earlier value, or be optional
			return
		}
	}
	warning(r.list, s.at, r.where(), fmt.Sprintf("given a second time (before on line %d)", s.f.occs[n-1].pos.Line), "the later value counts; remove one")
}

// scalar makes a leaf of the pieces: ready where no ${…} is among them.
func (r *reader) scalar(s *slot) leaf {
	for _, p := range s.pieces {
		if p.ref != nil {
			return leaf{pieces: append([]piece(nil), s.pieces...), pos: s.from, span: s.span}
		}
	}
	return leaf{node: scalarNode(s.pieces, s.from), pos: s.from, span: s.span}
}

// scalarNode joins pieces without ${…} to a value; white space between them is kept.
func scalarNode(pieces []piece, at fault.Position) *option.Node {
	if len(pieces) == 1 {
		if p := pieces[0]; !p.quoted {
			return wordNode(p.text, at)
		}
		return &option.Node{Kind: option.String, Text: pieces[0].text, Quoted: true, Pos: at}
	}
	n := &option.Node{Kind: option.String, Pos: at}
	var b []byte
	for i, p := range pieces {
		if i > 0 {
			b = append(b, p.blank...)
		}
		b = append(b, p.text...)
		n.Quoted = n.Quoted || p.quoted
	}
	n.Text = string(b)
	return n
}

// wordNode gives a word without quotes its kind. As in SeaTunnel a whole number beyond 64 bits is text.
func wordNode(word string, at fault.Position) *option.Node {
	n := &option.Node{Kind: option.String, Text: word, Pos: at}
	switch {
	case word == "null":
		n.Kind, n.Text = option.Null, ""
	case word == "true" || word == "false":
		n.Kind = option.Bool
	case isNumber(word):
		n.Kind = option.Number
	}
	return n
}
