package integration

import (
	"os"
	"strings"
	"testing"

	"strait/integration/harness"
)

// TestRollingRestart restarts three workers one after the other, as systemd does (SIGTERM, start), under a job that
// runs. Each hands its part over: the result is exact, nothing counts as a failure or a restart.
func TestRollingRestart(t *testing.T) {
	f := harness.Start(t, killFleet)
	job, out, tmp := killJob(t, f)
	// Slow enough to be there at every restart: each attempt begins anew.
	slow := strings.Replace(mustRead(t, job), "env {", "env { read_limit.rows_per_second = 60000,", 1)
	if err := os.WriteFile(job, []byte(slow), 0o600); err != nil {
		t.Fatal(err)
	}
	sub := f.Command("job", "submit", "--id", "kill", job)
	if err := sub.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const key = "/strait/v1/pipelines/kill/1"
	for _, name := range []string{"w1", "w2", "w3"} {
		f.Await("the job runs", limit, func() bool { return strings.Contains(f.Keys(key)[key], `"phase":"running"`) })
		f.Terminate(name)
		if log := f.Process(name).Stderr(); strings.Contains(log, "not everything was taken over") {
			t.Errorf("%s did not hand over:\n%s", name, log)
		}
		f.StartWorker(name)
		f.AwaitReady(name)
	}
	word := endsWhole(t, f, sub, out, tmp)
	status := f.Keys(killStatus)[killStatus]
	for _, bad := range []string{"restartsUsed", "freeRestart"} {
		if strings.Contains(word, bad) {
			t.Errorf("a rolling restart was counted: %s", word)
		}
	}
	if strings.Contains(status, `"failures"`) || !strings.Contains(status, `"reason":"Moving"`) || strings.Contains(word, `"attempt":1,`) {
		t.Errorf("word %s\nstatus %s", word, status)
	}
}
