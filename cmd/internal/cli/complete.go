package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/cmd/internal/settings"
	"strait/coordinator/api/client"
	"strait/plan"
	"strait/plan/state"
)

// completionFlag is what a shell appends to ask for the words that may follow.
const completionFlag = "--generate-bash-completion"

// bashCompletion asks stctl itself for the words that may follow; without any, bash completes file names.
const bashCompletion = `_stctl() {
  local cur="${COMP_WORDS[COMP_CWORD]}" words
  words=$("${COMP_WORDS[@]:0:COMP_CWORD}" "$cur" ` + completionFlag + ` 2>/dev/null)
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o bashdefault -o default -F _stctl stctl
`

func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print the completion for a shell: eval \"$(stctl completion bash)\"", ArgsUsage: "bash",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 || c.Args().First() != "bash" {
				return failf("stctl completion knows bash only; write `stctl completion bash`")
			}
			_, err := io.WriteString(c.App.Writer, bashCompletion)
			return err
		},
	}
}

// values are the words that a flag takes, where they are known.
var values = map[string][]string{
	"output": {"text", "json"},
	"level":  {"debug", "info", "warn", "error"},
	"phase":  lower(phases),
}

func lower(all []state.Job) []string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = strings.ToLower(string(p))
	}
	return out
}

// The commands whose argument is a job, or a worker.
var (
	takesJob    = []string{"stctl job status", "stctl job describe", "stctl job logs", "stctl job wait", "stctl job cancel"}
	takesWorker = []string{"stctl worker describe", "stctl worker drain", "stctl worker undrain", "stctl worker fence"}
)

// A person waits for the words with a finger on the key.
const (
	wordsWithin = 1500 * time.Millisecond
	mostWords   = 200
)

// fromFleet asks the fleet that the command line means for words that may follow. Without an answer there are none.
func fromFleet(app *cli.App, l *line, ask func(context.Context, *client.Client) ([]string, error)) []string {
	var words []string
	l.commands[len(l.commands)-1].Action = func(c *cli.Context) error {
		ctx, cancel := context.WithTimeout(c.Context, wordsWithin)
		defer cancel()
		set, err := load(c, settings.Client)
		if err != nil {
			return err
		}
		store, err := openStore(ctx, set)
		if err != nil {
			return err
		}
		defer store.Close()
		words, err = ask(ctx, client.New(store, tree(set)))
		return err
	}
	app.Writer, app.ErrWriter = io.Discard, io.Discard
	_ = app.Run(l.args)
	return words
}

func wordsOf(ids []plan.JobID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// writeCompletion prints the words that may stand in place of the last of args, one a line.
func writeCompletion(w io.Writer, app *cli.App, args []string) error {
	before, current := args, ""
	if len(args) > 1 {
		before, current = args[:len(args)-1], args[len(args)-1]
	}
	l, _ := take(app, before) // what is wrong before the cursor is not told here
	flags, commands := app.Flags, app.Commands
	if n := len(l.commands); n > 0 {
		flags, commands = l.commands[n-1].Flags, l.commands[n-1].Subcommands
	}
	var words []string
	last := before[len(before)-1]
	value := findFlag(flags, strings.TrimLeft(last, "-"))
	if _, isSwitch := value.(*cli.BoolFlag); isSwitch || !strings.HasPrefix(last, "-") {
		value = nil
	}
	switch {
	case value != nil && value.Names()[0] == "worker":
		l, _ = take(app, before[:len(before)-1]) // without the flag that lacks its value
		words = fromFleet(app, l, func(ctx context.Context, cl *client.Client) ([]string, error) { return cl.WorkerNames(ctx, current) })
	case value != nil:
		words = values[value.Names()[0]]
		if s := settings.Of(value); s != nil {
			words = s.Enum
		}
		if value.Names()[0] == "output" && l.title(app) == "stctl plan" {
			words = append(words, "dot")
		}
	case strings.HasPrefix(current, "-"):
		for _, f := range flags {
			for _, n := range f.Names() {
				words = append(words, dashed(n))
			}
		}
		words = append(words, "--help", "-h")
	case l.title(app) == "stctl connector show":
		for _, p := range plugins() {
			words = append(words, p.Name)
		}
	case l.title(app) == "stctl completion":
		words = []string{"bash"}
	case slices.Contains(takesJob, l.title(app)) && l.arguments > 0, slices.Contains(takesWorker, l.title(app)) && l.arguments > 0: // it takes one
	case slices.Contains(takesJob, l.title(app)):
		words = fromFleet(app, l, func(ctx context.Context, cl *client.Client) ([]string, error) {
			ids, err := cl.JobIDs(ctx, current, mostWords)
			return wordsOf(ids), err
		})
	case slices.Contains(takesWorker, l.title(app)):
		words = fromFleet(app, l, func(ctx context.Context, cl *client.Client) ([]string, error) { return cl.WorkerNames(ctx, current) })
	default:
		for _, c := range commands {
			words = append(words, c.Name)
		}
	}
	seen := map[string]bool{}
	for _, word := range words {
		if !seen[word] && strings.HasPrefix(word, current) {
			seen[word] = true
			if _, err := fmt.Fprintln(w, word); err != nil {
				return err
			}
		}
	}
	return nil
}
