package keys

import (
	"flag"
	"os"
	"strings"
	"testing"

	"strait/plan"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// every builds one key of each kind, in the order of design section 4.
func every(t Tree) []struct {
	key  string
	want Parsed
} {
	const job, w = plan.JobID("orders-7"), "w1"
	return []struct {
		key  string
		want Parsed
	}{
		{t.MetaVersion(), Parsed{Kind: KindMeta, Rest: "version"}},
		{t.Leader() + "3f", Parsed{Kind: KindLeader, Rest: "3f"}},
		{t.Worker(w), Parsed{Kind: KindWorker, Worker: w}},
		{t.WorkerWish(w), Parsed{Kind: KindWorkerWish, Worker: w}},
		{t.Wish(job), Parsed{Kind: KindWish, Job: job}},
		{t.Job(job), Parsed{Kind: KindJob, Job: job}},
		{t.JobStatus(job), Parsed{Kind: KindJobStatus, Job: job}},
		{t.Plan(job), Parsed{Kind: KindPlan, Job: job, Number: -1}},
		{t.PlanChunk(job, 3), Parsed{Kind: KindPlan, Job: job, Number: 3}},
		{t.JobTextChunk(job, 0), Parsed{Kind: KindJobText, Job: job}},
		{t.Pipeline(job, 12), Parsed{Kind: KindPipeline, Job: job, Pipeline: 12}},
		{t.Placement(job, 1), Parsed{Kind: KindPlacement, Job: job, Pipeline: 1}},
		{t.Fenced(w, 4711), Parsed{Kind: KindFenced, Worker: w, Number: 4711}},
		{t.Slot(w, 2), Parsed{Kind: KindSlot, Worker: w, Number: 2}},
		{t.Task(w, job, 1), Parsed{Kind: KindTask, Worker: w, Job: job, Pipeline: 1}},
		{t.TaskStatus(w, job, 1), Parsed{Kind: KindTaskStatus, Worker: w, Job: job, Pipeline: 1}},
		{t.Ack(job, 1, w), Parsed{Kind: KindAck, Worker: w, Job: job, Pipeline: 1}},
		{t.Checkpoint(job, 1, 42), Parsed{Kind: KindCheckpoint, Job: job, Pipeline: 1, Number: 42}},
		{t.History(job), Parsed{Kind: KindHistory, Job: job}},
	}
}

// TestGolden: the tree is a public interface. A change of the golden file is a decision to explain in its commit.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, x := range every(New("")) {
		b.WriteString(x.key + "\n")
	}
	const file = "testdata/v1/tree.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the key tree changed:\n%s\nwant\n%s", b.String(), want)
	}
}

func TestParseIsTheInverse(t *testing.T) {
	for _, prefix := range []string{"", "/a/b", "x/"} {
		tree := New(prefix)
		for _, x := range every(tree) {
			if got, ok := tree.Parse(x.key); !ok || got != x.want {
				t.Errorf("%s: %+v, %v; want %+v", x.key, got, ok, x.want)
			}
			if _, ok := New("/other/").Parse(x.key); ok {
				t.Errorf("%s was taken for a key of another tree", x.key)
			}
		}
	}
}

func TestForeignKeysAreSkipped(t *testing.T) {
	tree := New("")
	for _, k := range []string{"", "/strait/v1/", "/strait/v1/jobs", "/strait/v1/jobs/", "/strait/v1/jobs/A", "/strait/v1/jobs/a/b",
		"/strait/v1/pipelines/a", "/strait/v1/pipelines/a/-1", "/strait/v1/pipelines/a/x", "/strait/v1/slots/w/1/2",
		"/strait/v1/unknown/a", "/strait/v1/plans/a/-1", "/strait/v2/jobs/a", "/strait/v1/tasks/w/j", "/strait/v1/slots/w/99999999999999999999"} {
		if p, ok := tree.Parse(k); ok {
			t.Errorf("%q was parsed as %+v", k, p)
		}
	}
}

func TestPrefixes(t *testing.T) {
	tree := New("")
	const job = plan.JobID("j")
	for _, x := range []struct{ prefix, key string }{
		{tree.Workers(), tree.Worker("w")}, {tree.Jobs(), tree.Job(job)}, {tree.Wishes(), tree.Wish(job)},
		{tree.JobStatuses(), tree.JobStatus(job)}, {tree.Histories(), tree.History(job)},
		{tree.PlanChunks(job), tree.PlanChunk(job, 1)}, {tree.JobTextChunks(job), tree.JobTextChunk(job, 1)},
		{tree.Pipelines(job), tree.Pipeline(job, 1)}, {tree.Placements(job), tree.Placement(job, 1)},
		{tree.Tasks("w"), tree.Task("w", job, 1)}, {tree.TasksOf("w", job), tree.Task("w", job, 1)},
		{tree.TaskStatuses("w", job), tree.TaskStatus("w", job, 1)},
		{tree.Acks(job, 1), tree.Ack(job, 1, "w")}, {tree.AcksOf(job), tree.Ack(job, 1, "w")},
		{tree.Checkpoints(job), tree.Checkpoint(job, 1, 1)},
		{tree.Slots(), tree.Slot("w", 1)}, {tree.SlotsOf("w"), tree.Slot("w", 1)},
	} {
		if !strings.HasPrefix(x.key, x.prefix) || !strings.HasPrefix(x.prefix, tree.Prefix()) {
			t.Errorf("%s does not begin with %s", x.key, x.prefix)
		}
	}
}

func FuzzParse(f *testing.F) {
	tree := New("")
	for _, x := range every(tree) {
		f.Add(x.key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		p, ok := tree.Parse(key)
		if !ok {
			return
		}
		if p.Number < -1 || p.Number < 0 && p.Kind != KindPlan || p.Pipeline < 0 {
			t.Fatalf("%q: %+v", key, p)
		}
		if p.Job != "" && plan.CheckName("job", string(p.Job)) != nil || p.Worker != "" && plan.CheckName("worker", p.Worker) != nil {
			t.Fatalf("%q: %+v", key, p)
		}
	})
}
