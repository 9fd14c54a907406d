//go:build failpoint

package failpoint

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "failpoint-")
	if err != nil {
		panic(err)
	}
	os.Setenv("STRAIT_FAILPOINTS", "a=error; b=error@2;c=error@1"+filepath.Join(dir, "once"))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func TestInject(t *testing.T) {
	fails := func(name string, want ...bool) {
		t.Helper()
		for i, w := range want {
			if got := Inject(name) != nil; got != w {
				t.Errorf("%s reached %d times: error %v, want %v", name, i+1, got, w)
			}
		}
	}
	fails("a", true, true)
	fails("b", false, true, false)
	fails("c", true, false)
	fails("unnamed", false)
}
