package config

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"strait/plan/fault"
	"strait/plan/option"
)

// maxCopied bounds the nodes that references to other keys, and joining, may add.
const maxCopied = 1_000_000

// leaf gives a scalar, or puts one together from text and ${…}; nil where only absent optional ones were.
func (z *resolver) leaf(l *leaf) (*option.Node, int) {
	if l.node != nil {
		z.from(l.node, l.span)
		return l.node, 1
	}
	if len(l.pieces) == 1 {
		return z.reference(l.pieces[0].ref)
	}
	var whole *option.Node
	weight := 0
	for _, p := range l.pieces { // ${a} ${b} of lists or objects join as such
		if p.ref == nil {
			return z.from(z.text(l), l.span), 1
		}
		n, w := z.reference(p.ref)
		switch {
		case n == nil:
		case whole == nil && n.Kind != option.List && n.Kind != option.Object:
			return z.from(z.text(l), l.span), 1
		case whole == nil:
			whole, weight = n, w
		default:
			whole, weight = z.join(whole, n, p.ref.pos), weight+w
		}
	}
	return whole, weight
}

// text joins pieces to one string; white space between them is kept.
func (z *resolver) text(l *leaf) *option.Node {
	out := &option.Node{Kind: option.String, Pos: l.pos}
	var b strings.Builder
	for i, p := range l.pieces {
		if i > 0 {
			b.WriteString(p.blank)
		}
		out.Quoted = out.Quoted || p.quoted
		if p.ref == nil {
			b.WriteString(p.text)
			continue
		}
		if s, from := z.vars.lookup(p.ref); from == commandLine {
			if s = unwrap(s); !z.vars.spend(len(s), p.ref.pos) {
				return out
			}
			b.WriteString(s)
			continue
		}
		n, _ := z.reference(p.ref)
		switch {
		case n == nil:
		case n.Kind == option.List || n.Kind == option.Object:
			mistake(z.list, p.ref.pos, "", fmt.Sprintf("${%s} is %s and cannot be joined with text", p.ref.name, withArticle(n.Kind)), "name a key that holds text or a number")
		default:
			if n.Kind == option.Null {
				b.WriteString("null")
			}
			if !z.vars.spend(len(n.Text), p.ref.pos) {
				return out
			}
			b.WriteString(n.Text)
		}
	}
	out.Text = b.String()
	return out
}

// reference gives the value of a ${…} outside quotes: from -i, from a key of the file, from the environment, or its
// default. Without any of them an optional one is absent and another stays as text.
func (z *resolver) reference(r *reference) (*option.Node, int) {
	asText := z.from(&option.Node{Kind: option.String, Text: r.raw, Pos: r.pos}, r.span)
	s, from := z.vars.lookup(r)
	switch from {
	case commandLine:
		if f := z.shape.scopes[0].fields[r.name]; f != nil {
			f.used = true
		}
		return z.from(z.fragment(s, r.pos), r.span), 1
	case stays:
		return asText, 1
	}
	n, w, got := z.key(r)
	if got == found {
		if !z.copies(w, r.pos) {
			return asText, 1
		}
		return n, w
	}
	if s, ok := z.vars.environment(r.name); ok {
		if !z.vars.spend(len(s), r.pos) {
			return asText, 1
		}
		if n := wordNode(s, r.pos); n.Kind != option.Null {
			return z.from(n, r.span), 1
		}
		return z.from(&option.Node{Kind: option.String, Text: s, Pos: r.pos}, r.span), 1
	}
	switch {
	case r.hasFall:
		fall := strings.TrimSpace(r.fallback)
		if expanded := z.vars.expand(fall, r.pos); expanded != fall {
			return z.from(&option.Node{Kind: option.String, Text: expanded, Pos: r.pos}, r.span), 1
		}
		return z.from(z.fragment(fall, r.pos), r.span), 1
	case r.optional:
		return nil, 0
	case got == circle:
		mistake(z.list, r.pos, "", fmt.Sprintf("${%s} names a key whose value needs this one", shorten(r.name)), "break the circle")
		return asText, 1
	}
	z.vars.missing(r)
	return asText, 1
}

// key looks for the key of the file that a ${…} names: first with its dots as they are, then nested, with -> always
// nested. A whole section is never meant: ${source} is a variable.
func (z *resolver) key(r *reference) (*option.Node, int, search) {
	switch r.name {
	case "env", string(Source), string(Transform), string(Sink):
		return nil, 0, absent
	}
	if z.depth >= maxRefDepth {
		mistake(z.list, r.pos, "", fmt.Sprintf("${%s} leads through more than %d other keys", shorten(r.name), maxRefDepth), "")
		return nil, 0, absent
	}
	z.depth++
	defer func() { z.depth-- }()
	return z.find(z.shape.scopes[0], r.name)
}

// search is the outcome of looking for a key.
type search uint8

const (
	absent search = iota
	found
	circle // the key is there, but its value waits for the one that asks
)

// find looks a name up in a scope.
func (z *resolver) find(sc *scope, name string) (*option.Node, int, search) {
	if f := sc.fields[name]; f != nil && len(f.occs) > 0 {
		f.used = true
		if n := z.field(sc, f); n != nil {
			return n, f.weight, found
		}
		if f.state == busy {
			return nil, 0, circle
		}
		return nil, 0, absent
	}
	worst := absent
	for i := range name {
		width := 0
		switch {
		case name[i] == '.':
			width = 1
		case strings.HasPrefix(name[i:], "->"):
			width = 2
		default:
			continue
		}
		f := sc.fields[name[:i]]
		if f == nil {
			continue
		}
		n, w, got := z.within(sc, f, name[i+width:])
		if got == found {
			f.used = true
			return n, w, got
		}
		worst = max(worst, got)
	}
	return nil, 0, worst
}

// within looks a name up in the objects a field holds, the latest first. Objects of the file are entered without
// being resolved, so that a key may name its neighbour; any other value is resolved first.
func (z *resolver) within(sc *scope, f *field, rest string) (*option.Node, int, search) {
	for i := len(f.occs) - 1; i >= 0; i-- {
		if occ := f.occs[i]; len(occ.parts) == 1 && occ.parts[0].scope != nil {
			if n, w, got := z.find(occ.parts[0].scope, rest); got != absent {
				return n, w, got
			}
			continue
		}
		if f.state == busy {
			if v := f.value.Lookup(rest); v != nil { // what the occurrences before this one give
				return v, f.weight, found
			}
			return nil, 0, circle
		}
		if v := z.field(sc, f).Lookup(rest); v != nil {
			return v, f.weight, found
		}
		return nil, 0, absent
	}
	return nil, 0, absent
}

// fragment reads the value of a variable as if it stood in the file: a number, a list, an object. Whatever cannot be
// read so, or would be mere text, is the text itself.
func (z *resolver) fragment(s string, at fault.Position) *option.Node {
	plain := &option.Node{Kind: option.String, Text: s, Pos: at}
	if s == "" {
		return plain
	}
	switch c := s[0]; {
	case c == '[' || c == '{':
		if n := z.nestedFragment(s, at); n != nil {
			return n
		}
	case c == '"':
		if n := len(s) - 1; n > 0 && s[n] == '"' && !strings.ContainsAny(s[1:n], "\"\\\n") {
			return &option.Node{Kind: option.String, Text: s[1:n], Quoted: true, Pos: at}
		}
	default:
		if n := wordNode(s, at); n.Kind != option.String {
			return n
		}
	}
	return plain
}

// nestedFragment reads a list or object; nil where the text is none. A ${…} in it makes it text.
func (z *resolver) nestedFragment(s string, at fault.Position) *option.Node {
	if strings.Contains(s, "${") || !utf8.ValidString(s) || len(s) > maxText || !z.vars.spend(len(s), at) {
		return nil
	}
	var list fault.List
	lx := newLexer(s, at.File, &list)
	lx.fixed = &at
	vars := newVariables(Options{}, &list)
	r := newReader(lx, vars)
	r.json = true
	sc := r.shape.newScope(at)
	r.emit("{\n", `o="`, sc.id, "\"\n")
	f := sc.field("", at)
	r.value(&slot{f: f, begun: true, at: at})
	r.emit("}\n")
	if lx.blank(); !lx.atEnd() || list.Len() > 0 {
		return nil
	}
	sub := &resolver{shape: r.shape, vars: vars, list: &list}
	root, err := parseTree(string(r.out))
	if err == nil {
		err = sub.link(root)
	}
	if err != nil {
		z.list.AddError(err)
		return nil
	}
	n := sub.field(sc, f)
	if list.Len() > 0 {
		return nil
	}
	return n
}
