package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"strait/integration/harness"
)

// killRows is the number of rows of the job under the kill tests.
const killRows = 400_000

// killJob reads rows with unique ids from CSV files that are written here, at parallelism 3, into parquet files.
func killJob(t *testing.T, f *harness.Fleet) (job, out, tmp string) {
	t.Helper()
	in := filepath.Join(f.Dir, "in")
	if err := os.MkdirAll(in, 0o700); err != nil {
		t.Fatal(err)
	}
	const files = 8
	for n := range files {
		var b strings.Builder
		for id := n*killRows/files + 1; id <= (n+1)*killRows/files; id++ {
			fmt.Fprintf(&b, "%d,name-%d,%d.25\n", id, id%977, id%1000)
		}
		if err := os.WriteFile(filepath.Join(in, fmt.Sprintf("part-%d.csv", n)), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, tmp = filepath.Join(f.Dir, "out"), filepath.Join(f.Dir, "tmp")
	text := fmt.Sprintf(`
env { job.mode = "BATCH", parallelism = 3, job.retry.times = 5, job.retry.interval.seconds = 1 }
source { LocalFile { path = %q, file_format_type = "csv", field_delimiter = ","
  schema { fields { id = bigint, name = string, amount = double } } } }
sink { LocalFile { path = %q, tmp_path = %q, file_format_type = "parquet", batch_size = 20000 } }
`, in, out, tmp)
	return writeJob(t, f.Dir, text), out, tmp
}

// TestKilledWorker kills a worker at ten moments of a job: nine at random, one between the first and the last
// rename of the commit. The job finishes; the output has every row once and no file of the first attempt unless
// its commit point was reached.
func TestKilledWorker(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for round := range 10 {
		inCommit := round == 9
		name := fmt.Sprintf("random%d", round)
		if inCommit {
			name = "between renames"
		}
		after := time.Duration(rnd.IntN(1500)) * time.Millisecond
		t.Run(name, func(t *testing.T) { killOnce(t, inCommit, after) })
	}
}

func killOnce(t *testing.T, inCommit bool, after time.Duration) {
	opt := harness.Options{Workers: 3, Slots: 2, Worker: []string{"--ttl", "2s", "--call-limit", "2s"}}
	f := harness.Start(t, opt)
	if inCommit { // the point is set in one worker alone
		f.Terminate("w3")
		once := filepath.Join(f.Dir, "killed")
		f.SetEnv("STRAIT_FAILPOINTS=file.rename=kill@2" + once)
		f.StartWorker("w3")
		f.AwaitReady("w3")
		f.SetEnv()
	}
	job, out, tmp := killJob(t, f)
	sub := f.Command("job", "submit", "--id", "kill", job)
	if err := sub.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := "w3"
	if inCommit {
		f.Await("the worker dies in its commit", limit, func() bool { return f.Process("w3").Exited() })
	} else {
		f.Await("the job is seen", limit, func() bool { return f.Keys("/strait/v1/jobstatus/kill")["/strait/v1/jobstatus/kill"] != "" })
		time.Sleep(after) // a moment of the job, not a wait for something
		killed = f.Members[int(after)%3]
		f.Kill(killed)
	}
	r := sub.Wait(t, limit)
	if r.Code != 0 {
		t.Fatalf("exit %d after %s was killed\n%s\n%s", r.Code, killed, r.Stderr, f.Logs())
	}
	ids := orderIDs(t, out)
	wantIDs(t, ids, 1, killRows)
	if left := leftovers(t, tmp); len(left) > 0 {
		t.Errorf("files of attempts that did not commit are left: %v", left)
	}
	word := f.Keys("/strait/v1/pipelines/")["/strait/v1/pipelines/kill/1"]
	if inCommit && !strings.Contains(word, `"scope":"committers"`) {
		t.Errorf("a job killed in its commit must only replay the commit: %s", word)
	}
}

// TestCancelInEveryState cancels a job as it is seen in each state on its way.
func TestCancelInEveryState(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 1, Slots: 1, Worker: []string{"--ttl", "2s", "--call-limit", "2s"}})
	job, out, tmp := killJob(t, f)
	small := strings.ReplaceAll(mustRead(t, job), "parallelism = 3", "parallelism = 1")
	big := strings.ReplaceAll(small, "parallelism = 1", "parallelism = 9")
	for i, c := range []struct{ name, text, phase string }{
		{"pending", big, "PENDING"}, {"submitted", small, ""}, {"scheduled", small, "SCHEDULED"}, {"running", small, "RUNNING"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprintf("cancel%d", i)
			path := filepath.Join(f.Dir, id+".conf")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if r := f.Stctl("job", "submit", "--detach", "--id", id, path); r.Code != 0 {
				t.Fatal(r.Stderr)
			}
			key := "/strait/v1/jobstatus/" + id
			f.Await("state "+c.phase+" or later", limit, func() bool {
				v := f.Keys(key)[key]
				return c.phase == "" || strings.Contains(v, `"`+c.phase+`"`) || strings.Contains(v, `"RUNNING"`) || strings.Contains(v, `"FINISHED"`)
			})
			r := f.Stctl("job", "cancel", "--timeout", "60s", id)
			end := f.Keys(key)[key]
			finished := strings.Contains(end, `"FINISHED"`) // the commit point came first
			if r.Code != 0 && !finished {
				t.Fatalf("cancel: exit %d\n%s\n%s", r.Code, r.Stderr, f.Logs())
			}
			if !finished && !strings.Contains(end, `"CANCELLED"`) {
				t.Errorf("status after cancel: %s", end)
			}
			if ids := orderIDs(t, out); finished {
				wantIDs(t, ids, 1, killRows)
				_ = os.RemoveAll(out)
			} else if len(ids) > 0 {
				t.Errorf("a cancelled job shows %d rows", len(ids))
			}
			if left := leftovers(t, tmp); len(left) > 0 {
				t.Errorf("left by a cancelled job: %v", left)
			}
			f.Await("slots are given back", limit, func() bool { return len(f.Keys("/strait/v1/slots/")) == 0 })
		})
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
