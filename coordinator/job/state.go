package job

import (
	"maps"
	"time"

	"strait/checkpoint/driver"
	"strait/coordinator/fleet"
	"strait/coordinator/schedule"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
)

// Config is the same for every job.
type Config struct {
	Tree keys.Tree
	// Protocol is the oldest and newest that this leader speaks with workers; zero: those of this build.
	Protocol [2]int
	// Reject fails a job that does not fit instead of letting it wait.
	Reject bool
	// Stop bounds how long a withdrawn incarnation may take to confirm that it stopped; then it is fenced.
	Stop time.Duration
	// Deploy bounds how long a placed attempt may take to become ready.
	Deploy time.Duration
	// Close bounds closing; it is at least the wait of the incarnations that are waited out.
	Close time.Duration
	// Checkpoint bounds a barrier, and after it the commits, where the job does not say.
	Checkpoint time.Duration
	// Healthy is how long a pipeline runs until its restarts are forgotten.
	Healthy time.Duration
	// Linger is how long the keys of an ended job stay, for those who look at it; then only its history is left.
	Linger time.Duration
	// Patience is how long a job waits before what gets free is kept for it.
	Patience time.Duration
	// Placement says which worker takes what; empty: the one least in use.
	Placement schedule.Strategy
	// Suspect is how long a worker that others lost may take to answer before it is not waited for any more.
	Suspect time.Duration
	// MaxPause bounds the pause before a restart, which doubles.
	MaxPause time.Duration
}

// Defaults fills what is zero.
func (c Config) Defaults() Config {
	if c.Protocol == [2]int{} {
		c.Protocol = record.Protocol
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&c.Stop, 30 * time.Second}, {&c.Deploy, 5 * time.Minute}, {&c.Close, time.Minute}, {&c.Checkpoint, 10 * time.Minute},
		{&c.Healthy, 10 * time.Minute}, {&c.Linger, time.Minute}, {&c.MaxPause, time.Minute}, {&c.Patience, time.Minute}, {&c.Suspect, time.Second}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	return c
}

// State is what this leader remembers of a job beyond its keys. A new leader begins with the zero value.
type State struct {
	asked    int64 // mod revision of the spec that is being planned
	planned  *Planned
	points   map[plan.PipelineID]driver.State
	withdraw map[withdrawn]time.Time // since when this leader waits for a stop
	deploy   map[plan.PipelineID]deploy
	pending  time.Time // when the reason of PENDING was last written
	clocks   map[clock]reading
}

type withdrawn struct {
	pipeline plan.PipelineID
	id       fleet.ID
	attempt  plan.Attempt // which it was told to stop
}

type deploy struct {
	attempt plan.Attempt
	since   time.Time
}

func (s State) clone() State {
	s.points, s.withdraw, s.deploy, s.clocks = maps.Clone(s.points), maps.Clone(s.withdraw), maps.Clone(s.deploy), maps.Clone(s.clocks)
	if s.points == nil {
		s.points, s.withdraw, s.deploy = map[plan.PipelineID]driver.State{}, map[withdrawn]time.Time{}, map[plan.PipelineID]deploy{}
		s.clocks = map[clock]reading{}
	}
	return s
}

// Planned is the answer to PlanRequest.
type Planned struct {
	Spec    int64 // mod revision of the spec it was made from
	Plan    *physical.Plan
	Encoded []byte
	// Warnings are what the planner has to say about a text that it took.
	Warnings []string
	Err      error
	// PlainSecrets is a sentence for people where the spec holds secrets in clear; empty: it holds none.
	PlainSecrets string
}

// PlanRequest asks the shell to plan the job from its text. It answers with Planned.
type PlanRequest struct{ Spec int64 }

// Event is what a step is about: everything known at one revision, and answers that came since the last step.
type Event struct {
	Facts *Facts
	Fleet *fleet.Fleet
	// Plan is decoded from the plan keys; nil while there are none. PlanErr: they are there and cannot be read.
	Plan    *physical.Plan
	PlanErr error
	// Queue is what is known of the jobs that wait for room.
	Queue Queue
	// Leader is the create revision of the leadership. Token is fresh randomness for the next placement.
	Leader int64
	Token  string

	Planned   *Planned
	Published []*driver.Published

	// Retire: the history of this job is over the caps; when the job has ended it goes with all else.
	Retire bool
}

// Queue is where a job stands among those that wait for room.
type Queue struct {
	Since     time.Time // when it was first seen to wait; zero: it does not
	Turn, Len int       // its place, or the one it would get, from 1 on; how many wait
	Full      bool      // no further job may wait
	// Kept are workers whose room is kept for jobs that come before this one.
	Kept map[string]plan.JobID
}

// Actions are what the shell does. At most one Write at a time: the next step waits until it came round.
type Actions struct {
	Write   *Write
	Plan    *PlanRequest
	Publish []*driver.Publish
	// Wake: step again then, if nothing happens before; zero: only when something happens.
	Wake time.Time
	// Waiting: something is not placed for want of room; step again in its turn. nil: nothing waits.
	Waiting *schedule.Waiter
	// Grants are the slots that the job has been given by this step; those in Write count as in use from now on.
	Grants map[SlotID]*record.Grant
	// Log are facts for the log, written when the transaction is done.
	Log []Line
	// Bug is a step that must not be taken; nothing is written.
	Bug error
}

// Line is a line of the log.
type Line struct {
	Warn bool
	Msg  string
	Args []any
}

// Write is one transaction: all or nothing, under the leadership the shell adds.
type Write struct {
	If      []Cond
	Puts    []Put
	Deletes []string
	// Revoke are leases to end after the transaction has deleted their keys.
	Revoke []int64
}

// Cond wants a key at a mod revision (0: absent), or with Create at a create revision.
type Cond struct {
	Key    string
	Rev    int64
	Create bool
}

// Put writes one key.
type Put struct {
	Key   string
	Value []byte
}

// Limits of a Write: below those of the store, with room for the guard of the leadership.
const (
	maxOps   = 120
	maxBytes = 900 << 10
)

// unit is what must not be cut apart.
type unit struct {
	conds   []Cond
	puts    []Put
	deletes []string
	revoke  []int64
}

func (u *unit) cond(key string, rev int64)            { u.conds = append(u.conds, Cond{Key: key, Rev: rev}) }
func (u *unit) put(key string, value []byte)          { u.puts = append(u.puts, Put{key, value}) }
func (u *unit) write(key string, rev int64, v []byte) { u.cond(key, rev); u.put(key, v) }
func (u *unit) remove(key string, rev int64) {
	u.cond(key, rev)
	u.deletes = append(u.deletes, key)
}

// pack puts units into one Write in their order until the next one does not fit; the rest is found again by the
// next step. last always goes in: room is kept for it.
func pack(units []unit, last *unit) *Write {
	w := &Write{}
	seen := map[string]bool{} // conditions that are in
	puts, conds, size := 0, 0, 0
	weigh := func(u *unit) (p, c, b int) {
		p = len(u.puts) + len(u.deletes)
		for _, x := range u.conds {
			if !seen[x.Key] {
				c, b = c+1, b+len(x.Key)+32
			}
		}
		for _, p := range u.puts {
			b += len(p.Key) + len(p.Value) + 32
		}
		for _, d := range u.deletes {
			b += len(d) + 32
		}
		return p, c, b
	}
	if last != nil {
		puts, conds, size = weigh(last)
	}
	add := func(u *unit) {
		for _, c := range u.conds {
			if !seen[c.Key] {
				seen[c.Key] = true
				w.If = append(w.If, c)
			}
		}
		w.Puts, w.Deletes, w.Revoke = append(w.Puts, u.puts...), append(w.Deletes, u.deletes...), append(w.Revoke, u.revoke...)
	}
	for i := range units {
		p, c, b := weigh(&units[i])
		if puts+p > maxOps || conds+c > maxOps || size+b > maxBytes {
			break
		}
		puts, conds, size = puts+p, conds+c, size+b
		add(&units[i])
	}
	if last != nil {
		add(last)
	}
	if len(w.Puts)+len(w.Deletes) == 0 {
		return nil
	}
	return w
}
