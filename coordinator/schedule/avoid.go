package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// Avoid are workers better not taken. It is a wish: where there is no other way it is not met, and Place says so.
type Avoid struct {
	// Suspects are workers that others lost and that have not been heard of since.
	Suspects map[string]bool
	// Pairs are workers whose link broke a short while ago, by name.
	Pairs [][2]string
}

// leave drops workers until no suspect and no broken pair is left among open, then takes back what is needed for
// want of room: first ends of pairs, suspects last.
func (a *Avoid) leave(n *Need, open []bin) ([]bin, string) {
	if a == nil || len(a.Suspects)+len(a.Pairs) == 0 {
		return open, ""
	}
	out := map[string]bool{}
	var left []string // in the order in which they were left out
	drop := func(name string) { out[name], left = true, append(left, name) }
	at := map[string]*bin{}
	for i := range open {
		at[open[i].w.Name] = &open[i]
		if a.Suspects[open[i].w.Name] {
			drop(open[i].w.Name)
		}
	}
	lasts := map[string]int{} // units that ran there last
	if n.Last != nil {
		for _, u := range n.Units {
			lasts[last(n, u)]++
		}
	}
	for {
		broken := map[string]int{}
		for _, p := range a.Pairs {
			if at[p[0]] != nil && at[p[1]] != nil && !out[p[0]] && !out[p[1]] {
				broken[p[0]]++
				broken[p[1]]++
			}
		}
		// The one whose going mends most goes; of equals the one with less to lose.
		worst := ""
		for name, k := range broken {
			switch w := broken[worst]; {
			case worst == "" || k > w,
				k == w && lasts[name] < lasts[worst],
				k == w && lasts[name] == lasts[worst] && name > worst:
				worst = name
			}
		}
		if worst == "" {
			break
		}
		drop(worst)
	}
	have := room(open)
	for _, name := range left {
		have -= at[name].room
	}
	var back []string
	for i := len(left) - 1; i >= 0 && have < len(n.Units); i-- {
		delete(out, left[i])
		have += at[left[i]].room
		back = append(back, left[i])
	}
	note := ""
	if len(back) > 0 {
		slices.Sort(back)
		note = fmt.Sprintf("%s %s taken although a link to there broke a short while ago: there is no other room", strings.Join(back[:min(len(back), 8)], ", "),
			map[bool]string{true: "is", false: "are"}[len(back) == 1])
	}
	return slices.DeleteFunc(open, func(b bin) bool { return out[b.w.Name] }), note
}
