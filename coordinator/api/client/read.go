package client

import (
	"context"
	"fmt"
	"sort"
	"time"

	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
)

// Job is a job in a list. A job whose spec was deleted has none; one that no coordinator has seen has no status. Of a
// job that ended a while ago only the history is left, and the status is what that says.
type Job struct {
	ID     plan.JobID        `json:"id"`
	Spec   *record.Spec      `json:"spec,omitempty"`
	Status *record.JobStatus `json:"status,omitempty"`

	unreadable bool // there is a status, or else a history, that this build cannot read

	// Archived: only the history is left.
	Archived bool `json:"archived,omitempty"`
	// Problem says why a spec or a status that is there is not shown.
	Problem string `json:"problem,omitempty"`
}

// Name is the name for people: of the status, else of the spec, else the id.
func (j *Job) Name() string {
	switch {
	case j.Status != nil && j.Status.Name != "":
		return j.Status.Name
	case j.Spec != nil && j.Spec.Name != "":
		return j.Spec.Name
	}
	return string(j.ID)
}

// Unreadable is the phase of a job whose status cannot be read.
const Unreadable = "UNREADABLE"

// Phase is the phase for people: SUBMITTED while no coordinator has seen the job, UNREADABLE where the status is there
// and says nothing to this build.
func (j *Job) Phase() string {
	switch {
	case j.Status != nil:
		return string(j.Status.Phase)
	case j.unreadable:
		return Unreadable
	}
	return "SUBMITTED"
}

// setStatus takes a status, or why it cannot be read. The status of an earlier life of the id says nothing about this
// one.
func (j *Job) setStatus(e kv.Entry, specCreated int64) {
	s, err := record.Decode[record.JobStatus](e.Value)
	switch {
	case err != nil:
		j.unreadable = true
		j.problem(e.Key, err)
	case specCreated == 0 || s.SpecCreated == specCreated:
		j.Status = s
	}
}

// setHistory takes the history of a job that has neither spec nor status any more.
func (j *Job) setHistory(e kv.Entry) {
	h, err := record.Decode[record.History](e.Value)
	j.Archived = true
	if err != nil {
		j.unreadable = true
		j.problem(e.Key, err)
		return
	}
	j.Status = h.Status()
}

func (j *Job) problem(key string, err error) {
	if j.Problem != "" {
		j.Problem += "; "
	}
	j.Problem += fmt.Sprintf("key %s cannot be read: %v", key, err)
}

// Submitted is when the job was submitted.
func (j *Job) Submitted() time.Time {
	if j.Spec != nil {
		return j.Spec.Submitted
	}
	if j.Status != nil {
		return j.Status.Submitted
	}
	return time.Time{}
}

// Get reads spec and status of a job at one revision, or its history where neither is left. What is there and cannot be
// read is told in Problem.
func (c *Client) Get(ctx context.Context, id plan.JobID) (*Job, error) {
	es, _, err := c.store.Read(ctx, c.tree.Job(id), c.tree.JobStatus(id), c.tree.History(id))
	if err != nil {
		return nil, err
	}
	return c.job(id, es[0], es[1], es[2])
}

func (c *Client) job(id plan.JobID, spec, status, history kv.Entry) (*Job, error) {
	j := &Job{ID: id}
	switch {
	case spec.Exists() || status.Exists():
	case history.Exists():
		j.setHistory(history)
		return j, nil
	default:
		return nil, fmt.Errorf("job %s: %w", id, ErrNoJob)
	}
	if spec.Exists() {
		s, err := record.Decode[record.Spec](spec.Value)
		if j.Spec = s; err != nil {
			j.problem(spec.Key, err)
		}
	}
	if status.Exists() {
		j.setStatus(status, spec.CreateRev)
	}
	return j, nil
}

// Description is all that the keys say about a job, at one revision.
type Description struct {
	Job
	Revision  int64           `json:"revision"`
	Wish      string          `json:"wish,omitempty"`
	Pipelines []Pipeline      `json:"pipelines,omitempty"`
	History   *record.History `json:"history,omitempty"`
}

// Pipeline is a pipeline in a Description.
type Pipeline struct {
	ID          plan.PipelineID                         `json:"id"`
	Word        *record.Word                            `json:"word,omitempty"`
	Placement   *record.Placement                       `json:"placement,omitempty"`
	Tasks       map[string]*record.TaskStatus           `json:"tasks,omitempty"` // by worker; may be of an older attempt
	Grants      []Grant                                 `json:"grants,omitempty"`
	Acks        map[string]*record.Ack                  `json:"acks,omitempty"`
	Checkpoints map[plan.CheckpointID]record.Checkpoint `json:"checkpoints,omitempty"`
}

// Grant is a slot that a pipeline holds.
type Grant struct {
	Worker string       `json:"worker"`
	Slot   int          `json:"slot"`
	Grant  record.Grant `json:"grant"`
}

// Slot is the slot of a worker in which a task group runs, or -1.
func (p *Pipeline) Slot(worker string, g plan.TaskGroup) int {
	name := g.String()
	for _, x := range p.Grants {
		if x.Worker != worker {
			continue
		}
		for _, n := range x.Grant.Groups {
			if n == name {
				return x.Slot
			}
		}
	}
	return -1
}

// Describe reads everything of a job at one revision. Keys that cannot be read are left out.
func (c *Client) Describe(ctx context.Context, id plan.JobID) (*Description, error) {
	words, rev, err := c.store.List(ctx, c.tree.Pipelines(id), 0)
	if err != nil {
		return nil, err
	}
	list := func(prefix string) []kv.Entry {
		if err != nil {
			return nil
		}
		var es []kv.Entry
		es, _, err = c.store.List(ctx, prefix, rev)
		return es
	}
	one := func(key string) kv.Entry {
		for _, e := range list(key) {
			if e.Key == key {
				return e
			}
		}
		return kv.Entry{Key: key}
	}
	spec, status, wish, history := one(c.tree.Job(id)), one(c.tree.JobStatus(id)), one(c.tree.Wish(id)), one(c.tree.History(id))
	placements, acks, points := list(c.tree.Placements(id)), list(c.tree.AcksOf(id)), list(c.tree.Checkpoints(id))
	if err != nil {
		return nil, fmt.Errorf("describe job %s: %w", id, err)
	}
	job, err := c.job(id, spec, status, history)
	if err != nil {
		return nil, err
	}
	d := &Description{Job: *job, Revision: rev, Wish: string(wish.Value)}
	if h := decode[record.History](history); h != nil && (!spec.Exists() || h.SpecCreated == 0 || h.SpecCreated == spec.CreateRev) {
		d.History = h // and not of an earlier life of the id
	}
	b := builder{c: c, pipes: map[plan.PipelineID]*Pipeline{}}
	workers := map[string]bool{}
	for _, e := range words {
		if p, _, ok := b.at(e); ok {
			if p.Word = decode[record.Word](e); p.Word != nil {
				for _, h := range p.Word.Holders {
					workers[h.Worker] = true
				}
			}
		}
	}
	for _, e := range placements {
		if p, _, ok := b.at(e); ok {
			if p.Placement = decode[record.Placement](e); p.Placement != nil {
				for w := range p.Placement.Workers {
					workers[w] = true
				}
			}
		}
	}
	for _, e := range acks {
		if p, k, ok := b.at(e); ok {
			put(&p.Acks, k.Worker, decode[record.Ack](e))
		}
	}
	for _, e := range points {
		if p, k, ok := b.at(e); ok {
			if cp := decode[record.Checkpoint](e); cp != nil {
				put(&p.Checkpoints, plan.CheckpointID(k.Number), *cp)
			}
		}
	}
	for w := range workers { // its grants are nowhere else
		for _, e := range list(c.tree.SlotsOf(w)) {
			k, ok := c.tree.Parse(e.Key)
			if g := decode[record.Grant](e); ok && g != nil && g.Job == id {
				p := b.pipe(g.Pipeline)
				p.Grants = append(p.Grants, Grant{k.Worker, int(k.Number), *g})
			}
		}
		for _, e := range list(c.tree.TaskStatuses(w, id)) {
			if p, k, ok := b.at(e); ok {
				put(&p.Tasks, k.Worker, decode[record.TaskStatus](e))
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("describe job %s: %w", id, err)
	}
	d.Pipelines = b.sorted()
	return d, nil
}

type builder struct {
	c     *Client
	pipes map[plan.PipelineID]*Pipeline
}

func (b *builder) pipe(id plan.PipelineID) *Pipeline {
	if b.pipes[id] == nil {
		b.pipes[id] = &Pipeline{ID: id}
	}
	return b.pipes[id]
}

func (b *builder) at(e kv.Entry) (*Pipeline, keys.Parsed, bool) {
	k, ok := b.c.tree.Parse(e.Key)
	if !ok {
		return nil, k, false
	}
	return b.pipe(k.Pipeline), k, true
}

func (b *builder) sorted() []Pipeline {
	out := make([]Pipeline, 0, len(b.pipes))
	for _, p := range b.pipes {
		sort.Slice(p.Grants, func(i, j int) bool {
			x, y := p.Grants[i], p.Grants[j]
			return x.Worker < y.Worker || x.Worker == y.Worker && x.Slot < y.Slot
		})
		out = append(out, *p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

func decode[T any](e kv.Entry) *T {
	if !e.Exists() {
		return nil
	}
	v, err := record.Decode[T](e.Value)
	if err != nil {
		return nil
	}
	return v
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}
