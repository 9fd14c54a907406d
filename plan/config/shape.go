package config

import (
	"strconv"

	"strait/plan/fault"
	"strait/plan/option"
)

// shape is the side table of a job file: everything the library loses or cannot read. The sanitised text holds
// generated names only, each an index into one of the tables:
//
//	k7   a key: one part of one occurrence of a field
//	o="3"  the scope an object belongs to (the first entry of every object)
//	l5   the first element of a list: its place and whether it is a plugin section
//	v9   a scalar, or text with variables
type shape struct {
	scopes []*scope
	lists  []listMark
	leaves []leaf
	keys   int
}

// scope is one object after merging: objects of the same key that follow each other share it.
type scope struct {
	id     string
	pos    fault.Position
	fields map[string]*field
	order  []*field
	node   object // what the library made of it
}

// field is one key of an object with all its occurrences in file order.
type field struct {
	name string
	pos  fault.Position
	occs []*occurrence
	used bool // a ${…} of the file names it

	// resolver's
	state    resolveState
	value    *option.Node
	replaced []*option.Node // lists that a later occurrence replaces
	weight   int
}

// occurrence is one place where a field gets a value: parts that are joined, usually one.
type occurrence struct {
	pos    fault.Position
	append bool // +=: the part is a list to add
	joined bool // it goes on behind an object on the same line
	parts  []part
}

// part is a value in the library's tree: that of key in the field's scope.
type part struct {
	key   string
	pos   fault.Position
	scope *scope // set: an object that later occurrences may add to
}

type listMark struct {
	pos     fault.Position
	section bool // the elements are plugins
}

// leaf is a scalar, ready or still to be put together from pieces because a ${…} is among them.
type leaf struct {
	node   *option.Node
	pieces []piece
	pos    fault.Position
	span   span
}

// piece is a run of text in a value; blank is the white space before it.
type piece struct {
	blank  string
	text   string
	quoted bool
	ref    *reference
}

// reference is a ${name}, ${?name} or ${name:default} outside quotes.
type reference struct {
	raw      string // as written
	name     string
	fallback string
	hasFall  bool
	optional bool
	pos      fault.Position
	span     span
}

func (s *shape) newScope(pos fault.Position) *scope {
	sc := &scope{id: strconv.Itoa(len(s.scopes)), pos: pos}
	s.scopes = append(s.scopes, sc)
	return sc
}

func (s *shape) newKey() string {
	s.keys++
	return "k" + strconv.Itoa(s.keys)
}

func (s *shape) newList(m listMark) string {
	s.lists = append(s.lists, m)
	return "l" + strconv.Itoa(len(s.lists)-1)
}

func (s *shape) newLeaf(l leaf) string {
	s.leaves = append(s.leaves, l)
	return "v" + strconv.Itoa(len(s.leaves)-1)
}

// field gives the field of that name, made on first use.
func (sc *scope) field(name string, pos fault.Position) *field {
	if f := sc.fields[name]; f != nil {
		return f
	}
	if sc.fields == nil {
		sc.fields = make(map[string]*field)
	}
	f := &field{name: name, pos: pos}
	sc.fields[name] = f
	sc.order = append(sc.order, f)
	return f
}

// object gives the part that an object written at pos belongs to: the one before if that is an object too, so that
// the library merges both, else a new one.
func (s *shape) object(f *field, pos fault.Position) part {
	if n := len(f.occs); n > 0 {
		if o := f.occs[n-1]; len(o.parts) == 1 && o.parts[0].scope != nil {
			return o.parts[0]
		}
	}
	p := part{key: s.newKey(), pos: pos, scope: s.newScope(pos)}
	f.occs = append(f.occs, &occurrence{pos: pos, parts: []part{p}})
	return p
}
