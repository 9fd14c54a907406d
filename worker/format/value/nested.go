package value

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/option"
	"strait/plan/schema"
	"strait/worker/format/field"
)

func (r Reader) row(b *array.StructBuilder, t schema.Type, n *option.Node, path string) error {
	values := make([]*option.Node, len(t.Fields))
	if err := Fields(t.Fields, n, path, values); err != nil {
		return err
	}
	b.Append(true)
	for i, f := range t.Fields {
		if err := r.append(b.FieldBuilder(i), f.Type, values[i], path+"."+f.Name); err != nil {
			return err
		}
	}
	return nil
}

// Fields takes a row literal apart into one node per column: a list gives values by position, an object by
// name. Columns that are not there stay nil, which is null. The error is an *Error.
func Fields(columns []schema.Column, n *option.Node, path string, values []*option.Node) error {
	switch n.Kind {
	case option.List:
		if len(n.List) > len(columns) {
			return &Error{Pos: n.Pos, Path: path, Found: fmt.Sprintf("the row has %d values, its type %d fields", len(n.List), len(columns))}
		}
		copy(values, n.List)
	case option.Object:
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = c.Name
			values[i] = n.Child(c.Name)
		}
		for _, f := range n.Fields {
			known := false
			for _, name := range names {
				known = known || name == f.Key
			}
			if known {
				continue
			}
			found := fmt.Sprintf("the row has no field %q", f.Key)
			if near := option.Nearest(f.Key, names); near != "" {
				found += fmt.Sprintf(", did you mean %q?", near)
			}
			return &Error{Pos: f.Pos, Path: path, Found: found}
		}
	default:
		return &Error{Pos: n.Pos, Path: path, Found: n.Describe() + " stands where a row belongs: a list of values or an object"}
	}
	return nil
}

func (r Reader) list(b *array.ListBuilder, t schema.Type, n *option.Node, path string) error {
	items := n.List
	if n.Kind != option.List {
		inner, ok := inside(n, '[', ']')
		if !ok {
			return bad(n, path, t)
		}
		items = nil
		for _, s := range parts(inner) {
			items = append(items, textNode(n, s))
		}
	}
	elem := *field.Elem(&t)
	b.Append(true)
	for i, c := range items {
		if err := r.append(b.ValueBuilder(), elem, c, path+"["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return nil
}

// entries reads a map: an object, or a text such as "{ 12:01:26 = v0, 12:01:27 = v1 }" whose keys no object
// could have.
func (r Reader) entries(b *array.MapBuilder, t schema.Type, n *option.Node, path string) error {
	key, elem := *field.Key(&t), *field.Elem(&t)
	fields := n.Fields
	if n.Kind != option.Object {
		inner, ok := inside(n, '{', '}')
		if !ok {
			return bad(n, path, t)
		}
		fields = nil
		for _, s := range parts(inner) {
			k, v, found := strings.Cut(s, "=")
			if !found {
				if k, v, found = strings.Cut(s, ":"); !found {
					return bad(n, path, t)
				}
			}
			fields = append(fields, option.Field{Key: unquote(k), Value: textNode(n, v), Pos: n.Pos})
		}
	}
	b.Append(true)
	for i, f := range fields {
		if n.Child(f.Key) != nil && n.Child(f.Key) != f.Value {
			continue // the key stands again further on
		}
		if i > 0 && n.Kind != option.Object && hasKey(fields[:i], f.Key) {
			return &Error{Pos: n.Pos, Path: path, Found: fmt.Sprintf("the key %q stands twice", f.Key)}
		}
		at := path + "." + f.Key
		k := &option.Node{Kind: option.String, Text: f.Key, Quoted: true, Pos: f.Pos}
		if err := r.append(b.KeyBuilder(), key, k, at); err != nil {
			return err
		}
		if err := r.append(b.ItemBuilder(), elem, f.Value, at); err != nil {
			return err
		}
	}
	return nil
}

func hasKey(fields []option.Field, key string) bool {
	for _, f := range fields {
		if f.Key == key {
			return true
		}
	}
	return false
}

// vector reads a vector of small elements from a list of numbers.
func (r Reader) vector(b *array.BinaryBuilder, t schema.Type, n *option.Node, path string) error {
	var out []byte
	for i, c := range n.List {
		f, err := strconv.ParseFloat(c.Text, 32)
		whole := f == math.Trunc(f) && f >= math.MinInt8 && f <= math.MaxUint8
		if err != nil || c.Kind == option.Null || t.Kind == schema.BinaryVector && !whole {
			return bad(c, path+"["+strconv.Itoa(i)+"]", t)
		}
		if t.Kind == schema.BinaryVector {
			out = append(out, byte(int(f)))
			continue
		}
		out = binary.LittleEndian.AppendUint16(out, FloatToHalf(float32(f), t.Kind))
	}
	b.Append(out)
	return nil
}

// inside is the text between two brackets of a string node.
func inside(n *option.Node, open, closing byte) (string, bool) {
	s := strings.TrimSpace(n.Text)
	if n.Kind != option.String || len(s) < 2 || s[0] != open || s[len(s)-1] != closing {
		return "", false
	}
	return s[1 : len(s)-1], true
}

// parts cuts a flat list at commas and line ends.
func parts(s string) []string {
	var out []string
	for _, p := range strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == '\n' }) {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

func textNode(n *option.Node, s string) *option.Node {
	s = strings.TrimSpace(s)
	if s == "null" {
		return &option.Node{Kind: option.Null, Pos: n.Pos}
	}
	return &option.Node{Kind: option.String, Text: unquote(s), Pos: n.Pos}
}

func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

// appendJSON writes an object or a list where a string is wanted, as SeaTunnel does.
func appendJSON(dst []byte, n *option.Node) []byte {
	switch n.Kind {
	case option.Null:
		return append(dst, "null"...)
	case option.List:
		dst = append(dst, '[')
		for i, c := range n.List {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, c)
		}
		return append(dst, ']')
	case option.Object:
		dst = append(dst, '{')
		for i, f := range n.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendQuote(dst, f.Key)
			dst = append(dst, ':')
			dst = appendJSON(dst, f.Value)
		}
		return append(dst, '}')
	case option.String:
		return strconv.AppendQuote(dst, n.Text)
	}
	return append(dst, n.Text...)
}
