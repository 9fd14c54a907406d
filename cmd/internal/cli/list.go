package cli

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/coordinator/api/client"
	"strait/plan"
	"strait/plan/option"
	"strait/plan/state"
)

// endedWithin is how long a job that has ended stands in a list that does not ask for ended ones.
const endedWithin = 24 * time.Hour

func listCommand(common []cli.Flag) *cli.Command {
	return &cli.Command{
		Name: "list", Aliases: []string{"ls"}, Usage: "jobs, newest first",
		Description: `Those that have not ended, and those that ended within a day; with --all, a --phase or --finished also older ones, as long
as their history is kept.`,
		Flags: append(common[:len(common):len(common)],
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "also jobs that ended long ago"},
			&cli.StringSliceFlag{Name: "phase", Usage: "only `PHASE`, like running or failed; may be repeated"},
			&cli.StringFlag{Name: "name", Usage: "only names or ids that are like `GLOB`: 'orders-*'"},
			&cli.StringSliceFlag{Name: "label", Usage: "only with `KEY=VALUE`, of jobs whose keys are kept; may be repeated"},
			&cli.StringFlag{Name: "since", Usage: "only submitted since `TIME`, or how long ago: 24h"},
			&cli.StringFlag{Name: "finished", Usage: "only ended since `TIME`, or how long ago: 1h"},
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "only the newest `N`"}),
		Action: listJobs,
	}
}

// phases are the words of --phase.
var phases = []state.Job{state.JobSubmitted, state.JobPlanned, state.JobPending, state.JobPreparing, state.JobScheduled, state.JobRunning,
	state.JobRestarting, state.JobSavepointing, state.JobCancelling, state.JobFailing, state.JobClosing,
	state.JobFinished, state.JobSavepointDone, state.JobCancelled, state.JobFailed}

// jobFilter reads the flags of job list; every mistake is told at once.
func jobFilter(c *cli.Context, now time.Time) (client.Filter, error) {
	f := client.Filter{Name: c.String("name"), Limit: c.Int("limit")}
	var wrong []string
	note := func(err error) {
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	words := make([]string, len(phases)+1)
	for i, p := range phases {
		words[i] = string(p)
	}
	words[len(phases)] = client.Unreadable
	for _, given := range c.StringSlice("phase") {
		for _, p := range strings.Split(given, ",") {
			word := strings.ToUpper(strings.TrimSpace(p))
			if slices.Contains(words, word) {
				f.Phases = append(f.Phases, word)
				continue
			}
			hint := "there are: " + strings.ToLower(strings.Join(words, ", "))
			if near := option.Nearest(word, words); near != "" {
				hint = "did you mean " + strings.ToLower(near) + "?"
			}
			note(failf("--phase %s is not known; %s", p, hint))
		}
	}
	if _, err := path.Match(f.Name, ""); err != nil {
		note(failf("--name %s: not a pattern; * stands for any characters, ? for one, [a-c] for one of these", f.Name))
	}
	if f.Limit < 0 || c.IsSet("limit") && f.Limit == 0 {
		note(failf("--limit %d: write a number from 1 on", f.Limit))
	}
	var err error
	f.Labels, err = pairs("--label", "KEY=VALUE", c.StringSlice("label"), nil)
	note(err)
	f.Since, err = pointInTime("--since", c.String("since"), now)
	note(err)
	f.Finished, err = pointInTime("--finished", c.String("finished"), now)
	note(err)
	if len(wrong) > 0 {
		return f, failf("%s", strings.Join(wrong, "\n"))
	}
	if !c.Bool("all") && len(f.Phases) == 0 && f.Finished.IsZero() {
		f.Recent = now.Add(-endedWithin)
	}
	return f, nil
}

// listed is a job of job list as JSON.
type listed struct {
	ID        plan.JobID `json:"id"`
	Name      string     `json:"name"`
	Phase     string     `json:"phase"`
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	Slots     int        `json:"slots,omitempty"`
	Priority  int        `json:"priority,omitempty"`
	Submitted time.Time  `json:"submitted"`
	Started   *time.Time `json:"started,omitempty"`
	Finished  *time.Time `json:"finished,omitempty"`
	Archived  bool       `json:"archived,omitempty"` // only the history is left
}

func listedJob(j *client.Job) listed {
	l := listed{ID: j.ID, Name: j.Name(), Phase: j.Phase(), Message: j.Problem, Submitted: j.Submitted(), Archived: j.Archived}
	if s := j.Status; s != nil {
		l.Reason, l.Message, l.Slots, l.Priority, l.Started, l.Finished = s.Reason, s.Message, s.Slots, s.Priority, s.Started, s.Finished
	}
	return l
}

func listJobs(c *cli.Context) error {
	f, err := jobFilter(c, time.Now())
	if err != nil {
		return err
	}
	return withClient(func(c *cli.Context, ctx context.Context, cl *client.Client, form string) error {
		jobs, err := cl.List(ctx, f)
		if err != nil {
			return err
		}
		out := make([]listed, len(jobs))
		for i := range jobs {
			out[i] = listedJob(&jobs[i])
		}
		if form == "json" {
			return writeJSON(c.App.Writer, out)
		}
		if len(jobs) == 0 {
			fmt.Fprintln(c.App.ErrWriter, nothingListed(c))
		}
		rows := [][]string{{"ID", "NAME", "PHASE", "SUBMITTED", "ENDED", "MESSAGE"}}
		for _, l := range out {
			ended := "-"
			if l.Finished != nil {
				ended = l.Finished.Local().Format(time.DateTime)
			}
			rows = append(rows, []string{string(l.ID), l.Name, l.Phase, l.Submitted.Local().Format(time.DateTime), ended, firstLine(l.Message)})
		}
		return table(c.App.Writer, rows)
	})(c)
}

// nothingListed says why a list may be empty.
func nothingListed(c *cli.Context) string {
	for _, f := range []string{"phase", "name", "label", "since", "finished"} {
		if c.IsSet(f) {
			return "no jobs like that"
		}
	}
	return "no jobs; `stctl job submit FILE` submits one"
}
