package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var sizes = []struct {
	suffix string
	factor float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1}, {"", 1},
}

// ParseBytes reads a size in bytes: 4096, 64KiB, 1.5 GB, 128m (a single letter counts in powers of 1024).
func ParseBytes(s string) (int64, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	for _, u := range sizes {
		if !strings.HasSuffix(t, u.suffix) {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(t, u.suffix)), 64)
		if err != nil || !(n >= 0 && n*u.factor < math.MaxInt64/2) { // NaN is neither
			break
		}
		return int64(n * u.factor), nil
	}
	return 0, fmt.Errorf("%q is not a size; write for example 4096, 64KiB or 128MB", s)
}

// FormatBytes prints a size with one decimal and a binary unit.
func FormatBytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, next
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// ParseDuration reads 10s, 1m30s, 500ms, or a bare number in the unit the option is declared in.
func ParseDuration(s string, bare time.Duration) (time.Duration, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	if n, err := strconv.ParseFloat(t, 64); err == nil && n >= 0 && n*float64(bare) < math.MaxInt64/2 {
		return time.Duration(n * float64(bare)), nil
	}
	if d, err := time.ParseDuration(strings.ReplaceAll(t, " ", "")); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%q is not a duration; write for example 500ms, 10s or 5m", s)
}

// FormatCount prints a count with thousands separated, as summaries do.
func FormatCount(n int64) string {
	s := strconv.FormatInt(n, 10)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	if neg {
		return "-" + b.String()
	}
	return b.String()
}
