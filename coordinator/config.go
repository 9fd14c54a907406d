package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"strait/checkpoint"
	"strait/coordinator/job"
	"strait/coordinator/schedule"
	"strait/kv"
	"strait/kv/keys"
	"strait/plan"
	"strait/plan/logical"
	"strait/plan/secret"
)

// Strategy is what becomes of a job that does not fit.
type Strategy string

// The strategies.
const (
	Wait   Strategy = "wait"   // it is PENDING until it fits
	Reject Strategy = "reject" // it is FAILED with reason NotPlaceable
)

// Storage keeps what is too large for a key.
type Storage interface {
	Put(ctx context.Context, name string, data []byte) (checkpoint.Handle, error)
	Stat(ctx context.Context, h checkpoint.Handle) error
}

// Config is what a coordinator is made from.
type Config struct {
	Store   *kv.Store
	Tree    keys.Tree
	Name    string
	OpsAddr string // host:port where this process answers /counters/<job>; written into the leader key
	// Catalog gives the plugins of this build; relative paths of a job file begin in folder.
	Catalog func(folder string) logical.Catalog
	// Keys are the fleet's, for the plan of a job whose spec holds secrets in clear; nil: such a job is refused, unless
	// whoever submitted it wanted it so. A plan keeps what is sealed sealed.
	Keys    *secret.Keyring
	Storage Storage
	// CheckpointDir is the folder of Storage, written into the leader key for workers that were not told one.
	CheckpointDir string
	// SessionTTL is how long a leader that vanished keeps others from leading; 0: the session's default.
	SessionTTL time.Duration
	Strategy   Strategy // empty: Wait
	// Placement says which worker takes the next unit; empty: schedule.SlotRatio.
	Placement schedule.Strategy
	// Queue bounds how many jobs wait for room at once; 0: 10,000. A further one fails with reason QueueFull.
	Queue int
	// Patience is how long a job waits until what gets free is kept for it; 0: 1 min.
	Patience time.Duration
	Log      *slog.Logger
	Metrics  *metrics.Set // nil: none

	// Bounds of what a job does; zero: defaults.
	StopTimeout, DeployTimeout, CloseTimeout, CheckpointTimeout, PlanTimeout, HealthyAfter, MaxRetryPause time.Duration

	// Linger is how long the keys of an ended job stay for those who look at it; 0: a minute. Then its history is left.
	Linger time.Duration
	// HistoryKeep is how many histories of ended jobs are kept, HistoryExpire how long; 0: defaults, below 0: no limit.
	HistoryKeep   int
	HistoryExpire time.Duration

	// LoadEvery is how often workers are asked how busy they are, with schedule.SystemLoad; 0: 5 s.
	LoadEvery time.Duration
	// HTTP pulls counters and loads from workers; nil: a client of its own.
	HTTP *http.Client
}

const (
	defaultPlanTimeout = time.Minute
	defaultPatience    = time.Minute
	defaultLoadEvery   = 5 * time.Second
	defaultQueue       = 10_000
	defaultHistoryKeep = 1000
	defaultHistoryAge  = 24 * time.Hour // the dialect's history-job-expire-minutes = 1440
	maxTxns            = 16             // writes under way at once
	maxPlans           = 4              // jobs being planned at once
)

// validate fills defaults and reports every fault at once.
func (c *Config) validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("no store given"))
	}
	if c.Catalog == nil {
		errs = append(errs, errors.New("no catalog of plugins given"))
	}
	if c.Storage == nil {
		errs = append(errs, errors.New("no checkpoint storage given"))
	}
	if err := plan.CheckName("coordinator", c.Name); err != nil {
		errs = append(errs, err)
	}
	switch c.Strategy {
	case "":
		c.Strategy = Wait
	case Wait, Reject:
	default:
		errs = append(errs, fmt.Errorf("strategy %q is not known; use %s or %s", c.Strategy, Wait, Reject))
	}
	if c.Placement == "" {
		c.Placement = schedule.SlotRatio
	}
	if !slices.Contains(schedule.Strategies, c.Placement) {
		errs = append(errs, fmt.Errorf("placement %q is not known; use one of %v", c.Placement, schedule.Strategies))
	}
	if c.Queue < 0 || c.Patience < 0 {
		errs = append(errs, fmt.Errorf("queue %d and patience %v must not be negative", c.Queue, c.Patience))
	}
	if c.Queue == 0 {
		c.Queue = defaultQueue
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.LoadEvery <= 0 {
		c.LoadEvery = defaultLoadEvery
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{Timeout: countersLimit, Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 5 * time.Second}}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.HistoryKeep == 0 {
		c.HistoryKeep = defaultHistoryKeep
	}
	if c.HistoryExpire == 0 {
		c.HistoryExpire = defaultHistoryAge
	}
	if c.PlanTimeout <= 0 {
		c.PlanTimeout = defaultPlanTimeout
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	return nil
}

func (c *Config) job() job.Config {
	return job.Config{Tree: c.Tree, Reject: c.Strategy == Reject, Stop: c.StopTimeout, Deploy: c.DeployTimeout, Close: c.CloseTimeout,
		Checkpoint: c.CheckpointTimeout, Healthy: c.HealthyAfter, Linger: c.Linger, MaxPause: c.MaxRetryPause, Patience: c.Patience, Placement: c.Placement}.Defaults()
}
