package cli

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/cmd/internal/settings"
	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

func jobCommand() *cli.Command {
	common := append(settings.Flags(settings.Client), outputFlag())
	return &cli.Command{
		Name: "job", Usage: "submit jobs to a fleet, look at them, cancel them",
		Subcommands: []*cli.Command{
			{
				Name: "submit", Usage: "write a job into the fleet's etcd and follow it to its end", ArgsUsage: "FILE",
				Flags: append(append(append(jobFlags(), settings.Flag("secret.key-file"),
					&cli.BoolFlag{Name: "allow-plain-secrets", Usage: "store secrets as they are where there is no --secret-key-file"}), common...),
					&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "print the id and leave"},
					&cli.StringFlag{Name: "id", Usage: "`ID` of the job, [a-z0-9][a-z0-9-]*; one is made otherwise"},
					&cli.StringSliceFlag{Name: "label", Usage: "`KEY=VALUE` kept with the job; may be repeated"},
					&cli.DurationFlag{Name: "timeout", Usage: "how long to follow; the job goes on, the exit code is 124"}),
				Action: submit,
			},
			listCommand(common),
			{Name: "status", Usage: "pipelines and task groups of a job, and where they run", ArgsUsage: "ID", Flags: common, Action: withJob(jobStatus)},
			{Name: "describe", Usage: "everything the keys say about a job", ArgsUsage: "ID", Flags: common, Action: withJob(describeJob)},
			{Name: "logs", Usage: "what all processes of the fleet have logged of a job, by time", ArgsUsage: "ID",
				Description: `Every coordinator and worker keeps the newest of it in memory (--log-memory of serve), also after the job's end, as long
as the process lives. JSON is one object a line.`,
				Flags: append(common[:len(common):len(common)],
					&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with what comes, until the job has ended"},
					&cli.StringFlag{Name: "since", Usage: "`TIME`, or how long ago: 30m"},
					&cli.StringFlag{Name: "worker", Usage: "`NAME` of the only worker, or coordinator, to ask"},
					&cli.StringFlag{Name: "level", Usage: "`LEVEL` from which on: debug, info, warn or error"},
					&cli.DurationFlag{Name: "timeout", Usage: "leave after this, with exit code 124"}),
				Action: logsOfJob},
			{Name: "wait", Usage: "follow a job to its end; the exit code is its outcome", ArgsUsage: "ID",
				Flags:  append(common[:len(common):len(common)], &cli.DurationFlag{Name: "timeout", Usage: "give up after this, with exit code 124"}),
				Action: withJob(waitJob)},
			{Name: "cancel", Usage: "cancel a job and wait until it has ended", ArgsUsage: "ID",
				Flags: append(common[:len(common):len(common)],
					&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "do not wait"},
					&cli.DurationFlag{Name: "timeout", Usage: "wait no longer than this, with exit code 124"}),
				Action: withJob(cancelJob)},
		},
	}
}

// callWithin bounds commands that only read or write a few keys.
const callWithin = 15 * time.Second

// withClient connects to the fleet for a command. When --timeout runs out the exit code says so, wherever the
// command was.
func withClient(f func(c *cli.Context, ctx context.Context, cl *client.Client, form string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		form, err := output(c)
		if err != nil {
			return err
		}
		ctx, stop := interrupts(c.Context)
		defer stop()
		if d := c.Duration("timeout"); d > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, d)
			defer cancel()
		}
		set, err := load(c, settings.Client)
		if err != nil {
			return err
		}
		store, err := openStore(ctx, set)
		if err == nil {
			defer store.Close()
			err = f(c, ctx, client.New(store, tree(set)), form)
		}
		var told *outcome
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.As(err, &told) {
			return &outcome{ExitTimedOut, fmt.Sprintf("timed out after %s: %v", c.Duration("timeout"), err)}
		}
		return err
	}
}

// withJob is withClient for one job, given by its id or a unique prefix of it.
func withJob(f func(c *cli.Context, ctx context.Context, cl *client.Client, id plan.JobID, form string) error) cli.ActionFunc {
	return withClient(func(c *cli.Context, ctx context.Context, cl *client.Client, form string) error {
		if c.NArg() != 1 {
			return failf("%s takes one job id; `stctl job list` shows them", c.Command.HelpName)
		}
		id, err := cl.ResolveID(ctx, c.Args().First())
		if err != nil {
			return err
		}
		return f(c, ctx, cl, id, form)
	})
}

func submit(c *cli.Context) error {
	if _, err := output(c); err != nil {
		return err
	}
	labels, err := pairs("--label", "KEY=VALUE", c.StringSlice("label"), nil)
	if err != nil {
		return err
	}
	j, err := readJobFile(c)
	if err != nil {
		return err
	}
	job, warnings, err := j.parse()
	warn(c.App.ErrWriter, warnings)
	if err != nil {
		return err
	}
	// What can be seen from here is told here; the leader, who sees the data, plans anew.
	more, err := j.check(c.Context, job, true)
	warn(c.App.ErrWriter, more)
	if err != nil {
		return err
	}
	set, err := load(c, settings.Client|settings.Sealer)
	if err != nil {
		return err
	}
	keys, err := keyring(c.App.ErrWriter, set)
	if err != nil {
		return err
	}
	return withClient(func(c *cli.Context, ctx context.Context, cl *client.Client, form string) error {
		cl = cl.WithSecrets(j.secrets(c, keys, c.Bool("allow-plain-secrets")))
		id, err := cl.Submit(ctx, j.spec(job, labels), plan.JobID(c.String("id")))
		if err != nil {
			return err
		}
		if c.Bool("detach") {
			return tellID(c, form, id)
		}
		fmt.Fprintf(c.App.ErrWriter, "job %s\n", id)
		return attach(c, ctx, cl, id, form)
	})(c)
}

// tellID prints the id of a job that is not followed.
func tellID(c *cli.Context, form string, id plan.JobID) error {
	if form == "json" {
		return writeJSON(c.App.Writer, struct {
			ID plan.JobID `json:"id"`
		}{id})
	}
	_, err := fmt.Fprintln(c.App.Writer, id)
	return err
}

// attach follows a job to its end. An interrupt leaves the job running: it belongs to the fleet.
func attach(c *cli.Context, ctx context.Context, cl *client.Client, id plan.JobID, form string) error {
	last, err := newFollower(cl, newScreen(c.App.ErrWriter)).follow(ctx, id)
	left := 0
	switch {
	case err == nil:
		return tellEnd(ctx, cl, id, form, c.App.Writer, c.App.ErrWriter)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		fmt.Fprintf(c.App.ErrWriter, "timed out; job %s goes on\n", id)
		left = ExitTimedOut
	case errors.Is(ctx.Err(), context.Canceled):
		fmt.Fprintf(c.App.ErrWriter, "detached; job %s goes on, `stctl job cancel %s` ends it\n", id, id)
		left = ExitCancelled
	default:
		return err
	}
	if form == "json" {
		if last == nil {
			last = &record.JobStatus{Phase: state.JobSubmitted}
		}
		if err := writeJSON(c.App.Writer, endOf(id, last.Name, last)); err != nil {
			return err
		}
	}
	return &outcome{code: left}
}

func waitJob(c *cli.Context, ctx context.Context, cl *client.Client, id plan.JobID, form string) error {
	return attach(c, ctx, cl, id, form)
}

func cancelJob(c *cli.Context, ctx context.Context, cl *client.Client, id plan.JobID, form string) error {
	_, err := cl.Wish(ctx, id, record.WishCancelled)
	if err != nil {
		return err
	}
	if c.Bool("detach") {
		if form == "json" {
			return tellID(c, form, id)
		}
		return nil
	}
	err = attach(c, ctx, cl, id, form)
	if ExitCode(err) == ExitCancelled && ctx.Err() == nil { // which is what was asked for
		return nil
	}
	return err
}

func labelText(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for k, v := range labels {
		parts = append(parts, k+"="+v)
	}
	sort.Strings(parts)
	return strings.Join(parts, ",")
}
