package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/cmd/internal/settings"
	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/units"
)

func workerCommand() *cli.Command {
	common := append(settings.Flags(settings.Client), outputFlag())
	with := func(more ...cli.Flag) []cli.Flag { return append(common[:len(common):len(common)], more...) }
	return &cli.Command{
		Name: "worker", Usage: "look at the workers of a fleet, drain them, fence them",
		Subcommands: []*cli.Command{
			{Name: "list", Aliases: []string{"ls"}, Usage: "who is alive, with slots", Flags: common, Action: withClient(listWorkers)},
			{Name: "describe", Usage: "everything the keys say about a worker, and what runs there", ArgsUsage: "NAME", Flags: common, Action: withWorker(describeWorker)},
			{Name: "drain", Usage: "place nothing new on a worker", ArgsUsage: "NAME",
				Description: `What runs there goes on until it ends. What still runs at the deadline is moved to other workers as if the worker
had failed; the worker stays, and takes no work until it is undrained.`,
				Flags: with(&cli.DurationFlag{Name: "deadline", Value: 10 * time.Minute, Usage: "`DURATION` after which what still runs is moved; 0 for never"},
					&cli.BoolFlag{Name: "wait", Usage: "show what still runs, until nothing does"},
					&cli.DurationFlag{Name: "timeout", Usage: "wait no longer than this, with exit code 124"}),
				Action: withWorker(drainWorker)},
			{Name: "undrain", Usage: "place work on a worker again", ArgsUsage: "NAME", Flags: common, Action: withWorker(undrainWorker)},
			{Name: "fence", Usage: "say that the process of a worker is dead, so that nothing waits for it", ArgsUsage: "NAME",
				Description: `For a supervisor that knows. The incarnation names the process: the file ` + "`incarnation`" + ` in the worker's --data-dir
holds it, as long as that process may act. One that lives after all notices and stops what it does.`,
				Flags: with(&cli.IntFlag{Name: "incarnation", Usage: "`N` of the dead process"},
					&cli.StringFlag{Name: "incarnation-file", Usage: "`FILE` to read it from; none is there after an end in order, and nothing is done"}),
				Action: fenceWorker},
		},
	}
}

// withWorker is withClient for one worker.
func withWorker(f func(c *cli.Context, ctx context.Context, cl *client.Client, name, form string) error) cli.ActionFunc {
	return withClient(func(c *cli.Context, ctx context.Context, cl *client.Client, form string) error {
		if c.NArg() != 1 {
			return failf("%s takes the name of one worker; `stctl worker list` shows them", c.Command.HelpName)
		}
		return f(c, ctx, cl, c.Args().First(), form)
	})
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
	if len(workers) == 0 {
		fmt.Fprintln(c.App.ErrWriter, "no workers; `stctl serve worker` starts one")
	}
	return table(c.App.Writer, workerRows(workers))
}

func workerRows(workers []client.Worker) [][]string {
	rows := [][]string{{"NAME", "STATE", "SLOTS", "CPU", "MEMORY", "DATA", "OPS", "LABELS", "PROTOCOL", "VERSION", "INCARNATION"}}
	for i := range workers {
		w := &workers[i]
		rows = append(rows, []string{w.Name, w.State(), slotsText(w), cpuText(w), memoryText(w), w.Worker.Data, w.Worker.Ops, dash(labelText(w.Worker.Labels)),
			protocolText(w.Worker.Protocol), w.Worker.Version, fmt.Sprint(w.Incarnation)})
	}
	return rows
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// slotsText is used/all; of a worker that cuts slots on demand, used alone.
func slotsText(w *client.Worker) string {
	if w.Worker.Dynamic {
		return fmt.Sprintf("%d/dynamic", w.Used)
	}
	return fmt.Sprintf("%d/%d", w.Used, w.Worker.Slots)
}

// cpuText is cores granted of all, of a worker that accounts for them.
func cpuText(w *client.Worker) string {
	if w.Worker.Dynamic {
		return fmt.Sprintf("%s/%d", strconv.FormatFloat(float64(w.Taken.MilliCPU)/1000, 'f', -1, 64), w.Worker.CPU)
	}
	return fmt.Sprint(w.Worker.CPU)
}

func memoryText(w *client.Worker) string {
	if w.Worker.Dynamic {
		return units.FormatBytes(w.Taken.Memory) + "/" + units.FormatBytes(w.Worker.Memory)
	}
	return units.FormatBytes(w.Worker.Memory)
}

func protocolText(p [2]int) string {
	if p[0] == p[1] {
		return fmt.Sprint(p[0])
	}
	return fmt.Sprintf("%d-%d", p[0], p[1])
}

func describeWorker(c *cli.Context, ctx context.Context, cl *client.Client, name, form string) error {
	d, err := cl.DescribeWorker(ctx, name)
	if err != nil {
		return err
	}
	if form == "json" {
		return writeJSON(c.App.Writer, d)
	}
	return writeWorker(c.App.Writer, d)
}

func writeWorker(w io.Writer, d *client.WorkerDescription) error {
	if x := d.Worker; x == nil {
		fmt.Fprintf(w, "worker %s  is not there\n", d.Name)
	} else {
		r := &x.Worker
		fmt.Fprintf(w, "worker %s  %s\n", d.Name, x.State())
		fmt.Fprintf(w, "  incarnation %d  pid %d on %s  since %s\n", x.Incarnation, r.PID, dash(r.Host), r.Started.Local().Format(time.DateTime))
		fmt.Fprintf(w, "  version %s  protocol %s  data %s  ops %s\n", r.Version, protocolText(r.Protocol), r.Data, dash(r.Ops))
		fmt.Fprintf(w, "  slots %s  cpu %s  memory %s  labels %s\n", slotsText(x), cpuText(x), memoryText(x), dash(labelText(r.Labels)))
		fmt.Fprintf(w, "  ttl %ds  call limit %ds\n", r.TTL, r.CallLimit)
	}
	if d.Wish != "" {
		fmt.Fprintf(w, "  wish: %s", d.Wish)
		if _, _, err := record.ParseWorkerWish([]byte(d.Wish)); err != nil {
			fmt.Fprintf(w, " (%v)", err)
		}
		fmt.Fprintln(w)
	}
	if len(d.Parts) == 0 {
		_, err := fmt.Fprintln(w, "  nothing runs there")
		return err
	}
	rows := [][]string{{"JOB", "NAME", "PIPELINE", "ATTEMPT", "STATE", "SLOTS", "GROUPS", "NOTE"}}
	for i := range d.Parts {
		rows = append(rows, partRow(d, &d.Parts[i]))
	}
	return table(w, rows)
}

func partRow(d *client.WorkerDescription, p *client.Part) []string {
	state, notes := "-", []string{}
	if s := p.Status; s != nil && s.Incarnation == p.Incarnation {
		if state = string(s.State); s.Attempt != p.Attempt {
			state += fmt.Sprintf(" (attempt %d)", s.Attempt)
		}
		if s.Failure != nil {
			notes = append(notes, firstLine(s.Failure.Message))
		}
	}
	if d.Worker == nil || p.Incarnation != d.Worker.Incarnation {
		notes = append(notes, fmt.Sprintf("left by incarnation %d", p.Incarnation))
	}
	if p.Assignment != nil && p.Assignment.Scope == record.ScopeCommitters {
		notes = append(notes, "committers only")
	}
	slots := make([]string, len(p.Slots))
	for i, s := range p.Slots {
		slots[i] = fmt.Sprint(s)
	}
	groups := slices.Clone(p.Groups)
	slices.Sort(groups)
	if len(groups) > 4 {
		groups = append(groups[:3], fmt.Sprintf("… %d", len(p.Groups)))
	}
	return []string{string(p.Job), dash(p.Name), fmt.Sprint(p.Pipeline), fmt.Sprint(p.Attempt), state, dash(strings.Join(slots, ",")), dash(strings.Join(groups, " ")), strings.Join(notes, "; ")}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// drained is what drain says as JSON.
type drained struct {
	Worker string     `json:"worker"`
	Until  *time.Time `json:"until,omitempty"`
	Gone   bool       `json:"gone,omitempty"`  // the worker has left
	Parts  []stays    `json:"parts,omitempty"` // what still runs
}

type stays struct {
	Job      plan.JobID      `json:"job"`
	Name     string          `json:"name,omitempty"`
	Pipeline plan.PipelineID `json:"pipeline"`
}

func drainWorker(c *cli.Context, ctx context.Context, cl *client.Client, name, form string) error {
	out := drained{Worker: name}
	var until time.Time
	if d := c.Duration("deadline"); d > 0 {
		until = time.Now().UTC().Add(d).Truncate(time.Second)
		out.Until = &until
	}
	if err := cl.Drain(ctx, name, until); err != nil {
		return err
	}
	for said := ""; ; {
		err := stillRunning(ctx, cl, &out)
		text := out.text()
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil && !c.Bool("wait"):
			return err
		case err != nil:
			text = fmt.Sprintf("%v; the wish is written, still waiting", err)
		}
		if text != said {
			fmt.Fprintln(c.App.ErrWriter, text)
			said = text
		}
		if err == nil && len(out.Parts) == 0 || !c.Bool("wait") {
			break
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return &outcome{ExitCancelled, fmt.Sprintf("worker %s still drains", name)}
			}
			return fmt.Errorf("worker %s still drains", name) // withClient says that the time is up
		case <-time.After(500 * time.Millisecond):
		}
	}
	if form == "json" {
		return writeJSON(c.App.Writer, out)
	}
	return nil
}

// stillRunning looks at what the living incarnation has.
func stillRunning(ctx context.Context, cl *client.Client, out *drained) error {
	d, err := cl.DescribeWorker(ctx, out.Worker)
	if err != nil {
		return err
	}
	out.Parts, out.Gone = nil, d.Worker == nil
	for i := range d.Parts {
		if p := &d.Parts[i]; d.Worker != nil && p.Incarnation == d.Worker.Incarnation {
			out.Parts = append(out.Parts, stays{p.Job, p.Name, p.Pipeline})
		}
	}
	return nil
}

func (d *drained) text() string {
	switch {
	case d.Gone:
		return fmt.Sprintf("worker %s has left; nothing runs there", d.Worker)
	case len(d.Parts) == 0:
		return fmt.Sprintf("worker %s is drained; nothing runs there", d.Worker)
	}
	const most = 5
	var b strings.Builder
	fmt.Fprintf(&b, "worker %s drains", d.Worker)
	if d.Until != nil {
		fmt.Fprintf(&b, " until %s", d.Until.Local().Format(time.DateTime))
	}
	b.WriteString("; still there: ")
	for i, p := range d.Parts[:min(len(d.Parts), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "pipeline %d of job %s", p.Pipeline, p.Job)
		if p.Name != "" && p.Name != string(p.Job) {
			fmt.Fprintf(&b, " (%s)", p.Name)
		}
	}
	if more := len(d.Parts) - most; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

func undrainWorker(c *cli.Context, ctx context.Context, cl *client.Client, name, form string) error {
	if err := cl.Undrain(ctx, name); err != nil {
		return err
	}
	if form == "json" {
		return writeJSON(c.App.Writer, drained{Worker: name})
	}
	_, err := fmt.Fprintf(c.App.ErrWriter, "worker %s takes work again\n", name)
	return err
}

// fenceWorker reads the incarnation before it connects: where there is nothing to fence, no etcd is needed.
func fenceWorker(c *cli.Context) error {
	if c.NArg() != 1 {
		return failf("%s takes the name of one worker", c.Command.HelpName)
	}
	incarnation, file := int64(c.Int("incarnation")), c.String("incarnation-file")
	switch {
	case c.IsSet("incarnation") == (file != ""):
		return failf("name the dead process: --incarnation N, or --incarnation-file FILE of its --data-dir; `stctl worker list` shows the incarnations of the living")
	case file != "":
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(c.App.ErrWriter, "there is no %s: the worker ended in order, or never registered; nothing is fenced\n", file)
			return nil
		}
		if err != nil {
			return failf("--incarnation-file: %v", err)
		}
		if incarnation, err = strconv.ParseInt(strings.TrimSpace(string(text[:min(len(text), 64)])), 10, 64); err != nil {
			return failf("--incarnation-file %s: it does not hold the number of an incarnation", file)
		}
	}
	return withClient(func(c *cli.Context, ctx context.Context, cl *client.Client, form string) error {
		name := c.Args().First()
		gone, err := cl.Fence(ctx, name, incarnation, whoami())
		if err != nil {
			return err
		}
		if file != "" { // its process is dead and fenced: there is nothing to do twice
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(c.App.ErrWriter, "%v; the next process to register replaces it\n", err)
			}
		}
		if form == "json" {
			return writeJSON(c.App.Writer, struct {
				Worker      string `json:"worker"`
				Incarnation int64  `json:"incarnation"`
				Gone        bool   `json:"gone"` // its key was gone already
			}{name, incarnation, gone})
		}
		text := "its key is deleted and its lease revoked"
		if gone {
			text = "its key was gone already; nothing waits for it any more"
		}
		_, err = fmt.Fprintf(c.App.ErrWriter, "worker %s, incarnation %d, is fenced: %s\n", name, incarnation, text)
		return err
	})(c)
}

// whoami is who fences, for whoever reads the key.
func whoami() string {
	host, _ := os.Hostname()
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return host
}
