package client

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"strait/kv"
	"strait/kv/record"
	"strait/plan"
)

// What callers branch on, with errors.Is.
var (
	// ErrNoWorker: there is no worker of that name.
	ErrNoWorker = errors.New("no such worker")
	// ErrOtherIncarnation: the key of the worker belongs to another process than was named.
	ErrOtherIncarnation = errors.New("another incarnation")
)

// Worker is a live worker.
type Worker struct {
	Name        string        `json:"name"`
	Incarnation int64         `json:"incarnation"`
	Worker      record.Worker `json:"worker"`
	Used        int           `json:"used"` // slots granted
	// Taken is what the profiles of those grants take together.
	Taken record.Profile `json:"taken,omitzero"`
	Wish  string         `json:"wish,omitempty"` // as it is written

	lease int64
}

// State is how a worker stands, in one word or a few: active, leaving, draining with its deadline.
func (w *Worker) State() string {
	word, until, err := record.ParseWorkerWish([]byte(w.Wish))
	switch {
	case w.Worker.Leaving:
		return "leaving"
	case err != nil:
		return "active (wish not readable)"
	case word == record.WorkerDrain && until.IsZero():
		return "draining"
	case word == record.WorkerDrain:
		return "draining until " + until.Format(time.RFC3339)
	}
	return "active"
}

// Draining says that nothing new is placed on the worker.
func (w *Worker) Draining() bool {
	word, _, err := record.ParseWorkerWish([]byte(w.Wish))
	return w.Worker.Leaving || err == nil && word == record.WorkerDrain
}

// Workers reads the live workers at one revision, by name.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	es, rev, err := c.store.List(ctx, c.tree.Workers(), 0)
	if err != nil {
		return nil, err
	}
	slots, _, err := c.store.List(ctx, c.tree.Slots(), rev)
	if err != nil {
		return nil, err
	}
	wishes, err := c.workerWishes(ctx, rev)
	if err != nil {
		return nil, err
	}
	out := make([]Worker, 0, len(es))
	at := map[string]int{}
	for _, e := range es {
		k, ok := c.tree.Parse(e.Key)
		w := decode[record.Worker](e)
		if !ok || w == nil {
			continue
		}
		at[k.Worker] = len(out)
		out = append(out, Worker{Name: k.Worker, Incarnation: e.CreateRev, Worker: *w, Wish: wishes[k.Worker], lease: e.Lease})
	}
	for _, e := range slots {
		k, ok := c.tree.Parse(e.Key)
		i, there := at[k.Worker]
		if g := decode[record.Grant](e); ok && there && g != nil && g.Incarnation == out[i].Incarnation {
			out[i].take(g)
		}
	}
	return out, nil
}

func (w *Worker) take(g *record.Grant) {
	w.Used++
	w.Taken.MilliCPU += g.Profile.MilliCPU
	w.Taken.Memory += g.Profile.Memory
}

// WorkerWishes reads what is wished of workers, by their names, also of those that are not there.
func (c *Client) WorkerWishes(ctx context.Context) (map[string]string, error) {
	return c.workerWishes(ctx, 0)
}

func (c *Client) workerWishes(ctx context.Context, rev int64) (map[string]string, error) {
	es, _, err := c.store.List(ctx, c.tree.WorkerWish(""), rev)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range es {
		if k, ok := c.tree.Parse(e.Key); ok {
			out[k.Worker] = strings.TrimSpace(string(e.Value[:min(len(e.Value), 256)]))
		}
	}
	return out, nil
}

// WorkerNames lists the live workers whose name begins with prefix.
func (c *Client) WorkerNames(ctx context.Context, prefix string) ([]string, error) {
	es, _, err := c.store.ListKeys(ctx, c.tree.Worker(prefix), 0)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range es {
		if k, ok := c.tree.Parse(e.Key); ok {
			out = append(out, k.Worker)
		}
	}
	return out, nil
}

// Part is a pipeline on a worker.
type Part struct {
	Job         plan.JobID         `json:"job"`
	Name        string             `json:"name,omitempty"` // of the job
	Pipeline    plan.PipelineID    `json:"pipeline"`
	Incarnation int64              `json:"incarnation"` // it was given to
	Attempt     plan.Attempt       `json:"attempt"`
	Slots       []int              `json:"slots,omitempty"`
	Groups      []string           `json:"groups,omitempty"` // task groups
	Taken       record.Profile     `json:"taken,omitzero"`
	Assignment  *record.Assignment `json:"assignment,omitempty"`
	Status      *record.TaskStatus `json:"status,omitempty"` // what the worker says of it
}

// WorkerDescription is all that the keys say about a worker, at one revision. A worker that is not there has no
// record, but may have a wish and leftovers.
type WorkerDescription struct {
	Name     string  `json:"name"`
	Revision int64   `json:"revision"`
	Worker   *Worker `json:"worker,omitempty"`
	Wish     string  `json:"wish,omitempty"`
	Parts    []Part  `json:"parts,omitempty"`
}

// DescribeWorker reads a worker and what runs there. ErrNoWorker: no key names it.
func (c *Client) DescribeWorker(ctx context.Context, name string) (*WorkerDescription, error) {
	if err := plan.CheckName("worker", name); err != nil {
		return nil, err
	}
	es, rev, err := c.store.Read(ctx, c.tree.Worker(name), c.tree.WorkerWish(name))
	if err != nil {
		return nil, err
	}
	d := &WorkerDescription{Name: name, Revision: rev, Wish: strings.TrimSpace(string(es[1].Value))}
	if w := decode[record.Worker](es[0]); w != nil {
		d.Worker = &Worker{Name: name, Incarnation: es[0].CreateRev, Worker: *w, Wish: d.Wish, lease: es[0].Lease}
	} else if es[0].Exists() {
		return nil, fmt.Errorf("key %s: not a worker's record; is it of a newer version?", es[0].Key)
	}
	type key struct {
		job plan.JobID
		p   plan.PipelineID
	}
	parts := map[key]*Part{}
	at := func(job plan.JobID, p plan.PipelineID) *Part {
		k := key{job, p}
		if parts[k] == nil {
			parts[k] = &Part{Job: job, Pipeline: p}
		}
		return parts[k]
	}
	for _, prefix := range []string{c.tree.Tasks(name), c.tree.SlotsOf(name), c.tree.TaskStatusesOf(name)} {
		es, _, err := c.store.List(ctx, prefix, rev)
		if err != nil {
			return nil, err
		}
		for _, e := range es {
			k, ok := c.tree.Parse(e.Key)
			if !ok {
				continue
			}
			switch prefix {
			case c.tree.Tasks(name):
				if a := decode[record.Assignment](e); a != nil {
					p := at(k.Job, k.Pipeline)
					p.Assignment, p.Incarnation, p.Attempt = a, a.Incarnation, a.Attempt
				}
			case c.tree.SlotsOf(name):
				if g := decode[record.Grant](e); g != nil {
					p := at(g.Job, g.Pipeline)
					p.Slots, p.Groups = append(p.Slots, int(k.Number)), append(p.Groups, g.Groups...)
					p.Taken.MilliCPU += g.Profile.MilliCPU
					p.Taken.Memory += g.Profile.Memory
					if p.Assignment == nil {
						p.Incarnation, p.Attempt = g.Incarnation, g.Attempt
					}
					if d.Worker != nil && g.Incarnation == d.Worker.Incarnation {
						d.Worker.take(g)
					}
				}
			default:
				if p := parts[key{k.Job, k.Pipeline}]; p != nil {
					p.Status = decode[record.TaskStatus](e)
				}
			}
		}
	}
	if d.Worker == nil && d.Wish == "" && len(parts) == 0 {
		return nil, fmt.Errorf("worker %s: %w; `stctl worker list` shows them", name, ErrNoWorker)
	}
	for _, p := range parts {
		d.Parts = append(d.Parts, *p)
	}
	sort.Slice(d.Parts, func(i, j int) bool {
		a, b := &d.Parts[i], &d.Parts[j]
		return a.Job < b.Job || a.Job == b.Job && a.Pipeline < b.Pipeline
	})
	return d, c.nameParts(ctx, d.Parts)
}

// nameParts puts the names of jobs beside their ids.
func (c *Client) nameParts(ctx context.Context, parts []Part) error {
	for from := 0; from < len(parts); from += kv.MaxOps {
		piece := parts[from:min(from+kv.MaxOps, len(parts))]
		names := make([]string, len(piece))
		for i := range piece {
			names[i] = c.tree.JobStatus(piece[i].Job)
		}
		es, _, err := c.store.Read(ctx, names...)
		if err != nil {
			return err
		}
		for i, e := range es {
			if st := decode[record.JobStatus](e); st != nil {
				piece[i].Name = st.Name
			}
		}
	}
	return nil
}

// Drain wishes that nothing new is placed on a worker and that what runs there until `until` is moved then; zero: it
// stays until it ends. A worker that is not there is ErrNoWorker.
func (c *Client) Drain(ctx context.Context, name string, until time.Time) error {
	return c.wishWorker(ctx, name, record.DrainWish(until), true)
}

// Undrain wishes that work is placed on a worker again. It need not be there.
func (c *Client) Undrain(ctx context.Context, name string) error {
	return c.wishWorker(ctx, name, []byte(record.WorkerActive), false)
}

func (c *Client) wishWorker(ctx context.Context, name string, value []byte, there bool) error {
	if err := plan.CheckName("worker", name); err != nil {
		return err
	}
	for {
		es, _, err := c.store.Read(ctx, c.tree.Worker(name), c.tree.WorkerWish(name))
		if err != nil {
			return fmt.Errorf("wish for worker %s: %w", name, err)
		}
		if !es[0].Exists() && (there || !es[1].Exists()) {
			return fmt.Errorf("worker %s: %w; `stctl worker list` shows them", name, ErrNoWorker)
		}
		op := kv.Put(es[1].Key, value)
		if string(value) == record.WorkerActive {
			if !es[1].Exists() {
				return nil // which is active
			}
			op = kv.Delete(es[1].Key) // nobody compares against a wish: it may go
		}
		_, err = c.store.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.At(es[1])}, Ops: []kv.Op{op}})
		if errors.Is(err, kv.ErrConflict) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wish for worker %s: %w", name, err)
		}
		return nil
	}
}

// Fence says that a process is dead: its key goes and fenced/<worker>/<incarnation> comes in one transaction, and its
// lease is revoked. Nothing waits for the process any more; should it live after all, it sees that its key is gone,
// and its writes are refused. A key of another process is left alone: ErrOtherIncarnation with what was found. gone
// says that the key was not there, so that only the mark was made.
func (c *Client) Fence(ctx context.Context, name string, incarnation int64, by string) (gone bool, err error) {
	if err := plan.CheckName("worker", name); err != nil {
		return false, err
	}
	worker, fenced := c.tree.Worker(name), c.tree.Fenced(name, incarnation)
	value := record.MustEncode(&record.Fenced{Header: record.Head, Time: time.Now().UTC().Truncate(time.Millisecond), By: by})
	for {
		es, rev, err := c.store.Read(ctx, worker, fenced)
		if err != nil {
			return false, fmt.Errorf("fence worker %s: %w", name, err)
		}
		w := es[0]
		switch {
		case incarnation < 1 || incarnation > rev:
			return false, fmt.Errorf("fence worker %s: incarnation %d never was: the store is at revision %d; `stctl worker list` shows the living ones, the file `incarnation` in the worker's --data-dir the last one", name, incarnation, rev)
		case w.Exists() && w.CreateRev != incarnation:
			return false, fmt.Errorf("fence worker %s: %w: the key is of incarnation %d (%s), not %d; nothing was done", name, ErrOtherIncarnation, w.CreateRev, about(w), incarnation)
		case !w.Exists() && es[1].Exists():
			return true, nil // done already
		}
		t := kv.Txn{Guards: []kv.Guard{kv.At(es[1])}, Ops: []kv.Op{kv.Put(fenced, value)}}
		if w.Exists() {
			t.Guards, t.Ops = append(t.Guards, kv.AtCreate(worker, incarnation)), append(t.Ops, kv.Delete(worker))
		} else {
			t.Guards = append(t.Guards, kv.At(w))
		}
		_, err = c.store.Txn(ctx, t)
		if errors.Is(err, kv.ErrConflict) || errors.Is(err, kv.ErrUnknownOutcome) && ctx.Err() == nil {
			continue // read, then decide
		}
		if err != nil {
			return false, fmt.Errorf("fence worker %s: %w", name, err)
		}
		if w.Lease != 0 {
			if err := c.store.Revoke(ctx, w.Lease); err != nil && !errors.Is(err, kv.ErrLeaseNotFound) {
				return false, fmt.Errorf("worker %s is fenced, but its lease %x stays until its TTL: %w", name, w.Lease, err)
			}
		}
		return !w.Exists(), nil
	}
}

// about says whose key it is.
func about(e kv.Entry) string {
	if w := decode[record.Worker](e); w != nil {
		return fmt.Sprintf("pid %d on %s since %s", w.PID, w.Host, w.Started.Format(time.RFC3339))
	}
	return "not readable"
}

// Candidate is a coordinator: the first one leads, the others stand by.
type Candidate struct {
	record.Leader
	Leads bool `json:"leads"`
}

// Coordinators lists those that are alive, the leader first.
func (c *Client) Coordinators(ctx context.Context) ([]Candidate, error) {
	es, _, err := c.store.List(ctx, c.tree.Leader(), 0)
	if err != nil {
		return nil, err
	}
	sort.Slice(es, func(i, j int) bool { return es[i].CreateRev < es[j].CreateRev }) // the oldest candidate leads
	out := make([]Candidate, 0, len(es))
	for i, e := range es {
		l, err := record.Decode[record.Leader](e.Value)
		if err != nil && i == 0 {
			return nil, fmt.Errorf("key %s: %w", e.Key, err)
		}
		if err != nil {
			continue // of a newer version; it does not lead
		}
		out = append(out, Candidate{*l, i == 0})
	}
	return out, nil
}

// Leader is the coordinator that leads now, or ErrNoLeader.
func (c *Client) Leader(ctx context.Context) (*record.Leader, error) {
	all, err := c.Coordinators(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w; start one with `stctl serve coordinator`", ErrNoLeader)
	}
	return &all[0].Leader, nil
}
