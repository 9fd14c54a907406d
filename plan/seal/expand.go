package seal

import (
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/secret"
)

// Sources are where the values come from that a job leaves to the process that runs it.
type Sources struct {
	Keys *secret.Keyring
	Env  func(name string) (string, bool)
	// File reads a file; the error says why not, without the path.
	File func(path string) (string, error)
}

// Expand gives the options of a plugin with tokens opened and ${env:NAME} and ${file:PATH} filled in, and the values
// it put there, for a scrubber. path is the plugin's name in messages. What cannot be had is a mistake in l and stays
// as it is written.
func (s Sources) Expand(n *option.Node, path string, l *fault.List) (*option.Node, []string) {
	e := &expander{Sources: s, l: l}
	return e.node(n, path), e.values
}

type expander struct {
	Sources
	l      *fault.List
	values []string
}

func (e *expander) node(n *option.Node, path string) *option.Node {
	switch n.Kind {
	case option.String:
		if secret.Late(n.Text) == "" {
			return n
		}
		c := *n
		c.Text = e.text(n, path)
		return &c
	case option.List:
		i := -1
		return mapped(n, func(c *option.Node) *option.Node { i++; return e.node(c, path+index(i)) })
	case option.Object:
		i := -1
		return mapped(n, func(c *option.Node) *option.Node { i++; return e.node(c, option.JoinPath(path, n.Fields[i].Key)) })
	}
	return n
}

func (e *expander) text(n *option.Node, path string) string {
	var b strings.Builder
	for _, p := range secret.Split(n.Text) {
		value, ok := "", true
		switch p.Kind {
		case secret.Plain:
			b.WriteString(p.Text)
			continue
		case secret.Sealed:
			v, err := e.Keys.Open(p.Token)
			if value, ok = v, err == nil; !ok {
				e.l.AddError(&fault.Mistake{Pos: n.Pos, Path: path, Found: err.Error(), Err: err})
			}
		case secret.Env:
			if value, ok = e.Env(p.Name); !ok && !p.Optional {
				e.l.Add(n.Pos, path, "the environment variable "+p.Name+" is not set here", "set it for every worker, in its unit or manifest")
			}
			ok = ok || p.Optional
		case secret.File:
			v, err := e.File(p.Name)
			if value, ok = v, err == nil; !ok && !p.Optional {
				e.l.Add(n.Pos, path, "the file "+p.Name+" cannot be read here: "+err.Error(), "put it on the host of every worker")
			}
			ok = ok || p.Optional
		}
		if !ok {
			b.WriteString(p.Text)
			continue
		}
		b.WriteString(value)
		if value != "" {
			e.values = append(e.values, value)
		}
	}
	return b.String()
}
