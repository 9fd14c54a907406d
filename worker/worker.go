package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"strait/kv"
	"strait/kv/session"
	"strait/worker/task"
)

// Limits on coming back after a lost session.
const (
	maxLives   = 10 // within livesWithin
	livesSpan  = 10 * time.Minute
	firstPause = 200 * time.Millisecond
	mostPause  = 10 * time.Second
)

// ErrHung is wrapped by the error of Run when a plugin's call did not come back: the process must exit at once.
var ErrHung = task.ErrHung

// Worker is the worker role of a process.
type Worker struct {
	cfg   Config
	plans *planCache
	meters
	load hostLoad

	mu   sync.Mutex
	life *life // the current incarnation, once it is registered
	why  error // why there is none
}

// meters count over all lives.
type meters struct{ lost, failures, statuses, acks *metrics.Counter }

// New checks the configuration. Nothing runs before Run.
func New(cfg Config) (*Worker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.withDefaults()
	if cfg.Slots == 0 && !cfg.Dynamic {
		cfg.Slots = max(runtime.GOMAXPROCS(0), 1)
	}
	if cfg.CPU == 0 {
		cfg.CPU = runtime.GOMAXPROCS(0)
	}
	if cfg.Host == "" {
		cfg.Host, _ = os.Hostname()
	}
	w := &Worker{load: hostLoad{proc: "/proc"}, cfg: cfg, plans: newPlanCache(), why: errors.New("the worker has not registered yet")}
	w.registerMetrics()
	return w, nil
}

// Run works until ctx ends: then it ends its tasks, says so, gives its name free and returns nil, within
// StopTimeout. A lost session is a new incarnation, not an end. Errors: ErrHung (exit at once), a store that went
// back, a store that refuses, sessions lost too often.
func (w *Worker) Run(ctx context.Context) error {
	defer w.unregisterMetrics()
	var past lives
	for {
		err := w.live(ctx)
		switch {
		case errors.Is(err, ErrHung), errors.Is(err, kv.ErrWentBack), errors.Is(err, kv.ErrRefused):
			return err
		case ctx.Err() != nil:
			return nil
		case err == nil:
			return errors.New("worker: BUG: a life ended without a reason")
		case !errors.Is(err, session.ErrLost):
			return err
		}
		w.lost.Inc()
		pause, ok := past.lose(time.Now())
		if !ok {
			return fmt.Errorf("worker %s lost its session %d times within %v, the last time: %w; look at etcd and at the clock and load of this host", w.cfg.Name, maxLives, livesSpan, err)
		}
		w.cfg.Log.Warn("worker comes back as a new incarnation", "worker", w.cfg.Name, "after", pause, "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// lives remembers when sessions were lost.
type lives struct{ lost []time.Time }

// lose notes a loss and says how long to wait before the next life; false: it happens too often.
func (l *lives) lose(now time.Time) (pause time.Duration, ok bool) {
	for len(l.lost) > 0 && now.Sub(l.lost[0]) > livesSpan {
		l.lost = l.lost[1:]
	}
	l.lost = append(l.lost, now)
	if len(l.lost) >= maxLives {
		return 0, false
	}
	return min(firstPause<<(len(l.lost)-1), mostPause), true
}

// Ready says whether the worker can be given work; nil when it can. It does not block.
func (w *Worker) Ready() error {
	w.mu.Lock()
	l, why := w.life, w.why
	w.mu.Unlock()
	if l == nil {
		return why
	}
	return l.ready()
}

// Alive says whether the loops of the worker answer; nil when they do, or when there are none because it has not
// registered. It waits for them until ctx ends. For a watchdog: an etcd that is away does not make it fail.
func (w *Worker) Alive(ctx context.Context) error {
	stuck := func(what string) error { return fmt.Errorf("worker %s: %s does not answer", w.cfg.Name, what) }
	if !lock(ctx, &w.mu) {
		return stuck("its state")
	}
	l := w.life
	w.mu.Unlock()
	if l == nil {
		return nil
	}
	if !lock(ctx, &l.mu) {
		return stuck("the list of its pipelines")
	}
	hosts := make([]*host, 0, len(l.hosts))
	answers := make([]chan struct{}, 0, len(l.hosts))
	for _, h := range l.hosts {
		a := make(chan struct{})
		h.inbox.ask(a)
		hosts, answers = append(hosts, h), append(answers, a)
	}
	l.mu.Unlock()
	for i, h := range hosts {
		select {
		case <-answers[i]:
		case <-h.ended:
		case <-ctx.Done():
			return stuck(fmt.Sprintf("pipeline %d of job %s", h.id, h.job))
		}
	}
	return nil
}

// lock takes a lock unless ctx ends first.
func lock(ctx context.Context, mu *sync.Mutex) bool {
	for !mu.TryLock() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

// Incarnation is the create revision of the worker's key; 0 while it is not registered.
func (w *Worker) Incarnation() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life == nil {
		return 0
	}
	return w.life.incarnation
}

func (w *Worker) set(l *life, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.life, w.why = l, why
}

func (w *Worker) current() *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.life
}
