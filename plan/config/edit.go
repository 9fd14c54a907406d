package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
)

// span is a part of the text, from one offset to before another; no text has zero length.
type span struct{ from, to int }

// origin is where a node comes from: the value that a variable, a constant of the file or a literal has in the text.
type origin struct {
	span span
	node *option.Node // as read, before it was decoded
	top  *option.Node // what all of span reads as: node, or a list or object it is in (a value given with -i)
}

// Editable is a job that knows its text, so that values can be replaced in it.
type Editable struct {
	Job  *Job
	Vars map[string]bool // those of Options.Vars that the text asks for

	text     []byte
	wanted   bool
	origins  map[*option.Node]origin
	shaded   map[*option.Node]bool
	twins    map[*option.Node][]*option.Node
	comments []span
	z        *resolver
}

// ParseEditable is Parse for a caller that goes on to change the text.
func ParseEditable(src []byte, o Options) (*Editable, []*fault.Mistake, error) {
	s, warnings, err := finish(src, o, true)
	if err != nil {
		return nil, warnings, err
	}
	s.twins = map[*option.Node][]*option.Node{}
	for _, all := range s.z.twins {
		for _, n := range all {
			s.twins[n] = all
		}
	}
	s.Vars, s.z = s.z.vars.asked, nil
	return s, warnings, nil
}

// take has a resolver keep account of where its nodes come from.
func (s *Editable) take(z *resolver) {
	if !s.wanted {
		return
	}
	s.z, s.comments = z, z.comments
	s.origins, s.shaded = map[*option.Node]origin{}, map[*option.Node]bool{}
	z.edit = s
}

// from notes that n, and all that is in it, is what stands in a span.
func (z *resolver) from(n *option.Node, at span) *option.Node {
	if z.edit != nil && at.to > 0 {
		z.edit.from(n, n, at)
	}
	return n
}

func (s *Editable) from(n, top *option.Node, at span) {
	s.origins[n] = origin{at, n, top}
	for _, e := range n.List {
		s.from(e, top, at)
	}
	for _, f := range n.Fields {
		s.from(f.Value, top, at)
	}
}

// decoded notes that d is the decoded form of n.
func (z *resolver) decoded(d, n *option.Node) {
	if z.edit == nil {
		return
	}
	if o, ok := z.edit.origins[n]; ok {
		z.edit.origins[d] = o
	}
	z.edit.shaded[d] = true
}

// twin notes the single values of a key that stands several times.
func (z *resolver) twin(all []*option.Node) {
	if z.edit == nil || len(all) < 2 {
		return
	}
	all = slices.DeleteFunc(all, func(n *option.Node) bool { return n == nil || !scalar(n) })
	if len(all) > 1 {
		z.twins = append(z.twins, all)
	}
}

func scalar(n *option.Node) bool {
	return n.Kind == option.String || n.Kind == option.Number || n.Kind == option.Bool
}

// Shaded says that a value of a plugin's options stands encoded in the text (env.shade.identifier).
func (s *Editable) Shaded(n *option.Node) bool { return s.shaded[n] }

// Twins are the values of a key that stands several times, n among them, of which only one counts; else none.
func (s *Editable) Twins(n *option.Node) []*option.Node {
	if o, ok := s.origins[n]; ok {
		n = o.node
	}
	return s.twins[n]
}

// Written is the text that a value was read from: a literal with its quotes, a ${name}; empty where there is none.
func (s *Editable) Written(n *option.Node) string {
	o, ok := s.origins[n]
	if !ok {
		return ""
	}
	body := bytes.TrimPrefix(s.text, bom)
	return string(body[o.span.from:o.span.to])
}

// Origin is the value of the text that n is: nodes that a constant of the file, or decoding, made of one value have
// one origin. nil: n is not of this text.
func (s *Editable) Origin(n *option.Node) *option.Node { return s.origins[n].node }

var bom = []byte("\ufeff")

// Replace gives the text with other values: each single value among edits, by its origin, becomes the text given for
// it, in quotes, where it is written; a ${name} is replaced as a whole. A comment that drop accepts loses its words. Every value
// stays on its line.
func (s *Editable) Replace(edits map[*option.Node]string, drop func(comment string) bool) ([]byte, error) {
	body := bytes.TrimPrefix(s.text, bom)
	type change struct {
		span
		top   *option.Node
		nodes map[*option.Node]string
	}
	changes := map[span]*change{}
	for n, text := range edits {
		o, ok := s.origins[n]
		if !ok || !scalar(n) {
			return nil, fmt.Errorf("BUG: a value at %v has no place in the text", n.Pos)
		}
		c := changes[o.span]
		if c == nil {
			c = &change{span: o.span, top: o.top, nodes: map[*option.Node]string{}}
			changes[o.span] = c
		}
		if other, ok := c.nodes[o.node]; ok && other != text {
			return nil, fmt.Errorf("the value at %v is used in two ways; write it twice", n.Pos)
		}
		c.nodes[o.node] = text
	}
	type piece struct {
		span
		text string
	}
	var pieces []piece
	for _, c := range changes {
		var b strings.Builder
		render(&b, c.top, c.nodes)
		b.WriteString(strings.Repeat("\n", bytes.Count(body[c.from:c.to], []byte("\n"))))
		pieces = append(pieces, piece{c.span, b.String()})
	}
	for _, c := range s.comments {
		if drop != nil && drop(string(body[c.from:c.to])) {
			pieces = append(pieces, piece{c, "#"})
		}
	}
	sort.Slice(pieces, func(i, j int) bool { return pieces[i].from < pieces[j].from })
	out := slices.Clone(s.text[:len(s.text)-len(body)])
	at := 0
	for _, p := range pieces {
		if p.from < at {
			return nil, fmt.Errorf("BUG: two changes of the text overlap at offset %d", p.from)
		}
		out = append(append(out, body[at:p.from]...), p.text...)
		at = p.to
	}
	return append(out, body[at:]...), nil
}

// render writes a value on one line so that it reads the same, but for those in edits.
func render(b *strings.Builder, n *option.Node, edits map[*option.Node]string) {
	if text, ok := edits[n]; ok {
		b.WriteString(quoteText(text))
		return
	}
	switch n.Kind {
	case option.Null:
		b.WriteString("null")
	case option.Bool, option.Number:
		b.WriteString(n.Text)
	case option.String:
		b.WriteString(quoteText(n.Text))
	case option.List:
		b.WriteByte('[')
		for i, e := range n.List {
			if i > 0 {
				b.WriteString(", ")
			}
			render(b, e, edits)
		}
		b.WriteByte(']')
	case option.Object:
		b.WriteByte('{')
		for i, f := range n.Fields {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quoteText(f.Key) + ": ")
			render(b, f.Value, edits)
		}
		b.WriteByte('}')
	}
}

func quoteText(s string) string {
	raw, _ := json.Marshal(s) // a string always marshals
	return string(raw)
}
