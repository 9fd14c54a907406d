package task

import (
	"testing"

	"strait/plan/state"
	"strait/worker/task/tasktest"
)

func allOnce(t *testing.T, what string, got map[int64]int, n int64) {
	t.Helper()
	if int64(len(got)) != n {
		t.Errorf("%s: %d rows, want %d", what, len(got), n)
	}
	for v, k := range got {
		if k != 1 || v < 0 || v >= n {
			t.Fatalf("%s: row %d is there %d times", what, v, k)
		}
	}
}

func TestBoundedJob(t *testing.T) {
	for _, sink := range []string{"TestSink", "TestTwoPhase", "TestAggregating"} {
		t.Run(sink, func(t *testing.T) {
			w := tasktest.New(t, 7, 2500)
			x := build(t, tasktest.Plan(t, tasktest.Chain{Plugins: []string{"TestSource", sink}, Parallelism: 3}), nil)
			defer x.stop(t)
			x.Start(1)
			s := x.drain(t, 1)
			allOnce(t, "written", w.Written(), 7*2500)
			if len(w.Visible()) != 0 {
				t.Error("rows are visible before the checkpoint is complete")
			}
			if sink == "TestSink" {
				if len(s.Prepared) != 0 {
					t.Errorf("prepared %d", len(s.Prepared))
				}
				return
			}
			if len(s.Prepared) != 3 || s.Prepared[1].CommitID() != "c_job.7_1_v1_1_1_1_0" {
				t.Fatalf("prepared %+v", s.Prepared)
			}
			if err := x.Commit(1, s.Prepared); err != nil {
				t.Fatal(err)
			}
			allOnce(t, "visible", w.Visible(), 7*2500)
			for _, g := range x.States() {
				if g.State != state.TaskPrepareClose || g.Len() != 3 {
					t.Errorf("state %+v", g)
				}
			}
			c := x.Counts()
			if c[0].RowsOut != 7*2500 || c[1].RowsIn != 7*2500 || c[0].BytesOut != 8*7*2500 || c[1].Tables["t"].RowsOut != 7*2500 {
				t.Errorf("counts %+v", c)
			}
		})
	}
}

func TestExchange(t *testing.T) {
	w := tasktest.New(t, 4, 3000)
	x := build(t, tasktest.Plan(t, tasktest.Chain{Plugins: []string{"TestSource"}, Parallelism: 2}, tasktest.Chain{Plugins: []string{"TestEven", "TestTwoPhase"}, Parallelism: 3}), nil)
	defer x.stop(t)
	x.Start(1)
	s := x.drain(t, 1)
	if err := x.Commit(1, s.Prepared); err != nil {
		t.Fatal(err)
	}
	if len(w.Visible()) != 6000 {
		t.Errorf("%d rows, want 6000", len(w.Visible()))
	}
	for v, n := range w.Visible() {
		if v%2 != 0 || n != 1 {
			t.Fatalf("row %d is there %d times", v, n)
		}
	}
}
