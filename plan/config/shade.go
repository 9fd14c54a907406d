package config

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/secret"
)

// shadedOptions are the options that env.shade.identifier says are encoded, in every plugin.
var shadedOptions = []string{"username", "password", "auth", "token"}

// openShade reads env.shade.identifier and shade.options. base64 hides values from a glance, nothing more. Any other
// identifier names a plug-in of SeaTunnel's, which without it takes the values as they stand; so do we, with a warning.
func (b *builder) openShade(env *option.Node) {
	id := env.Lookup("shade.identifier")
	if id == nil || id.Kind == option.Null || b.plain {
		return
	}
	switch {
	case id.Kind == option.String && (id.Text == "default" || id.Text == ""):
		return
	case id.Kind == option.String && id.Text == "base64":
	default:
		warning(b.list, id.Pos, "env: shade.identifier", "found "+id.Describe()+": values are taken as they stand, nothing is decoded",
			"known are base64 and default (values are not encoded)")
		return
	}
	b.shade, b.keys = decodeBase64, shadedOptions
	if more := env.Lookup("shade.options"); more != nil && more.Kind == option.List {
		b.keys = slices.Clone(shadedOptions)
		for _, n := range more.List {
			b.keys = append(b.keys, n.Text)
		}
	}
}

// secret gives the value of a plugin's option, decoded where it is encoded. A decoded value is a new node: a shared
// one must not be decoded twice. Error texts never show a value.
func (b *builder) secret(f option.Field, where string) *option.Node {
	if b.shade == nil || !slices.Contains(b.keys, f.Key) {
		return f.Value
	}
	switch f.Value.Kind {
	case option.List:
		n := *f.Value
		n.List = append([]*option.Node(nil), n.List...)
		for i, e := range n.List {
			if n.List[i] = b.decode(e, f.Key, where); n.List[i] == nil {
				return f.Value
			}
		}
		return &n
	case option.Object:
		return f.Value
	}
	if n := b.decode(f.Value, f.Key, where); n != nil {
		return n
	}
	return f.Value
}

func (b *builder) decode(n *option.Node, key, where string) *option.Node {
	if n.Kind == option.Null || strings.HasPrefix(n.Text, "${") || secret.HasToken(n.Text) { // the worker fills it in
		return n
	}
	if d := b.shade(n); d != nil {
		b.z.decoded(d, n)
		return d
	}
	mistake(b.list, n.Pos, where+": "+key, "the value is not base64, which env.shade.identifier asks for", "encode it with base64, or remove shade.identifier")
	return nil
}

func decodeBase64(n *option.Node) *option.Node {
	raw, err := base64.StdEncoding.DecodeString(n.Text)
	if err != nil {
		raw, err = base64.RawStdEncoding.DecodeString(n.Text)
	}
	if err != nil || !utf8.Valid(raw) {
		return nil
	}
	return &option.Node{Kind: option.String, Text: string(raw), Quoted: true, Pos: n.Pos}
}

// Shade gives the text of a job file with the options that env.shade.identifier says are encoded put into that code,
// or out of it. A ${name} stays, as does everything else of the text.
func Shade(src []byte, file string, encode bool) ([]byte, error) {
	ed, _, err := ParseEditable(src, Options{File: file, Undecoded: true})
	if err != nil {
		return nil, err
	}
	var list fault.List
	b := &builder{list: &list}
	b.openShade(ed.Job.Env)
	if b.shade == nil {
		list.Add(ed.Job.Env.Pos, "env", "shade.identifier is not base64, so nothing of the file is encoded", `write env { shade.identifier = "base64" }`)
		return nil, list.Err()
	}
	edits := map[*option.Node]string{}
	one := func(n *option.Node, path string) {
		switch {
		case !scalar(n) || strings.HasPrefix(n.Text, "${") || secret.HasToken(n.Text): // the worker fills it in
		case encode && strings.Contains(n.Text, "${"):
			list.Add(n.Pos, path, "a variable within the value would not be filled in once it is encoded", "let the variable stand for the whole value")
		case encode:
			edits[ed.Origin(n)] = base64.StdEncoding.EncodeToString([]byte(n.Text))
		default:
			d := b.shade(n)
			if d == nil {
				list.Add(n.Pos, path, "the value is not base64, which env.shade.identifier asks for", "encode it with base64, or remove shade.identifier")
				return
			}
			edits[ed.Origin(n)] = d.Text
		}
	}
	for _, bl := range slices.Concat(ed.Job.Sources, ed.Job.Transforms, ed.Job.Sinks) {
		for _, f := range bl.Options.Fields {
			if !slices.Contains(b.keys, f.Key) {
				continue
			}
			one(f.Value, bl.Path()+": "+f.Key)
			for _, e := range f.Value.List {
				one(e, bl.Path()+": "+f.Key)
			}
		}
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return ed.Replace(edits, nil)
}
