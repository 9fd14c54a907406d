package cli

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves the flags of a command in front of its arguments, so that `stctl run FILE -i a=b` means what
// it says; the flag package stops at the first argument. Behind -- nothing is a flag.
func flagsFirst(app *cli.App, args []string) []string {
	if len(args) < 2 || containsCompletion(args) {
		return args
	}
	out := []string{args[0]}
	flags, commands := app.Flags, app.Commands
	var positional []string
	for i := 1; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(append(out, positional...), args[i:]...)
		}
		if len(a) > 1 && a[0] == '-' {
			out = append(out, a)
			if !strings.Contains(a, "=") && takesValue(flags, strings.TrimLeft(a, "-")) && i+1 < len(args) {
				i++
				out = append(out, args[i])
			}
			continue
		}
		if sub := command(commands, a); sub != nil && len(positional) == 0 {
			out = append(out, a)
			flags, commands = sub.Flags, sub.Subcommands
			continue
		}
		positional = append(positional, a)
	}
	return append(out, positional...)
}

func containsCompletion(args []string) bool {
	return args[len(args)-1] == "--generate-bash-completion"
}

func command(all []*cli.Command, name string) *cli.Command {
	for _, c := range all {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// takesValue says whether a flag is followed by its value: all but switches are.
func takesValue(flags []cli.Flag, name string) bool {
	for _, f := range flags {
		for _, n := range f.Names() {
			if n == name {
				_, isSwitch := f.(*cli.BoolFlag)
				return !isSwitch
			}
		}
	}
	return false
}
