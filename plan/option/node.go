package option

import (
	"strings"

	"strait/plan/fault"
)

// Kind is the shape of a Node.
type Kind uint8

// The shapes a value in a job file has.
const (
	Null Kind = iota
	Bool
	Number // Text is the number as it was written
	String
	List
	Object
)

// String names the shape as error messages do.
func (k Kind) String() string {
	return [...]string{"null", "boolean", "number", "string", "list", "object"}[k]
}

// Node is one value of a job file with its place. Objects keep their fields in file order. plan/config
// builds nodes; everybody else only reads them.
type Node struct {
	Kind   Kind           `json:"k"`
	Text   string         `json:"t,omitempty"` // Bool: true or false; Number: as written; String: the text after escapes and variables
	Quoted bool           `json:"q,omitempty"` // String: it stood in quotes
	List   []*Node        `json:"l,omitempty"` // List
	Fields []Field        `json:"f,omitempty"` // Object
	Pos    fault.Position `json:"p,omitzero"`
}

// Field is one entry of an object. A dot in Key does not nest (SeaTunnel reads keys flat).
type Field struct {
	Key   string         `json:"k"`
	Value *Node          `json:"v"`
	Pos   fault.Position `json:"p,omitzero"`
}

// Child returns the field of that exact key, the last one where it stands twice, or nil.
func (n *Node) Child(key string) *Node {
	if n == nil || n.Kind != Object {
		return nil
	}
	for i := len(n.Fields) - 1; i >= 0; i-- {
		if n.Fields[i].Key == key {
			return n.Fields[i].Value
		}
	}
	return nil
}

// Lookup finds an option by its name: the flat key a.b first, then a { b }, which SeaTunnel accepts alike.
func (n *Node) Lookup(key string) *Node {
	if c := n.Child(key); c != nil {
		return c
	}
	for i := 0; i < len(key); i++ {
		if key[i] != '.' {
			continue
		}
		if c := n.Child(key[:i]); c != nil && c.Kind == Object {
			if d := c.Lookup(key[i+1:]); d != nil {
				return d
			}
		}
	}
	return nil
}

// Describe shortens a value for an error message. The password of a URL is left out.
func (n *Node) Describe() string {
	if n == nil {
		return "nothing"
	}
	switch n.Kind {
	case Null:
		return "null"
	case Bool, Number:
		return n.Text
	case String:
		t := Masked(n.Text)
		if len(t) > 60 {
			t = strings.ToValidUTF8(t[:57], "") + "..."
		}
		return `"` + t + `"`
	case List:
		return "a list"
	}
	return "an object"
}
