package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/cmd/internal/ops"
	"strait/cmd/internal/settings"
	"strait/coordinator/api/client"
	"strait/kv"
)

// verdict is how a check came out.
type verdict string

const (
	isFine verdict = "ok"
	isOdd  verdict = "warn" // it works; somebody should look
	isBad  verdict = "fail" // it does not work, or will not for long
)

// finding is one line of stctl doctor.
type finding struct {
	Check   string  `json:"check"` // etcd, store, leader, coordinator, worker, clock, version, storage, jobs, drain
	Subject string  `json:"subject,omitempty"`
	Verdict verdict `json:"verdict"`
	Found   string  `json:"found"`
	Do      string  `json:"do,omitempty"` // what to do about it
}

// findings gathers lines in the order of the checks.
type findings struct{ all []finding }

func (f *findings) fine(check, subject, format string, args ...any) {
	f.all = append(f.all, finding{check, subject, isFine, fmt.Sprintf(format, args...), ""})
}

func (f *findings) odd(check, subject, do, format string, args ...any) {
	f.all = append(f.all, finding{check, subject, isOdd, fmt.Sprintf(format, args...), do})
}

func (f *findings) bad(check, subject, do, format string, args ...any) {
	f.all = append(f.all, finding{check, subject, isBad, fmt.Sprintf(format, args...), do})
}

func (f *findings) count(v verdict) int {
	n := 0
	for _, x := range f.all {
		if x.Verdict == v {
			n++
		}
	}
	return n
}

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "look at a fleet from all sides and say what is wrong",
		Description: `etcd (each endpoint), leader, coordinators, workers, clocks, versions, the folder of checkpoint files, jobs. It changes
nothing. The exit code is 1 when something fails; what is only odd is a warning.`,
		Flags:  append(settings.Flags(settings.Client), outputFlag()),
		Action: doctor,
	}
}

// doctorWithin bounds the whole look.
const doctorWithin = time.Minute

func doctor(c *cli.Context) error {
	form, err := output(c)
	if err != nil {
		return err
	}
	ctx, stop := interrupts(c.Context)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, doctorWithin)
	defer cancel()
	set, err := load(c, settings.Client)
	if err != nil {
		return err
	}
	if err := checkEndpoints(set); err != nil {
		return err
	}
	f := &findings{}
	conf, err := storeConfig(set)
	if err != nil {
		return err
	}
	conf.Endpoints, conf.DialTimeout = endpoints(set), 3*time.Second
	health := kv.Probe(ctx, conf)
	checkEtcd(f, health)
	serves := slices.ContainsFunc(health, func(h kv.Health) bool { return h.Err == nil })
	var store *kv.Store
	if serves {
		if store, err = openStore(ctx, set); err != nil {
			serves = false
		}
	}
	if !serves {
		f.bad("fleet", "", "bring etcd back first; running tasks are not disturbed for as long as their leases last", "cannot be looked at without etcd")
	} else {
		err := checkFleet(ctx, f, client.New(store, tree(set)))
		_ = store.Close()
		if ctx.Err() != nil && c.Context.Err() == nil && err != nil {
			return err
		}
		if err != nil {
			f.bad("fleet", "", "look at etcd, then ask again", "%v", err)
		}
	}
	if form == "json" {
		err = writeJSON(c.App.Writer, struct {
			OK       bool      `json:"ok"`
			Findings []finding `json:"findings"`
		}{f.count(isBad) == 0, f.all})
	} else {
		err = writeFindings(c.App.Writer, f)
	}
	if err == nil && f.count(isBad) > 0 {
		return &outcome{code: ExitFailed}
	}
	return err
}

func writeFindings(w io.Writer, f *findings) error {
	wide := 0
	for _, x := range f.all {
		wide = max(wide, len([]rune(strings.TrimSpace(x.Check+" "+x.Subject))))
	}
	wide = min(wide, 36)
	for _, x := range f.all {
		fmt.Fprintf(w, "%-4s  %-*s  %s\n", x.Verdict, wide, strings.TrimSpace(x.Check+" "+x.Subject), oneLine(x.Found))
		if x.Do != "" {
			fmt.Fprintf(w, "%6s%-*s  → %s\n", "", wide, "", x.Do)
		}
	}
	_, err := fmt.Fprintf(w, "%d ok, %d to look at, %d failing\n", f.count(isFine), f.count(isOdd), f.count(isBad))
	return err
}

// checkFleet looks at what the keys and the processes say. An error: the keys cannot be read.
func checkFleet(ctx context.Context, f *findings, cl *client.Client) error {
	hc := ops.NewClient()
	defer hc.Close()
	coordinators, err := cl.Coordinators(ctx)
	if err != nil {
		return err
	}
	workers, err := cl.Workers(ctx)
	if err != nil {
		return err
	}
	wishes, err := cl.WorkerWishes(ctx)
	if err != nil {
		return err
	}
	jobs, err := cl.List(ctx, client.Filter{Recent: time.Now()})
	if err != nil {
		return err
	}
	var all []*member
	for _, c := range coordinators {
		all = append(all, &member{role: "coordinator", name: c.Name, addr: c.Ops, leads: c.Leads})
	}
	for i := range workers {
		all = append(all, &member{role: "worker", name: workers[i].Name, addr: workers[i].Worker.Ops, worker: &workers[i]})
	}
	askMembers(ctx, hc, all)
	checkLeader(f, coordinators)
	checkAnswers(f, all)
	checkClocks(f, all)
	checkVersions(f, all)
	checkStorage(f, all)
	checkDrains(f, workers, wishes, time.Now())
	checkJobs(f, jobs, time.Now())
	return nil
}
