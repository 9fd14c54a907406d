package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strait/integration/harness"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan/state"
)

// settingsFile writes a settings file of a test's fleet.
func settingsFile(t *testing.T, format string, args ...any) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "strait.conf")
	if err := os.WriteFile(name, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// leads is the name of the leading coordinator; "": there is none.
func (c *chaos) leads() string {
	c.t.Helper()
	key, rev := c.leader()
	if rev == 0 {
		return ""
	}
	l, err := record.Decode[record.Leader]([]byte(c.Keys(key)[key]))
	if err != nil {
		return "" // it has gone in between
	}
	return l.Name
}

// through submits a job that is small and ends, through one endpoint.
func (c *chaos) through(id, endpoint string) {
	c.t.Helper()
	job := writeJob(c.t, c.t.TempDir(), "env { job.mode = BATCH }\nsource { FakeSource { row.num = 3, schema { fields { id = bigint } } } }\nsink { Blackhole { } }\n")
	args := []string{"--etcd-endpoints", endpoint, "job", "submit", "--id", id, job}
	if s := c.Options().Settings; s != "" {
		args = append([]string{"--settings", s}, args...)
	}
	if r := harness.Run(c.t, c.Dir, limit, args...); r.Code != 0 {
		c.t.Fatalf("%s through %s: exit %d\n%s\n%s", id, endpoint, r.Code, r.Stderr, c.Logs())
	}
}

// TestThreeCoordinators: three coordinators carry one etcd. The leading one, with its member, is killed in the middle
// of a job; the job goes on in its first attempt; the killed one comes back.
func TestThreeCoordinators(t *testing.T) {
	f := func(name string, opt harness.Options) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opt.Members, opt.Workers, opt.Slots = 3, 2, 2
			opt.Env = []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}
			opt.Worker = []string{"--ttl", "10s", "--call-limit", "2s"}
			c := startMembers(t, opt)
			c.submit()
			c.reached()
			victim := c.leads()
			c.Kill(victim)
			c.Await("another coordinator leads", limit, func() bool { now := c.leads(); return now != "" && now != victim })
			c.free()
			c.whole()
			c.first()
			for _, m := range []string{"c1", "c2", "c3"} {
				if m != victim {
					c.through("through-"+m, c.Endpoint(m))
				}
			}
			c.StartMember(victim)
			c.AwaitReady(victim)
			c.through("through-"+victim, c.Endpoint(victim))
			// It is a member again: with another one killed there is still a quorum.
			for _, m := range []string{"c1", "c2", "c3"} {
				if m != victim {
					c.Kill(m)
					break
				}
			}
			c.through("with-the-one-that-came-back", c.Etcd)
		})
	}
	f("plain", harness.Options{})
	certs := kvtest.NewCerts(t)
	files := fmt.Sprintf("{ ca = %q, cert = %q, key = %q }", certs.CA, certs.Cert, certs.Key)
	f("TLS", harness.Options{TLS: certs.TLS(t), Settings: settingsFile(t, "etcd { tls %s, server.tls %s, peer.tls %s }\nworker.data.tls %s\n", files, files, files, files)})
}

// startMembers starts a fleet whose leases fit a cluster.
func startMembers(t *testing.T, opt harness.Options) *chaos {
	t.Helper()
	held := filepath.Join(t.TempDir(), "held")
	for i, e := range opt.Env {
		opt.Env[i] = strings.ReplaceAll(e, "HELD", held)
	}
	f := harness.Start(t, opt)
	return &chaos{Fleet: f, t: t, held: held, rows: chaosRows, out: filepath.Join(f.Dir, "out"), tmp: filepath.Join(f.Dir, "tmp")}
}

// TestExternalEtcd: coordinators at an etcd of their own stand in for one another.
func TestExternalEtcd(t *testing.T) {
	c := startChaos(t, harness.Options{Workers: 2, Slots: 2, Etcd: kvtest.New(t).Server.Endpoints()[0], Env: []string{"STRAIT_FAILPOINTS=task.prepare=hold/HELD"}})
	c.StartStandby("c2")
	c.StartStandby("c3")
	c.AwaitReady("c2")
	c.AwaitReady("c3")
	c.submit()
	c.reached()
	victim := c.leads()
	c.Kill(victim)
	c.Await("another coordinator leads", limit, func() bool { now := c.leads(); return now != "" && now != victim })
	c.free()
	c.whole()
	c.first()
	c.RestartCoordinator()
	c.through("after", c.Etcd)
	if s := c.status("after"); s.Phase != state.JobFinished {
		t.Errorf("%s: %s", s.Phase, s.Message)
	}
}
