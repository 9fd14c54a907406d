package option

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"strait/plan/fault"
	"strait/plan/secret"
)

// Decode reads a block by its spec. path is the block's name in messages. Mistakes and warnings go to l; the
// values are usable only when none was added. common are options every plugin of the section has; one that the
// spec declares itself is its own.
func (s *Spec) Decode(n *Node, path string, l *fault.List, common ...Option) Values {
	spec := s.with(common)
	v := Values{spec: spec, path: path, node: n, value: map[string]any{}, set: map[string]bool{}}
	if n == nil {
		n = &Node{Kind: Object}
		v.node = n
	}
	if n.Kind != Object {
		l.Add(n.Pos, path, "found "+n.Describe()+" where an object of options belongs", "write { option = value … }")
		return v
	}
	known := map[string]bool{}
	for i := range spec.Options {
		o := &spec.Options[i]
		known[o.Name] = true
		for _, a := range o.Aliases {
			known[a] = true
		}
		v.decodeOption(o, n, l)
	}
	if !spec.Open {
		spec.unknownKeys(n, "", path, known, l)
	}
	spec.check(v, n, l)
	return v
}

func (s *Spec) with(common []Option) *Spec {
	if len(common) == 0 {
		return s
	}
	c := *s
	c.Options = append([]Option(nil), s.Options...)
	for _, o := range common {
		if s.option(o.Name) == nil {
			c.Options = append(c.Options, o)
		}
	}
	return &c
}

func (s *Spec) option(name string) *Option {
	for i := range s.Options {
		if s.Options[i].Name == name {
			return &s.Options[i]
		}
	}
	return nil
}

// find returns the value of an option as written, under its name or an alias, and that key; nil where there is
// none. A null under one spelling does not hide a value under another.
func (o *Option) find(n *Node) (*Node, string) {
	found, key := n.Lookup(o.Name), o.Name
	for _, name := range o.Aliases {
		if found != nil && found.Kind != Null {
			break
		}
		if c := n.Lookup(name); c != nil {
			found, key = c, name
		}
	}
	return found, key
}

func (v Values) decodeOption(o *Option, n *Node, l *fault.List) {
	found, key := o.find(n)
	if found == nil || found.Kind == Null {
		if o.Required {
			l.Add(n.Pos, v.path, "option "+strconv.Quote(o.Name)+" is missing", "set "+o.Name+" = "+example(o))
		}
		v.fillDefault(o)
		return
	}
	v.set[o.Name] = true
	o.warnTwice(n, found, key, v.path, l)
	at := join(v.path, key)
	val, err := o.parse(found, at, l)
	if err != nil {
		shown := found.Describe()
		if o.Secret {
			shown = "the " + found.Kind.String() + " (not shown)"
		}
		remedy := "write " + key + " = " + example(o)
		if w, ok := err.(*wrong); ok && w.remedy != "" {
			remedy = w.remedy
		}
		if name := variable(found); name != "" && secret.Late(found.Text) == "" {
			err, remedy = errNoValue, "give it one with -i "+name+"=…"
		}
		l.Add(found.Pos, at, shown+" "+err.Error(), remedy)
		return
	}
	v.value[o.Name] = val
}

// ErrUnknown is what a mistake about the name of an option wraps; its value plays no part.
var ErrUnknown = errors.New("unknown option")

var errNoValue = errors.New("is a variable without a value")

// variable is the name in a ${name} that was left in a value because nobody gave it a value.
func variable(n *Node) string {
	if !n.scalar() {
		return ""
	}
	_, rest, ok := strings.Cut(n.Text, "${")
	name, _, closed := strings.Cut(rest, "}")
	if !ok || !closed {
		return ""
	}
	name, _, _ = strings.Cut(name, ":")
	return name
}

func (v Values) fillDefault(o *Option) {
	switch {
	case o.Default != "":
		val, err := o.parseDefault()
		if err != nil {
			panic("BUG: default of option " + o.Name + ": " + err.Error())
		}
		v.value[o.Name] = val
	case o.Type == TObject && o.Sub != nil:
		v.value[o.Name] = o.Sub.Decode(nil, join(v.path, o.Name), &fault.List{})
	}
}

func (o *Option) parseDefault() (any, error) {
	return o.parse(&Node{Kind: String, Text: o.Default}, "", &fault.List{})
}

// warnTwice says which of two spellings counts, where both stand in the block and say different things.
func (o *Option) warnTwice(n, found *Node, key, path string, l *fault.List) {
	for _, name := range o.Aliases {
		c := n.Lookup(name)
		if name == key || c == nil || c == found || c.Kind == Null || same(c, found) {
			continue
		}
		l.Warn(c.Pos, path, fmt.Sprintf("%q and %q are two spellings of one option; %q counts", key, name, key), fmt.Sprintf("remove %q", name))
	}
}

// same compares two values by what they say, not where.
func same(a, b *Node) bool {
	if a.Kind != b.Kind || a.Text != b.Text || len(a.List) != len(b.List) || len(a.Fields) != len(b.Fields) {
		return false
	}
	for i := range a.List {
		if !same(a.List[i], b.List[i]) {
			return false
		}
	}
	for i := range a.Fields {
		if a.Fields[i].Key != b.Fields[i].Key || !same(a.Fields[i].Value, b.Fields[i].Value) {
			return false
		}
	}
	return true
}

// example is what the remedy of a message shows.
func example(o *Option) string {
	switch o.Type {
	case TBool:
		return "true"
	case TInt:
		switch {
		case o.Min != nil && *o.Min > 10:
			return strconv.FormatInt(*o.Min, 10)
		case o.Max != nil && *o.Max < 10:
			return strconv.FormatInt(*o.Max, 10)
		}
		return "10"
	case TFloat:
		return "1.5"
	case TDuration:
		return "10s"
	case TBytes:
		return "64MiB"
	case TEnum:
		return strings.Join(o.Enum, " or ")
	case TStrings:
		return `["a", "b"]`
	case TStringMap, TObject:
		return "{ … }"
	case TList, TObjects:
		return "[ … ]"
	}
	return `"…"`
}

// unknownKeys reports keys that no option declares. An object whose key is the head of dotted options is
// looked into.
func (s *Spec) unknownKeys(n *Node, prefix, path string, known map[string]bool, l *fault.List) {
	for _, f := range n.Fields {
		key := prefix + f.Key
		if known[key] {
			continue
		}
		if why, ok := s.ignored(key); ok {
			if why != "" {
				l.Warn(f.Pos, path, "option "+strconv.Quote(key)+" has no effect", why)
			}
			continue
		}
		if f.Value.Kind == Object && s.headOf(key) {
			s.unknownKeys(f.Value, key+".", path, known, l)
			continue
		}
		remedy := "`stctl connector show` lists the options"
		if s.Listing != "" {
			remedy = "`" + s.Listing + "` lists them"
		}
		if s.Lenient {
			remedy = ""
		}
		if near := Nearest(key, s.names()); near != "" {
			remedy = "did you mean " + strconv.Quote(near) + "?"
		}
		if s.Lenient {
			l.Warn(f.Pos, path, "unknown option "+strconv.Quote(key)+" has no effect", remedy)
			continue
		}
		l.AddError(&fault.Mistake{Pos: f.Pos, Path: path, Found: "unknown option " + strconv.Quote(key), Remedy: remedy, Err: ErrUnknown})
	}
}

// names are those a message may suggest.
func (s *Spec) names() []string {
	var names []string
	for i := range s.Options {
		if !s.Options[i].Hidden {
			names = append(append(names, s.Options[i].Name), s.Options[i].Aliases...)
		}
	}
	return names
}

func (s *Spec) ignored(key string) (why string, ok bool) {
	if why, ok = s.Ignored[key]; ok {
		return why, true
	}
	for i := len(key) - 1; i > 0; i-- {
		if key[i] == '.' {
			if why, ok = s.Ignored[key[:i]+".*"]; ok {
				return why, true
			}
		}
	}
	return "", false
}

func (s *Spec) headOf(key string) bool {
	for i := range s.Options {
		if strings.HasPrefix(s.Options[i].Name, key+".") {
			return true
		}
		for _, a := range s.Options[i].Aliases {
			if strings.HasPrefix(a, key+".") {
				return true
			}
		}
	}
	for k := range s.Ignored {
		if strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

// Validate reports what is wrong with the declaration itself: each plugin's test calls it.
func (s *Spec) Validate() error {
	var l fault.List
	s.validate("", &l)
	return l.Err()
}

func (s *Spec) validate(path string, l *fault.List) {
	bad := func(name, what string) { l.Add(fault.Position{}, join(path, name), what, "") }
	seen := map[string]bool{}
	for i := range s.Options {
		o := &s.Options[i]
		for _, name := range append([]string{o.Name}, o.Aliases...) {
			if name == "" || seen[name] {
				bad(o.Name, strconv.Quote(name)+" is empty or declared twice")
			}
			seen[name] = true
		}
		if o.Default != "" {
			if o.Required {
				bad(o.Name, "a required option has no use for a default")
			}
			if _, err := o.parseDefault(); err != nil {
				bad(o.Name, "the default "+o.Default+" "+err.Error())
			}
		}
		if o.Secret && (o.Columns || !o.Type.maySecret()) {
			bad(o.Name, "a secret is text (TString, TStrings, TStringMap, TObject, TList or TAny), not a value the planner needs")
		}
		if !o.Secret && !o.Columns && o.Type.maySecret() && SecretName(o.Name) {
			bad(o.Name, "the option is named like a secret; declare it Secret")
		}
		if (o.Type == TEnum) != (len(o.Enum) > 0) {
			bad(o.Name, "Enum belongs to TEnum and to nothing else")
		}
		if o.Sub != nil {
			if o.Type != TObject && o.Type != TObjects {
				bad(o.Name, "Sub belongs to TObject and TObjects")
			} else if o.Sub != s { // a spec may hold itself
				o.Sub.validate(join(path, o.Name), l)
			}
		}
	}
	for _, r := range s.Rules {
		names := r.Of
		if r.Kind == Conditional {
			names = append([]string{r.When}, names...)
		}
		if len(r.Of) == 0 {
			bad("", "a rule is about no option")
		}
		for _, name := range names {
			if s.option(name) == nil {
				bad(name, "a rule names an option that is not declared")
			}
		}
	}
}
