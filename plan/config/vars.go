package config

import (
	"slices"
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
)

// maxExpanded bounds the text that variables may add to one job file.
const maxExpanded = 64 << 20

// tablePlaceholders are filled in by the engine for each table; nothing on the command line replaces them.
var tablePlaceholders = map[string]bool{
	"database_name": true, "schema_name": true, "table_name": true, "schema_full_name": true,
	"table_full_name": true, "primary_key": true, "unique_key": true, "field_names": true,
}

// isFilePlaceholder says that file sinks fill ${name} in: now, uuid, transactionId, and k0, v0, k1, … for partition
// columns. The environment does not replace them, -i does.
func isFilePlaceholder(name string) bool {
	switch name {
	case "now", "uuid", "transactionId":
		return true
	}
	if len(name) < 2 || name[0] != 'k' && name[0] != 'v' {
		return false
	}
	_, rest := digits(name[1:])
	return rest == ""
}

// isWorkerReference says that ${env:NAME} or ${file:PATH} is resolved on the worker, so that the value is never
// stored with the job.
func isWorkerReference(name string, hasFall bool) bool {
	return hasFall && (name == "env" || name == "file")
}

// variables gives ${…} their values and keeps account of what was asked for.
type variables struct {
	given   map[string]string
	env     func(string) (string, bool)
	used    map[string]string // environment variables that were asked for and found
	asked   map[string]bool   // those of given that were asked for
	unknown map[string]bool
	spent   int
	list    *fault.List
	plain   bool       // settings: no placeholders, every ${…} needs a value
	absent  fault.List // plain: those without one
}

func newVariables(o Options, list *fault.List) *variables {
	return &variables{given: o.Vars, env: o.Env, used: map[string]string{}, asked: map[string]bool{}, unknown: map[string]bool{}, list: list}
}

// source says where a variable's value comes from.
type source uint8

const (
	nowhere source = iota
	stays          // a placeholder that is not ours to fill
	commandLine
	environment
)

// lookup gives the value of a variable from the command line.
func (v *variables) lookup(r *reference) (string, source) {
	if v.plain {
		return v.ofSettings(r)
	}
	if tablePlaceholders[r.name] || isWorkerReference(r.name, r.hasFall) {
		return "", stays
	}
	if s, ok := v.given[r.name]; ok {
		v.asked[r.name] = true
		return s, commandLine
	}
	if isFilePlaceholder(r.name) && !r.hasFall {
		return "", stays
	}
	return "", nowhere
}

// ofSettings reads ${env:NAME}, which in a job file is the worker's business, as the environment of this process.
func (v *variables) ofSettings(r *reference) (string, source) {
	if !isWorkerReference(r.name, r.hasFall) {
		return "", nowhere
	}
	if r.name == "env" {
		if s, ok := v.environment(r.fallback); ok {
			return s, commandLine
		}
		v.missing(&reference{name: r.fallback, pos: r.pos})
	} else if name := r.name + ":" + r.fallback; !v.unknown[name] {
		v.unknown[name] = true
		mistake(&v.absent, r.pos, "", "${file:…} is for job files", "a secret has a setting for its file: password-file instead of password")
	}
	return "", stays
}

// environment gives the value of a variable from the environment and remembers it.
func (v *variables) environment(name string) (string, bool) {
	if v.env == nil || !v.plain && isFilePlaceholder(name) {
		return "", false
	}
	s, ok := v.env(name)
	if ok {
		v.used[name] = s
	}
	return s, ok
}

// missing warns of a variable that stays as it is written, once for each name.
func (v *variables) missing(r *reference) {
	if v.unknown[r.name] {
		return
	}
	v.unknown[r.name] = true
	if v.plain {
		mistake(&v.absent, r.pos, "", "no value for ${"+r.name+"}", "set the environment variable "+r.name+", or write ${"+r.name+":DEFAULT}")
		return
	}
	remedy := "pass -i " + r.name + "=VALUE, or write ${" + r.name + ":DEFAULT}"
	names := make([]string, 0, len(v.given))
	for name := range v.given {
		names = append(names, name)
	}
	slices.Sort(names)
	if near := option.Nearest(r.name, names); near != "" {
		remedy += " (there is a value for " + near + ")"
	}
	warning(v.list, r.pos, "", "no value for ${"+r.name+"}: it stays as it is written", remedy)
}

// spend takes n bytes off the budget for expanded text.
func (v *variables) spend(n int, at fault.Position) bool {
	if v.spent > maxExpanded {
		return false
	}
	if v.spent += n; v.spent > maxExpanded {
		mistake(v.list, at, "", "the values of the variables make the file larger than 64 MiB", "")
		return false
	}
	return true
}

// expand replaces the ${…} in text that stood in quotes. What has no value stays.
func (v *variables) expand(s string, at fault.Position) string {
	return v.expandDepth(s, at, 0)
}

func (v *variables) expandDepth(s string, at fault.Position, depth int) string {
	next := strings.Index(s, "${")
	if next < 0 || depth > 20 {
		return s
	}
	var b strings.Builder
	for next >= 0 {
		b.WriteString(s[:next])
		s = s[next:]
		end := variableEnd(s, false)
		if end < 0 {
			break
		}
		ref := newReference(s[2:end-1], at)
		value, ok := v.value(ref, depth)
		if !ok {
			value = s[:end]
		} else if !v.spend(len(value), at) {
			return ""
		}
		b.WriteString(value)
		s = s[end:]
		next = strings.Index(s, "${")
	}
	b.WriteString(s)
	return b.String()
}

// value gives the text of one variable inside quotes: from the command line, the environment, or its default.
func (v *variables) value(r *reference, depth int) (string, bool) {
	if r.name == "" {
		return "", false
	}
	s, from := v.lookup(r)
	switch from {
	case commandLine:
		return unwrap(s), true
	case stays:
		return "", false
	}
	if s, ok := v.environment(r.name); ok {
		return s, true
	}
	switch {
	case r.hasFall:
		return v.expandDepth(r.fallback, r.pos, depth+1), true
	case r.optional:
		return "", true
	}
	v.missing(r)
	return "", false
}

// unwrap takes the quotes off a value given as -i name="text", as SeaTunnel does.
func unwrap(s string) string {
	if n := len(s); n >= 2 && s[0] == '"' && s[n-1] == '"' {
		return s[1 : n-1]
	}
	return s
}

// newReference takes the inside of ${…} apart. A name with blanks, quotes or braces in it is none; such text stays.
func newReference(inside string, at fault.Position) *reference {
	r := &reference{raw: "${" + inside + "}", pos: at}
	if strings.HasPrefix(inside, "?") {
		r.optional = true
		inside = inside[1:]
	}
	r.name, r.fallback, r.hasFall = strings.Cut(inside, ":")
	r.name = strings.TrimSpace(r.name)
	if n := len(r.name); n > 2 && r.name[0] == '"' && r.name[n-1] == '"' {
		r.name = r.name[1 : n-1]
	}
	if strings.ContainsAny(r.name, " \t\r\n\"'{}$") {
		r.name = ""
	}
	return r
}

// Substitute replaces the ${…} in a text by the rules for text in quotes: -i, environment, default; table
// placeholders, those of file sinks, ${env:…}, ${file:…} and unknown names stay.
func Substitute(s string, o Options) string {
	var list fault.List
	return newVariables(o, &list).expand(s, fault.Position{})
}
