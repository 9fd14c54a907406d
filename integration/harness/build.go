package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var built struct {
	sync.Once
	path string
	err  error
}

// Binary is the path of stctl, built from this checkout. STRAIT_STCTL names one that is already there.
func Binary(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		if p := os.Getenv("STRAIT_STCTL"); p != "" {
			built.path = p
			return
		}
		dir, err := os.MkdirTemp("", "strait-bin-")
		if err != nil {
			built.err = err
			return
		}
		built.path = filepath.Join(dir, "stctl")
		args := []string{"build", "-tags", "failpoint", "-o", built.path}
		if RaceEnabled {
			args = append(args, "-race")
		}
		cmd := exec.Command("go", append(args, "./cmd/stctl")...)
		cmd.Dir = Root(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build stctl: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// Root is the top of the checkout.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}

// Result is a command that has ended.
type Result struct {
	Code   int
	Stdout string
	Stderr string
}

// Run runs stctl in dir and waits for its end, at most limit.
func Run(t testing.TB, dir string, limit time.Duration, args ...string) Result {
	t.Helper()
	p := Command(t, dir, args...)
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p.Wait(t, limit)
}

// Process is a child whose output is kept.
type Process struct {
	Cmd    *exec.Cmd
	out    lockedBuffer
	err    lockedBuffer
	exited chan struct{}
	once   sync.Once
	code   int
	clock  *ahead // of ShiftClock
}

// Command prepares stctl without starting it.
func Command(t testing.TB, dir string, args ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(Binary(t), args...), exited: make(chan struct{})}
	p.Cmd.Dir = dir
	p.Cmd.Stdout, p.Cmd.Stderr = &p.out, &p.err
	p.Cmd.Env = append(os.Environ(), "NO_COLOR=1", "STRAIT_SETTINGS="+os.DevNull) // not what this host has
	return p
}

// reap waits for the child in the background, once.
func (p *Process) reap() {
	p.once.Do(func() {
		go func() {
			err := p.Cmd.Wait()
			var exit *exec.ExitError
			switch {
			case err == nil:
			case errors.As(err, &exit):
				p.code = exit.ExitCode() // -1: ended by a signal
			default:
				p.code = -2
			}
			close(p.exited)
		}()
	})
}

// Wait waits for the end of the child, kills it after limit and then fails the test.
func (p *Process) Wait(t testing.TB, limit time.Duration) Result {
	t.Helper()
	p.reap()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		_ = p.Cmd.Process.Kill()
		<-p.exited
		t.Fatalf("%v still ran after %s\n%s%s", p.Cmd.Args, limit, p.out.String(), p.err.String())
	}
	return Result{p.code, p.out.String(), p.err.String()}
}

// Exited says whether the child has ended.
func (p *Process) Exited() bool {
	p.reap()
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Stdout is what the child has written so far.
func (p *Process) Stdout() string { return p.out.String() }

// Stderr is what the child has logged so far.
func (p *Process) Stderr() string { return p.err.String() }

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
