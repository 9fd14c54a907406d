package option

import (
	"sort"
	"strings"
)

// String names the type as the reference does.
func (t Type) String() string {
	return [...]string{"string", "boolean", "int", "float", "duration", "size", "enum", "list of strings", "map", "list",
		"object", "list of objects", "any"}[t]
}

// Reference is what `stctl connector show` and the reference pages say about a spec.
type Reference struct {
	Options []Entry  `json:"options"`
	Rules   []string `json:"rules,omitempty"`   // in words
	Ignored []Pair   `json:"ignored,omitempty"` // key and reason
	Open    bool     `json:"open,omitempty"`    // other keys are accepted
}

// Entry describes one option.
type Entry struct {
	Name     string     `json:"name"`
	Type     string     `json:"type"` // in words, with the unit of a bare number and the bounds
	Required bool       `json:"required,omitempty"`
	Default  string     `json:"default,omitempty"`
	Aliases  []string   `json:"aliases,omitempty"`
	Values   []string   `json:"values,omitempty"` // of an enum
	Secret   bool       `json:"secret,omitempty"`
	Doc      string     `json:"doc,omitempty"`
	Inside   *Reference `json:"inside,omitempty"` // of an object, of each object of a list
}

// Describe gives the reference of a spec with the options common to its section. Hidden options are left out.
func (s *Spec) Describe(common ...Option) *Reference {
	return s.with(common).describe(0)
}

func (s *Spec) describe(depth int) *Reference {
	r := &Reference{Options: []Entry{}, Open: s.Open}
	for i := range s.Options {
		o := &s.Options[i]
		if o.Hidden {
			continue
		}
		e := Entry{Name: o.Name, Type: o.words(), Required: o.Required, Default: o.Default, Aliases: o.Aliases,
			Values: o.Enum, Secret: o.Secret, Doc: o.Doc}
		if o.Sub != nil && depth < 8 { // a spec may hold itself
			e.Inside = o.Sub.describe(depth + 1)
			e.Inside.Open = e.Inside.Open || o.Open
		}
		r.Options = append(r.Options, e)
	}
	for _, rule := range s.Rules {
		r.Rules = append(r.Rules, rule.words())
	}
	for key, why := range s.Ignored {
		r.Ignored = append(r.Ignored, Pair{key, why})
	}
	sort.Slice(r.Ignored, func(i, j int) bool { return r.Ignored[i].Key < r.Ignored[j].Key })
	return r
}

func (o *Option) words() string {
	w := []string{o.Type.String()}
	if o.Type == TDuration {
		unit := "ms"
		if o.Unit == "s" {
			unit = "s"
		}
		w = append(w, "a bare number is "+unit)
	}
	if o.Type == TStrings && o.Split {
		w = append(w, "or one string with commas")
	}
	switch {
	case o.Min != nil && o.Max != nil:
		w = append(w, itoa(*o.Min)+" to "+itoa(*o.Max))
	case o.Min != nil:
		w = append(w, "from "+itoa(*o.Min))
	case o.Max != nil:
		w = append(w, "up to "+itoa(*o.Max))
	}
	return strings.Join(w, ", ")
}
