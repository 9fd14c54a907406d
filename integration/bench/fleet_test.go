package bench

import (
	"strings"
	"testing"

	"strait/integration/harness"
)

// small runs the figures of a fleet at a small size and holds those that are counts, and say so by these endings,
// against what is wanted. Times and sizes are for scripts/bench.
func small(t *testing.T, scale float64, run func() ([]Figure, error), endings ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	stctl = harness.Binary(t)
	was := Scale
	Scale = scale
	defer func() { Scale = was }()
	Alarms = nil
	figures, err := run()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Alarms {
		t.Error(a)
	}
	seen := map[string]bool{}
	for _, f := range figures {
		t.Log(f)
		for _, e := range endings {
			if strings.HasSuffix(f.Name, e) {
				seen[e] = true
				if !f.OK() {
					t.Errorf("%v", f)
				}
			}
		}
	}
	for _, e := range endings {
		if !seen[e] {
			t.Errorf("no figure ends in %q", e)
		}
	}
}

// TestBurst: of jobs submitted at once all finish, and no slot is granted twice at any revision.
func TestBurst(t *testing.T) { small(t, 0.1, burstFigures, "/broken-rules") }

// TestTakeover: the leader is killed, another one goes on; no task group restarts and no row is lost.
func TestTakeover(t *testing.T) {
	small(t, 0.02, takeoverFigures, "/restarted", "/rows-lost", "/broken-rules")
}

// TestIdle: jobs that have nothing to do write nothing.
func TestIdle(t *testing.T) { small(t, 0.1, idleFigures, "/writes") }

// TestRow: jobs that have ended leave neither goroutines, nor file handles, nor keys.
func TestRow(t *testing.T) {
	small(t, 0.05, rowFigures, "-goroutines-growth", "-files-growth", "/keys-growth")
}

// TestPaper: the simulated fleet deploys, and a takeover changes no control word.
func TestPaper(t *testing.T) { small(t, 0.005, paperFigures, "/takeover-words") }

// TestDeploy: a wide job runs and all its rows arrive.
func TestDeploy(t *testing.T) { small(t, 0.05, deployFigures) }

// TestFlat: what grows is told from what only moves.
func TestFlat(t *testing.T) {
	f := func(want bool, v ...float64) {
		t.Helper()
		if got := flat("x", "", v, 1); got.OK() != want {
			t.Errorf("%v: %v", v, got)
		}
	}
	f(true, 5, 5, 5, 5, 5, 5, 5, 5)
	f(true, 1, 9, 50, 100, 101, 99, 102, 98) // warm by now
	f(true, 50, 49, 51, 50, 49, 52, 50, 49)
	f(true, 90, 80, 70, 60, 50, 40, 30, 20)
	f(false, 10, 20, 30, 40, 50, 60, 70, 80)
	f(false, 100, 105, 110, 115, 120, 125, 130, 135)
}
