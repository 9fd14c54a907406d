package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/option"
)

// defaultFile is DefaultFile but in tests.
var defaultFile = DefaultFile

// Load reads the settings of a command that is run by roles. The error holds every mistake. A file that nobody
// named and that this user may not read is left out by clients, with a warning; a role needs it.
func Load(c *cli.Context, roles Role) (v *Values, warnings []string, err error) {
	var list fault.List
	v = &Values{set: map[string]value{}}
	if roles&^Run != 0 {
		warnings = v.readFile(c, roles, &list)
	}
	for i := range Table {
		s := &Table[i]
		if !s.of(roles) {
			continue
		}
		if text := os.Getenv(s.Variable()); text != "" {
			v.take(s, []string{text}, s.Variable(), "=", &list)
		}
		if text, ok := written(c, s); ok {
			v.take(s, text, "--"+s.Flag, " ", &list)
		}
	}
	return v, warnings, list.Err()
}

// written is what the command line says of a setting; the nearest place counts, before the command or behind it.
func written(c *cli.Context, s *Setting) ([]string, bool) {
	for _, at := range c.Lineage() {
		switch {
		case s.Flag == "" || !at.IsSet(s.Flag):
		case s.Type == Pairs:
			return at.StringSlice(s.Flag), true
		default:
			return []string{at.String(s.Flag)}, true
		}
	}
	return nil, false
}

// take parses what a flag or a variable says; is stands between its name and the value.
func (v *Values) take(s *Setting, text []string, name, is string, list *fault.List) {
	got, err := s.parse(text, name+is)
	if err != nil {
		shown := is + strings.Join(text, ",")
		if s.Secret {
			shown = ""
		}
		list.AddError(fmt.Errorf("%s%s%w", name, shown, err))
		return
	}
	v.set[s.Path] = value{got, name}
}

// readFile reads the settings file.
func (v *Values) readFile(c *cli.Context, roles Role, list *fault.List) (warnings []string) {
	name, named := "", false
	how := "--" + FileFlag
	if text, ok := written(c, &fileSetting); ok {
		name, named = text[0], true
	}
	if env := os.Getenv(FileEnv); !named && env != "" {
		name, named, how = env, true, FileEnv
	}
	if !named {
		name = defaultFile
	}
	src, err := os.ReadFile(name)
	switch {
	case err == nil:
	case !named && errors.Is(err, fs.ErrNotExist):
		return nil
	case !named && errors.Is(err, fs.ErrPermission) && roles&Roles == 0:
		return []string{fmt.Sprintf("%s: this user may not read it, so it does not count; name another with --%s", name, FileFlag)}
	case !named:
		list.AddError(fmt.Errorf("the settings file: %w", err))
		return nil
	default:
		list.AddError(fmt.Errorf("%s: the settings file: %w", how, err))
		return nil
	}
	root, err := config.ParseSettings(src, config.Options{File: name, Env: os.LookupEnv})
	if err != nil {
		list.AddError(err)
		return nil
	}
	before := list.Len()
	got := spec().Decode(root, "", list)
	set := map[string]value{}
	for i := range Table {
		s := &Table[i]
		if !got.Has(s.Path) {
			continue
		}
		name := got.Node(s.Path).Pos.String() + ": " + s.Path
		if s.Word == "" {
			set[s.Path] = value{s.from(got), name}
		} else if is, err := s.parse([]string{got.String(s.Path)}, s.Path+" = "); err != nil {
			list.Add(got.Node(s.Path).Pos, s.Path, fmt.Sprintf("%q is neither a whole number from %d on nor %s", got.String(s.Path), *s.Min, s.Word), fmt.Sprintf("write %s = %s", s.Path, s.Example))
		} else {
			set[s.Path] = value{is, name}
		}
	}
	if list.Len() > before {
		return nil
	}
	for path, x := range set {
		if find(path).of(roles) {
			v.set[path] = x
		}
	}
	return nil
}

// from takes the setting out of a decoded file.
func (s *Setting) from(got option.Values) any {
	switch s.Type {
	case Int, Bytes:
		return got.Int(s.Path)
	case Duration:
		return got.Duration(s.Path)
	case List:
		return got.Strings(s.Path)
	case Pairs:
		return got.Pairs(s.Path)
	}
	return got.String(s.Path)
}
