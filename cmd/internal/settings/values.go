package settings

import (
	"fmt"
	"os"
	"strings"
	"time"

	"strait/plan/option"
)

// Values are the settings of one command. A getter panics on a path that the table does not have with that type:
// a mistake in the program, found by its first run.
type Values struct {
	set map[string]value
}

// value is a setting that somebody has set.
type value struct {
	is   any
	name string // how its writer calls it: --slots, STRAIT_SLOTS, strait.conf:3: worker.slots
}

// Has says that the setting was set: by flag, variable or file.
func (v *Values) Has(path string) bool {
	declared(path)
	_, ok := v.set[path]
	return ok
}

// Name is what a message calls the setting: as it was written, else its flag, else its path.
func (v *Values) Name(path string) string {
	s := declared(path)
	switch set, ok := v.set[path]; {
	case ok:
		return set.name
	case s.Flag != "":
		return "--" + s.Flag
	}
	return path
}

// String returns a String or Enum setting.
func (v *Values) String(path string) string { return get[string](v, path, String, Enum) }

// Int returns an Int setting.
func (v *Values) Int(path string) int { return int(get[int64](v, path, Int)) }

// Bytes returns a Bytes setting.
func (v *Values) Bytes(path string) int64 { return get[int64](v, path, Bytes) }

// Duration returns a Duration setting.
func (v *Values) Duration(path string) time.Duration { return get[time.Duration](v, path, Duration) }

// List returns a List setting.
func (v *Values) List(path string) []string { return get[[]string](v, path, List) }

// Pairs returns a Pairs setting.
func (v *Values) Pairs(path string) map[string]string {
	out := map[string]string{}
	for _, p := range get[[]option.Pair](v, path, Pairs) {
		out[p.Key] = p.Value
	}
	return out
}

// Secret returns a secret, from its setting or from the file that <path>-file names; without either it is empty.
func (v *Values) Secret(path string) (string, error) {
	if !declared(path).Secret {
		panic("BUG: setting " + path + " is no secret")
	}
	file := v.String(path + "-file")
	switch {
	case file == "":
		return get[string](v, path, String), nil
	case v.Has(path):
		return "", fmt.Errorf("%s and %s are both set; keep one of them", v.Name(path), v.Name(path+"-file"))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", v.Name(path+"-file"), err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

func declared(path string) *Setting {
	s := find(path)
	if s == nil {
		panic("BUG: setting " + path + " is read but not in the table")
	}
	return s
}

func get[T any](v *Values, path string, types ...Type) T {
	s := declared(path)
	ok := false
	for _, t := range types {
		ok = ok || s.Type == t
	}
	if !ok {
		panic("BUG: setting " + path + " is read as another type than the table has")
	}
	if set, ok := v.set[path]; ok {
		return set.is.(T)
	}
	var none T
	if s.Default == "" {
		return none
	}
	is, err := s.parse([]string{s.Default}, "")
	if err != nil {
		panic("BUG: the default of setting " + path + err.Error())
	}
	return is.(T)
}
