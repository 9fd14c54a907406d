package integration

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"strait/integration/harness"
	"strait/kv/record"
	"strait/plan/physical"
)

// TestNoSecretGetsOut plants secrets in every way a job can have them, lets a sink that puts all of them into its
// errors and log lines succeed and fail, and looks for them in everything that can be seen from outside.
func TestNoSecretGetsOut(t *testing.T) {
	dir := t.TempDir()
	keys, file := filepath.Join(dir, "keys"), filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte("planted-file-0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := harness.Run(t, dir, limit, "secret", "key", "new", "--file", keys); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	planted := regexp.MustCompile(`planted-[a-z]+-0|` + base64.StdEncoding.EncodeToString([]byte("planted-shade-0")))
	values := []string{"mysql://u:planted-url-0@h/d?token=planted-param-0", "who", "planted-shade-0", "planted-line-0", "planted-variable-0", "planted-client-0", "planted-worker-0",
		"planted-map-0", "planted-file-0", "planted-table-0"}
	job := func(name, tell string) string {
		path := filepath.Join(dir, name+".conf")
		text := fmt.Sprintf(`# password = "planted-comment-0"
env { job.name = %s, job.retry.times = 1, job.retry.interval.seconds = 0, shade.identifier = base64 }
source { FakeSource { row.num = 5, schema { fields { id = int } } } }
sink { Tattle {
  url = "mysql://u:planted-url-0@h/d?token=planted-param-0"
  username = %q
  password = %q
  passwords = ["planted-line-0", ${v}, ${CLIENT}, "${env:WORKER}"]
  properties { db.password = "planted-map-0", ssl.secret = "${file:%s}" }
  tables_configs = [ { table = a, password = "planted-table-0" } ]
  tell = %s
  sha256 = "%x"
} }
`, name, base64.StdEncoding.EncodeToString([]byte("who")), base64.StdEncoding.EncodeToString([]byte(values[2])), file, tell, sha256.Sum256([]byte(strings.Join(values, "\n"))))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flags := []string{"--secret-key-file", keys, "--log-level", "debug"}
	f := harness.Start(t, harness.Options{Workers: 2, Slots: 2, Coordinator: flags, Worker: flags, Env: []string{"WORKER=planted-worker-0"}, Panics: true})
	t.Setenv("CLIENT", "planted-client-0")
	vars := []string{"-i", "v=planted-variable-0"}

	seen := map[string]string{}
	look := func(where, text string) {
		t.Helper()
		if m := planted.FindString(text); m != "" {
			t.Errorf("%s shows %s", where, m)
		}
		seen[where] = text
	}
	said := func(where string, r harness.Result) harness.Result {
		t.Helper()
		look(where+": standard output", r.Stdout)
		look(where+": standard error", r.Stderr)
		return r
	}
	good := job("good", "log")
	if r := said("refused submit", f.Stctl(append([]string{"job", "submit", good}, vars...)...)); r.Code != 1 || !strings.Contains(r.Stderr, "good.conf:5: sink[0] (Tattle): url: a secret in plain text") {
		t.Errorf("without a key: exit %d\n%s", r.Code, r.Stderr)
	}
	said("check", f.Stctl(append([]string{"check", good}, vars...)...))
	said("plan", f.Stctl(append([]string{"plan", "-o", "json", good}, vars...)...))
	if r := said("submit", f.Stctl(append([]string{"job", "submit", "--id", "good", "--secret-key-file", keys, good}, vars...)...)); r.Code != 0 {
		t.Fatalf("submit: exit %d\n%s\n%s", r.Code, r.Stderr, f.Logs())
	}
	for _, tell := range []string{"build", "open", "write", "panic", "prepare"} {
		if r := said(tell, f.Stctl(append([]string{"job", "submit", "--id", tell, "--secret-key-file", keys, job(tell, tell)}, vars...)...)); r.Code != 1 || !strings.Contains(r.Stderr, "‹secret›") {
			t.Errorf("%s: exit %d\n%s", tell, r.Code, r.Stderr)
		}
		for _, cmd := range []string{"status", "describe"} {
			said(cmd+" "+tell, f.Stctl("job", cmd, tell))
			said(cmd+" -o json "+tell, f.Stctl("job", cmd, tell, "-o", "json"))
		}
	}
	if r := said("run", harness.Run(t, dir, limit, append([]string{"run", "--data-dir", filepath.Join(dir, "run"), "--log-level", "debug", job("own", "open")}, vars...)...)); r.Code != 1 {
		t.Errorf("run: exit %d\n%s", r.Code, r.Stderr)
	}

	for key, value := range f.Keys("") {
		look("key "+key, value)
	}
	for _, id := range []string{"good", "write"} {
		ks := f.Keys("/strait/v1/plans/" + id)
		head, err := record.Decode[record.PlanHead]([]byte(ks["/strait/v1/plans/"+id]))
		if err != nil {
			continue // cleaned up meanwhile: the etcd's files are searched below
		}
		var parts [][]byte
		for n := range head.Number {
			parts = append(parts, []byte(ks[fmt.Sprintf("/strait/v1/plans/%s/%06d", id, n)]))
		}
		data, err := record.Unpack(head.Chunks, parts)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := physical.Decode(data); err != nil || len(p.Pipelines) != 1 {
			t.Error(p, err)
		}
		look("plan of "+id, string(data))
	}
	look("logs", f.Logs())
	for _, m := range regexp.MustCompile(`ready:.*?ops (\S+)`).FindAllStringSubmatch(f.Logs(), -1) {
		look("metrics of "+m[1], get(t, m[1], "/metrics"))
		look("counters of "+m[1], get(t, m[1], "/counters/good"))
	}
	// The files of both etcds hold every revision that was written, and checkpoints lie beside them.
	for _, root := range []string{f.Dir, filepath.Join(dir, "run")} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if data, err := os.ReadFile(path); err == nil {
					look(path, string(data))
				}
			}
			return nil
		})
	}
	if len(seen) < 40 || !strings.Contains(seen["logs"], "‹secret›") {
		t.Errorf("only %d places were looked at, or the sink told nothing", len(seen))
	}
}
