package config

import (
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
)

// ParseSettings reads a file of settings: HOCON or JSON by the rules of a job file, but without plugins, and as
// HOCON has it a dot in a key nests, so a.b = 1 and a { b = 1 } are one key and the later of two counts. A ${NAME}
// takes its value from Options.Env, from another key of the file, or from its default; without any it is a
// mistake, as a setting has nobody else to fill it in. An empty file is an empty object.
//
// The error is nil or a *fault.Many with every mistake that was found.
func ParseSettings(src []byte, o Options) (*option.Node, error) {
	var list fault.List
	root := &option.Node{Kind: option.Object, Pos: fault.Position{File: o.File}}
	if check(src, o.File, settingsFile, &list) && strings.TrimSpace(string(src)) != "" {
		vars := newVariables(o, &list)
		vars.plain = true
		if z := read(src, o, vars, &list); z != nil {
			root, _ = z.object(z.shape.scopes[0])
			root = nest(root)
		}
		list.AddError(vars.absent.Err())
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return root, nil
}

// nest takes the dots of keys apart.
func nest(n *option.Node) *option.Node {
	if n.Kind != option.Object {
		return n
	}
	out := &option.Node{Kind: option.Object, Pos: n.Pos}
	for _, f := range n.Fields {
		names := strings.Split(f.Key, ".")
		v := nest(f.Value)
		for i := len(names) - 1; i > 0; i-- {
			v = &option.Node{Kind: option.Object, Pos: f.Pos, Fields: []option.Field{{Key: names[i], Value: v, Pos: f.Pos}}}
		}
		out = merge(out, &option.Node{Kind: option.Object, Fields: []option.Field{{Key: names[0], Value: v, Pos: f.Pos}}})
	}
	return out
}
