package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestHostLoad(t *testing.T) {
	h := &hostLoad{proc: t.TempDir()}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(h.proc, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Unix(1000, 0)
	f := func(after time.Duration, cpu, memory float64) {
		t.Helper()
		now = now.Add(after)
		c, m, err := h.look(now)
		if err != nil || c != cpu || m != memory {
			t.Errorf("%v, %v, %v, want %v, %v", c, m, err, cpu, memory)
		}
	}
	if _, _, err := h.look(now); err == nil {
		t.Error("nothing is told")
	}
	write("stat", "cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1 2 3\n")
	write("meminfo", "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    250 kB\n")
	f(0, 0.2, 0.75)
	write("stat", "cpu  100 0 10 80 10 0 0 0 0 0\n")
	f(time.Millisecond, 0.2, 0.75) // too soon
	f(time.Second, 0.9, 0.75)
	f(time.Second, 0.9, 0.75) // no tick since
	for _, bad := range []string{"", "cpu 1 2\n", "cpu a b c d e f\n"} {
		write("stat", bad)
		if _, _, err := h.look(now); err == nil {
			t.Errorf("%q", bad)
		}
	}
	write("stat", "cpu  100 0 10 80 10 0 0 0 0 0\n")
	for _, bad := range []string{"", "MemTotal: x kB\n"} {
		write("meminfo", bad)
		if _, _, err := h.look(now); err == nil {
			t.Errorf("%q", bad)
		}
	}
	if _, err := os.Stat("/proc/stat"); err == nil {
		real := &hostLoad{proc: "/proc"}
		if c, m, err := real.look(now); err != nil || c < 0 || c > 1 || m <= 0 || m > 1 {
			t.Error(c, m, err)
		}
	}
}
