package memory

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// Bound is how much memory something may use, and who says so.
type Bound struct {
	Bytes int64 // 0: nobody says
	From  string
}

func (b *Bound) atMost(bytes int64, from string) {
	if bytes > 0 && (b.Bytes == 0 || bytes < b.Bytes) {
		b.Bytes, b.From = bytes, from
	}
}

// Host is what this process may use: the least of the host's memory, the limits of its cgroup and of those above it
// (version 2 and 1), and GOMEMLIMIT. root is the file system, os.DirFS("/").
func Host(root fs.FS) Bound {
	var b Bound
	b.atMost(total(root), "the memory of this host")
	for _, f := range groups(root) {
		b.atMost(number(root, f), "/"+f)
	}
	if n := debug.SetMemoryLimit(-1); limitGiven() && n != math.MaxInt64 {
		b.atMost(n, "GOMEMLIMIT")
	}
	return b
}

// limitGiven says that the environment has set the limit of the Go heap, or set it off.
func limitGiven() bool { return os.Getenv("GOMEMLIMIT") != "" }

func total(root fs.FS) int64 {
	proc, err := fs.Sub(root, "proc")
	if err != nil {
		return 0
	}
	n, _, err := Info(proc)
	if err != nil {
		return 0
	}
	return n
}

// Info reads the memory of the host in bytes, MemTotal and MemAvailable of meminfo; proc is /proc.
func Info(proc fs.FS) (total, available int64, err error) {
	data, err := fs.ReadFile(proc, "meminfo")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		var to *int64
		switch name {
		case "MemTotal":
			to = &total
		case "MemAvailable":
			to = &available
		default:
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("meminfo: %s: %w", name, err)
		}
		*to = kb << 10
	}
	if total <= 0 {
		return 0, 0, errors.New("meminfo has no MemTotal")
	}
	return total, available, nil
}

// groups lists the files that may limit this process: of its own cgroup and of every one above. In a container the
// file of the root is often the only one there is.
func groups(root fs.FS) []string {
	data, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var out []string
	for s := bufio.NewScanner(strings.NewReader(string(data))); s.Scan(); {
		parts := strings.SplitN(s.Text(), ":", 3) // number:controllers:path
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			out = append(out, upwards("sys/fs/cgroup", parts[2], "memory.max")...)
			out = append(out, upwards("sys/fs/cgroup/unified", parts[2], "memory.max")...)
		case hasController(parts[1], "memory"):
			out = append(out, upwards("sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes")...)
		}
	}
	return out
}

func hasController(list, name string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == name {
			return true
		}
	}
	return false
}

func upwards(mount, group, file string) []string {
	var out []string
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		out = append(out, path.Join(mount, at, file))
		if at == "/" {
			return out
		}
	}
}

// number reads a limit; 0 where there is none: no file, "max", or the huge number of version 1.
func number(root fs.FS, name string) int64 {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || n >= 1<<60 {
		return 0
	}
	return n
}

// Default is the budget of a worker that is given none: half of what the process may use. The other half is for copies
// on the way, garbage, and the process itself.
func Default(host Bound) int64 {
	if host.Bytes == 0 {
		return 1 << 30
	}
	return host.Bytes / 2
}

// ProcessLimit is the soft limit of the Go heap that suits a budget: the collector works harder before the process uses
// twice its budget, or nine tenths of what the host allows.
func ProcessLimit(budget int64, host Bound) int64 {
	n := 2*budget + 256<<20
	if host.Bytes > 0 {
		n = min(n, host.Bytes/10*9)
	}
	return n
}

// LimitHeap sets the soft limit of the Go heap, unless the environment has set one (GOMEMLIMIT).
func LimitHeap(budget int64, host Bound) {
	if !limitGiven() {
		debug.SetMemoryLimit(ProcessLimit(budget, host))
	}
}
