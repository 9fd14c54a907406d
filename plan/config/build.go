package config

import (
	"fmt"
	"slices"
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
)

const pluginName = "plugin_name"

// builder makes the job of the resolved file.
type builder struct {
	z     *resolver
	list  *fault.List
	root  *scope
	file  string
	shade func(*option.Node) *option.Node // decodes a secret; nil: they are plain
	keys  []string                        // the secrets' options
	plain bool                            // Options.Undecoded
}

func (b *builder) job() *Job {
	root, _ := b.z.object(b.root)
	if b.list.Len() > 0 {
		return nil
	}
	job := &Job{File: b.file, Root: root, Env: &option.Node{Kind: option.Object, Pos: fault.Position{File: b.file}}, EnvUsed: b.z.vars.used}
	for i := range root.Fields {
		f := &root.Fields[i]
		switch f.Key {
		case "env":
			if f.Value.Kind != option.Object {
				mistake(b.list, f.Pos, "env", "found "+withArticle(f.Value.Kind), "write env { … }")
				continue
			}
			job.Env = f.Value
		case string(Source), string(Transform), string(Sink):
		default:
			b.unknown(f)
		}
	}
	b.openShade(job.Env)
	job.Sources = b.section(Source, root)
	job.Transforms = b.section(Transform, root)
	job.Sinks = b.section(Sink, root)
	complete := b.list.Len() == 0
	for _, s := range []struct {
		name   Section
		blocks []*Block
	}{{Source, job.Sources}, {Sink, job.Sinks}} {
		if len(s.blocks) == 0 && complete {
			mistake(b.list, fault.Position{File: b.file}, "", fmt.Sprintf("no %s", s.name), fmt.Sprintf("write %s { Name { … } }", s.name))
		}
	}
	return job
}

// unknown warns of a key of the root that means nothing. One that a ${…} names is the user's own.
func (b *builder) unknown(f *option.Field) {
	if b.root.fields[f.Key].used {
		return
	}
	remedy := "a job file has env, source, transform and sink"
	if near := nearestSection(f.Key); near != "" {
		remedy = "write " + near
	}
	warning(b.list, f.Pos, "", fmt.Sprintf("the key %q means nothing here", shorten(f.Key)), remedy)
}

// section makes the blocks of one section. A section that stands twice keeps the blocks of both, with a warning:
// SeaTunnel (and so Root) drops the earlier, which loses a sink without a word.
func (b *builder) section(s Section, root *option.Node) []*Block {
	f := b.root.fields[string(s)]
	if f == nil || root.Child(string(s)) == nil {
		return nil
	}
	lists := append(append([]*option.Node(nil), f.replaced...), f.value)
	var blocks []*Block
	var before fault.Position
	ordinal := 0
	for _, n := range lists {
		entries := b.entries(s, n)
		if len(blocks) > 0 && len(entries) > 0 {
			warning(b.list, n.Pos, string(s), fmt.Sprintf("the section stands a second time (before on line %d)", before.Line),
				"the plugins of both run; SeaTunnel drops those of the earlier, so write them in one section")
		}
		if len(entries) > 0 {
			before = n.Pos
		}
		for _, e := range entries {
			if bl := b.block(s, ordinal, e); bl != nil {
				blocks = append(blocks, bl)
			}
			ordinal++
		}
	}
	return blocks
}

// entries gives the plugins of a section as objects with plugin_name.
func (b *builder) entries(s Section, n *option.Node) []*option.Node {
	switch n.Kind {
	case option.List:
		return n.List
	case option.Object: // a reference to an object, or two JSON objects
		var out []*option.Node
		for _, f := range n.Fields {
			out = append(out, plugin(f.Value, &field{name: f.Key, pos: f.Pos}))
		}
		return out
	}
	mistake(b.list, n.Pos, string(s), "found "+withArticle(n.Kind), fmt.Sprintf("write %s { Name { … } }", s))
	return nil
}

// block makes one plugin's block.
func (b *builder) block(s Section, ordinal int, n *option.Node) *Block {
	where := fmt.Sprintf("%s[%d]", s, ordinal)
	if n.Kind != option.Object {
		mistake(b.list, n.Pos, where, "found "+withArticle(n.Kind)+" where a plugin is needed", "write Name { option = value … }")
		return nil
	}
	name := n.Child(pluginName)
	if name == nil || name.Kind != option.String || strings.TrimSpace(name.Text) == "" {
		mistake(b.list, n.Pos, where, "the plugin has no name", `write plugin_name = "Name"`)
		return nil
	}
	bl := &Block{Section: s, Plugin: strings.TrimSpace(name.Text), Ordinal: ordinal, Pos: n.Pos}
	bl.Options = &option.Node{Kind: option.Object, Pos: n.Pos}
	for _, f := range n.Fields {
		if f.Key == pluginName {
			continue
		}
		f.Value = b.secret(f, bl.Path())
		bl.Options.Fields = append(bl.Options.Fields, f)
	}
	b.wire(bl)
	return bl
}

// wire reads the options that name inputs and output, by their new and old names.
func (b *builder) wire(bl *Block) {
	bl.Inputs = b.either(bl, "plugin_input", "source_table_name", true)
	if out := b.either(bl, "plugin_output", "result_table_name", false); len(out) == 1 {
		bl.Output = out[0]
	}
}

// either reads one option that has two names; both may be given when they say the same.
func (b *builder) either(bl *Block, name, old string, many bool) []string {
	n, o := bl.Options.Child(name), bl.Options.Child(old)
	v, okV := b.names(bl, name, n, many)
	w, okW := b.names(bl, old, o, many)
	if n == nil {
		return w
	}
	if o != nil && okV && okW && !slices.Equal(v, w) {
		mistake(b.list, o.Pos, bl.Path(), fmt.Sprintf("%s = %q and %s = %q differ", name, strings.Join(v, ", "), old, strings.Join(w, ", ")),
			"keep "+name+" only")
	}
	return v
}

// names reads a name or a list of names; blanks around them do not count. ok is false after a mistake.
func (b *builder) names(bl *Block, key string, n *option.Node, many bool) (out []string, ok bool) {
	if n == nil || n.Kind == option.Null {
		return nil, true
	}
	items, remedy := []*option.Node{n}, `write a name in quotes`
	if many {
		remedy += ` or a list of names`
		if n.Kind == option.List {
			items = n.List
		}
	}
	for _, it := range items {
		switch it.Kind {
		case option.String, option.Number, option.Bool:
			if t := strings.TrimSpace(it.Text); t != "" {
				out = append(out, t)
			}
		default:
			mistake(b.list, it.Pos, bl.Path()+": "+key, "found "+withArticle(it.Kind), remedy)
			return nil, false
		}
	}
	return out, true
}
