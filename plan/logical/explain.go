package logical

import (
	"fmt"
	"strings"

	"strait/plan/config"
	"strait/plan/schema"
)

// Explain draws the Dag as a tree from its sources. A vertex with several inputs stands below the first; below
// the others its id is a reference.
func Explain(d *Dag) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Dag %s: %s, %d vertices\n", d.Name, mode(d.Env), len(d.Vertices))
	drawn := map[*Vertex]bool{}
	var draw func(v *Vertex, head, tail string)
	draw = func(v *Vertex, head, tail string) {
		if drawn[v] {
			fmt.Fprintf(&b, "%s%s (see above)\n", head, v.ID)
			return
		}
		drawn[v] = true
		fmt.Fprintf(&b, "%s%s\n", head, v.line())
		for i, o := range v.Outputs {
			if i == len(v.Outputs)-1 {
				draw(o, tail+"└─ ", tail+"   ")
			} else {
				draw(o, tail+"├─ ", tail+"│  ")
			}
		}
	}
	for _, v := range d.Vertices {
		if len(v.Inputs) == 0 {
			draw(v, "", "")
		}
	}
	return b.String()
}

func (v *Vertex) line() string {
	s := fmt.Sprintf("%s = %s %s, parallelism %d", v.ID, v.Section, v.Plugin, v.Parallelism)
	if len(v.Inputs) > 1 {
		s += " from " + strings.Join(v.InputNames, ", ")
	}
	if v.Section == config.Source && !v.Bounded {
		s += ", unbounded"
	}
	if v.Section == config.Source && v.Changelog {
		s += ", changelog"
	}
	if v.Section == config.Sink {
		if v.Sink.Guarantee != "" {
			s += ", " + v.Sink.Guarantee
		}
		return s
	}
	return s + ": " + Tables(v.Out)
}

const (
	tablesShown  = 4
	columnsShown = 8
)

// Tables writes tables in short, for one line of text.
func Tables(tables []*schema.Table) string {
	var parts []string
	for i, t := range tables {
		if i == tablesShown {
			parts = append(parts, fmt.Sprintf("… %d more tables", len(tables)-i))
			break
		}
		var cols []string
		for j, c := range t.Columns {
			if j == columnsShown {
				cols = append(cols, fmt.Sprintf("… %d more", len(t.Columns)-j))
				break
			}
			cols = append(cols, describe(c))
		}
		key := ""
		if t.PrimaryKey != nil {
			key = " key " + strings.Join(t.PrimaryKey.Columns, ", ")
		}
		parts = append(parts, t.Path.String()+"("+strings.Join(cols, ", ")+")"+key)
	}
	return strings.Join(parts, "; ")
}
