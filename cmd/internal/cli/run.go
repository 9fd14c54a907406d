package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"

	"strait/checkpoint/failpoint"
	"strait/checkpoint/storage"
	"strait/cmd/internal/settings"
	"strait/coordinator"
	"strait/coordinator/api/client"
	"strait/kv"
	"strait/kv/embed"
	"strait/kv/record"
	"strait/plan"
	"strait/worker"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "run one job to its end: etcd, coordinator and worker in this process", ArgsUsage: "FILE",
		Flags: append(jobFlags(), outputFlag(), settings.Flag("log.level"), settings.Flag("secret.key-file"),
			&cli.StringFlag{Name: "data-dir", Usage: "keep etcd and checkpoints in `FOLDER`; otherwise they go with the process"}),
		Action: runJob,
	}
}

// runJob is `stctl run`. The job goes through the same keys as on a fleet.
func runJob(c *cli.Context) error {
	form, err := output(c)
	if err != nil {
		return err
	}
	scr := newScreen(c.App.ErrWriter)
	set, err := load(c, settings.Run)
	if err != nil {
		return err
	}
	log := logger(set, slog.LevelError, scr) // what may heal is shown with the job's state
	j, err := readJobFile(c)
	if err != nil {
		return err
	}
	ctx, stop := interrupts(c.Context)
	defer stop()
	if j.keys, err = heldKeys(c.App.ErrWriter, set, c.String("data-dir")); err != nil {
		return err
	}
	// Mistakes are told before anything is started; the leader plans anew.
	job, _, p, warnings, err := j.plan(ctx)
	warn(c.App.ErrWriter, warnings)
	if err != nil {
		return err
	}

	if j.keys == nil {
		if j.keys, err = ownKeys(c.String("data-dir")); err != nil {
			return err
		}
	}

	// The process ends with the job, not with the interrupt: that only wishes the job cancelled.
	alive, end := context.WithCancel(context.WithoutCancel(c.Context))
	defer end()
	e, err := startEmbedded(alive, c.String("data-dir"), embed.Config{}, kv.Config{})
	if err != nil {
		return err
	}
	defer e.close()
	st, err := storage.Open(filepath.Join(e.dir, "checkpoints"))
	if err != nil {
		return err
	}
	ctx, unread := context.WithCancelCause(ctx)
	defer unread(nil)
	defer brokenPipes()()
	r := &roles{store: e.store, tree: tree(set), keys: j.keys, storage: st, stdout: watched{scr.beside(c.App.Writer), func() { unread(errUnread) }}}
	r.keepLogs(log, 1<<20)
	if form == "json" { // standard output is one object then
		r.stdout = scr
	}
	coord, err := r.coordinator(coordinator.Config{Name: "run", Strategy: coordinator.Reject}, loopback+":0", loopback)
	if err != nil {
		return err
	}
	work, err := r.worker(worker.Config{Name: "run", DataListen: loopback + ":0", HandOver: -1, Slots: max(p.Slots(p.SlotSharing), runtime.GOMAXPROCS(0))}, loopback+":0", loopback)
	if err != nil {
		_ = coord.ops.Close()
		return err
	}

	var outcome error
	drive := func(rctx context.Context) error {
		if err := work.await(rctx); err != nil { // a job that comes before its worker would be rejected
			return err
		}
		cl := client.New(e.store, r.tree).WithSecrets(j.secrets(c, j.keys, false))
		id, err := cl.Submit(rctx, j.spec(job, nil), "")
		if err != nil {
			return err
		}
		outcome = followRun(rctx, ctx, c, scr, cl, id, form)
		return nil
	}
	if err := together(alive, e.watch, coord.run, work.run, drive); err != nil {
		return err
	}
	return outcome
}

// errUnread is why a job is cancelled when its output goes to a pipe that was closed: stctl run … | head.
var errUnread = errors.New("nobody reads standard output any more")

// brokenPipes makes writing to a closed pipe an error; it would end the process on the spot, with its temporary
// folder left behind.
func brokenPipes() (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

// watched tells when nobody reads what is written.
type watched struct {
	io.Writer
	unread func()
}

// Write implements io.Writer.
func (w watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		w.unread()
	}
	return n, err
}

// followRun shows the job until it has ended; an interrupt wishes it cancelled.
func followRun(alive, interrupted context.Context, c *cli.Context, scr *screen, cl *client.Client, id plan.JobID, form string) error {
	done, finish := context.WithCancel(alive)
	var wish sync.WaitGroup
	wish.Add(1)
	go func() {
		defer wish.Done()
		select {
		case <-done.Done():
			return
		case <-interrupted.Done():
		}
		if errors.Is(context.Cause(interrupted), errUnread) {
			scr.say("%v; cancelling", errUnread)
		} else {
			scr.say("cancelling; a second interrupt leaves at once")
		}
		if err := failpoint.Inject("cli.cancel"); err != nil {
			return
		}
		if _, err := cl.Wish(done, id, record.WishCancelled); err != nil && !errors.Is(err, client.ErrEnded) && done.Err() == nil {
			scr.say("%v", err)
		}
	}()
	_, err := newFollower(cl, scr).follow(alive, id)
	finish()
	wish.Wait()
	if err != nil {
		return err
	}
	return tellEnd(alive, cl, id, form, c.App.Writer, c.App.ErrWriter)
}
