package option

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"strait/plan/fault"
)

// check holds the rules of a spec against what is set.
func (s *Spec) check(v Values, n *Node, l *fault.List) {
	for _, r := range s.Rules {
		set := 0
		for _, name := range r.Of {
			v.declared(name)
			if v.set[name] {
				set++
			}
		}
		names := quoted(r.Of)
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
			if !v.holds(r) {
				continue
			}
			with := " is set"
			if len(r.Is) > 0 {
				with = " = " + fmt.Sprint(v.value[r.When])
			}
			for _, name := range r.Of {
				if !v.set[name] {
					l.Add(n.Pos, v.path, "option "+strconv.Quote(name)+" is missing, it is needed where "+r.When+with,
						"set "+name+" = "+example(v.declared(name)))
				}
			}
		}
	}
}

// holds says whether the condition of a Conditional rule is met; a default meets it too.
func (v Values) holds(r Rule) bool {
	v.declared(r.When)
	if len(r.Is) == 0 {
		return v.set[r.When]
	}
	have := fmt.Sprint(v.value[r.When])
	return slices.ContainsFunc(r.Is, func(is string) bool { return strings.EqualFold(is, have) })
}

// words says what a rule demands, for the reference.
func (r Rule) words() string {
	names := quoted(r.Of)
	switch r.Kind {
	case ExactlyOne:
		return "exactly one of " + names
	case AtMostOne:
		return "at most one of " + names
	case AtLeastOne:
		return "at least one of " + names
	case Together:
		return "all of " + names + " or none"
	}
	needs := " is required"
	if len(r.Of) > 1 {
		needs = " are required"
	}
	if len(r.Is) == 0 {
		return names + needs + " where " + strconv.Quote(r.When) + " is set"
	}
	return names + needs + " where " + strconv.Quote(r.When) + " is " + strings.Join(r.Is, " or ")
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = strconv.Quote(n)
	}
	return strings.Join(q, ", ")
}

func itoa(i int64) string { return strconv.FormatInt(i, 10) }
