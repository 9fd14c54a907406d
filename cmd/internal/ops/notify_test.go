package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// supervisor listens at a socket as systemd does.
func supervisor(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return l
}

// heard reads datagrams until one has the line.
func heard(t *testing.T, l *net.UnixConn, line string) string {
	t.Helper()
	if err := l.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		n, err := l.Read(buf)
		if err != nil {
			t.Fatalf("no %s: %v", line, err)
		}
		for _, got := range strings.Split(string(buf[:n]), "\n") {
			if strings.HasPrefix(got, line) {
				return string(buf[:n])
			}
		}
	}
}

func TestNotify(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@strait-test-%d", os.Getpid())} {
		l := supervisor(t, name)
		t.Setenv("WATCHDOG_USEC", "20000")
		n, err := NewNotifier(slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ready, done := make(chan struct{}), make(chan struct{})
		var state atomic.Value
		state.Store("one\ntwo")
		var stuck atomic.Bool
		go func() {
			defer close(done)
			n.Run(ctx, func(ctx context.Context) error {
				select {
				case <-ready:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}, func() string { return state.Load().(string) }, func(ctx context.Context) error {
				if stuck.Load() {
					<-ctx.Done()
					return errors.New("the loop does not answer")
				}
				return nil
			})
		}()
		if err := l.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if k, err := l.Read(make([]byte, 100)); err == nil {
			t.Errorf("%d bytes before the role is ready", k)
		}
		close(ready)
		if got := heard(t, l, "READY=1"); got != "READY=1\nSTATUS=one two" {
			t.Errorf("%q", got)
		}
		heard(t, l, "WATCHDOG=1")
		heard(t, l, "WATCHDOG=1")
		state.Store("three")
		heard(t, l, "STATUS=three")
		stuck.Store(true)
		state.Store("four") // comes behind the last sign of life: a loop that is stuck gives none
		heard(t, l, "STATUS=four")
		if err := l.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		if k, err := l.Read(buf); err == nil {
			t.Errorf("a role whose loop is stuck says %q", buf[:k])
		}
		stuck.Store(false)
		heard(t, l, "WATCHDOG=1")
		cancel()
		heard(t, l, "STOPPING=1")
		<-done
	}
}

func TestNotifyEnvironment(t *testing.T) {
	f := func(socket, usec, pid string, watchdog time.Duration, says string) {
		t.Helper()
		t.Setenv("NOTIFY_SOCKET", socket)
		t.Setenv("WATCHDOG_USEC", usec)
		t.Setenv("WATCHDOG_PID", pid)
		n, err := NewNotifier(nil)
		if says != "" {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%q %q %q: %v", socket, usec, pid, err)
			}
			return
		}
		if err != nil || n.watchdog != watchdog {
			t.Errorf("%q %q %q: %+v, %v", socket, usec, pid, n, err)
		}
	}
	me := fmt.Sprint(os.Getpid())
	f("", "x", "", 0, "")
	f("/x", "", "", 0, "")
	f("/x", "2000000", me, 2*time.Second, "")
	f("/x", "2000000", "", 2*time.Second, "")
	f("@x", "2000000", "1", 0, "")
	f("x", "", "", 0, "NOTIFY_SOCKET=x")
	f("/x", "0", "", 0, "WATCHDOG_USEC=0")
	f("/x", "99999999999999999999", "", 0, "WATCHDOG_USEC=")
}

// TestNobodyListens: a supervisor that is not there is told of once and stops nothing.
func TestNobodyListens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	t.Setenv("WATCHDOG_USEC", "2000")
	var said strings.Builder
	n, err := NewNotifier(slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	n.Run(ctx, func(context.Context) error { return nil }, func() string { return "" }, func(context.Context) error {
		if asked++; asked == 5 {
			cancel()
		}
		return nil
	})
	if strings.Count(said.String(), "does not listen") != 1 {
		t.Error(said.String())
	}
}
