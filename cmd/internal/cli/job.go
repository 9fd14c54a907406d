package cli

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/logical"
)

func jobCommand() *cli.Command {
	common := append(storeFlags(), outputFlag())
	return &cli.Command{
		Name: "job", Usage: "submit jobs to a fleet, look at them, cancel them",
		Action: subcommandNeeded,
		Subcommands: []*cli.Command{
			{
				Name: "submit", Usage: "write a job into the fleet's etcd and follow it to its end", ArgsUsage: "FILE",
				Flags: append(append(jobFlags(), common...),
					&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "print the id and leave"},
					&cli.StringFlag{Name: "id", Usage: "the job's id, [a-z0-9][a-z0-9-]*; one is made otherwise"},
					&cli.StringSliceFlag{Name: "label", Usage: "`KEY=VALUE` kept with the job; may be repeated"},
					&cli.DurationFlag{Name: "timeout", Usage: "how long to follow; the job goes on, the exit code is 124"}),
				Action: submit,
			},
			{Name: "list", Aliases: []string{"ls"}, Usage: "all jobs, newest first", Flags: common, Action: withClient(listJobs)},
			{Name: "status", Usage: "pipelines and task groups of a job, and where they run", ArgsUsage: "ID", Flags: common, Action: withJob(jobStatus)},
			{Name: "describe", Usage: "everything the keys say about a job", ArgsUsage: "ID", Flags: common, Action: withJob(describeJob)},
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

func workerCommand() *cli.Command {
	return &cli.Command{
		Name: "worker", Usage: "the workers of a fleet", Action: subcommandNeeded,
		Subcommands: []*cli.Command{{Name: "list", Aliases: []string{"ls"}, Usage: "who is alive, with slots",
			Flags: append(storeFlags(), outputFlag()), Action: withClient(listWorkers)}},
	}
}

// callWithin bounds commands that only read or write a few keys.
const callWithin = 15 * time.Second

// withClient connects to the fleet for a command.
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
		store, err := openStore(ctx, c)
		if err != nil {
			return err
		}
		defer store.Close()
		return f(c, ctx, client.New(store, tree(c)), form)
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
	j, err := readJobFile(c)
	if err != nil {
		return err
	}
	labels := map[string]string{}
	for _, kv := range c.StringSlice("label") {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return failf("--label %s: write --label KEY=VALUE", kv)
		}
		labels[k] = v
	}
	job, warnings, err := j.parse()
	warn(c.App.ErrWriter, warnings)
	if err != nil {
		return err
	}
	// What can be seen from here is told here; the leader, who sees the data, plans anew.
	more, err := logical.Check(c.Context, job, catalog{folder: j.folder}, true)
	warn(c.App.ErrWriter, more)
	if err != nil {
		return err
	}
	return withClient(func(c *cli.Context, ctx context.Context, cl *client.Client, form string) error {
		id, err := cl.Submit(ctx, j.spec(job, labels), plan.JobID(c.String("id")))
		if err != nil {
			return err
		}
		if c.Bool("detach") {
			if form == "json" {
				return writeJSON(c.App.Writer, struct {
					ID plan.JobID `json:"id"`
				}{id})
			}
			_, err = fmt.Fprintln(c.App.Writer, id)
			return err
		}
		fmt.Fprintf(c.App.ErrWriter, "job %s\n", id)
		return attach(c, ctx, cl, id, form)
	})(c)
}

// attach follows a job to its end. An interrupt leaves the job running: it belongs to the fleet.
func attach(c *cli.Context, ctx context.Context, cl *client.Client, id plan.JobID, form string) error {
	_, err := newFollower(cl, c.App.ErrWriter).follow(ctx, id)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintf(c.App.ErrWriter, "timed out; job %s goes on\n", id)
		return &outcome{code: ExitTimedOut}
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(c.App.ErrWriter, "detached; job %s goes on, `stctl job cancel %s` ends it\n", id, id)
		return &outcome{code: ExitCancelled}
	case err != nil:
		return err
	}
	return tellEnd(ctx, cl, id, form, c.App.Writer, c.App.ErrWriter)
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
		return nil
	}
	err = attach(c, ctx, cl, id, form)
	if ExitCode(err) == ExitCancelled { // which is what was asked for
		return nil
	}
	return err
}

func listJobs(c *cli.Context, ctx context.Context, cl *client.Client, form string) error {
	jobs, err := cl.List(ctx)
	if err != nil {
		return err
	}
	if form == "json" {
		type line struct {
			ID        plan.JobID `json:"id"`
			Name      string     `json:"name"`
			Phase     string     `json:"phase"`
			Message   string     `json:"message,omitempty"`
			Submitted time.Time  `json:"submitted"`
		}
		out := []line{}
		for i := range jobs {
			l := line{ID: jobs[i].ID, Name: jobs[i].Name(), Phase: jobs[i].Phase(), Submitted: jobs[i].Submitted()}
			if s := jobs[i].Status; s != nil {
				l.Message = s.Message
			}
			out = append(out, l)
		}
		return writeJSON(c.App.Writer, out)
	}
	rows := [][]string{{"ID", "NAME", "PHASE", "SUBMITTED", "MESSAGE"}}
	for i := range jobs {
		message := ""
		if s := jobs[i].Status; s != nil {
			message, _, _ = strings.Cut(s.Message, "\n")
		}
		rows = append(rows, []string{string(jobs[i].ID), jobs[i].Name(), jobs[i].Phase(), jobs[i].Submitted().Local().Format(time.DateTime), message})
	}
	return table(c.App.Writer, rows)
}

func listWorkers(c *cli.Context, ctx context.Context, cl *client.Client, form string) error {
	workers, err := cl.Workers(ctx)
	if err != nil {
		return err
	}
	if form == "json" {
		if workers == nil {
			workers = []client.Worker{}
		}
		return writeJSON(c.App.Writer, workers)
	}
	rows := [][]string{{"NAME", "INCARNATION", "SLOTS", "DATA", "OPS", "LABELS", "VERSION", "WISH"}}
	for _, w := range workers {
		rows = append(rows, []string{w.Name, fmt.Sprint(w.Incarnation), fmt.Sprintf("%d/%d", w.Used, w.Worker.Slots),
			w.Worker.Data, w.Worker.Ops, labelText(w.Worker.Labels), w.Worker.Version, w.Wish})
	}
	return table(c.App.Writer, rows)
}

func labelText(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for k, v := range labels {
		parts = append(parts, k+"="+v)
	}
	sort.Strings(parts)
	return strings.Join(parts, ",")
}
