package option

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"strait/plan/fault"
	"strait/plan/units"
)

// Decode reads a block by its spec. path is the block's name in messages. Mistakes and warnings go to l; the
// values are usable only when none was added. common are options every plugin of the section has.
func (s *Spec) Decode(n *Node, path string, l *fault.List, common ...Option) Values {
	spec := s
	if len(common) > 0 {
		c := *s
		c.Options = append(append([]Option(nil), s.Options...), common...)
		spec = &c
	}
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

// find returns the value of an option as written, under its name or an alias, or nil. A null under one
// spelling does not hide a value under another.
func (o *Option) find(n *Node) *Node {
	found := n.Lookup(o.Name)
	for _, name := range o.Aliases {
		if found != nil && found.Kind != Null {
			break
		}
		if c := n.Lookup(name); c != nil {
			found = c
		}
	}
	return found
}

func (v Values) decodeOption(o *Option, n *Node, l *fault.List) {
	at := join(v.path, o.Name)
	found := o.find(n)
	if found == nil || found.Kind == Null {
		if o.Required {
			l.Add(n.Pos, v.path, "option "+strconv.Quote(o.Name)+" is missing", "set "+o.Name+" = "+example(o))
		}
		if o.Default != "" {
			val, err := o.parse(&Node{Kind: String, Text: o.Default}, v.path, &fault.List{})
			if err != nil {
				panic("BUG: default of option " + o.Name + ": " + err.Error())
			}
			v.value[o.Name] = val
		} else if (o.Type == TObject) && o.Sub != nil {
			v.value[o.Name] = o.Sub.Decode(nil, at, &fault.List{})
		}
		return
	}
	val, err := o.parse(found, at, l)
	if err != nil {
		shown := found.Describe()
		if o.Secret {
			shown = "the value (not shown)"
		}
		l.Add(found.Pos, at, shown+" "+err.Error(), "write "+o.Name+" = "+example(o))
		return
	}
	v.value[o.Name] = val
	v.set[o.Name] = true
}

// example is what the remedy of a message shows.
func example(o *Option) string {
	switch o.Type {
	case TBool:
		return "true"
	case TInt:
		if o.Min != nil && *o.Min > 1 {
			return strconv.FormatInt(*o.Min, 10)
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

func (n *Node) scalar() bool { return n.Kind == String || n.Kind == Number || n.Kind == Bool }

func (o *Option) parse(n *Node, at string, l *fault.List) (any, error) {
	switch o.Type {
	case TList:
		if n.Kind != List {
			return nil, fmt.Errorf("is not a list")
		}
		return n, nil
	case TAny:
		return n, nil
	case TObject:
		if n.Kind != Object {
			return nil, fmt.Errorf("is not an object")
		}
		if o.Sub == nil {
			return n, nil
		}
		sub := *o.Sub
		sub.Open = sub.Open || o.Open
		return sub.Decode(n, at, l), nil
	case TObjects:
		return o.parseObjects(n, at, l)
	case TStrings:
		return o.parseStrings(n)
	case TStringMap:
		return parsePairs(n)
	}
	if !n.scalar() {
		return nil, fmt.Errorf("is not a single value")
	}
	return o.parseScalar(n.Text)
}

func (o *Option) parseScalar(text string) (any, error) {
	t := strings.TrimSpace(text)
	switch o.Type {
	case TBool:
		switch strings.ToLower(t) {
		case "true", "yes", "on":
			return true, nil
		case "false", "no", "off":
			return false, nil
		}
		return nil, fmt.Errorf("is not a boolean")
	case TInt:
		i, err := strconv.ParseInt(t, 10, 64)
		if err != nil {
			f, ferr := strconv.ParseFloat(t, 64)
			if ferr != nil || f != float64(int64(f)) {
				return nil, fmt.Errorf("is not a whole number")
			}
			i = int64(f)
		}
		return i, o.bounds(i)
	case TFloat:
		f, err := strconv.ParseFloat(t, 64)
		if err != nil {
			return nil, fmt.Errorf("is not a number")
		}
		return f, nil
	case TDuration:
		unit := time.Millisecond
		if o.Unit == "s" {
			unit = time.Second
		}
		d, err := units.ParseDuration(t, unit)
		if err != nil {
			return nil, fmt.Errorf("is not a duration")
		}
		return d, nil
	case TBytes:
		b, err := units.ParseBytes(t)
		if err != nil {
			return nil, fmt.Errorf("is not a size")
		}
		return b, o.bounds(b)
	case TEnum:
		for _, e := range o.Enum {
			if strings.EqualFold(e, t) {
				return e, nil
			}
		}
		hint := ""
		if near := Nearest(t, o.Enum); near != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", near)
		}
		return nil, fmt.Errorf("is not one of %s%s", strings.Join(o.Enum, ", "), hint)
	}
	return text, nil
}

func (o *Option) bounds(i int64) error {
	if o.Min != nil && i < *o.Min {
		return fmt.Errorf("is below %d, the least allowed", *o.Min)
	}
	if o.Max != nil && i > *o.Max {
		return fmt.Errorf("is above %d, the most allowed", *o.Max)
	}
	return nil
}

func (o *Option) parseObjects(n *Node, at string, l *fault.List) (any, error) {
	if n.Kind == Object { // one alone stands for a list of one
		n = &Node{Kind: List, List: []*Node{n}, Pos: n.Pos}
	}
	if n.Kind != List {
		return nil, fmt.Errorf("is not a list of objects")
	}
	if o.Sub == nil {
		return n, nil
	}
	out := make([]Values, 0, len(n.List))
	for i, c := range n.List {
		out = append(out, o.Sub.Decode(c, fmt.Sprintf("%s[%d]", at, i), l))
	}
	return out, nil
}

func (o *Option) parseStrings(n *Node) (any, error) {
	if n.Kind == List {
		out := make([]string, 0, len(n.List))
		for _, c := range n.List {
			if !c.scalar() {
				return nil, fmt.Errorf("is not a list of strings")
			}
			out = append(out, c.Text)
		}
		return out, nil
	}
	if !n.scalar() {
		return nil, fmt.Errorf("is not a list of strings")
	}
	if !o.Split {
		return []string{n.Text}, nil
	}
	var out []string
	for _, s := range strings.Split(n.Text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out, nil
}

func parsePairs(n *Node) (any, error) {
	if n.Kind != Object {
		return nil, fmt.Errorf("is not an object")
	}
	var out []Pair
	for _, f := range n.Fields {
		if f.Value.Kind == Object { // a { b = c } stands for a.b = c
			inner, err := parsePairs(f.Value)
			if err != nil {
				return nil, err
			}
			for _, p := range inner.([]Pair) {
				out = append(out, Pair{f.Key + "." + p.Key, p.Value})
			}
			continue
		}
		if !f.Value.scalar() {
			return nil, fmt.Errorf("holds %s under %q, want a single value", f.Value.Describe(), f.Key)
		}
		out = append(out, Pair{f.Key, f.Value.Text})
	}
	return out, nil
}

// unknownKeys reports keys that no option declares. An object whose key is the head of dotted options is
// looked into.
func (s *Spec) unknownKeys(n *Node, prefix, path string, known map[string]bool, l *fault.List) {
	for _, f := range n.Fields {
		key := prefix + f.Key
		if known[key] {
			continue
		}
		if why, ok := s.Ignored[key]; ok {
			l.Warn(f.Pos, path, "option "+strconv.Quote(key)+" has no effect", why)
			continue
		}
		if f.Value.Kind == Object && s.headOf(key) {
			s.unknownKeys(f.Value, key+".", path, known, l)
			continue
		}
		names := make([]string, 0, len(known))
		for i := range s.Options {
			if !s.Options[i].Hidden {
				names = append(names, s.Options[i].Name)
			}
			names = append(names, s.Options[i].Aliases...)
		}
		remedy := "`stctl connector show` lists the options"
		if near := Nearest(key, names); near != "" {
			remedy = "did you mean " + strconv.Quote(near) + "?"
		}
		l.Add(f.Pos, path, "unknown option "+strconv.Quote(key), remedy)
	}
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

func (s *Spec) check(v Values, n *Node, l *fault.List) {
	for _, r := range s.Rules {
		set := 0
		for _, name := range r.Of {
			v.declared(name)
			if v.set[name] {
				set++
			}
		}
		names := strings.Join(r.Of, ", ")
		switch r.Kind {
		case ExactlyOne:
			if set == 0 {
				l.Add(n.Pos, v.path, "none of "+names+" is set", "set one of them")
			} else if set > 1 {
				l.Add(n.Pos, v.path, "more than one of "+names+" is set", "keep one of them")
			}
		case AtMostOne:
			if set > 1 {
				l.Add(n.Pos, v.path, "more than one of "+names+" is set", "keep one of them")
			}
		case AtLeastOne:
			if set == 0 {
				l.Add(n.Pos, v.path, "none of "+names+" is set", "set at least one of them")
			}
		case Together:
			if set > 0 && set < len(r.Of) {
				l.Add(n.Pos, v.path, "only some of "+names+" are set", "set all of them or none")
			}
		case Conditional:
			if v.holds(r) {
				for _, name := range r.Of {
					if !v.set[name] {
						l.Add(n.Pos, v.path, "option "+strconv.Quote(name)+" is missing, it is needed with "+r.When+" = "+fmt.Sprint(v.value[r.When]), "set "+name)
					}
				}
			}
		}
	}
}

func (v Values) holds(r Rule) bool {
	v.declared(r.When)
	if len(r.Is) == 0 {
		return v.set[r.When]
	}
	have := fmt.Sprint(v.value[r.When])
	for _, is := range r.Is {
		if strings.EqualFold(is, have) {
			return true
		}
	}
	return false
}

// declared returns the option of that name; nil on Values that were never decoded.
func (v Values) declared(name string) *Option {
	if v.spec == nil {
		return nil
	}
	for i := range v.spec.Options {
		if v.spec.Options[i].Name == name {
			return &v.spec.Options[i]
		}
	}
	panic("BUG: option " + name + " is read but not declared")
}
