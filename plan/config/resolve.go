package config

import (
	"fmt"
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
)

// maxRefDepth bounds chains of keys that name one another.
const maxRefDepth = 200

type resolveState uint8

const (
	fresh resolveState = iota
	busy               // value holds what the occurrences so far give
	done
)

// resolver turns the library's tree and the side table into nodes. A ${…} that names another key of the file needs
// the whole tree, so all of them are resolved here.
type resolver struct {
	shape  *shape
	vars   *variables
	list   *fault.List
	depth  int
	copied int // nodes that references doubled

	comments []span // of the text

	edit  *Editable        // nil: nobody asks where nodes come from
	twins [][]*option.Node // single values of one key that stand in several places; the last one counts
}

// link ties every scope to its object in the library's tree.
func (z *resolver) link(v tree) error {
	switch v := v.(type) {
	case object:
		id, _ := v["o"].(text)
		sc := z.scope(string(id))
		if sc == nil || sc.node != nil {
			return fmt.Errorf("BUG: the HOCON library gives an object of scope %q", string(id))
		}
		sc.node = v
		for _, f := range sc.order {
			for _, occ := range f.occs {
				for _, p := range occ.parts {
					if v[p.key] == nil {
						return fmt.Errorf("BUG: the HOCON library loses %s of scope %s", p.key, sc.id)
					}
					if err := z.link(v[p.key]); err != nil {
						return err
					}
				}
			}
		}
	case array:
		for _, e := range v {
			if err := z.link(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (z *resolver) scope(id string) *scope {
	if n := index(id, len(z.shape.scopes)); n >= 0 {
		return z.shape.scopes[n]
	}
	return nil
}

// index reads a generated number; -1 where it is none of the table's.
func index(s string, size int) int {
	n := 0
	for i := 0; i < len(s); i++ {
		if n = n*10 + int(s[i]-'0'); s[i] < '0' || s[i] > '9' || n >= size {
			return -1
		}
	}
	if s == "" {
		return -1
	}
	return n
}

// object gives the node of a scope: its fields in file order, those without a value left out.
func (z *resolver) object(sc *scope) (*option.Node, int) {
	n := &option.Node{Kind: option.Object, Pos: sc.pos}
	weight := 1
	for _, f := range sc.order {
		if v := z.field(sc, f); v != nil {
			n.Fields = append(n.Fields, option.Field{Key: f.name, Value: v, Pos: f.pos})
			weight += f.weight
		}
	}
	return n, weight
}

// field folds the occurrences of a field; nil when none gives a value.
func (z *resolver) field(sc *scope, f *field) *option.Node {
	if f.state != fresh {
		return f.value
	}
	f.state = busy
	own := false // the list of f.value was made here and has room to grow
	var all []*option.Node
	for _, occ := range f.occs {
		n, weight := z.occurrence(sc, occ)
		if z.edit != nil {
			all = append(all, n)
		}
		switch {
		case n == nil:
			continue
		case occ.append && own:
			n = &option.Node{Kind: option.List, List: append(f.value.List, n.List...), Pos: f.value.Pos}
			weight += f.weight
		case occ.append && f.value != nil:
			n = z.join(f.value, n, occ.pos)
			own = n.Kind == option.List
			weight += f.weight
		case occ.joined && f.value != nil:
			n = z.join(f.value, n, occ.pos)
			weight += f.weight
		default:
			own = false
			if f.value != nil && f.value.Kind == option.List {
				f.replaced = append(f.replaced, f.value)
			}
			if f.value != nil && f.value.Kind == option.Object && n.Kind == option.Object {
				weight += f.weight
				n = z.join(f.value, n, occ.pos)
			}
		}
		f.value, f.weight = n, weight
	}
	z.twin(all)
	f.state = done
	return f.value
}

// occurrence joins the parts of one value.
func (z *resolver) occurrence(sc *scope, occ *occurrence) (*option.Node, int) {
	var n *option.Node
	weight := 0
	for _, p := range occ.parts {
		v, w := z.value(sc.node[p.key])
		weight += w
		switch {
		case v == nil:
		case n == nil:
			n = v
		default:
			n = z.join(n, v, p.pos)
		}
	}
	return n, weight
}

// join puts two values that stand on one line together.
func (z *resolver) join(a, b *option.Node, at fault.Position) *option.Node {
	if !z.copies(len(a.List)+len(b.List)+len(a.Fields)+len(b.Fields), at) {
		return a
	}
	switch {
	case a.Kind == option.List && b.Kind == option.List:
		return &option.Node{Kind: option.List, List: append(a.List[:len(a.List):len(a.List)], b.List...), Pos: a.Pos}
	case a.Kind == option.Object && b.Kind == option.Object:
		return merge(a, b)
	}
	mistake(z.list, at, "", fmt.Sprintf("%s and %s cannot be joined", withArticle(a.Kind), withArticle(b.Kind)), "join lists with lists, objects with objects and text with text")
	return a
}

// copies takes n nodes off the budget for those that references and joining multiply.
func (z *resolver) copies(n int, at fault.Position) bool {
	if z.copied > maxCopied {
		return false
	}
	if z.copied += n; z.copied > maxCopied {
		mistake(z.list, at, "", fmt.Sprintf("joining and ${…} multiply the values of the file to more than %d", maxCopied), "")
		return false
	}
	return true
}

func withArticle(k option.Kind) string {
	if k == option.Object {
		return "an object"
	}
	return "a " + k.String()
}

// merge lays the object b over a, as two objects of one key merge.
func merge(a, b *option.Node) *option.Node {
	n := &option.Node{Kind: option.Object, Fields: append([]option.Field(nil), a.Fields...), Pos: a.Pos}
	at := make(map[string]int, len(n.Fields))
	for i, f := range n.Fields {
		at[f.Key] = i
	}
	for _, f := range b.Fields {
		i, ok := at[f.Key]
		if !ok {
			n.Fields = append(n.Fields, f)
			continue
		}
		if old := n.Fields[i].Value; old.Kind == option.Object && f.Value.Kind == option.Object {
			f.Value = merge(old, f.Value)
		}
		n.Fields[i] = f
	}
	return n
}

// value turns one value of the library's tree into a node and counts the nodes in it.
func (z *resolver) value(v tree) (*option.Node, int) {
	switch v := v.(type) {
	case text:
		if n := index(strings.TrimPrefix(string(v), "v"), len(z.shape.leaves)); n >= 0 {
			return z.leaf(&z.shape.leaves[n])
		}
	case object:
		id, _ := v["o"].(text)
		if sc := z.scope(string(id)); sc != nil {
			return z.object(sc)
		}
	case array:
		return z.elements(v)
	}
	z.list.AddError(fmt.Errorf("BUG: the HOCON library gives %T where a generated value stood", v))
	return nil, 0
}

// elements gives the node of a list or plugin section.
func (z *resolver) elements(v array) (*option.Node, int) {
	head, _ := v[0].(text)
	i := index(strings.TrimPrefix(string(head), "l"), len(z.shape.lists))
	if i < 0 {
		z.list.AddError(fmt.Errorf("BUG: the HOCON library gives a list without its mark"))
		return nil, 0
	}
	mark := z.shape.lists[i]
	n := &option.Node{Kind: option.List, Pos: mark.pos}
	weight := 1
	for _, e := range v[1:] {
		var el *option.Node
		var w int
		if o, ok := e.(object); ok { // a cell: an object with the one field that holds the element
			id, _ := o["o"].(text)
			cell := z.scope(string(id))
			f := cell.order[0]
			el, w = z.field(cell, f), f.weight
			if mark.section && el != nil {
				el = plugin(el, f)
			}
		} else {
			el, w = z.value(e)
		}
		if el != nil {
			n.List = append(n.List, el)
			weight += w
		}
	}
	return n, weight
}

// plugin adds plugin_name to an entry of a section; one that is written there wins. Deeper in a file an entry may
// be no object: SeaTunnel then keeps the bare value.
func plugin(n *option.Node, f *field) *option.Node {
	if n.Kind != option.Object {
		return n
	}
	p := &option.Node{Kind: option.Object, Pos: f.pos}
	if n.Child(pluginName) == nil {
		name := &option.Node{Kind: option.String, Text: f.name, Pos: f.pos}
		p.Fields = append(p.Fields, option.Field{Key: pluginName, Value: name, Pos: f.pos})
	}
	p.Fields = append(p.Fields, n.Fields...)
	return p
}
