package logical

import (
	"fmt"

	"strait/plan/schema"
)

// merged checks the inputs of a vertex that only merges them: their rows must be alike. Inputs of one table each
// are compared as they are; among inputs of several tables, those of equal name. Every difference is reported.
func (b *builder) merged(v *Vertex) {
	if len(v.Inputs) < 2 || v.plugin.Together != nil && v.plugin.Together(v.Options) {
		return
	}
	first := v.Inputs[0]
	single := true
	for _, in := range v.Inputs {
		single = single && len(in.Out) == 1
	}
	for i, in := range v.Inputs[1:] {
		if single {
			b.alike(v, 0, i+1, first.Out[0], in.Out[0])
			continue
		}
		for j, other := range v.Inputs[:i+1] {
			for _, t := range in.Out {
				if o := byPath(other.Out, t.Path); o != nil {
					b.alike(v, j, i+1, o, t)
				}
			}
		}
	}
}

func byPath(tables []*schema.Table, p schema.Path) *schema.Table {
	for _, t := range tables {
		if t.Path == p {
			return t
		}
	}
	return nil
}

func (b *builder) alike(v *Vertex, i, j int, x, y *schema.Table) {
	if x.SameRow(y) {
		return
	}
	pair := fmt.Sprintf("inputs %q and %q do not fit together", v.InputNames[i], v.InputNames[j])
	for n := range max(len(x.Columns), len(y.Columns)) {
		diff := ""
		switch {
		case n >= len(x.Columns):
			diff = fmt.Sprintf("only %q has column %d, %s", v.InputNames[j], n+1, describe(y.Columns[n]))
		case n >= len(y.Columns):
			diff = fmt.Sprintf("only %q has column %d, %s", v.InputNames[i], n+1, describe(x.Columns[n]))
		case x.Columns[n].Name != y.Columns[n].Name || !x.Columns[n].Type.Equal(y.Columns[n].Type):
			diff = fmt.Sprintf("column %d is %s here and %s there", n+1, describe(x.Columns[n]), describe(y.Columns[n]))
		default:
			continue
		}
		b.l.Add(v.inputPos(), v.Path, pair+": "+diff, "bring both into one shape with a transform")
	}
}

func describe(c schema.Column) string { return c.Name + " " + c.Type.String() }
