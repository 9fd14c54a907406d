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
	app := newApp(stdout, stderr)
	err := app.Run(flagsFirst(app, args))
	if err != nil && err.Error() != "" {
		fmt.Fprintln(stderr, err)
	}
	return ExitCode(err)
}

func newApp(stdout, stderr io.Writer) *cli.App {
	cli.VersionFlag = &cli.BoolFlag{Name: "version", Usage: "print the version", DisableDefaultText: true}
	return &cli.App{
		Name:                 "stctl",
		Usage:                "run SeaTunnel job files, here or on a fleet",
		Version:              Version,
		Writer:               stdout,
		ErrWriter:            stderr,
		EnableBashCompletion: true,
		Suggest:              true,
		HideHelpCommand:      true,
		ExitErrHandler:       func(*cli.Context, error) {}, // Main decides
		OnUsageError:         usageError,
		Flags:                append(storeFlags(), outputFlag(), logFlag()),
		Commands: []*cli.Command{
			runCommand(), serveCommand(), jobCommand(), workerCommand(), checkCommand(), planCommand(),
			connectorCommand(), versionCommand(),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return unknownCommand(c)
			}
			return cli.ShowAppHelp(c)
		},
	}
}

func usageError(_ *cli.Context, err error, _ bool) error {
	return failf("%v; --help lists the flags", err)
}

func unknownCommand(c *cli.Context) error {
	var names []string
	for _, sub := range c.App.Commands {
		names = append(names, sub.Name)
	}
	if c.Command != nil && len(c.Command.Subcommands) > 0 {
		names = nil
		for _, sub := range c.Command.Subcommands {
			names = append(names, sub.Name)
		}
	}
	return failf("unknown command %q; there are: %s", c.Args().First(), strings.Join(names, ", "))
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "`text` or json (plan: also dot)"}
}

func logFlag() cli.Flag {
	return &cli.StringFlag{Name: "log-level", EnvVars: []string{"STRAIT_LOG_LEVEL"}, Value: "warn", Usage: "debug, info, `warn` or error"}
}

// output is the --output of the command or of stctl itself; allowed lists what the command can.
func output(c *cli.Context, allowed ...string) (string, error) {
	v := "text"
	for _, at := range c.Lineage() {
		if at.IsSet("output") {
			v = at.String("output")
			break
		}
	}
	for _, a := range append([]string{"text", "json"}, allowed...) {
		if v == a {
			return v, nil
		}
	}
	return "", failf("--output %s is not known here; write %s", v, strings.Join(append([]string{"text", "json"}, allowed...), ", "))
}

// logger writes to standard error. def is the level when none was asked for: a fleet's roles say more than a
// command that a person waits for.
func logger(c *cli.Context, def slog.Level) (*slog.Logger, error) {
	level := def
	for _, at := range c.Lineage() {
		if at.IsSet("log-level") {
			if err := level.UnmarshalText([]byte(at.String("log-level"))); err != nil {
				return nil, failf("--log-level %q is not known; write debug, info, warn or error", at.String("log-level"))
			}
			break
		}
	}
	return slog.New(slog.NewTextHandler(c.App.ErrWriter, &slog.HandlerOptions{Level: level})), nil
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
