// Package optiontest builds option values for tests of plugins, from JSON, which keeps the order of keys and the
// text of numbers as plan/config does.
package optiontest

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"strait/plan/fault"
	"strait/plan/option"
)

// Node parses one JSON value.
func Node(t testing.TB, text string) *option.Node {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	n, err := parse(d)
	if err != nil {
		t.Fatalf("optiontest: %v in %s", err, text)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("optiontest: more than one value in %s", text)
	}
	return n
}

// Values decodes a JSON object by a spec and fails the test when there are mistakes.
func Values(t testing.TB, spec option.Spec, text string) option.Values {
	t.Helper()
	v, err := Decode(t, spec, text)
	if err != nil {
		t.Fatalf("optiontest: %v", err)
	}
	return v
}

// Decode decodes a JSON object by a spec and returns the mistakes.
func Decode(t testing.TB, spec option.Spec, text string) (option.Values, error) {
	t.Helper()
	var l fault.List
	v := spec.Decode(Node(t, text), "plugin", &l)
	return v, l.Err()
}

func parse(d *json.Decoder) (*option.Node, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	n := &option.Node{Pos: fault.Position{Line: 1, Column: int(d.InputOffset())}}
	switch v := tok.(type) {
	case nil:
		n.Kind = option.Null
	case bool:
		n.Kind, n.Text = option.Bool, map[bool]string{true: "true", false: "false"}[v]
	case json.Number:
		n.Kind, n.Text = option.Number, v.String()
	case string:
		n.Kind, n.Text, n.Quoted = option.String, v, true
	case json.Delim:
		if v == '[' {
			n.Kind = option.List
			for d.More() {
				c, err := parse(d)
				if err != nil {
					return nil, err
				}
				n.List = append(n.List, c)
			}
		} else {
			n.Kind = option.Object
			for d.More() {
				key, err := d.Token()
				if err != nil {
					return nil, err
				}
				c, err := parse(d)
				if err != nil {
					return nil, err
				}
				n.Fields = append(n.Fields, option.Field{Key: key.(string), Value: c, Pos: c.Pos})
			}
		}
		_, err = d.Token()
	}
	return n, err
}
