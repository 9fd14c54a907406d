package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"strait/kv"
	"strait/kv/keys"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/fault"
	"strait/plan/seal"
	"strait/plan/secret"
	"strait/plan/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tree = keys.New("")

func start(t *testing.T) (*kvtest.Etcd, *Client) {
	e := kvtest.New(t)
	return e, New(e.Store, tree).WithSecrets(Secrets{AllowPlain: true}) // most texts here are no jobs
}

func status(spec int64, phase state.Job) string {
	return string(record.MustEncode(&record.JobStatus{Header: record.Head, Name: "n", Phase: phase, SpecCreated: spec}))
}

func TestSubmit(t *testing.T) {
	_, c := start(t)
	ctx := kvtest.Context(t)
	id, err := c.Submit(ctx, record.Spec{Text: "env {}"}, "")
	if err != nil || plan.CheckName("job", string(id)) != nil {
		t.Fatal(id, err)
	}
	if _, err := c.Submit(ctx, record.Spec{Text: "other"}, id); !errors.Is(err, ErrTaken) {
		t.Error("an id was taken twice:", err)
	}
	if _, err := c.Submit(ctx, record.Spec{}, "No Name"); err == nil {
		t.Error("a bad id was accepted")
	}
	if _, err := c.Submit(ctx, record.Spec{Text: strings.Repeat("x", MaxText+1)}, ""); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Error("a text too large:", err)
	}
	j, err := c.Get(ctx, id)
	if err != nil || j.Spec.Text != "env {}" || j.Status != nil || j.Phase() != "SUBMITTED" || j.Submitted().IsZero() || j.Spec.APIVersion != record.APIVersion {
		t.Fatalf("%+v, %v", j, err)
	}
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, "%x ", i*2654435761)
	}
	big, err := c.Submit(ctx, record.Spec{Text: b.String()}, "big")
	if err != nil {
		t.Fatal(err)
	}
	if j, err = c.Get(ctx, big); err != nil || j.Spec.Text != "" || j.Spec.TextChunks.Number < 2 {
		t.Fatalf("%+v, %v", j.Spec.TextChunks, err)
	}
	if got, err := c.Text(ctx, big, j.Spec); err != nil || got != b.String() {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if _, err := c.Get(ctx, "nobody"); !errors.Is(err, ErrNoJob) {
		t.Error(err)
	}
}

func TestResolveAndList(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	for i, id := range []plan.JobID{"abc1", "abc12", "abd"} {
		if _, err := c.Submit(ctx, record.Spec{Text: "x", Submitted: time.Unix(int64(100+i), 0)}, id); err != nil {
			t.Fatal(err)
		}
	}
	e.Put(t, tree.JobStatus("gone"), status(1, state.JobFinished)) // its spec was deleted
	for in, want := range map[string]plan.JobID{"abd": "abd", "abc1": "abc1", "abc12": "abc12", "g": "gone"} {
		if got, err := c.ResolveID(ctx, in); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	if _, err := c.ResolveID(ctx, "ab"); !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "abc1, abc12, abd") {
		t.Error(err)
	}
	if _, err := c.ResolveID(ctx, "x"); !errors.Is(err, ErrNoJob) {
		t.Error(err)
	}
	e.Put(t, tree.Job("broken"), "{")
	jobs, err := c.List(ctx, Filter{})
	if err != nil || len(jobs) != 5 || jobs[0].ID != "abd" || jobs[2].ID != "abc1" || jobs[0].Spec.Text != "" {
		t.Fatalf("%+v, %v", jobs, err)
	}
	for _, j := range jobs {
		if (j.Problem != "") != (j.ID == "broken") {
			t.Errorf("%+v", j)
		}
	}
}

func TestWish(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	if _, err := c.Wish(ctx, "nobody", record.WishCancelled); !errors.Is(err, ErrNoJob) {
		t.Error(err)
	}
	id, _ := c.Submit(ctx, record.Spec{Text: "x"}, "j")
	if _, err := c.Wish(ctx, id, "stop it"); err == nil {
		t.Error("an unknown word was put")
	}
	a, err := c.Wish(ctx, id, record.WishRunning)
	b, err2 := c.Wish(ctx, id, record.WishCancelled)
	if err != nil || err2 != nil || b <= a {
		t.Error(a, err, b, err2)
	}
	spec, _ := e.Store.Get(ctx, tree.Job(id))
	e.Put(t, tree.JobStatus(id), status(spec.CreateRev-1, state.JobFinished)) // of an earlier life
	if _, err := c.Wish(ctx, id, record.WishCancelled); err != nil {
		t.Error(err)
	}
	if j, err := c.Get(ctx, id); err != nil || j.Status != nil {
		t.Errorf("the status of an earlier life is shown: %+v, %v", j.Status, err)
	}
	e.Put(t, tree.JobStatus(id), status(spec.CreateRev, state.JobFinished))
	if _, err := c.Wish(ctx, id, record.WishCancelled); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
}

func TestWatch(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	if err := c.Watch(ctx, "nobody", func(Update) error { return nil }); !errors.Is(err, ErrNoJob) {
		t.Error(err)
	}
	id, _ := c.Submit(ctx, record.Spec{Text: "x"}, "j-1")
	_, _ = c.Submit(ctx, record.Spec{Text: "x"}, "j-10") // whose keys begin alike
	spec, _ := e.Store.Get(ctx, tree.Job(id))
	e.Put(t, tree.JobStatus(id), status(spec.CreateRev-1, state.JobFinished)) // of an earlier life
	var seen []string
	step := 0
	err := c.Watch(ctx, id, func(u Update) error {
		phase := "-"
		if u.Status != nil {
			phase = string(u.Status.Phase)
		}
		seen = append(seen, fmt.Sprintf("%s/%d", phase, len(u.Words)))
		step++
		switch step {
		case 1:
			e.Put(t, tree.JobStatus("j-10"), status(1, state.JobFailed))
			e.Put(t, tree.Pipeline("j-10", 1), "{}")
			e.Put(t, tree.JobStatus(id), status(spec.CreateRev, state.JobRunning))
		case 2:
			e.Compact(t)
			e.Put(t, tree.Pipeline(id, 1), string(record.MustEncode(&record.Word{Header: record.Head, Attempt: 1})))
		case 3:
			e.Put(t, tree.JobStatus(id), status(spec.CreateRev, state.JobFinished))
		}
		return nil
	})
	if got := strings.Join(seen, " "); err != nil || got != "-/0 RUNNING/0 RUNNING/1 FINISHED/1" {
		t.Error(got, err)
	}
	boom := errors.New("boom")
	if err := c.Watch(ctx, id, func(Update) error { return boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	if err := c.Watch(ctx, id, func(Update) error { return ErrStop }); err != nil {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := c.Watch(short, "j-10", func(u Update) error { return nil }); err == nil || ctx.Err() != nil {
		t.Error(err)
	}
}

func TestDescribe(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	id, _ := c.Submit(ctx, record.Spec{Text: "x"}, "j")
	put := func(key string, v any) { e.Put(t, key, string(record.MustEncode(v))) }
	put(tree.Pipeline(id, 1), &record.Word{Header: record.Head, Attempt: 3, Holders: []record.Holder{{Worker: "w0", Incarnation: 1}}})
	put(tree.Placement(id, 1), &record.Placement{Header: record.Head, Attempt: 3, Workers: map[string]record.PlacedWorker{"w1": {Incarnation: 5}}})
	put(tree.TaskStatus("w1", id, 1), &record.TaskStatus{Header: record.Head, Attempt: 3, State: state.TaskRunning})
	put(tree.TaskStatus("w0", id, 1), &record.TaskStatus{Header: record.Head, Attempt: 2, State: state.TaskCancelled})
	put(tree.TaskStatus("w1", "other", 1), &record.TaskStatus{Header: record.Head, Attempt: 9})
	put(tree.Ack(id, 1, "w1"), &record.Ack{Header: record.Head, Checkpoint: 4})
	put(tree.Checkpoint(id, 1, 4), &record.Checkpoint{Header: record.Head, Prepared: 2})
	put(tree.Slot("w1", 2), &record.Grant{Header: record.Head, Job: id, Pipeline: 1, Groups: []string{"1/0/0", "1/1/0"}})
	put(tree.Slot("w1", 3), &record.Grant{Header: record.Head, Job: "other", Pipeline: 1, Groups: []string{"1/0/0"}})
	put(tree.History(id), &record.History{Header: record.Head, Phase: state.JobFinished})
	e.Put(t, tree.Pipeline(id, 2), "{broken")
	d, err := c.Describe(ctx, id)
	if err != nil || len(d.Pipelines) != 2 || d.History == nil || d.Revision == 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	p := d.Pipelines[0]
	if p.Word.Attempt != 3 || p.Placement.Workers["w1"].Incarnation != 5 || len(p.Tasks) != 2 || p.Tasks["w1"].State != state.TaskRunning || p.Acks["w1"].Checkpoint != 4 || p.Checkpoints[4].Prepared != 2 || len(p.Grants) != 1 {
		t.Errorf("%+v", p)
	}
	if p.Slot("w1", plan.TaskGroup{Pipeline: 1, Chain: 1, Index: 0}) != 2 || p.Slot("w1", plan.TaskGroup{Pipeline: 1, Chain: 1, Index: 7}) != -1 {
		t.Error("slots")
	}
	if _, err := c.Describe(ctx, "nobody"); !errors.Is(err, ErrNoJob) {
		t.Error(err)
	}
}

func TestWorkersAndLeader(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	if _, err := c.Leader(ctx); !errors.Is(err, ErrNoLeader) {
		t.Error(err)
	}
	e.Put(t, tree.Leader()+"b", string(record.MustEncode(&record.Leader{Header: record.Head, Name: "first"})))
	e.Put(t, tree.Leader()+"a", string(record.MustEncode(&record.Leader{Header: record.Head, Name: "second"})))
	if l, err := c.Leader(ctx); err != nil || l.Name != "first" {
		t.Error(l, err)
	}
	e.Put(t, tree.Worker("w1"), string(record.MustEncode(&record.Worker{Header: record.Head, Slots: 4})))
	w, _ := e.Store.Get(ctx, tree.Worker("w1"))
	e.Put(t, tree.Slot("w1", 0), string(record.MustEncode(&record.Grant{Header: record.Head, Incarnation: w.CreateRev})))
	e.Put(t, tree.Slot("w1", 1), string(record.MustEncode(&record.Grant{Header: record.Head, Incarnation: 1}))) // of an earlier life
	e.Put(t, tree.WorkerWish("w1"), "drain\n")
	ws, err := c.Workers(ctx)
	if err != nil || len(ws) != 1 || ws[0].Used != 1 || ws[0].Incarnation != w.CreateRev || ws[0].Worker.Slots != 4 || ws[0].Wish != "drain" {
		t.Errorf("%+v, %v", ws, err)
	}
}

// A leader writes the control word and the status in one transaction; they come through two mirrors with the same
// revision, in either order. Neither may be taken for something already told.
func TestWatchSeesBothKeysOfOneRevision(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	id, _ := c.Submit(ctx, record.Spec{Text: "x"}, "j")
	spec, _ := e.Store.Get(ctx, tree.Job(id))
	for round := range 50 {
		phase := []state.Job{state.JobRunning, state.JobRestarting}[round%2]
		first := true
		err := c.Watch(ctx, id, func(u Update) error {
			w := u.Words[1]
			if first {
				first = false
				key, word := tree.JobStatus(id), tree.Pipeline(id, 1)
				old, _, err := e.Store.Read(ctx, key, word)
				if err != nil {
					return err
				}
				_, err = e.Store.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.At(old[0]), kv.At(old[1])}, Ops: []kv.Op{
					kv.Put(key, []byte(status(spec.CreateRev, phase))),
					kv.Put(word, record.MustEncode(&record.Word{Header: record.Head, Attempt: plan.Attempt(round + 1)}))}})
				return err
			}
			if u.Status != nil && u.Status.Phase == phase && w != nil && w.Attempt == plan.Attempt(round+1) {
				return ErrStop
			}
			return nil
		})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// TestArchived: a job of which only the history is left is listed, found, read, described and waited for like any
// other; another job under its id has nothing of it.
func TestArchived(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	end := time.Now().UTC().Truncate(time.Second)
	h := &record.History{Header: record.Head, Name: "orders", Phase: state.JobFailed, Reason: "PipelineFailed", Message: "it broke", Submitted: end.Add(-time.Minute), Finished: end,
		Failures: []record.Failure{{Pipeline: 1, Attempt: 1, Message: "first"}}, Events: []record.Event{{Reason: record.EventEnded, Message: "FAILED"}}, SpecCreated: 7}
	e.Put(t, tree.History("gone"), string(record.MustEncode(h)))
	e.Put(t, tree.History("gone-newer"), `{"apiVersion":"strait/v9"}`)

	if id, err := c.ResolveID(ctx, "gone"); err != nil || id != "gone" {
		t.Errorf("%s, %v", id, err)
	}
	list, err := c.List(ctx, Filter{})
	if err != nil || len(list) != 2 || list[0].ID != "gone" || list[0].Phase() != "FAILED" || list[0].Name() != "orders" || !list[0].Archived || !list[0].Submitted().Equal(h.Submitted) {
		t.Errorf("%+v, %v", list, err)
	}
	if j := list[1]; j.Phase() != Unreadable || !strings.Contains(j.Problem, "newer version") {
		t.Errorf("%+v", j)
	}
	d, err := c.Describe(ctx, "gone")
	if err != nil || !d.Archived || d.Status.Message != "it broke" || len(d.Status.Failures) != 1 || len(d.Status.Events) != 1 || d.History == nil || !d.Status.Finished.Equal(end) {
		t.Errorf("%+v, %v", d, err)
	}
	var seen []Update
	if err := c.Watch(ctx, "gone", func(u Update) error { seen = append(seen, u); return nil }); err != nil || len(seen) != 1 || !seen[0].Ended() || seen[0].Status.Phase != state.JobFailed {
		t.Errorf("%+v, %v", seen, err)
	}
	if _, err := c.Wish(ctx, "gone", record.WishCancelled); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}

	// The id is used again.
	if _, err := c.Submit(ctx, record.Spec{Text: "x"}, "gone"); err != nil {
		t.Fatal(err)
	}
	d, err = c.Describe(ctx, "gone")
	if err != nil || d.Archived || d.Status != nil || d.History != nil || d.Phase() != "SUBMITTED" {
		t.Errorf("%+v, %v", d, err)
	}
	if list, err := c.List(ctx, Filter{}); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestWatchRetired: whoever watches while the keys of an ended job go sees its end, and what is gone altogether is an
// error, not a wait for ever.
func TestWatchRetired(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	id, err := c.Submit(ctx, record.Spec{}, "j")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := e.Store.Get(ctx, tree.Job(id))
	if err != nil {
		t.Fatal(err)
	}
	h := string(record.MustEncode(&record.History{Header: record.Head, Phase: state.JobFinished, SpecCreated: spec.CreateRev}))
	seen := 0
	err = c.Watch(ctx, id, func(u Update) error {
		if seen++; seen == 1 {
			_, err := e.Store.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.At(spec)}, Ops: []kv.Op{kv.Put(tree.History(id), []byte(h)), kv.Delete(spec.Key)}})
			return err
		}
		if !u.Ended() {
			t.Errorf("%+v", u)
		}
		return nil
	})
	if err != nil || seen != 2 {
		t.Errorf("%d, %v", seen, err)
	}
	if _, err = c.Submit(ctx, record.Spec{}, "k"); err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(ctx, "k", func(Update) error { e.Delete(t, tree.Job("k")); return nil }); !errors.Is(err, ErrNoJob) {
		t.Error(err)
	}
	if _, err = c.Submit(ctx, record.Spec{}, "l"); err != nil {
		t.Fatal(err)
	}
	e.Put(t, tree.JobStatus("l"), `{"apiVersion":"strait/v9"}`)
	if err := c.Watch(ctx, "l", func(Update) error { return nil }); !errors.Is(err, record.ErrNewer) {
		t.Error(err)
	}
	if j, err := c.Get(ctx, "l"); err != nil || j.Phase() != Unreadable || !strings.Contains(j.Problem, "jobstatus/l cannot be read") {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestSubmitSeals: nothing of a secret reaches the store, whatever way it came in.
func TestSubmitSeals(t *testing.T) {
	e, c := start(t)
	ctx := kvtest.Context(t)
	key, err := secret.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ring := secret.NewKeyring(key)
	var warned []string
	c = c.WithSecrets(Secrets{Keys: ring, Warn: func(m *fault.Mistake) { warned = append(warned, m.Error()) }})
	spec := record.Spec{File: "j.conf", Variables: map[string]string{"pw": "hunter2x", "host": "h", "unused": "hunter2y"}, Environment: map[string]string{"TOKEN": "hunter2z"},
		Text: "# password = hunter2w\nsource { S { url = \"x://u:${pw}@${host}/\", o = ${host} } }\nsink { S { p { token = ${TOKEN}, password = hunter2v } } }"}
	id, err := c.Submit(ctx, spec, "")
	if err != nil || len(warned) > 0 {
		t.Fatal(err, warned)
	}
	all, _, err := e.Store.List(ctx, tree.Prefix(), 0)
	if err != nil || len(all) != 1 || strings.Contains(string(all[0].Value), "hunter2") {
		t.Fatalf("%v %s", err, all[0].Value)
	}
	j, err := c.Get(ctx, id)
	if err != nil || len(j.Spec.Variables) != 1 || j.Spec.Variables["host"] != "h" || j.Spec.Environment != nil || j.Spec.PlainSecrets || spec.Variables["pw"] == "" {
		t.Fatalf("%+v %v", j.Spec, err)
	}

	for _, c := range []*Client{New(e.Store, tree), c.WithSecrets(Secrets{})} {
		if _, err := c.Submit(ctx, spec, ""); !errors.Is(err, seal.ErrPlain) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "j.conf:3: sink[0] (S): p.password") {
			t.Error(err)
		}
	}
	if _, err := New(e.Store, tree).Submit(ctx, record.Spec{Text: "no job"}, ""); err == nil {
		t.Error("a text that cannot be read was stored")
	}
	if id, err = c.WithSecrets(Secrets{AllowPlain: true}).Submit(ctx, spec, ""); err != nil {
		t.Fatal(err)
	}
	if j, err = c.Get(ctx, id); err != nil || j.Spec.Text != spec.Text || !j.Spec.PlainSecrets {
		t.Errorf("%+v %v", j.Spec, err)
	}
}
