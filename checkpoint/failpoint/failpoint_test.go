//go:build failpoint

package failpoint

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

var held string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "failpoint-")
	if err != nil {
		panic(err)
	}
	os.Setenv("STRAIT_FAILPOINTS", "a=error; b=error@2;c=error@1"+filepath.Join(dir, "once")+";d=hold"+filepath.Join(dir, "held"))
	held = filepath.Join(dir, "held")
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

func TestHold(t *testing.T) {
	done := make(chan error)
	go func() { done <- Inject("d") }()
	for _, err := os.Stat(held); err != nil; _, err = os.Stat(held) {
		select {
		case <-done:
			t.Fatal("not held")
		case <-time.After(time.Millisecond):
		}
	}
	if err := Inject("d"); err != nil { // taken
		t.Error(err)
	}
	if err := os.WriteFile(held, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
