package coordinator

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"strait/coordinator/api/client"
	"strait/plan"
	"strait/plan/state"
)

// TestManyJobs: jobs submitted at once are admitted by slots, none is lost, none gets a slot twice.
// STRAIT_JOBS=1000 makes it the scenario of the failure list.
func TestManyJobs(t *testing.T) {
	n := 60
	if v, err := strconv.Atoi(os.Getenv("STRAIT_JOBS")); err == nil {
		n = v
	}
	f := newFleet(t)
	for i := range 4 {
		startWorker(t, f.store, fmt.Sprintf("w%d", i), 4, f.target)
	}
	began := time.Now()
	for i := range n {
		f.submit(text("In", "Out", 1+i%3), plan.JobID(fmt.Sprintf("job-%d", i)))
	}
	t.Logf("submitted in %v", time.Since(began))
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n/5+120)*time.Second)
	defer cancel()
	for {
		jobs, err := f.cl.List(ctx, client.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for i := range jobs {
			if s := jobs[i].Status; s != nil && s.Phase.Terminal() {
				if s.Phase != state.JobFinished {
					t.Fatalf("%s: %s: %s", jobs[i].ID, s.Phase, s.Message)
				}
				ended++
			}
		}
		if ended == n {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("all ended after %v", time.Since(began))
	for i := range n {
		f.check(plan.JobID(fmt.Sprintf("job-%d", i)), 1+i%3, true)
	}
}
