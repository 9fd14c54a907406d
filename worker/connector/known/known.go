package known

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed names.tsv
var names string

// Plugin is one line of the list.
type Plugin struct {
	Section string // source, transform or sink
	Name    string // as SeaTunnel spells it
	Refused string // not empty: never in this build; the text says why and what to use instead
}

var list = sync.OnceValue(func() []Plugin {
	var out []Plugin
	for line := range strings.Lines(names) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		section, rest, _ := strings.Cut(line, "\t")
		name, refused, _ := strings.Cut(rest, "\t")
		out = append(out, Plugin{Section: section, Name: name, Refused: refused})
	}
	return out
})

// Find looks a plugin of a section up without regard to case; nil when SeaTunnel has none of that name.
func Find(section, name string) *Plugin {
	for _, p := range list() {
		if p.Section == section && strings.EqualFold(p.Name, name) {
			return &p
		}
	}
	return nil
}

// Names are the names of a section.
func Names(section string) []string {
	var out []string
	for _, p := range list() {
		if p.Section == section {
			out = append(out, p.Name)
		}
	}
	return out
}
