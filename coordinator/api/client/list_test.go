package client

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

func TestFilter(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	now := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	add := func(id plan.JobID, name string, phase state.Job, submitted time.Time, ended time.Duration, labels map[string]string) {
		t.Helper()
		if _, err := c.Submit(ctx, record.Spec{Text: "secret text", Submitted: submitted, Labels: labels}, id); err != nil {
			t.Fatal(err)
		}
		spec, err := e.Store.Get(ctx, tree.Job(id))
		if err != nil {
			t.Fatal(err)
		}
		if phase == "" {
			return
		}
		st := &record.JobStatus{Header: record.Head, Name: name, Phase: phase, SpecCreated: spec.CreateRev, Submitted: submitted}
		if ended > 0 {
			at := submitted.Add(ended)
			st.Finished = &at
		}
		e.Put(t, tree.JobStatus(id), string(record.MustEncode(st)))
	}
	hour := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	add("a1", "orders-eu", state.JobRunning, hour(-1), 0, map[string]string{"team": "x", "env": "prod"})
	add("a2", "orders-us", state.JobFinished, hour(-3), time.Hour, map[string]string{"team": "x"})
	add("a3", "bills", state.JobFailed, hour(-100), time.Hour, map[string]string{"team": "y"})
	add("a4", "", "", hour(-2), 0, map[string]string{"team": "y"}) // nobody has seen it
	old := hour(-200)
	e.Put(t, tree.History("a0"), string(record.MustEncode(&record.History{Header: record.Head, Name: "orders-old", Phase: state.JobCancelled, Submitted: hour(-201), Finished: old})))
	f := func(filter Filter, want string) {
		t.Helper()
		jobs, err := c.List(ctx, filter)
		var got []string
		for _, j := range jobs {
			got = append(got, string(j.ID))
			if j.Spec != nil && (j.Spec.Text != "" || j.Spec.Variables != nil) {
				t.Errorf("job %s comes with its text", j.ID)
			}
		}
		if s := strings.Join(got, " "); err != nil || s != want {
			t.Errorf("%+v: %s, want %s (%v)", filter, s, want, err)
		}
	}
	f(Filter{}, "a1 a4 a2 a3 a0")
	f(Filter{Limit: 2}, "a1 a4")
	f(Filter{Limit: 20}, "a1 a4 a2 a3 a0")
	f(Filter{Phases: []string{"RUNNING", "CANCELLED"}}, "a1 a0")
	f(Filter{Phases: []string{"SUBMITTED"}}, "a4")
	f(Filter{Name: "orders-*"}, "a1 a2 a0")
	f(Filter{Name: "a[34]"}, "a4 a3") // ids too
	f(Filter{Labels: map[string]string{"team": "x"}}, "a1 a2")
	f(Filter{Labels: map[string]string{"team": "x", "env": "prod"}}, "a1")
	f(Filter{Labels: map[string]string{"team": "y"}}, "a4 a3")
	f(Filter{Since: hour(-2)}, "a1 a4")
	f(Filter{Finished: hour(-100)}, "a2 a3")
	f(Filter{Finished: hour(-99)}, "a2 a3")
	f(Filter{Finished: hour(-98)}, "a2")
	f(Filter{Recent: hour(-24)}, "a1 a4 a2")
	f(Filter{Recent: hour(-24), Name: "orders-*", Labels: map[string]string{"env": "prod"}}, "a1")
	if _, err := c.List(ctx, Filter{Name: "[a"}); err == nil {
		t.Error("a bad pattern was taken")
	}
	if ids, err := c.JobIDs(ctx, "a", 3); err != nil || fmt.Sprint(ids) != "[a0 a1 a2]" {
		t.Error(ids, err)
	}
}

// BenchmarkList reads the list of 10,000 jobs, and one job among them.
func BenchmarkList(b *testing.B) {
	e := kvtest.New(b)
	c := New(e.Store, tree)
	ctx := b.Context()
	const jobs, atOnce = 10_000, 50
	text := strings.Repeat("x", 2<<10)
	for from := 0; from < jobs; from += atOnce {
		var specs, stats kv.Txn
		for i := from; i < from+atOnce; i++ {
			key := tree.Job(plan.JobID(fmt.Sprintf("job-%05d", i)))
			specs.Guards, specs.Ops = append(specs.Guards, kv.Absent(key)), append(specs.Ops, kv.Put(key, record.MustEncode(&record.Spec{Header: record.Head, Text: text})))
		}
		put, err := e.Store.Txn(ctx, specs)
		if err != nil {
			b.Fatal(err)
		}
		for i := from; i < from+atOnce; i++ {
			key := tree.JobStatus(plan.JobID(fmt.Sprintf("job-%05d", i)))
			stats.Guards = append(stats.Guards, kv.Absent(key))
			stats.Ops = append(stats.Ops, kv.Put(key, record.MustEncode(&record.JobStatus{Header: record.Head, Name: fmt.Sprint("name-", i), Phase: state.JobRunning, SpecCreated: put.Rev, Submitted: time.Now()})))
		}
		if _, err := e.Store.Txn(ctx, stats); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if got, err := c.List(ctx, Filter{Phases: []string{"RUNNING"}, Limit: 100}); err != nil || len(got) != 100 {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.ResolveID(ctx, "job-00001"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("describe", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Describe(ctx, "job-00001"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
