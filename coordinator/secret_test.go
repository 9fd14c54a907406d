package coordinator

import (
	"crypto/rand"
	"strings"
	"testing"

	"strait/coordinator/job"
	"strait/kv/kvtest"
	"strait/kv/record"
	"strait/plan/secret"
	"strait/plan/state"
)

// TestSecretsPutByHand: the leader copies no secret out of a spec that somebody wrote into the store in clear.
func TestSecretsPutByHand(t *testing.T) {
	key, err := secret.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const text = "source { In { } }\nsink { Out {\n password = \"hunter2\" } }\n"
	for _, c := range []struct {
		name    string
		keys    *secret.Keyring
		allowed bool
		sealed  bool // in the plan
	}{{"refused", nil, false, false}, {"sealed", secret.NewKeyring(key), false, true}, {"allowed", nil, true, false}} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, func(cfg *Config) { cfg.Keys = c.keys })
			startWorker(t, f.store, "w1", 4, f.target)
			f.etcd.Put(t, tree.Job("by-hand"), string(record.MustEncode(&record.Spec{Header: record.Head, File: "j.conf", Text: text, PlainSecrets: c.allowed})))
			if !c.allowed && !c.sealed {
				st := f.end("by-hand", state.JobFailed)
				if st.Reason != job.BadJob || !strings.Contains(st.Message, "j.conf:3: sink[0] (Out): password: a secret in plain text") || strings.Contains(st.Message, "hunter2") {
					t.Errorf("%+v", st)
				}
				return
			}
			st := f.end("by-hand", state.JobFinished)
			told := ""
			for _, e := range st.Events {
				if e.Reason == record.EventPlanWarning {
					told += e.Message
				}
			}
			if !strings.Contains(told, "secrets in clear (j.conf:3)") || strings.Contains(told, "hunter2") || strings.Contains(told, "sealed;") != c.sealed {
				t.Errorf("%q", told)
			}
			data, err := f.cl.Plan(kvtest.Context(t), "by-hand")
			if err != nil || data == nil {
				t.Fatal(err)
			}
			if plain := strings.Contains(string(data), "hunter2"); plain == c.sealed {
				t.Errorf("the plan has it in clear: %v", plain)
			}
		})
	}
}
