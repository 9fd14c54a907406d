package coordinator

import (
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"

	"strait/kv/record"
	"strait/plan/state"
)

// meters are what an operator sees of a coordinator; each is resolved once.
type meters struct {
	leader    atomic.Int64
	workers   atomic.Int64
	slots     atomic.Int64
	granted   atomic.Int64
	rev       atomic.Int64
	jobs      map[state.Job]*atomic.Int64
	ended     map[state.Job]*metrics.Counter
	histories atomic.Int64
	steps     *metrics.Counter
	writes    *metrics.Counter
	conflicts *metrics.Counter
	txn       *metrics.Histogram
	pipes     *pipeMeters

	storeBytes, storeUsed, storeQuota, storeNearFull atomic.Int64 // of etcd, by watchStore
}

var phases = []state.Job{state.JobSubmitted, state.JobPlanned, state.JobPending, state.JobPreparing, state.JobScheduled, state.JobRunning,
	state.JobRestarting, state.JobSavepointing, state.JobCancelling, state.JobFailing, state.JobClosing,
	state.JobFinished, state.JobSavepointDone, state.JobCancelled, state.JobFailed}

func newMeters(set *metrics.Set) *meters {
	if set == nil {
		set = metrics.NewSet()
	}
	m := &meters{jobs: map[state.Job]*atomic.Int64{}, ended: map[state.Job]*metrics.Counter{},
		steps:     set.NewCounter("strait_coordinator_steps_total"),
		writes:    set.NewCounter("strait_coordinator_writes_total"),
		conflicts: set.NewCounter("strait_coordinator_conflicts_total"),
		txn:       set.NewHistogram("strait_coordinator_txn_seconds"),
		pipes:     newPipeMeters(set),
	}
	gauge := func(name string, v *atomic.Int64) {
		set.NewGauge(name, func() float64 { return float64(v.Load()) })
	}
	gauge("strait_coordinator_leader", &m.leader)
	gauge("strait_coordinator_workers", &m.workers)
	gauge("strait_coordinator_slots", &m.slots)
	gauge("strait_coordinator_slots_granted", &m.granted)
	gauge("strait_coordinator_revision", &m.rev)
	gauge("strait_coordinator_histories", &m.histories)
	gauge("strait_store_bytes", &m.storeBytes)
	gauge("strait_store_in_use_bytes", &m.storeUsed)
	gauge("strait_store_quota_bytes", &m.storeQuota)
	gauge("strait_store_nearly_full", &m.storeNearFull)
	for _, p := range phases {
		m.jobs[p] = &atomic.Int64{}
		gauge(`strait_coordinator_jobs{phase="`+string(p)+`"}`, m.jobs[p])
		if p.Terminal() {
			m.ended[p] = set.NewCounter(`strait_coordinator_jobs_ended_total{phase="` + string(p) + `"}`)
		}
	}
	return m
}

// reset begins to count at nothing, as a leader does.
func (m *meters) reset() {
	for _, c := range m.jobs {
		c.Store(0)
	}
	m.pipes.reset()
	m.workers.Store(0)
	m.slots.Store(0)
	m.granted.Store(0)
	m.histories.Store(0)
}

// see takes the numbers of the loop.
func (m *meters) see(l *loop, fleetChanged bool) {
	m.rev.Store(l.rev)
	m.histories.Store(int64(len(l.histories.all)))
	m.granted.Store(int64(len(l.owner)))
	if !fleetChanged {
		return
	}
	names := l.fleet.Names()
	slots := 0
	for _, n := range names {
		slots += l.fleet.Live(n).Record.Slots
	}
	m.workers.Store(int64(len(names)))
	m.slots.Store(int64(slots))
}

// phase counts a job from one phase to another; nil: there is no status.
func (m *meters) phase(from, to *record.JobStatus) {
	if from != nil && to != nil && from.Phase == to.Phase {
		return
	}
	if from != nil && m.jobs[from.Phase] != nil {
		m.jobs[from.Phase].Add(-1)
	}
	if from != nil && to != nil && !from.Phase.Terminal() && m.ended[to.Phase] != nil {
		m.ended[to.Phase].Inc() // by this leader: of two, one saw the job end
	}
	if to != nil && m.jobs[to.Phase] != nil {
		m.jobs[to.Phase].Add(1)
	}
}
