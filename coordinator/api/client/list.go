package client

import (
	"context"
	"path"
	"slices"
	"sort"
	"time"

	"strait/kv"
	"strait/kv/record"
	"strait/plan"
)

// Filter says which jobs of a list are wanted. The zero Filter wants all.
type Filter struct {
	Phases   []string          // one of them; none: any
	Name     string            // path.Match pattern of the name or the id; empty: any
	Labels   map[string]string // all of them. They stand in the spec, which goes with the other keys of an ended job
	Since    time.Time         // submitted then or later
	Finished time.Time         // ended then or later; zero: ended or not
	Recent   time.Time         // not ended, or ended then or later
	Limit    int               // the newest so many; 0: all
}

// takes says whether a job passes, but for its labels.
func (f *Filter) takes(j *Job) bool {
	ended := time.Time{}
	if j.Status != nil && j.Status.Finished != nil {
		ended = *j.Status.Finished
	}
	switch {
	case len(f.Phases) > 0 && !slices.Contains(f.Phases, j.Phase()),
		!f.Since.IsZero() && j.Submitted().Before(f.Since),
		!f.Finished.IsZero() && (ended.IsZero() || ended.Before(f.Finished)),
		!f.Recent.IsZero() && !ended.IsZero() && ended.Before(f.Recent):
		return false
	case f.Name == "":
		return true
	}
	byName, err := path.Match(f.Name, j.Name())
	byID, _ := path.Match(f.Name, string(j.ID))
	return err == nil && (byName || byID)
}

// List reads the jobs that pass a filter, the newest first. It reads statuses and histories, and specs only of jobs
// that no coordinator has seen yet or whose labels are asked for: job texts are large. Of those texts and variables
// are left out, of all others the whole spec.
func (c *Client) List(ctx context.Context, f Filter) ([]Job, error) {
	if _, err := path.Match(f.Name, ""); err != nil {
		return nil, err
	}
	specs, rev, err := c.store.ListKeys(ctx, c.tree.Jobs(), 0)
	if err != nil {
		return nil, err
	}
	stats, _, err := c.store.List(ctx, c.tree.JobStatuses(), rev)
	if err != nil {
		return nil, err
	}
	histories, _, err := c.store.List(ctx, c.tree.Histories(), rev)
	if err != nil {
		return nil, err
	}
	jobs := make(map[plan.JobID]*Job, len(specs))
	at := func(e kv.Entry) *Job {
		p, ok := c.tree.Parse(e.Key)
		if !ok {
			return nil
		}
		if jobs[p.Job] == nil {
			jobs[p.Job] = &Job{ID: p.Job}
		}
		return jobs[p.Job]
	}
	created := make(map[plan.JobID]int64, len(specs))
	for _, e := range specs {
		if j := at(e); j != nil {
			created[j.ID] = e.CreateRev
		}
	}
	for _, e := range stats {
		if j := at(e); j != nil {
			j.setStatus(e, created[j.ID])
		}
	}
	for _, e := range histories {
		if p, ok := c.tree.Parse(e.Key); ok && jobs[p.Job] == nil {
			at(e).setHistory(e)
		}
	}
	var unknown []*Job
	for _, j := range jobs {
		if j.Status == nil && created[j.ID] != 0 {
			unknown = append(unknown, j)
		}
	}
	if err := c.readSpecs(ctx, unknown); err != nil {
		return nil, err
	}
	found := make([]*Job, 0, len(jobs))
	for _, j := range jobs {
		if f.takes(j) {
			found = append(found, j)
		}
	}
	if len(f.Labels) > 0 {
		if found, err = c.labelled(ctx, found, created, f.Labels); err != nil {
			return nil, err
		}
	}
	sort.Slice(found, func(i, k int) bool {
		a, b := found[i].Submitted(), found[k].Submitted()
		if !a.Equal(b) {
			return a.After(b)
		}
		return found[i].ID < found[k].ID
	})
	if f.Limit > 0 {
		found = found[:min(f.Limit, len(found))]
	}
	out := make([]Job, len(found))
	for i, j := range found {
		out[i] = *j
	}
	return out, nil
}

// labelled keeps the jobs that have all of the labels.
func (c *Client) labelled(ctx context.Context, jobs []*Job, created map[plan.JobID]int64, labels map[string]string) ([]*Job, error) {
	var ask []*Job
	for _, j := range jobs {
		if j.Spec == nil && created[j.ID] != 0 {
			ask = append(ask, j)
		}
	}
	if err := c.readSpecs(ctx, ask); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(jobs, func(j *Job) bool {
		for k, v := range labels {
			if j.Spec == nil || j.Spec.Labels[k] != v {
				return true
			}
		}
		return false
	}), nil
}

// readSpecs reads the specs of jobs, many at once. One that has gone meanwhile is left out.
func (c *Client) readSpecs(ctx context.Context, jobs []*Job) error {
	const atOnce = kv.MaxOps / 8 // a spec has up to 48 KiB
	for from := 0; from < len(jobs); from += atOnce {
		piece := jobs[from:min(from+atOnce, len(jobs))]
		names := make([]string, len(piece))
		for i, j := range piece {
			names[i] = c.tree.Job(j.ID)
		}
		es, _, err := c.store.Read(ctx, names...)
		if err != nil {
			return err
		}
		for i, e := range es {
			if !e.Exists() {
				continue
			}
			s, err := record.Decode[record.Spec](e.Value)
			if err != nil {
				piece[i].problem(e.Key, err)
				continue
			}
			s.Text, s.Variables = "", nil
			piece[i].Spec = s
		}
	}
	return nil
}

// JobIDs lists the ids that begin with prefix, of living and of ended jobs, at most so many.
func (c *Client) JobIDs(ctx context.Context, prefix string, most int) ([]plan.JobID, error) {
	ids, err := c.ids(ctx, prefix)
	return ids[:min(len(ids), most)], err
}
