package integration

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"strait/integration/harness"
)

// etcdctl runs the real etcdctl against a fleet and returns what it prints.
func etcdctl(t *testing.T, f *harness.Fleet, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(harness.Root(t), "scripts/etcdctl"), append([]string{"--endpoints", f.Etcd}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("etcdctl %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// TestRecipes runs the README's etcdctl recipes that end by themselves, and its watch.
func TestRecipes(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 1, Slots: 2})

	watch := exec.Command(filepath.Join(harness.Root(t), "scripts/etcdctl"), "--endpoints", f.Etcd, "watch", "--prefix", "/strait/v1/jobstatus/")
	var seen lockedText
	watch.Stdout = &seen
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = watch.Process.Kill()
		_ = watch.Wait()
	}()

	f.Await("a watch sees the job finish", limit, func() bool { // the watch may begin after a first job has ended
		if r := f.Stctl("job", "submit", "-i", "out="+filepath.Join(f.Dir, "out"), ordersJob(t, f.Dir)); r.Code != 0 {
			t.Fatalf("submit: exit %d\n%s", r.Code, r.Stderr)
		}
		return strings.Contains(seen.String(), `"FINISHED"`)
	})
	listed := etcdctl(t, f, "get", "--prefix", "--keys-only", "/strait/v1/")
	for _, want := range []string{"/strait/v1/meta/version", "/strait/v1/workers/w1", "/strait/v1/jobs/", "/strait/v1/history/"} {
		if !strings.Contains(listed, want) {
			t.Errorf("etcdctl get --prefix lists no %s:\n%s", want, listed)
		}
	}
	for key := range f.Keys("/strait/v1/pipelines/") {
		word := etcdctl(t, f, "get", "--print-value-only", key)
		for _, want := range []string{`"attempt":1`, `"phase":"stopped"`, `"outcome":"finished"`, `"completed":1`, `"committed":1`} {
			if !strings.Contains(word, want) {
				t.Errorf("control word %s has no %s: %s", key, want, word)
			}
		}
	}
	for word, want := range map[string]string{"drain": "draining", "active": "active"} {
		etcdctl(t, f, "put", "/strait/v1/workerwishes/w1", word)
		f.Await("w1 is "+want, limit, func() bool { return strings.Contains(f.Stctl("worker", "list").Stdout, want) })
	}
}
