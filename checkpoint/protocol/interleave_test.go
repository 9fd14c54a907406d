package protocol

import (
	"os"
	"strings"
	"testing"
)

func begin(fails, aborts, lates uint8, wish bool) world {
	s := world{fails: fails, aborts: aborts, lates: lates, wish: wish}
	s.w = word{attempt: 1, settled: true}
	return s
}

func TestEveryInterleaving(t *testing.T) {
	for _, c := range []struct {
		name  string
		start world
	}{
		{"no fault", begin(0, 0, 0, false)},
		{"a failure", begin(1, 0, 0, false)},
		{"two failures", begin(2, 0, 0, false)},
		{"aborts", begin(0, 2, 0, false)},
		{"a failure and an abort", begin(1, 1, 0, false)},
		{"a late write", begin(0, 0, 1, false)},
		{"a failure and a late write", begin(1, 0, 1, false)},
		{"a failure, an abort and a late write", begin(1, 1, 1, false)},
		{"cancel", begin(0, 0, 0, true)},
		{"cancel and a failure", begin(1, 0, 0, true)},
		{"cancel and a late write", begin(0, 0, 1, true)},
		{"cancel and an abort", begin(0, 1, 0, true)},
		{"long: two failures and a late write", begin(2, 0, 1, false)},
		{"long: cancel, a failure, an abort and a late write", begin(1, 1, 1, true)},
	} {
		if strings.HasPrefix(c.name, "long: ") && os.Getenv("STRAIT_SIM_FULL") == "" || testing.Short() && strings.Contains(c.name, "late") {
			continue
		}
		bad, n := explore(c.start, "", 3_000_000)
		if bad != "" {
			t.Errorf("%s: %s", c.name, bad)
		}
		t.Logf("%s: %d worlds", c.name, n)
	}
}

// TestBrokenRules: each rule is there for a reason. Without it the same exploration finds what the design says.
func TestBrokenRules(t *testing.T) {
	for _, c := range []struct {
		rule, want string
		start      world
	}{
		{"keep-barrier", "LOST", begin(1, 0, 0, false)},
		{"no-compare", "LOST|ROLLED BACK|TWICE|LEFT OPEN", begin(1, 0, 1, false)},
		{"no-wait", "LEFT OPEN|ROLLED BACK", begin(0, 0, 0, true)},
		{"stop-unsettled", "LEFT OPEN", begin(1, 0, 0, false)},
	} {
		bad, _ := explore(c.start, c.rule, 3_000_000)
		found := false
		for _, w := range strings.Split(c.want, "|") {
			found = found || strings.HasPrefix(bad, w)
		}
		if !found {
			t.Errorf("%s: %q, want %s", c.rule, bad, c.want)
		}
	}
}
