package worker

import (
	"context"
	"fmt"
	"sync"

	"strait/kv"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/physical"
)

// planCache keeps the newest plan of each job: all pipelines and attempts of a job share it.
type planCache struct {
	mu    sync.Mutex
	plans map[plan.JobID]cachedPlan
	order []plan.JobID
}

type cachedPlan struct {
	sha  string
	spec int64
	plan *physical.Plan
}

// maxPlans bounds the cache.
const maxPlans = 64

func newPlanCache() *planCache { return &planCache{plans: map[plan.JobID]cachedPlan{}} }

func (c *planCache) get(ctx context.Context, l *life, job plan.JobID, head *record.PlanHead) (*physical.Plan, error) {
	c.mu.Lock()
	got, ok := c.plans[job]
	c.mu.Unlock()
	if ok && got.sha == head.SHA256 && got.spec == head.Spec {
		return got.plan, nil
	}
	p, err := fetchPlan(ctx, l, job, head)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.plans[job]; !known {
		c.order = append(c.order, job)
	}
	c.plans[job] = cachedPlan{head.SHA256, head.Spec, p}
	for len(c.order) > maxPlans {
		delete(c.plans, c.order[0])
		c.order = c.order[1:]
	}
	return p, nil
}

// fetchPlan reads and checks the chunks of a plan.
func fetchPlan(ctx context.Context, l *life, job plan.JobID, head *record.PlanHead) (*physical.Plan, error) {
	if head.Number < 1 || head.Number > record.MaxUnpacked/record.ChunkBytes {
		return nil, fmt.Errorf("plan of job %s: %d chunks", job, head.Number)
	}
	var parts [][]byte
	for from := 0; from < head.Number; from += kv.MaxOps {
		var names []string
		for n := from; n < min(from+kv.MaxOps, head.Number); n++ {
			names = append(names, l.cfg.Tree.PlanChunk(job, n))
		}
		es, err := retry(ctx, l.log, "plan", func() ([]kv.Entry, error) {
			es, _, err := l.cfg.Store.Read(ctx, names...)
			return es, err
		})
		if err != nil {
			return nil, err
		}
		for _, e := range es {
			if !e.Exists() {
				return nil, fmt.Errorf("plan of job %s: key %s is missing", job, e.Key)
			}
			parts = append(parts, e.Value)
		}
	}
	data, err := record.Unpack(head.Chunks, parts)
	if err != nil {
		return nil, fmt.Errorf("plan of job %s: %w", job, err)
	}
	p, err := physical.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("plan of job %s: %w", job, err)
	}
	return p, nil
}
