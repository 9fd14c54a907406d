package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"strait/plan/fault"
	"strait/plan/option"
)

// maxText is the size of the largest job file that is read.
const maxText = 8 << 20

// Options says how a job file is read.
type Options struct {
	File string                      // for messages; a name ending in .json makes it a JSON file
	Vars map[string]string           // values of ${name} given by the user (-i); they go before everything else
	Env  func(string) (string, bool) // the environment, as os.LookupEnv; nil: none. FixedEnv replays a stored one

	Undecoded bool // values that env.shade.identifier says are encoded stay as they are
}

// FixedEnv looks variables up in a stored set, such as Job.EnvUsed of an earlier parse.
func FixedEnv(set map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := set[name]
		return v, ok
	}
}

// Parse reads the text of a job file. The error is nil or a *fault.Many with every mistake that was found; then
// there is no job. Warnings are given in either case. The result depends on nothing but the arguments.
func Parse(src []byte, o Options) (*Job, []*fault.Mistake, error) {
	s, warnings, err := finish(src, o, false)
	if err != nil {
		return nil, warnings, err
	}
	return s.Job, warnings, nil
}

func finish(src []byte, o Options, origins bool) (*Editable, []*fault.Mistake, error) {
	var list fault.List
	s := &Editable{text: src, wanted: origins}
	s.Job = parse(src, o, s, &list)
	warnings := list.Warnings()
	slices.SortStableFunc(warnings, func(a, b *fault.Mistake) int { return a.Pos.Line - b.Pos.Line })
	if err := list.Err(); err != nil {
		return nil, warnings, err
	}
	return s, warnings, nil
}

func parse(src []byte, o Options, keep *Editable, list *fault.List) *Job {
	for _, name := range slices.Sorted(maps.Keys(o.Vars)) {
		if tablePlaceholders[name] {
			list.Add(fault.Position{}, "", "-i "+name+": ${"+name+"} is filled in for each table and takes no value", "use another name in the file")
		}
	}
	if !check(src, o.File, jobFile, list) {
		return nil
	}
	if len(bytes.TrimSpace(src)) == 0 {
		list.Add(fault.Position{File: o.File}, "", "the file is empty", "write env { … } source { … } sink { … }")
		return nil
	}
	z := read(src, o, newVariables(o, list), list)
	if z == nil {
		return nil
	}
	keep.take(z)
	b := &builder{z: z, list: list, root: z.shape.scopes[0], file: o.File, plain: o.Undecoded}
	return b.job()
}

// read reads a text that check has passed, up to the tree that is to be resolved; nil after a mistake.
func read(src []byte, o Options, vars *variables, list *fault.List) *resolver {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	r := newReader(newLexer(string(src), o.File, list), vars)
	switch ext := strings.ToLower(filepath.Ext(o.File)); ext {
	case ".json":
		r.json = true
	case ".conf", ".hocon":
	default:
		r.json = json.Valid(src)
	}
	r.root()
	if list.Len() >= maxFaults {
		list.Add(r.lx.pos(), "", fmt.Sprintf("reading stops here, after %d mistakes", maxFaults), "")
	}
	if list.Len() > 0 {
		return nil
	}
	root, err := parseTree(string(r.out))
	if err != nil {
		list.AddError(err)
		return nil
	}
	z := &resolver{shape: r.shape, vars: vars, list: list, comments: r.lx.comments}
	if err := z.link(root); err != nil {
		list.AddError(err)
		return nil
	}
	return z
}

// What messages call the text.
const (
	jobFile      = "job file"
	settingsFile = "settings file"
)

// check refuses what is no text before anything reads it.
func check(src []byte, file, what string, list *fault.List) bool {
	whole := fault.Position{File: file}
	refuse := func(at fault.Position, found, remedy string) bool {
		list.Add(at, "", found, remedy)
		return false
	}
	if strings.EqualFold(filepath.Ext(file), ".sql") {
		return refuse(whole, "job files in SQL are not supported", "write the job as HOCON (.conf) or JSON (.json)")
	}
	if len(src) > maxText {
		return refuse(whole, fmt.Sprintf("the file has %d bytes; a %s has at most %d (8 MiB)", len(src), what, maxText), "")
	}
	if bytes.HasPrefix(src, []byte{0xff, 0xfe}) || bytes.HasPrefix(src, []byte{0xfe, 0xff}) {
		return refuse(whole, "the file is UTF-16", "save it as UTF-8")
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		return refuse(place(src, i, file), "found a NUL byte: this is no text file", "give a "+what+" in HOCON or JSON")
	}
	if !utf8.Valid(src) {
		i := 0
		for {
			c, w := utf8.DecodeRune(src[i:])
			if c == utf8.RuneError && w == 1 {
				break
			}
			i += w
		}
		return refuse(place(src, i, file), fmt.Sprintf("the byte 0x%02x is not UTF-8", src[i]), "save the file as UTF-8")
	}
	return true
}

// place gives line and column of an offset.
func place(src []byte, off int, file string) fault.Position {
	start := bytes.LastIndexByte(src[:off], '\n') + 1
	return fault.Position{File: file, Line: 1 + bytes.Count(src[:off], []byte("\n")), Column: 1 + utf8.RuneCount(src[start:off])}
}

// sections are the keys a job file may have.
var sections = []string{"env", string(Source), string(Transform), string(Sink)}

func nearestSection(name string) string { return option.Nearest(name, sections) }

// mistake and warning keep the number of reports bounded: the first ones are those that help.
func mistake(list *fault.List, at fault.Position, path, found, remedy string) {
	if list.Len() < maxFaults {
		list.Add(at, path, found, remedy)
	}
}

func warning(list *fault.List, at fault.Position, path, found, remedy string) {
	switch n := len(list.Warnings()); {
	case n < maxFaults:
		list.Warn(at, path, found, remedy)
	case n == maxFaults:
		list.Warn(at, "", "further warnings are left out", "")
	}
}
