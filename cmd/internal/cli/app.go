package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"strait/cmd/internal/settings"

	// The plugins of this build.
	_ "strait/worker/connector/all"
	_ "strait/worker/transform/all"
)

// Version is the release; a build sets it with -ldflags "-X strait/cmd/internal/cli.Version=…".
var Version = "0.1.0"

// Main runs stctl and returns its exit code. Results go to standard output, logs and mistakes to standard
// error.
func Main(args []string) int {
	return run(args, os.Stdout, os.Stderr)
}

func run(args []string, stdout, stderr io.Writer) int {
	err := execute(args, stdout, stderr)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(stderr, err)
	}
	return ExitCode(err)
}

func execute(args []string, stdout, stderr io.Writer) error {
	app := newApp(stdout, stderr)
	if n := len(args) - 1; n > 0 && args[n] == completionFlag {
		return writeCompletion(stdout, app, args[:n])
	}
	l, err := take(app, args)
	if err != nil {
		return err
	}
	if l.help {
		return writeHelp(stdout, app, l)
	}
	return app.Run(l.args)
}

func newApp(stdout, stderr io.Writer) *cli.App {
	cli.VersionFlag = &cli.BoolFlag{Name: "version", Usage: "print the version", DisableDefaultText: true}
	app := &cli.App{
		Name:                      "stctl",
		Usage:                     "run SeaTunnel job files, here or on a fleet",
		Version:                   Version,
		Writer:                    stdout,
		ErrWriter:                 stderr,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,                         // pairs knows where a comma separates
		ExitErrHandler:            func(*cli.Context, error) {}, // Main decides
		OnUsageError:              usageError,
		Flags:                     append(append(settings.Flags(settings.Client), outputFlag(), settings.Flag("log.level")), shadeFlags()...),
		Commands: []*cli.Command{
			runCommand(), serveCommand(), jobCommand(), secretCommand(), workerCommand(), checkCommand(), planCommand(),
			connectorCommand(), doctorCommand(), versionCommand(), completionCommand(),
		},
	}
	help := group(app, nil)
	app.Action = func(c *cli.Context) error {
		if done, err := shadeByFlag(c); done {
			return err
		}
		return help(c)
	}
	prepare(app, nil, app.Commands)
	app.Setup()
	return app
}

// prepare gives every command what all have in common.
func prepare(app *cli.App, above, commands []*cli.Command) {
	for _, c := range commands {
		path := append(above[:len(above):len(above)], c)
		c.OnUsageError, c.HideHelpCommand = usageError, true
		switch {
		case len(c.Subcommands) > 0:
			c.Action = group(app, path)
			prepare(app, path, c.Subcommands)
		case c.ArgsUsage == "":
			act := c.Action
			c.Action = func(cc *cli.Context) error {
				if cc.NArg() > 0 {
					return failf("%s takes no arguments, it got: %s", (&line{commands: path}).title(app), strings.Join(cc.Args().Slice(), " "))
				}
				return act(cc)
			}
		}
	}
}

// group is what stctl, or a command that has commands of its own, does when none of them was named.
func group(app *cli.App, path []*cli.Command) cli.ActionFunc {
	return func(c *cli.Context) error {
		l := &line{commands: path}
		if c.NArg() == 0 {
			return writeHelp(app.Writer, app, l)
		}
		commands := app.Commands
		if len(path) > 0 {
			commands = path[len(path)-1].Subcommands
		}
		return unknownCommand(l.title(app), c.Args().First(), commands)
	}
}

// usageError is what the library finds wrong with flags beyond what take has looked at.
func usageError(_ *cli.Context, err error, _ bool) error {
	return failf("%v; --help lists the flags", err)
}

func outputFlag(also ...string) cli.Flag {
	usage := "`FORMAT` of what goes to standard output: text or json"
	if len(also) > 0 {
		usage = "`FORMAT` of what goes to standard output: text, json or " + strings.Join(also, " or ")
	}
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: usage}
}

// output is the --output of the command or of stctl itself; also lists what the command can beside text and json.
func output(c *cli.Context, also ...string) (string, error) {
	v, ok := setting(c, "output")
	if !ok {
		return "text", nil
	}
	known := append([]string{"text", "json"}, also...)
	for _, a := range known {
		if v == a {
			return v, nil
		}
	}
	last := len(known) - 1
	return "", failf("--output %s is not known here; write %s or %s", v, strings.Join(known[:last], ", "), known[last])
}

// logger writes to w. def is the level when none was asked for: a fleet's roles say more than a command that a
// person waits for.
func logger(set *settings.Values, def slog.Level, w io.Writer) *slog.Logger {
	level := def
	if set.Has("log.level") {
		_ = level.UnmarshalText([]byte(set.String("log.level"))) // one of the table's words
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// load reads the settings of a command and says what it warns of.
func load(c *cli.Context, roles settings.Role) (*settings.Values, error) {
	set, warnings, err := settings.Load(c, roles)
	for _, w := range warnings {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s\n", w)
	}
	return set, err
}

// interrupts returns a context that ends with the first SIGINT or SIGTERM. The second leaves at once: nothing
// is waited for, the exit code is that of a cancelled job.
func interrupts(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stopped := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
		case <-stopped:
			return
		}
		select {
		case <-signals:
			os.Exit(ExitCancelled)
		case <-stopped:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(stopped)
		cancel()
	}
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print version, Go version and platform",
		Flags: []cli.Flag{outputFlag()},
		Action: func(c *cli.Context) error {
			form, err := output(c)
			if err != nil {
				return err
			}
			v := struct {
				Version string `json:"version"`
				Commit  string `json:"commit,omitempty"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{Version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if form == "json" {
				return writeJSON(c.App.Writer, v)
			}
			_, err = fmt.Fprintf(c.App.Writer, "strait %s %s %s/%s\n", strings.TrimSpace(v.Version+" "+v.Commit), v.Go, v.OS, v.Arch)
			return err
		},
	}
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return ""
}
