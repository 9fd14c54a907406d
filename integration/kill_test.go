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
const killRows = 1_000_000

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
	span := undisturbed(t)
	t.Logf("an undisturbed job takes %v", span)
	restarted := 0
	for round := range 9 {
		t.Run(fmt.Sprintf("random%d", round), func(t *testing.T) {
			f := harness.Start(t, killFleet)
			job, out, tmp := killJob(t, f)
			sub := f.Command("job", "submit", "--id", "kill", job)
			if err := sub.Cmd.Start(); err != nil {
				t.Fatal(err)
			}
			f.Await("the job is seen", limit, func() bool { return f.Keys(killStatus)[killStatus] != "" })
			after := time.Duration(rnd.Int64N(int64(span)))
			time.Sleep(after) // a moment of the job, not a wait for something
			victim := f.Members[rnd.IntN(len(f.Members))]
			f.Kill(victim)
			t.Logf("%s killed %v after the job was seen", victim, after)
			word := endsWhole(t, f, sub, out, tmp)
			if !strings.Contains(word, `"attempt":1,`) {
				restarted++
			}
		})
	}
	if restarted == 0 {
		t.Error("no kill hit the job while it ran")
	}
	t.Run("between renames", func(t *testing.T) {
		f := harness.Start(t, killFleet)
		f.Terminate("w3") // the point is set in one worker alone
		f.SetEnv("STRAIT_FAILPOINTS=file.rename=kill@2" + filepath.Join(f.Dir, "killed"))
		f.StartWorker("w3")
		f.AwaitReady("w3")
		f.SetEnv()
		job, out, tmp := killJob(t, f)
		sub := f.Command("job", "submit", "--id", "kill", job)
		if err := sub.Cmd.Start(); err != nil {
			t.Fatal(err)
		}
		f.Await("the worker dies in its commit", limit, func() bool { return f.Process("w3").Exited() })
		if word := endsWhole(t, f, sub, out, tmp); !strings.Contains(word, `"scope":"committers"`) {
			t.Errorf("a job killed in its commit must only replay the commit: %s", word)
		}
	})
}

var killFleet = harness.Options{Workers: 3, Slots: 2, Worker: []string{"--ttl", "2s", "--call-limit", "2s"}}

const killStatus = "/strait/v1/jobstatus/kill"

// undisturbed is how long the job takes here from being seen to its end.
func undisturbed(t *testing.T) time.Duration {
	t.Helper()
	f := harness.Start(t, killFleet)
	job, out, tmp := killJob(t, f)
	sub := f.Command("job", "submit", "--id", "kill", job)
	if err := sub.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Await("the job is seen", limit, func() bool { return f.Keys(killStatus)[killStatus] != "" })
	began := time.Now()
	endsWhole(t, f, sub, out, tmp)
	return time.Since(began)
}

// endsWhole waits for the end of the job and checks its output. It returns the control word.
func endsWhole(t *testing.T, f *harness.Fleet, sub *harness.Process, out, tmp string) string {
	t.Helper()
	if r := sub.Wait(t, limit); r.Code != 0 {
		t.Fatalf("exit %d\n%s\n%s", r.Code, r.Stderr, f.Logs())
	}
	wantIDs(t, orderIDs(t, out), 1, killRows)
	if left := leftovers(t, tmp); len(left) > 0 {
		t.Errorf("files of attempts that did not commit are left: %v", left)
	}
	const word = "/strait/v1/pipelines/kill/1"
	return f.Keys(word)[word]
}

// TestScenario28CancelInEveryState cancels a job as it is seen in each state on its way.
func TestScenario28CancelInEveryState(t *testing.T) {
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

// TestScenario28CancelWhileRestarting cancels a job whose worker has just been killed.
func TestScenario28CancelWhileRestarting(t *testing.T) {
	f := harness.Start(t, killFleet)
	job, out, tmp := killJob(t, f)
	if r := f.Stctl("job", "submit", "--detach", "--id", "kill", job); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	f.Await("the job runs", limit, func() bool { return strings.Contains(f.Keys(killStatus)[killStatus], `"RUNNING"`) })
	f.Kill("w2")
	f.Await("the job restarts", limit, func() bool {
		v := f.Keys(killStatus)[killStatus]
		return strings.Contains(v, `"RESTARTING"`) || strings.Contains(v, `"FINISHED"`)
	})
	r := f.Stctl("job", "cancel", "--timeout", "60s", "kill")
	end := f.Keys(killStatus)[killStatus]
	if strings.Contains(end, `"FINISHED"`) {
		wantIDs(t, orderIDs(t, out), 1, killRows)
	} else if r.Code != 0 || !strings.Contains(end, `"CANCELLED"`) || len(orderIDs(t, out)) > 0 {
		t.Fatalf("cancel: exit %d, status %s\n%s\n%s", r.Code, end, r.Stderr, f.Logs())
	}
	if left := leftovers(t, tmp); len(left) > 0 {
		t.Errorf("left by a cancelled job: %v", left)
	}
}

// TestScenario28CancelInTheCommit cancels a job behind its commit point: it finishes.
func TestScenario28CancelInTheCommit(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 0})
	f.SetEnv("STRAIT_FAILPOINTS=file.rename=sleep:2s@2")
	f.StartWorker("w1", "--slots", "3")
	f.AwaitReady("w1")
	job, out, tmp := killJob(t, f)
	if r := f.Stctl("job", "submit", "--detach", "--id", "kill", job); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	f.Await("the commit point is reached", limit, func() bool { return len(f.Keys("/strait/v1/checkpoints/kill/")) > 0 })
	f.Stctl("job", "cancel", "--timeout", "60s", "kill")
	if end := f.Keys(killStatus)[killStatus]; !strings.Contains(end, `"FINISHED"`) {
		t.Errorf("a job cancelled behind its commit point: %s", end)
	}
	wantIDs(t, orderIDs(t, out), 1, killRows)
	if left := leftovers(t, tmp); len(left) > 0 {
		t.Errorf("left: %v", left)
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
