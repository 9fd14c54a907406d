package logical

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"strait/plan"
	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/option"
)

const (
	maxPlugins = 10000 // of one job
	maxShown   = 20    // names in one message
)

// wiring connects the plugins of a job.
type wiring struct {
	job    *config.Job
	l      *fault.List
	byName map[string]*Vertex
	simple bool // one source, at most one transform, one sink: wrong names are ignored as SeaTunnel does
	all    []*Vertex
	// By section, in file order.
	sources, transforms, sinks []*Vertex
}

// wire makes the vertices and edges. The vertices come in topological order; nil after a mistake in the wiring
// that leaves no graph.
func wire(job *config.Job, cat Catalog, l *fault.List) []*Vertex {
	if n := len(job.Sources) + len(job.Transforms) + len(job.Sinks); n > maxPlugins {
		l.Add(fault.Position{File: job.File}, "", fmt.Sprintf("the job has %d plugins; it may have %d", n, maxPlugins), "split it")
		return nil
	}
	w := &wiring{job: job, l: l, byName: map[string]*Vertex{}}
	w.sources = w.vertices(job.Sources, cat)
	w.transforms = w.vertices(job.Transforms, cat)
	w.sinks = w.vertices(job.Sinks, cat)
	w.all = slices.Concat(w.sources, w.transforms, w.sinks)
	w.simple = len(w.sources) == 1 && len(w.transforms) <= 1 && len(w.sinks) == 1
	before := l.Len()
	w.names()
	w.ids()
	if len(w.sources) == 0 {
		l.Add(fault.Position{File: job.File}, "", "the job has no source", "write source { Name { … } }")
	}
	if len(w.sinks) == 0 {
		l.Add(fault.Position{File: job.File}, "", "the job has no sink", "write sink { Name { … } }")
	}
	for i, v := range w.transforms {
		w.connect(v, i)
	}
	for i, v := range w.sinks {
		w.connect(v, i)
	}
	if !w.acyclic() {
		return nil
	}
	if len(w.sources) > 0 && len(w.sinks) > 0 && l.Len() == before { // what follows from a wrong name is not told twice
		w.dropUnread()
	}
	return w.sorted()
}

func (w *wiring) vertices(blocks []*config.Block, cat Catalog) []*Vertex {
	var out []*Vertex
	for _, b := range blocks {
		v := &Vertex{Section: b.Section, Plugin: b.Plugin, Path: b.Path(), Pos: b.Pos, block: b, plugin: cat.Lookup(b.Section, b.Plugin)}
		if v.plugin.Name != "" {
			v.Plugin = v.plugin.Name
		}
		out = append(out, v)
	}
	return out
}

// optionPos is the place of an option of a block, or of the block.
func (v *Vertex) optionPos(names ...string) fault.Position {
	for _, name := range names {
		if n := v.block.Options.Lookup(name); n != nil && !n.Pos.IsZero() {
			return n.Pos
		}
	}
	return v.Pos
}

func (v *Vertex) inputPos() fault.Position { return v.optionPos("plugin_input", "source_table_name") }

// inputKey and outputKey are the spellings the block uses, for messages.
func (v *Vertex) inputKey() string {
	if v.block.Options.Lookup("plugin_input") == nil && v.block.Options.Lookup("source_table_name") != nil {
		return "source_table_name"
	}
	return "plugin_input"
}

func (v *Vertex) outputKey() string {
	if v.block.Options.Lookup("plugin_output") == nil && v.block.Options.Lookup("result_table_name") != nil {
		return "result_table_name"
	}
	return "plugin_output"
}

// names registers outputs. Two of one name are a mistake, but for the transform of a simple job, which takes the
// name of its source over.
func (w *wiring) names() {
	for _, v := range slices.Concat(w.sources, w.transforms) {
		name := v.block.Output
		if name == "" {
			continue
		}
		first := w.byName[name]
		if first == nil {
			w.byName[name] = v
			continue
		}
		if w.simple {
			w.l.Warn(v.optionPos("plugin_output", "result_table_name"), v.Path,
				fmt.Sprintf("%s %q is also that of %s; who reads it reads this transform", v.outputKey(), name, first.Path), "give each plugin its own name")
			continue
		}
		w.l.Add(v.optionPos("plugin_output", "result_table_name"), v.Path,
			fmt.Sprintf("%s %q is also that of %s%s", v.outputKey(), name, first.Path, onLine(first.Pos)), "give each plugin its own name")
	}
}

func onLine(p fault.Position) string {
	if p.Line == 0 {
		return ""
	}
	return " on line " + strconv.Itoa(p.Line)
}

// ids names the vertices (invariant 2).
func (w *wiring) ids() {
	ordinals := map[string]int{}
	taken := map[plan.VertexID]*Vertex{}
	for _, v := range w.all {
		key := string(v.Section) + "." + v.Plugin
		auto := plan.VertexID(key + "." + strconv.Itoa(ordinals[key]))
		ordinals[key]++
		v.ID = auto
		if v.Section != config.Sink && v.block.Output != "" && w.byName[v.block.Output] == v {
			v.ID = plan.VertexID(v.block.Output)
		}
		if other := taken[v.ID]; other != nil {
			w.l.Add(v.Pos, v.Path, fmt.Sprintf("its id %q is also that of %s", v.ID, other.Path), "give one of them another plugin_output")
		}
		taken[v.ID] = v
	}
}

// before is the plugin that a transform or sink without plugin_input reads: i is its place in its section.
func (w *wiring) before(v *Vertex, i int) *Vertex {
	switch {
	case v.Section == config.Transform && i > 0:
		return w.transforms[i-1]
	case v.Section == config.Sink && len(w.transforms) > 0:
		return w.transforms[len(w.transforms)-1]
	case len(w.sources) > 0:
		return w.sources[len(w.sources)-1]
	}
	return nil
}

func (w *wiring) connect(v *Vertex, i int) {
	seen := map[*Vertex]bool{}
	for _, name := range v.block.Inputs {
		in := w.lookup(v, name)
		switch {
		case in == nil:
			w.unknownInput(v, name)
		case seen[in]:
			w.l.Add(v.inputPos(), v.Path, fmt.Sprintf("%s names %q twice", v.inputKey(), name), "remove one of them")
		default:
			seen[in] = true
			v.link(in, name)
		}
	}
	if len(v.Inputs) > 0 || len(v.block.Inputs) > 0 && !w.simple {
		return
	}
	if in := w.before(v, i); in != nil {
		name := in.block.Output
		if name == "" {
			name = string(in.ID)
		}
		v.link(in, name)
	}
}

// lookup finds who has a name. In a simple job whose transform took the name of its source over, the transform
// itself reads the source and the sink the transform.
func (w *wiring) lookup(v *Vertex, name string) *Vertex {
	in := w.byName[name]
	if in != nil && w.simple && v.Section == config.Sink && len(w.transforms) == 1 && w.transforms[0].block.Output == name {
		return w.transforms[0]
	}
	return in
}

func (v *Vertex) link(in *Vertex, name string) {
	v.Inputs = append(v.Inputs, in)
	v.InputNames = append(v.InputNames, name)
	in.Outputs = append(in.Outputs, v)
}

func (w *wiring) unknownInput(v *Vertex, name string) {
	found := fmt.Sprintf("%s %q names no plugin", v.inputKey(), name)
	if w.simple {
		i := 0
		if before := w.before(v, i); before != nil {
			remedy := "remove " + v.inputKey()
			if before.block.Output != "" {
				remedy = fmt.Sprintf("write %s = %q", v.inputKey(), before.block.Output)
			}
			w.l.Warn(v.inputPos(), v.Path, found+"; as in SeaTunnel, a job of one source and one sink reads the plugin before, "+before.Path, remedy)
			return
		}
	}
	var names []string
	for _, o := range slices.Concat(w.sources, w.transforms) {
		if o.block.Output != "" && o != v {
			names = append(names, o.block.Output)
		}
	}
	remedy := "no plugin has a name; give the source plugin_output = " + strconv.Quote(name)
	if len(names) > 0 {
		shown := names
		if len(names) > maxShown {
			shown = append(slices.Clone(names[:maxShown]), "…")
		}
		remedy = "the names are " + strings.Join(shown, ", ")
		if near := option.Nearest(name, names); near != "" {
			remedy = fmt.Sprintf("did you mean %q? %s", near, remedy)
		}
	}
	w.l.Add(v.inputPos(), v.Path, found, remedy)
}

// acyclic reports each cycle once.
func (w *wiring) acyclic() bool {
	const (
		open = 1
		done = 2
	)
	state := map[*Vertex]int{}
	ok := true
	var stack []*Vertex
	var visit func(v *Vertex)
	visit = func(v *Vertex) {
		state[v] = open
		stack = append(stack, v)
		for _, in := range v.Inputs {
			switch state[in] {
			case open:
				ok = false
				w.cycle(stack[slices.Index(stack, in):])
			case 0:
				visit(in)
			}
		}
		stack = stack[:len(stack)-1]
		state[v] = done
	}
	for _, v := range w.all {
		if state[v] == 0 {
			visit(v)
		}
	}
	return ok
}

func (w *wiring) cycle(loop []*Vertex) {
	names := make([]string, 0, len(loop)+1)
	for i := len(loop) - 1; i >= 0; i-- { // the way rows flow
		names = append(names, string(loop[i].ID))
	}
	names = append(names, names[0])
	v := loop[0]
	w.l.Add(v.inputPos(), v.Path, "the plugins read each other in a circle: "+strings.Join(names, " → "), "let one of them read a source")
}

// dropUnread finds sources and transforms whose rows go nowhere: a mistake, or in a simple job a plugin that is
// left out.
func (w *wiring) dropUnread() {
	for i := len(w.all) - 1; i >= 0; i-- {
		v := w.all[i]
		if v.Section == config.Sink || len(v.Outputs) > 0 {
			continue
		}
		name := v.block.Output
		if !w.simple {
			remedy := "remove it, or name it in a plugin_input"
			if name == "" {
				remedy = "remove it, or give it a plugin_output and name that in a plugin_input"
			}
			w.l.Add(v.Pos, v.Path, "nothing reads it", remedy)
			continue
		}
		w.l.Warn(v.Pos, v.Path, "nothing reads it; it is left out, as in SeaTunnel", "remove it, or name it in the plugin_input of the sink")
		w.all = slices.Delete(w.all, i, i+1)
		for _, in := range v.Inputs {
			in.Outputs = slices.DeleteFunc(in.Outputs, func(o *Vertex) bool { return o == v })
		}
	}
}

// sorted gives the vertices in topological order, within it in file order.
func (w *wiring) sorted() []*Vertex {
	missing := map[*Vertex]int{}
	for _, v := range w.all {
		missing[v] = len(v.Inputs)
	}
	out := make([]*Vertex, 0, len(w.all))
	left := slices.Clone(w.all)
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(v *Vertex) bool { return missing[v] == 0 })
		v := left[i]
		left = slices.Delete(left, i, i+1)
		out = append(out, v)
		for _, o := range v.Outputs {
			missing[o]--
		}
	}
	return out
}
