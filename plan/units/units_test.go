package units

import (
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "4096": 4096, "64KiB": 64 << 10, "1.5 GB": 1500000000, "128m": 128 << 20, " 2g ": 2 << 30,
		"10b": 10, "1TiB": 1 << 40, "3kb": 3000, "1t": 1 << 40, "7K": 7 << 10} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "x", "-1", "1x", "nan", "inf", "1e30", "9000000t", "k", "1 2"} {
		if got, err := ParseBytes(bad); err == nil {
			t.Errorf("%q is read as %d", bad, got)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 30: "3.0 GiB", 1 << 50: "1024.0 TiB"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	f := func(text string, bare, want time.Duration) {
		t.Helper()
		if got, err := ParseDuration(text, bare); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	f("500", time.Millisecond, 500*time.Millisecond)
	f("3", time.Second, 3*time.Second)
	f("1.5", time.Second, 1500*time.Millisecond)
	f("10s", time.Millisecond, 10*time.Second)
	f("1M 30S", time.Millisecond, 90*time.Second)
	f("0", time.Hour, 0)
	for _, bad := range []string{"", "x", "-1", "-1s", "nan", "inf", "1e300", "5 apples"} {
		if got, err := ParseDuration(bad, time.Second); err == nil {
			t.Errorf("%q is read as %s", bad, got)
		}
	}
}

func TestFormatCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -100: "-100"} {
		if got := FormatCount(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
