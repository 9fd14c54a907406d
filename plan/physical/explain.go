package physical

import (
	"fmt"
	"strings"

	"strait/plan"
	"strait/plan/config"
	"strait/plan/schema"
)

// Explain draws a plan as text: each pipeline as a tree of its chains, and the slots it needs.
func Explain(p *Plan) string {
	var b strings.Builder
	mode := "BATCH"
	if p.Streaming {
		mode = "STREAMING"
	}
	groups := 0
	for _, pl := range p.Pipelines {
		groups += pl.Subtasks()
	}
	sharing := "on"
	if !p.SlotSharing {
		sharing = "off"
	}
	fmt.Fprintf(&b, "Plan %s: %s, %s, %s\n", p.JobName, mode, count(len(p.Pipelines), "pipeline"), count(groups, "task group"))
	fmt.Fprintf(&b, "Slots: %d with slot sharing, %d without; slot sharing is %s, the job needs %d\n",
		p.Slots(true), p.Slots(false), sharing, p.Slots(p.SlotSharing))
	for _, pl := range p.Pipelines {
		pl.explain(&b)
	}
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (p *Pipeline) explain(b *strings.Builder) {
	bounded := "bounded"
	if !p.Bounded {
		bounded = "unbounded"
	}
	fmt.Fprintf(b, "Pipeline %d: %s, %s, slots %d with sharing, %d without\n", p.ID, bounded, count(p.Subtasks(), "task group"), p.Slots(true), p.Slots(false))
	drawn := map[plan.ChainID]bool{}
	var draw func(c *Chain, head, tail string)
	draw = func(c *Chain, head, tail string) {
		if drawn[c.ID] {
			fmt.Fprintf(b, "%schain %d (see above)\n", head, c.ID)
			return
		}
		drawn[c.ID] = true
		fmt.Fprintf(b, "%schain %d ×%d: %s\n", head, c.ID, c.Parallelism, p.members(c))
		for i, id := range c.Outputs {
			branch, below := "├─ ", "│  "
			if i == len(c.Outputs)-1 {
				branch, below = "└─ ", "   "
			}
			e := p.Edges[id]
			draw(p.Chains[e.To], tail+branch+p.exchange(e)+" → ", tail+below)
		}
	}
	for _, c := range p.Chains {
		if len(c.Inputs) == 0 {
			draw(c, "  ", "  ")
		}
	}
	if tasks := p.Coordinators(); len(tasks) > 0 {
		fmt.Fprintf(b, "  beside them, without a slot: %s\n", strings.Join(tasks, ", "))
	}
}

// members names the vertices of a chain in the order rows flow.
func (p *Pipeline) members(c *Chain) string {
	parts := make([]string, len(c.Vertices))
	for i, id := range c.Vertices {
		v := p.Vertex(id)
		parts[i] = fmt.Sprintf("%s [%s %s]", id, v.Section, v.Plugin)
	}
	return strings.Join(parts, " ⇒ ")
}

// exchange says how an edge spreads rows, and why.
func (p *Pipeline) exchange(e *Edge) string {
	s := e.Exchange
	if keys := p.keyNames(e); len(keys) > 0 {
		s += "(" + strings.Join(keys, "; ") + ")"
	}
	if e.Why != "" {
		s += " [" + e.Why + "]"
	}
	return s
}

// keyNames gives the key columns of a hash edge; with several tables each is named.
func (p *Pipeline) keyNames(e *Edge) []string {
	var out []string
	for i, key := range e.Keys {
		if len(key) == 0 {
			continue
		}
		names := columns(e.Tables[i], key)
		if len(e.Tables) > 1 {
			names = e.Tables[i].Path.String() + ": " + names
		}
		out = append(out, names)
	}
	return out
}

func columns(t *schema.Table, places []int) string {
	names := make([]string, len(places))
	for i, k := range places {
		names[i] = t.Columns[k].Name
	}
	return strings.Join(names, ", ")
}

// Coordinators names the single tasks of a pipeline beside its task groups: an enumerator for each source, a
// committer for each sink that commits in one task.
func (p *Pipeline) Coordinators() []string {
	var out []string
	for _, v := range p.Vertices {
		if v.Section == config.Source {
			out = append(out, "enumerator of "+string(v.ID))
		}
	}
	for _, v := range p.Vertices {
		if v.Sink != nil && v.Sink.Aggregated {
			out = append(out, "committer of "+string(v.ID))
		}
	}
	return out
}

// Dot draws a plan in the language of Graphviz: a box per chain, pipelines as clusters.
func Dot(p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [shape=box];\n", quote(p.JobName))
	for _, pl := range p.Pipelines {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", pl.ID, quote(fmt.Sprintf("pipeline %d", pl.ID)))
		for _, c := range pl.Chains {
			label := fmt.Sprintf("chain %d ×%d", c.ID, c.Parallelism)
			for _, id := range c.Vertices {
				v := pl.Vertex(id)
				label += fmt.Sprintf("\n%s: %s %s", id, v.Section, v.Plugin)
			}
			fmt.Fprintf(&b, "    p%dc%d [label=%s];\n", pl.ID, c.ID, quote(label))
		}
		for _, e := range pl.Edges {
			label := e.Exchange
			if keys := pl.keyNames(e); len(keys) > 0 {
				label += "(" + strings.Join(keys, "; ") + ")"
			}
			fmt.Fprintf(&b, "    p%dc%d -> p%dc%d [label=%s];\n", pl.ID, e.From, pl.ID, e.To, quote(label))
		}
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// quote writes a string of the Dot language.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", "").Replace(s) + `"`
}
