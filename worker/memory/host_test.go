package memory

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestHost(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	const meminfo = "MemTotal:        8000000 kB\nMemFree:         100 kB\n"
	f := func(name string, want Bound, files ...string) {
		t.Helper()
		fs := fstest.MapFS{}
		for i := 0; i < len(files); i += 2 {
			fs[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
		}
		if got := Host(fs); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	host := Bound{8000000 << 10, "the memory of this host"}
	f("nothing is known", Bound{})
	f("no cgroup", host, "proc/meminfo", meminfo)
	f("version 2", Bound{1 << 30, "/sys/fs/cgroup/system.slice/strait.service/memory.max"}, "proc/meminfo", meminfo,
		"proc/self/cgroup", "0::/system.slice/strait.service\n", "sys/fs/cgroup/system.slice/strait.service/memory.max", "1073741824\n",
		"sys/fs/cgroup/system.slice/memory.max", "max\n")
	f("the group above is smaller", Bound{1 << 29, "/sys/fs/cgroup/a/memory.max"}, "proc/meminfo", meminfo,
		"proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max", "1073741824\n", "sys/fs/cgroup/a/memory.max", "536870912\n")
	f("a container with a namespace", Bound{96 << 20, "/sys/fs/cgroup/memory.max"}, "proc/meminfo", meminfo,
		"proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "100663296\n")
	f("a container without one", Bound{96 << 20, "/sys/fs/cgroup/memory.max"}, "proc/meminfo", meminfo,
		"proc/self/cgroup", "0::/docker/1234\n", "sys/fs/cgroup/memory.max", "100663296\n")
	f("version 1", Bound{2 << 30, "/sys/fs/cgroup/memory/docker/1234/memory.limit_in_bytes"}, "proc/meminfo", meminfo,
		"proc/self/cgroup", "12:cpu,cpuacct:/docker/1234\n5:memory:/docker/1234\n", "sys/fs/cgroup/memory/docker/1234/memory.limit_in_bytes", "2147483648\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
	f("version 1 without a limit", host, "proc/meminfo", meminfo,
		"proc/self/cgroup", "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
	f("more than there is", host, "proc/meminfo", meminfo, "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "99999999999999\n")
	f("spoiled", host, "proc/meminfo", meminfo, "proc/self/cgroup", "rubbish\n0::\n::::\n", "sys/fs/cgroup/memory.max", "much\n")
}

// TestProcessLimit: GOMEMLIMIT counts as a bound of the host and is never overwritten; without it the worker sets one.
func TestProcessLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	debug.SetMemoryLimit(512 << 20)
	t.Setenv("GOMEMLIMIT", "512MiB")
	if got := Host(fstest.MapFS{}); got != (Bound{512 << 20, "GOMEMLIMIT"}) {
		t.Errorf("%+v", got)
	}
	LimitHeap(1<<20, Bound{})
	if got := debug.SetMemoryLimit(-1); got != 512<<20 {
		t.Errorf("the limit that was given is now %d", got)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	t.Setenv("GOMEMLIMIT", "")
	LimitHeap(96<<20, Bound{Bytes: 8 << 30})
	if got := debug.SetMemoryLimit(-1); got != 448<<20 {
		t.Errorf("96 MiB of a large host: %d", got)
	}
	LimitHeap(512<<20, Bound{Bytes: 1 << 30})
	if got := debug.SetMemoryLimit(-1); got != (1<<30)/10*9 {
		t.Errorf("half of the host: %d", got)
	}
	if n := Default(Bound{}); n != 1<<30 {
		t.Error(n)
	}
	if n := Default(Bound{Bytes: 8 << 30}); n != 4<<30 {
		t.Error(n)
	}
}
