package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/cmd/internal/settings"
	"strait/plan/option"
)

// line is a command line taken apart.
type line struct {
	args      []string       // for the library: each command followed by its flags, arguments last
	commands  []*cli.Command // the words that were commands: job, submit
	arguments int            // how many words were neither
	help      bool           // --help, -h or the word help stands in it
}

// title is what a message calls the command: stctl job submit.
func (l *line) title(app *cli.App) string {
	words := []string{app.Name}
	for _, c := range l.commands {
		words = append(words, c.Name)
	}
	return strings.Join(words, " ")
}

// take takes the command line apart. Flags may stand behind the arguments (`stctl run FILE -i a=b`): the flag
// package would stop at the first argument. Behind -- nothing is a flag. A flag that is not there, lacks its
// value or has one of the wrong type is told here.
func take(app *cli.App, args []string) (*line, error) {
	l := &line{}
	l.args = append(l.args, args[0])
	flags, commands := app.Flags, app.Commands
	var positional []string
	for i := 1; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			positional = append(positional, args[i:]...)
			break
		}
		if len(a) > 1 && a[0] == '-' {
			name, value, given := strings.Cut(strings.TrimLeft(a, "-"), "=")
			if name == "help" || name == "h" {
				l.help = true
				continue
			}
			f := findFlag(flags, name)
			if f == nil {
				return l, l.unknownFlag(app, flags, a, name)
			}
			l.args = append(l.args, a)
			if _, isSwitch := f.(*cli.BoolFlag); !isSwitch && !given {
				if i+1 == len(args) {
					return l, failf("%s: %s needs a value, %s", l.title(app), a, placeholder(f))
				}
				i++
				value = args[i]
				l.args = append(l.args, value)
			}
			if err := checkValue(f, dashed(name), value, given); err != nil {
				return l, err
			}
			continue
		}
		if len(positional) == 0 {
			if a == "help" && !l.help && len(commands) > 0 {
				l.help = true
				continue
			}
			if sub := command(commands, a); sub != nil {
				l.args = append(l.args, a)
				l.commands = append(l.commands, sub)
				flags, commands = sub.Flags, sub.Subcommands
				continue
			}
		}
		positional = append(positional, a)
	}
	l.args, l.arguments = append(l.args, positional...), len(positional)
	if l.help && len(positional) > 0 && len(commands) > 0 {
		return l, unknownCommand(l.title(app), positional[0], commands)
	}
	return l, nil
}

func (l *line) unknownFlag(app *cli.App, flags []cli.Flag, given, name string) error {
	var names []string
	for _, f := range flags {
		for _, n := range f.Names() {
			if len(n) > 1 {
				names = append(names, n)
			}
		}
	}
	given, _, _ = strings.Cut(given, "=")
	if near := option.Nearest(name, names); near != "" {
		return failf("%s has no flag %s; did you mean --%s?", l.title(app), given, near)
	}
	if findFlag(app.Flags, name) != nil {
		return failf("%s has no flag %s; write it before the command: stctl %s … %s", l.title(app), given, given,
			strings.TrimPrefix(l.title(app), app.Name+" "))
	}
	return failf("%s has no flag %s; `%s --help` lists its flags", l.title(app), given, l.title(app))
}

// checkValue tells a value that the flag package would refuse without a hint.
func checkValue(f cli.Flag, name, value string, given bool) error {
	switch f.(type) {
	case *cli.BoolFlag:
		if _, err := strconv.ParseBool(value); given && err != nil {
			return failf("%s=%s: it is a switch; write %s or %s=false", name, value, name, name)
		}
	case *cli.IntFlag:
		if _, err := strconv.Atoi(value); err != nil {
			return failf("%s %s: not a whole number; write for example %s 4", name, value, name)
		}
	case *cli.DurationFlag:
		if d, err := time.ParseDuration(value); err != nil || d < 0 {
			return failf("%s %s: not a duration; write for example %s 30s or 5m", name, value, name)
		}
	}
	return nil
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func findFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func command(all []*cli.Command, name string) *cli.Command {
	for _, c := range all {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

func unknownCommand(title, word string, commands []*cli.Command) error {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name
	}
	hint := ""
	if near := option.Nearest(word, names); near != "" {
		hint = fmt.Sprintf("did you mean %s? ", near)
	} else if strings.HasSuffix(word, ".conf") || strings.HasSuffix(word, ".json") {
		hint = fmt.Sprintf("to run a job file write `stctl run %s`; ", word)
	}
	return failf("%s has no command %q; %sthere are: %s", title, word, hint, strings.Join(names, ", "))
}

// setting is the value of a flag that may stand before the command and after it: the nearer place wins. ok says
// whether there is any.
func setting(c *cli.Context, name string) (value string, ok bool) {
	for _, at := range c.Lineage() {
		if at.IsSet(name) {
			return at.String(name), true
		}
	}
	return "", false
}

// pairs takes KEY=VALUE flags apart. As in SeaTunnel one flag may hold several, -i a=1,b=2; a comma inside
// quotes or brackets, or one that no KEY= follows, belongs to the value. bare says what becomes of a KEY without
// a value.
func pairs(flag, form string, given []string, bare func(key string) error) (map[string]string, error) {
	out := map[string]string{}
	for _, g := range given {
		for _, kv := range settings.SplitPairs(g) {
			k, v, ok := strings.Cut(kv, "=")
			if !ok && bare != nil && k != "" {
				if err := bare(k); err != nil {
					return nil, err
				}
				continue
			}
			if !ok || strings.TrimSpace(k) == "" {
				return nil, failf("%s %s: write %s %s", flag, g, flag, form)
			}
			out[strings.TrimSpace(k)] = v
		}
	}
	return out, nil
}
