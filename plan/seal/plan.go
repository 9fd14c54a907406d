package seal

import (
	"io"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/plan/secret"
)

// Plan seals the secrets of a job that was put into the store in clear, so that its plan has none. It changes the
// options and env of the job; its text it leaves alone. It gives the places that were in clear. Without a key the
// error has one mistake for each, wrapping ErrPlain.
func Plan(job *config.Job, cat Catalog, keys *secret.Keyring, random io.Reader) ([]fault.Position, error) {
	s := &sealer{keys: keys, random: random}
	edits := map[*option.Node]string{}
	var places []fault.Position
	take := func(found []option.Secret) {
		for i := range found {
			v := &found[i]
			if !plain(v, "") {
				continue
			}
			places = append(places, v.Node.Pos)
			if keys.Empty() {
				s.list.AddError(&fault.Mistake{Pos: v.Node.Pos, Path: v.Path, Found: "a secret in plain text",
					Remedy: "submit the job with `stctl job submit`, which seals it; or write ${env:NAME} or ${file:PATH}, which the worker fills in", Err: ErrPlain})
				continue
			}
			text, err := s.sealed(v, "")
			if err != nil {
				s.list.AddError(err)
			}
			edits[v.Node] = text
		}
	}
	take(logical.EnvSpec.Secrets(job.Env, "env"))
	for _, b := range blocks(job) {
		take(find(b, cat))
	}
	if err := s.list.Err(); err != nil || len(edits) == 0 {
		return places, err
	}
	job.Env = replaced(job.Env, edits)
	for _, b := range blocks(job) {
		b.Options = replaced(b.Options, edits)
	}
	return places, nil
}

// replaced is a node with other texts. What does not change is shared.
func replaced(n *option.Node, edits map[*option.Node]string) *option.Node {
	if text, ok := edits[n]; ok {
		return &option.Node{Kind: option.String, Text: text, Quoted: true, Pos: n.Pos}
	}
	return mapped(n, func(e *option.Node) *option.Node { return replaced(e, edits) })
}

// mapped is a list or object with each value replaced by what f gives; n itself where f changes nothing.
func mapped(n *option.Node, f func(*option.Node) *option.Node) *option.Node {
	out := n
	mine := func() {
		if out == n {
			c := *n
			c.List = append([]*option.Node(nil), n.List...)
			c.Fields = append([]option.Field(nil), n.Fields...)
			out = &c
		}
	}
	for i, e := range n.List {
		if m := f(e); m != e {
			mine()
			out.List[i] = m
		}
	}
	for i := range n.Fields {
		if m := f(n.Fields[i].Value); m != n.Fields[i].Value {
			mine()
			out.Fields[i].Value = m
		}
	}
	return out
}
