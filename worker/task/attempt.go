package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"strait/checkpoint"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/physical"
	"strait/plan/seal"
	"strait/transport/stream"
	"strait/worker/connector"
	"strait/worker/memory"
	"strait/worker/secrets"
)

// Defaults and limits.
const (
	DefaultCallLimit   = 30 * time.Second
	DefaultCommitLimit = 5 * time.Minute // Prepare, Commit and Abandon, until jobs set a checkpoint timeout
	DefaultStopGrace   = 5 * time.Second // design section 8: a call that does not return after its context ended
	DefaultLinger      = 50 * time.Millisecond
)

// Net is the attempt on the data plane (transport/shuffle).
type Net interface {
	Output(edge, producer int) stream.Output
	Input(edge, consumer int) stream.Input
	Control(to string, frame []byte) error
}

// Watcher is told what happens in an attempt. Its methods do not block.
type Watcher interface {
	Failed(f record.Failure) // the first failure; more may follow while the others stop
	Changed()                // States or Drained have changed
	Snapped(n plan.CheckpointID)
}

// Config says what an attempt is and what it runs on.
type Config struct {
	Cluster     string
	JobID       plan.JobID
	Job         string // id and create revision of the spec, for checkpoint.Identity
	Attempt     plan.Attempt
	Plan        *physical.Plan
	Pipeline    *physical.Pipeline
	Placement   *record.Placement
	Assignment  *record.Assignment
	Worker      string
	Folder      string // where relative paths of the job file start
	Gate        Gate
	Watcher     Watcher
	CallLimit   time.Duration
	CommitLimit time.Duration
	StopGrace   time.Duration
	// Admit reserves memory for what the attempt has here, before anything of it is made; nil: there is plenty.
	Admit  func(memory.Use) (memory.Shares, error)
	Linger time.Duration
	Stdout io.Writer
	Log    *slog.Logger
	// Secrets is where sealed options, ${env:NAME} and ${file:PATH} get their values from; nil functions: this process.
	Secrets seal.Sources
	Scrub   *secrets.Scrubber // learns those values; what is reported and Log pass through it; nil: one of its own
}

func (c *Config) withDefaults() {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&c.CallLimit, DefaultCallLimit)
	set(&c.CommitLimit, DefaultCommitLimit)
	set(&c.StopGrace, DefaultStopGrace)
	set(&c.Linger, DefaultLinger)
	if c.Admit == nil {
		c.Admit = func(u memory.Use) (memory.Shares, error) { return memory.Divide(u, 1<<40), nil }
	}
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Scrub == nil {
		c.Scrub = &secrets.Scrubber{}
	}
	if c.Secrets.Env == nil {
		c.Secrets = secrets.Here(c.Secrets.Keys, c.Folder)
	}
	c.Log = c.Scrub.Logger(c.Log)
}

// identity names what a subtask of a sink prepares.
func (c *Config) identity(v plan.VertexID, subtask int) checkpoint.Identity {
	return checkpoint.Identity{Cluster: c.Cluster, Job: c.Job, Pipeline: c.Pipeline.ID, Vertex: v, Attempt: c.Attempt, Subtask: subtask}
}

// Attempt is the part of one pipeline attempt that runs on this worker: task groups, enumerators, committers.
// Its methods may be called from any goroutine; none but Stop, Build, Commit, Replay and Abandon waits.
type Attempt struct {
	cfg    Config
	env    logical.Env
	shares memory.Shares
	large  map[plan.ChainID]*semaphore.Weighted // what large elements take, by chain
	ctx    context.Context                      // of every task; ends with Stop or the first failure
	cancel context.CancelCauseFunc
	net    Net
	wg     sync.WaitGroup

	groups      []*group
	readers     map[readerID]*group // those groups that begin with a source
	enumerators map[plan.VertexID]*enumerator
	committers  map[plan.VertexID]*committer // those the placement names here
	closing     []*committer                 // those and the ones of sink subtasks
	counts      []*vertexCount
	next        plan.CheckpointID // set before the tasks start

	mu      sync.Mutex
	started bool
	over    bool // no goroutine may be added
	failed  bool
	callers []*caller
	parts   map[plan.CheckpointID]*snapshot
}

// readerID is how frames name a source subtask.
type readerID struct {
	vertex  plan.VertexID
	subtask int
}

// snapshot collects what the tasks hand in for one barrier.
type snapshot struct {
	missing  map[any]bool // tasks
	prepared []checkpoint.Prepared
}

// Build makes the tasks of an attempt. Nothing runs yet and nothing outside is changed. On an error everything made
// is closed again.
func Build(ctx context.Context, cfg Config) (*Attempt, error) {
	cfg.withDefaults()
	a := &Attempt{cfg: cfg, readers: map[readerID]*group{}, enumerators: map[plan.VertexID]*enumerator{}, committers: map[plan.VertexID]*committer{},
		parts: map[plan.CheckpointID]*snapshot{}}
	a.env = logical.ReadEnv(cfg.Plan.Env, &fault.List{}) // the mistakes in it were told when it was planned
	// The tasks outlive the context of Build; Stop ends theirs.
	a.ctx, a.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := a.build(ctx); err != nil {
		a.Stop()
		return nil, err
	}
	return a, nil
}

func (a *Attempt) build(ctx context.Context) error {
	vs := &vertices{cfg: &a.cfg, byID: map[plan.VertexID]*vertex{}}
	for _, id := range a.cfg.Assignment.Committers {
		v, err := vs.get(ctx, id)
		if err != nil {
			return err
		}
		a.committers[id] = newCommitter(a, v)
	}
	if a.cfg.Assignment.Scope == record.ScopeCommitters {
		return nil
	}
	if err := a.admit(ctx, vs); err != nil {
		return err
	}
	for _, id := range a.cfg.Assignment.Enumerators {
		v, err := vs.get(ctx, id)
		if err != nil {
			return err
		}
		e, err := newEnumerator(ctx, a, v)
		if err != nil {
			return at(err, v, "")
		}
		a.enumerators[id] = e
	}
	for _, pc := range a.cfg.Assignment.Chains {
		for i := pc.From; i < pc.To; i++ {
			g, err := newGroup(ctx, a, vs, pc.Chain, i)
			if err != nil {
				return err
			}
			a.groups = append(a.groups, g)
			if g.source != nil {
				a.readers[readerID{g.source.v.ID, i}] = g
			}
		}
	}
	return nil
}

// Aggregates says that a committer here commits for all subtasks of its sink.
func (a *Attempt) Aggregates() bool {
	for _, c := range a.committers {
		if c.aggregated {
			return true
		}
	}
	return false
}

// Connect gives the groups their ends of the edges. It is called once, before Start.
func (a *Attempt) Connect(net Net) {
	a.net = net
	for _, g := range a.groups {
		g.connect(net)
	}
}

// Start lets the tasks run: writers open, sources read. next is the checkpoint whose rows come first.
func (a *Attempt) Start(next plan.CheckpointID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started || a.over {
		return
	}
	a.started, a.next = true, next
	a.warn()
	for _, e := range a.enumerators {
		a.spawn(e.run)
	}
	for _, g := range a.groups {
		a.spawn(g.run)
	}
}

// warn says at the start what will not happen.
func (a *Attempt) warn() {
	if a.cfg.Pipeline.Bounded {
		return
	}
	for _, g := range a.groups {
		if g.sink != nil && g.id.Index == 0 && g.sink.v.claim.Guarantee == connector.ExactlyOnce {
			a.cfg.Log.Warn("the job has no end and takes no checkpoints: this sink will commit nothing", "vertex", g.sink.v.ID, "sink", g.sink.v.Path)
		}
	}
}

// spawn starts a goroutine of the attempt. The caller holds a.mu and has looked at over.
func (a *Attempt) spawn(f func()) {
	a.wg.Add(1)
	go func() {
		defer a.wg.Done()
		f()
	}()
}

// goes starts a goroutine of the attempt unless it is over.
func (a *Attempt) goes(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false
	}
	a.spawn(f)
	return true
}

// Barrier hands a barrier to the source subtasks and enumerators.
func (a *Attempt) Barrier(b checkpoint.Barrier) {
	if len(a.groups)+len(a.enumerators) == 0 { // only a committer is here: it has no state
		a.handled(nil, b.ID, nil)
	}
	for _, e := range a.enumerators {
		e.ctl.barrier(b)
	}
	for _, g := range a.groups {
		if g.source != nil {
			g.ctl.barrier(b)
		}
	}
}

// Abort says that no barrier up to n that is not complete will be.
func (a *Attempt) Abort(n plan.CheckpointID) {
	for _, e := range a.enumerators {
		e.ctl.abort(n)
	}
	for _, g := range a.groups {
		g.ctl.abort(n)
	}
}

// Complete says that checkpoint n is complete.
func (a *Attempt) Complete(n plan.CheckpointID) {
	for _, e := range a.enumerators {
		e.ctl.complete(n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.parts {
		if id <= n {
			delete(a.parts, id)
		}
	}
}

// handled takes in that a task has handled barrier n, with what it prepared.
func (a *Attempt) handled(task any, n plan.CheckpointID, prepared []checkpoint.Prepared) {
	a.mu.Lock()
	s := a.parts[n]
	if s == nil {
		s = &snapshot{missing: map[any]bool{}}
		for _, g := range a.groups {
			s.missing[g] = true
		}
		for _, e := range a.enumerators {
			s.missing[e] = true
		}
		a.parts[n] = s
		for id := range a.parts { // a higher barrier ends a lower one
			if id < n {
				delete(a.parts, id)
			}
		}
	}
	delete(s.missing, task)
	s.prepared = append(s.prepared, prepared...)
	all := len(s.missing) == 0
	a.mu.Unlock()
	if all {
		a.cfg.Watcher.Snapped(n)
	}
}

// State is what this worker contributes to checkpoint n; false when not every task has handled it.
func (a *Attempt) State(n plan.CheckpointID) (checkpoint.State, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.parts[n]
	if s == nil || len(s.missing) > 0 {
		return checkpoint.State{}, false
	}
	prepared := slices.Clone(s.prepared)
	sort.SliceStable(prepared, func(i, j int) bool { return prepared[i].CommitID() < prepared[j].CommitID() })
	return checkpoint.State{Version: checkpoint.StateVersion, Worker: a.cfg.Worker, Prepared: prepared}, true
}

// fail ends the attempt because of an error in one of its tasks. Only the first is reported.
func (a *Attempt) fail(err error) {
	if err == nil || stopped(a.ctx, err) {
		return
	}
	if link := (*stream.LinkError)(nil); errors.As(err, &link) {
		// The transport reports it, with the peer: as a failure of this task it would count as a restart.
		a.cancel(fmt.Errorf("%w: %w", errStopped, err))
		return
	}
	a.mu.Lock()
	first := !a.failed && !a.over
	a.failed = true
	a.mu.Unlock()
	if !first {
		return
	}
	a.cfg.Watcher.Failed(a.Failure(err))
	a.cancel(fmt.Errorf("%w: %w", errStopped, err))
}

// Counts are the counters so far.
func (a *Attempt) Counts() []Count { return sumCounts(a.counts) }

// ErrHung is the error of Stop when a plugin's call did not return after its context was cancelled. The process
// must end: nothing else takes the call back.
var ErrHung = errors.New("a call does not return")

// Stop ends every task and returns when all have and no external call is in flight. It withdraws the gate first.
// ErrHung names the calls that did not return in time. Idempotent, but not for concurrent use.
func (a *Attempt) Stop() error {
	a.cfg.Gate.Withdraw()
	a.mu.Lock()
	a.over = true
	fresh := !a.started
	a.mu.Unlock()
	a.cancel(errStopped)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.wg.Wait()
		if fresh { // no goroutine owned these
			for _, g := range a.groups {
				g.close()
			}
			for _, e := range a.enumerators {
				e.close()
			}
		}
		for _, c := range a.closing {
			c.close()
		}
	}()
	timer := time.NewTimer(a.cfg.StopGrace)
	defer timer.Stop()
	select {
	case <-done:
		ctx, cancel := context.WithTimeout(context.Background(), a.cfg.StopGrace)
		defer cancel()
		if err := a.cfg.Gate.Quiesce(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrHung, err)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("%w: %s", ErrHung, a.inFlight())
	}
}

// inFlight names what keeps the attempt from stopping.
func (a *Attempt) inFlight() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, c := range a.callers {
		if s := c.inFlight(); s != "" {
			names = append(names, s)
		}
	}
	for _, g := range a.groups {
		if g.source != nil {
			if s := g.source.reading(); s != "" {
				names = append(names, s)
			}
		}
	}
	for _, e := range a.enumerators {
		if s := e.calling(); s != "" {
			names = append(names, s)
		}
	}
	if len(names) == 0 {
		return "a plugin (which one is not known)"
	}
	return strings.Join(names, "; ")
}

// caller makes a caller that Stop knows of. group is the task group that calls, if one does.
func (a *Attempt) caller(v *vertex, group string) *caller {
	c := newCaller(a.ctx, a.cfg.Gate, v.Path, func(err error) {
		a.fail(&Fault{Group: group, Vertex: v.ID, Path: v.Path, Err: err})
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.callers = append(a.callers, c)
	return c
}

// Job is the id of the job with the create revision of its spec.
func (a *Attempt) Job() string { return a.cfg.Job }
