package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/kv"
	"strait/kv/keys"
	"strait/kv/mirror"
	"strait/kv/record"
	"strait/kv/session"
	"strait/plan"
	"strait/transport/shuffle"
	"strait/worker/memory"
	"strait/worker/task/keeper"
)

// life is one incarnation of the worker.
type life struct {
	cfg         *Config
	plans       *planCache
	meters      *meters
	log         *slog.Logger
	session     *session.Session
	net         *shuffle.Service
	memory      *memory.Budget // what attempts have reserved here
	incarnation int64
	key         string // workers/<me>
	tasks       *mirror.Mirror

	ctx    context.Context // of everything but the session; ends last
	cancel context.CancelCauseFunc
	dead   chan struct{} // closed with the first error that a new incarnation does not heal
	once   sync.Once
	err    error
	hung   chan struct{} // closed when that is a call that does not come back: nobody waits for anything then

	mu      sync.Mutex
	hosts   map[pipeline]*host
	ending  map[pipeline]chan struct{} // hosts that were forgotten and have not returned
	leaving bool
	over    chan struct{} // a host has returned
	started time.Time
	wg      sync.WaitGroup // hosts
}

type pipeline struct {
	job plan.JobID
	id  plan.PipelineID
}

// live is one incarnation, from the lease to its end.
func (w *Worker) live(ctx context.Context) error {
	cfg := &w.cfg
	sess, err := openSession(ctx, cfg)
	if err != nil {
		return err
	}
	l := &life{
		cfg: cfg, plans: w.plans, meters: &w.meters, log: cfg.Log.With("worker", cfg.Name), session: sess, key: cfg.Tree.Worker(cfg.Name),
		dead: make(chan struct{}), hung: make(chan struct{}), hosts: map[pipeline]*host{}, ending: map[pipeline]chan struct{}{},
		memory: memory.NewBudget(cfg.Memory), over: make(chan struct{}, 1), started: time.Now().UTC().Truncate(time.Second),
	}
	// What runs must outlive ctx: tasks are ended in order, and their ends written down.
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	g, gctx := errgroup.WithContext(l.ctx)
	g.Go(func() error { return sess.Run(gctx) })
	err = l.run(ctx, gctx, g, w)
	w.set(nil, fmt.Errorf("the worker is not registered: %w", orStopping(err)))
	l.close()
	l.cancel(errors.New("the worker has stopped"))
	if errors.Is(err, ErrHung) {
		return err // goroutines of the plugin are left; so may be others that wait for them
	}
	if gerr := g.Wait(); err == nil {
		err = gerr
	}
	return err
}

func orStopping(err error) error {
	if err == nil {
		return errors.New("it stops")
	}
	return err
}

func openSession(ctx context.Context, cfg *Config) (*session.Session, error) {
	pause := firstPause
	for {
		s, err := session.Open(ctx, cfg.Store, session.Options{TTL: cfg.TTL, CallLimit: cfg.CallLimit, Logger: cfg.Log})
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, kv.ErrUnknownOutcome):
			return nil, err
		}
		cfg.Log.Warn("no lease yet", "worker", cfg.Name, "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		pause = min(2*pause, mostPause)
	}
}

// run registers, follows the keys and returns when ctx or the life ends. Hosts have stopped then.
func (l *life) run(ctx, gctx context.Context, g *errgroup.Group, w *Worker) error {
	net, err := shuffle.Listen(shuffle.Config{
		Cluster: fmt.Sprintf("%x%s", l.cfg.Store.ClusterID(), l.cfg.Tree.Prefix()), Worker: l.cfg.Name,
		Listen: l.cfg.DataListen, Codec: l.cfg.Codec, MemoryBytes: l.cfg.Memory, Log: l.log, TLS: l.cfg.TLS,
	})
	if err != nil {
		return err
	}
	l.net = net
	if l.incarnation, err = l.register(ctx); err != nil {
		// Run closes what Listen took.
		stopped, cancel := context.WithCancel(context.Background())
		cancel()
		_ = net.Run(stopped)
		return err
	}
	net.SetIncarnation(l.incarnation)
	if l.cfg.Registered != nil {
		l.cfg.Registered(l.incarnation)
	}
	l.log = l.log.With("incarnation", l.incarnation)
	g.Go(func() error { return net.Run(gctx) })
	own := mirror.Follow(l.cfg.Store, []string{l.key}, mirror.Options{Logger: l.log, OnBatch: l.seeSelf})
	g.Go(func() error { return l.follow(gctx, own) })
	l.tasks = mirror.Follow(l.cfg.Store, []string{l.cfg.Tree.Tasks(l.cfg.Name)}, mirror.Options{Logger: l.log, OnBatch: l.seeTasks})
	g.Go(func() error { return l.follow(gctx, l.tasks) })
	l.log.Info("worker registered", "data", l.address(), "slots", l.cfg.Slots)
	w.set(l, nil)

	within := l.cfg.StopTimeout
	select {
	case <-ctx.Done():
		began := time.Now()
		l.handOver(gctx)
		within -= min(within, time.Since(began))
		err = nil
	case <-l.session.Done():
		err = l.session.Err()
	case <-l.dead:
		err = l.err
	case <-gctx.Done():
		err = context.Cause(gctx)
	}
	if e := l.leave(max(within, time.Second)); e != nil {
		return e
	}
	return err
}

// follow ends the life when a mirror cannot go on.
func (l *life) follow(ctx context.Context, m *mirror.Mirror) error {
	err := m.Run(ctx)
	if err != nil {
		l.die(err)
	}
	return err
}

// die ends the life with an error that a new incarnation does not heal.
func (l *life) die(err error) {
	l.once.Do(func() {
		l.err = err
		if errors.Is(err, ErrHung) {
			close(l.hung)
		}
		close(l.dead)
	})
}

// leave ends every host and waits for them, at most so long.
func (l *life) leave(within time.Duration) error {
	l.mu.Lock()
	l.leaving = true
	for _, h := range l.hosts {
		h.inbox.put(keeper.Leave{})
	}
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-l.hung:
		return l.err
	case <-timer.C:
		return fmt.Errorf("worker %s did not stop within %v: %w", l.cfg.Name, within, ErrHung)
	}
}

// close gives the name free at once: the fleet need not wait for the lease to end. All gates shut first.
func (l *life) close() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), 2*time.Second)
	defer cancel()
	if err := l.session.Close(ctx); err != nil {
		l.log.Warn("worker key is left to its lease", "err", err)
	}
}

func (l *life) address() string {
	if l.cfg.DataAddress != "" {
		return l.cfg.DataAddress
	}
	return l.net.Addr()
}

// value is that of the worker key.
func (l *life) value(leaving bool) []byte {
	return record.MustEncode(&record.Worker{
		Header: record.Head, Data: l.address(), Ops: l.cfg.OpsAddress, TTL: seconds(l.session.TTL()), CallLimit: seconds(l.cfg.CallLimit),
		Slots: l.cfg.Slots, Dynamic: l.cfg.Dynamic, CPU: l.cfg.CPU, Memory: l.cfg.Memory, Labels: l.cfg.Labels, Protocol: record.Protocol,
		Version: l.cfg.Version, Host: l.cfg.Host, PID: os.Getpid(), Started: l.started, Leaving: leaving,
	})
}

// register creates the worker key on the lease and returns its create revision: the incarnation. A name that is
// taken is waited for.
func (l *life) register(ctx context.Context) (int64, error) {
	value := l.value(false)
	ctx, end := l.whileSession(ctx)
	defer end()
	told := false
	return retry(ctx, l.log, "worker key", func() (int64, error) {
		r, err := l.cfg.Store.Txn(ctx, kv.Txn{
			Guards: []kv.Guard{kv.Absent(l.key)},
			Ops:    []kv.Op{kv.PutLeased(l.key, value, l.session.Lease())},
		})
		if err == nil {
			return r.Rev, nil
		}
		var c *kv.Conflict
		switch {
		case errors.As(err, &c):
			if c.Current.Lease == l.session.Lease() {
				return c.Current.CreateRev, nil // an answer that was lost
			}
			if !told {
				told = true
				l.log.Warn("worker name is taken, waiting until its key is gone", "holder", describeWorker(c.Current))
			}
			return 0, l.awaitGone(ctx, c.Current)
		case errors.Is(err, kv.ErrLeaseNotFound):
			l.session.Lose(err)
			return 0, l.session.Err()
		}
		return 0, err
	})
}

// whileSession ends a context with the session.
func (l *life) whileSession(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-l.session.Done():
			cancel(l.session.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

func describeWorker(e kv.Entry) string {
	if w, err := record.Decode[record.Worker](e.Value); err == nil {
		return fmt.Sprintf("pid %d on %s, since %s", w.PID, w.Host, w.Started.Format(time.RFC3339))
	}
	return "not readable"
}

// errAgain asks retry for another try without a pause.
var errAgain = errors.New("again")

// awaitGone waits until the key of another process is gone.
func (l *life) awaitGone(ctx context.Context, e kv.Entry) error {
	watch := l.cfg.Store.Watch(ctx, e.Key, "", e.ModRev+1)
	defer watch.Close()
	for {
		changes, _, err := watch.Next()
		if err != nil {
			return err
		}
		for _, c := range changes {
			if c.Deleted {
				return errAgain
			}
		}
	}
}

// seeSelf: Invariant 4, the own key missing or foreign is a lost session.
func (l *life) seeSelf(b mirror.Batch) {
	found := !b.Initial
	for _, ev := range b.Events {
		found = true
		switch {
		case ev.Kind == mirror.Delete:
			l.session.Lose(fmt.Errorf("the key %s was deleted at revision %d", l.key, ev.Entry.ModRev))
		case ev.Entry.CreateRev != l.incarnation:
			l.session.Lose(fmt.Errorf("the key %s belongs to another process since revision %d", l.key, ev.Entry.CreateRev))
		}
	}
	if !found {
		l.session.Lose(fmt.Errorf("the key %s is gone", l.key))
	}
}

// seeTasks hands assignments to the hosts of their pipelines.
func (l *life) seeTasks(b mirror.Batch) {
	for _, ev := range b.Events {
		k, ok := l.cfg.Tree.Parse(ev.Entry.Key)
		if !ok || k.Kind != keys.KindTask {
			continue
		}
		p := pipeline{k.Job, k.Pipeline}
		if ev.Kind == mirror.Delete {
			l.mu.Lock()
			if h := l.hosts[p]; h != nil {
				h.inbox.put(keeper.Assignment{Now: now()})
			}
			l.mu.Unlock()
			continue
		}
		a, err := record.Decode[record.Assignment](ev.Entry.Value)
		if err != nil {
			l.log.Error("assignment is not readable", "job", p.job, "pipeline", p.id, "rev", ev.Entry.ModRev, "err", err)
			continue
		}
		if a.Incarnation != l.incarnation {
			l.log.Debug("assignment of another incarnation", "job", p.job, "pipeline", p.id, "of", a.Incarnation)
			a = nil
		}
		l.assign(p, a)
	}
}

// assign finds or starts the host of a pipeline.
func (l *life) assign(p pipeline, a *record.Assignment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hosts[p]
	if h == nil {
		if a == nil || l.leaving {
			return
		}
		h = newHost(l, p)
		l.hosts[p] = h
		before := l.ending[p]
		l.wg.Add(1)
		go func() {
			defer l.wg.Done()
			if before != nil {
				<-before // or its last status could come behind ours
			}
			h.run()
			l.ended(h)
		}()
	}
	h.inbox.put(keeper.Assignment{Value: a, Now: now()})
}

// forget takes a host off the list unless it has something to do; false then.
func (l *life) forget(h *host) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !h.inbox.empty() {
		return false
	}
	delete(l.hosts, h.pipeline)
	l.ending[h.pipeline] = h.ended
	return true
}

// ended takes note that a host has returned.
func (l *life) ended(h *host) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending[h.pipeline] == h.ended {
		delete(l.ending, h.pipeline)
	}
	close(h.ended)
	select {
	case l.over <- struct{}{}:
	default:
	}
}

func (l *life) ready() error {
	if err := l.session.Err(); err != nil {
		return err
	}
	if left := l.session.Left(); left <= 0 {
		return fmt.Errorf("etcd has not renewed the lease of this worker for %v", -left)
	}
	select {
	case <-l.tasks.Ready():
		return nil
	default:
		return errors.New("the assignments have not been read yet")
	}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// retry calls f until it succeeds or fails in a way that trying again does not heal. Invariant 9: an etcd that is
// away is waited for, as long as ctx allows.
func retry[T any](ctx context.Context, log *slog.Logger, what string, f func() (T, error)) (T, error) {
	pause := 50 * time.Millisecond
	for n := 0; ; n++ {
		v, err := f()
		switch {
		case err == nil:
			return v, nil
		case ctx.Err() != nil:
			return v, context.Cause(ctx)
		case errors.Is(err, kv.ErrWentBack), errors.Is(err, kv.ErrRefused), errors.Is(err, kv.ErrConflict),
			errors.Is(err, session.ErrLost), errors.Is(err, session.ErrClosed), errors.Is(err, errPermanent):
			return v, err
		case errors.Is(err, errAgain):
			continue
		}
		if n == 0 {
			log.Warn("store did not answer, trying again", "what", what, "err", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
		pause = min(2*pause, 2*time.Second)
	}
}
