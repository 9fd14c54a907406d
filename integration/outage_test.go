package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"strait/integration/harness"
	"strait/kv"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan/state"
)

// TestHealthWithoutEtcd: a role that is cut off from etcd stays healthy, so that nobody restarts it for that, and is not
// ready; when etcd is back, so is it.
func TestHealthWithoutEtcd(t *testing.T) {
	etcd := kvtest.New(t)
	f := harness.Start(t, harness.Options{Etcd: etcd.Server.Endpoints()[0]})
	p := etcd.Proxy(t)
	f.StartStandbyAt(p.Addr(), "c2")
	f.StartWorkerAt(p.Addr(), "w1", "--ttl", "3s", "--call-limit", "1s", "--slots", "1")
	roles := map[string]string{"c2": opsOf(t, f.AwaitReady("c2")), "w1": opsOf(t, f.AwaitReady("w1"))}
	healthy := func() {
		t.Helper()
		for name, addr := range roles {
			if code, body := ask(addr, "/healthz"); code != http.StatusOK {
				t.Errorf("%s: /healthz %d %s", name, code, body)
			}
		}
	}
	await := func(what string, want int) {
		t.Helper()
		for name, addr := range roles {
			f.Await(name+what, limit, func() bool { code, _ := ask(addr, "/readyz"); return code == want })
		}
	}
	for what, cut := range map[string]func(){"silence": p.Blackhole, "reset": p.Cut} {
		await(" is ready", http.StatusOK)
		cut()
		await(" is not ready without etcd: "+what, http.StatusServiceUnavailable)
		healthy()
		if _, body := ask(roles["w1"], "/readyz"); !strings.Contains(body, "etcd") {
			t.Errorf("/readyz of a worker without etcd says %q", body)
		}
		p.Heal()
		await(" is ready again", http.StatusOK)
		healthy()
	}
}

// TestStoreFull: the database of the embedded etcd is at its quota while a job runs. The job goes on; the doctor names
// the alarm; once there is room again the job ends as it should, in its first attempt.
func TestStoreFull(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Coordinator: []string{"--etcd-quota", "4MiB"}, Hands: true,
		Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}})
	c.submit()
	c.reached()
	ctx := kvtest.Context(t)
	ballast := func(i int) string { return fmt.Sprintf("/ballast/%04d", i) }
	n := 0
	for ; ; n++ {
		if n > 2000 {
			t.Fatal("the store is never full")
		}
		_, err := c.Store().Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent(ballast(n))}, Ops: []kv.Op{kv.Put(ballast(n), []byte(strings.Repeat("x", 60<<10)))}})
		if errors.Is(err, kv.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if r := c.Stctl("doctor"); r.Code == 0 || !strings.Contains(r.Stdout, "NOSPACE") {
		t.Errorf("doctor on a full store: exit %d\n%s", r.Code, r.Stdout)
	}
	if r := c.Stctl("job", "submit", "-d", writeJob(t, t.TempDir(), endless)); r.Code == 0 || !strings.Contains(r.Stderr, "etcd.quota") {
		t.Errorf("a submit to a full store: exit %d\n%s", r.Code, r.Stderr)
	}
	c.free() // the final checkpoint begins: its acks are refused
	for i := range n {
		e, err := c.Store().Get(ctx, ballast(i))
		if err == nil {
			_, err = c.Store().Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.At(e)}, Ops: []kv.Op{kv.Delete(e.Key)}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.whole()
	c.first()
	f := func(key string) *record.JobStatus {
		s, err := record.Decode[record.JobStatus]([]byte(c.Keys(key)[key]))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := f(tree + "jobstatus/chaos"); s.Phase != state.JobFinished {
		t.Errorf("%s: %s", s.Phase, s.Message)
	}
}
