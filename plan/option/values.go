package option

import (
	"strings"
	"time"
)

// Values are the decoded options of one block. Getters panic on a name that the spec does not declare with
// that type: that is a mistake in the plugin, found by its first test. A value the job file does not set has
// the declared default, or the zero value.
type Values struct {
	spec  *Spec
	path  string
	node  *Node
	value map[string]any
	set   map[string]bool
}

// Has says that the job file itself sets the option, to something other than null.
func (v Values) Has(name string) bool { return v.set[name] }

// String returns a TString or TEnum option.
func (v Values) String(name string) string { return get[string](v, name) }

// Bool returns a TBool option.
func (v Values) Bool(name string) bool { return get[bool](v, name) }

// Int returns a TInt or TBytes option.
func (v Values) Int(name string) int64 { return get[int64](v, name) }

// Float returns a TFloat option.
func (v Values) Float(name string) float64 { return get[float64](v, name) }

// Duration returns a TDuration option.
func (v Values) Duration(name string) time.Duration { return get[time.Duration](v, name) }

// Strings returns a TStrings option.
func (v Values) Strings(name string) []string { return get[[]string](v, name) }

// Pairs returns a TStringMap option in file order.
func (v Values) Pairs(name string) []Pair { return get[[]Pair](v, name) }

// Node returns the node of any option as written, under its name or an alias, or nil.
func (v Values) Node(name string) *Node {
	if o := v.declared(name); o != nil {
		n, _ := o.find(v.node)
		return n
	}
	return v.node.Lookup(name)
}

// Sub returns a TObject option that has a Sub spec; its zero value where it is not set.
func (v Values) Sub(name string) Values { return get[Values](v, name) }

// Subs returns a TObjects option that has a Sub spec.
func (v Values) Subs(name string) []Values { return get[[]Values](v, name) }

// Path is the option path of the block, or with a name of one option in it, for messages.
func (v Values) Path(name string) string {
	if name == "" {
		return v.path
	}
	return join(v.path, name)
}

// join adds a name to an option path: source[0] (FakeSource): schema.fields.
func join(path, name string) string {
	if path == "" {
		return name
	}
	if strings.Contains(path, ": ") {
		return path + "." + name
	}
	return path + ": " + name
}

// JoinPath adds a name to an option path.
func JoinPath(path, name string) string { return join(path, name) }

// Raw is the whole block as written.
func (v Values) Raw() *Node { return v.node }

// Pair is one entry of a TStringMap.
type Pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func get[T any](v Values, name string) T {
	v.declared(name)
	t, _ := v.value[name].(T)
	return t
}

// declared returns the option of that name; nil on Values that were never decoded.
func (v Values) declared(name string) *Option {
	if v.spec == nil {
		return nil
	}
	if o := v.spec.option(name); o != nil {
		return o
	}
	panic("BUG: option " + name + " is read but not declared")
}
