package option

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"strait/plan/fault"
	"strait/plan/secret"
	"strait/plan/units"
)

// wrong is what is the matter with a value: the words behind it, and what to write instead where that is not
// simply an example of the type.
type wrong struct{ what, remedy string }

func (w *wrong) Error() string { return w.what }

func isNot(what string) error { return &wrong{what: "is not " + what} }

func (n *Node) scalar() bool { return n.Kind == String || n.Kind == Number || n.Kind == Bool }

// parse reads a value. at is its option path; mistakes inside objects go to l, those of the value itself are
// returned.
func (o *Option) parse(n *Node, at string, l *fault.List) (any, error) {
	switch o.Type {
	case TList:
		if n.Kind != List {
			return nil, isNot("a list")
		}
		return n, nil
	case TAny:
		return n, nil
	case TObject:
		if n.Kind != Object {
			return nil, isNot("an object")
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
		return o.parsePairs(n)
	}
	if !n.scalar() {
		return nil, isNot("a single value")
	}
	if late := secret.Late(n.Text); late != "" && o.Type != TString {
		return nil, errLate(late)
	}
	return o.parseScalar(n.Text)
}

// errLate refuses what the worker fills in where the planner needs the value.
func errLate(what string) error {
	if what == "sealed" {
		return &wrong{"is sealed, and the value is needed when the job is planned; only texts can be sealed", "write the value itself"}
	}
	return &wrong{"is filled in on the worker, and the value is needed when the job is planned; only texts can be " + what,
		"write the value itself, or a ${name} with -i name=VALUE"}
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
		return nil, isNot("a boolean")
	case TInt:
		i, err := parseInt(t)
		if err != nil {
			return nil, err
		}
		return i, o.bounds(i)
	case TFloat:
		f, err := strconv.ParseFloat(t, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, isNot("a number")
		}
		return f, nil
	case TDuration:
		unit := time.Millisecond
		if o.Unit == "s" {
			unit = time.Second
		}
		d, err := units.ParseDuration(t, unit)
		if err != nil {
			return nil, isNot("a duration")
		}
		return d, nil
	case TBytes:
		b, err := units.ParseBytes(t)
		if err != nil {
			return nil, isNot("a size")
		}
		return b, o.bounds(b)
	case TEnum:
		for _, e := range o.Enum {
			if strings.EqualFold(e, t) {
				return e, nil
			}
		}
		w := &wrong{what: "is not one of " + strings.Join(o.Enum, ", ")}
		if near := Nearest(t, o.Enum); near != "" {
			w.remedy = "did you mean " + near + "?"
		}
		return nil, w
	}
	return text, nil
}

// parseInt reads a whole number in decimal; 47.0 and 1e3 are whole too.
func parseInt(t string) (int64, error) {
	i, err := strconv.ParseInt(t, 10, 64)
	if err == nil {
		return i, nil
	}
	if err.(*strconv.NumError).Err == strconv.ErrRange {
		return 0, &wrong{what: "does not fit into 64 bits"}
	}
	f, err := strconv.ParseFloat(t, 64)
	if err != nil || strings.ContainsAny(t, "xXpP_") || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, isNot("a whole number")
	}
	return int64(f), nil
}

func (o *Option) bounds(i int64) error {
	if o.Min != nil && i < *o.Min {
		return &wrong{what: fmt.Sprintf("is below %d, the least allowed", *o.Min)}
	}
	if o.Max != nil && i > *o.Max {
		return &wrong{what: fmt.Sprintf("is above %d, the most allowed", *o.Max)}
	}
	return nil
}

func (o *Option) parseObjects(n *Node, at string, l *fault.List) (any, error) {
	if n.Kind == Object { // one alone stands for a list of one
		n = &Node{Kind: List, List: []*Node{n}, Pos: n.Pos}
	}
	if n.Kind != List {
		return nil, isNot("a list of objects")
	}
	if o.Sub == nil {
		for _, c := range n.List {
			if c.Kind != Object {
				return nil, isNot("a list of objects")
			}
		}
		return n, nil
	}
	sub := *o.Sub
	sub.Open = sub.Open || o.Open
	out := make([]Values, 0, len(n.List))
	for i, c := range n.List {
		out = append(out, sub.Decode(c, fmt.Sprintf("%s[%d]", at, i), l))
	}
	return out, nil
}

func (o *Option) parseStrings(n *Node) (any, error) {
	if n.Kind == List {
		out := make([]string, 0, len(n.List))
		for _, c := range n.List {
			if !c.scalar() {
				return nil, isNot("a list of strings")
			}
			out = append(out, c.Text)
		}
		return out, nil
	}
	if !n.scalar() {
		return nil, isNot("a list of strings")
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

func (o *Option) parsePairs(n *Node) (any, error) {
	if n.Kind != Object {
		return nil, isNot("an object")
	}
	var out []Pair
	for _, f := range n.Fields {
		switch {
		case f.Value.Kind == Object: // a { b = c } stands for a.b = c
			inner, err := o.parsePairs(f.Value)
			if err != nil {
				return nil, err
			}
			for _, p := range inner.([]Pair) {
				out = append(out, Pair{f.Key + "." + p.Key, p.Value})
			}
		case f.Value.scalar():
			out = append(out, Pair{f.Key, f.Value.Text})
		default:
			return nil, &wrong{fmt.Sprintf("holds %s under %q", f.Value.Describe(), f.Key), fmt.Sprintf("write a single value for %q", f.Key)}
		}
	}
	return out, nil
}
