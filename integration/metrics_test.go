package integration

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"strait/integration/harness"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	series    = regexp.MustCompile(`^(strait_[a-z_]+)(\{[^}]*\})? \S+$`)
	labelName = regexp.MustCompile(`([a-z]+)="`)
)

// names adds the names of Strait's series to all, each with the names of its labels.
func names(all map[string]bool, metrics string) {
	for line := range strings.Lines(metrics) {
		m := series.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		var labels []string
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		all[m[1]+"{"+strings.Join(labels, ",")+"}"] = true
	}
}

// TestMetricNames: dashboards and alerts of others hang on the names and labels of the metrics of a coordinator and of
// workers with a job between them. testdata/metrics.txt has all of them; -update writes it anew. No series of a job is
// left once it has ended.
func TestMetricNames(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 2, Slots: 2})
	job := writeJob(t, f.Dir, `
env { job.mode = "BATCH", parallelism = 3, read_limit.rows_per_second = 5 }
source { FakeSource { row.num = 100000, schema { fields { id = bigint } } } }
sink { Console { parallelism = 2, log.print.data = false } }
`)
	if r := f.Stctl("job", "submit", "--id", "named", "--detach", job); r.Code != 0 {
		t.Fatalf("exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	var ops []string
	for _, name := range []string{"c1", "w1", "w2"} {
		ops = append(ops, opsOf(t, f.AwaitReady(name)))
	}
	flows := regexp.MustCompile(`strait_worker_rows_in_total\{job="named",[^}]*vertex="sink\.Console\.0"[^}]*\} [1-9]`)
	links := regexp.MustCompile(`strait_shuffle_link_frames_in_total\{job="named",[^}]*\} [1-9]`)
	f.Await("rows arrive on both workers", limit, func() bool {
		return flows.MatchString(get(t, ops[1], "/metrics")) && flows.MatchString(get(t, ops[2], "/metrics")) && links.MatchString(get(t, ops[1], "/metrics")+get(t, ops[2], "/metrics"))
	})
	all := map[string]bool{}
	for _, o := range ops {
		names(all, get(t, o, "/metrics"))
	}
	var sorted []string
	for n := range all {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	got := strings.Join(sorted, "\n") + "\n"
	golden := filepath.Join("testdata", "metrics.txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the metrics are\n%s\nin %s stand\n%s", got, golden, want)
	}
	if r := f.Stctl("job", "cancel", "named"); r.Code != 0 && r.Code != 3 {
		t.Fatalf("exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	f.Await("no series of the job is left", limit, func() bool {
		for _, o := range ops {
			if strings.Contains(get(t, o, "/metrics"), `job="named"`) {
				return false
			}
		}
		return true
	})
}
