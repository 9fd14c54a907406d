package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"strait/cmd/internal/ops"
	"strait/plan"
)

// logPort is a process that logs and answers.
type logPort struct {
	source logSource
	log    *slog.Logger
	stop   func()
}

func newLogPort(t *testing.T, role, name string, logs *ops.Logs) *logPort {
	t.Helper()
	s, err := ops.Listen("127.0.0.1:0", func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s.HandleLogs(logs)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return &logPort{logSource{role, name, s.Addr()}, slog.New(logs.Handler(slog.DiscardHandler, slog.LevelInfo)).With(plan.LogJob, "j1"), stop}
}

func newLogReader(t *testing.T) (*logReader, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	var out, said bytes.Buffer
	hc := ops.NewClient()
	t.Cleanup(hc.Close)
	return &logReader{ask: hc, job: "j1", q: ops.Query{Level: slog.LevelDebug}, print: func(l logLine) error {
		_, err := fmt.Fprintf(&out, "%s:%s ", l.source.name, messageOf(l))
		return err
	}, told: map[string]bool{}, process: map[logSource]string{}, last: map[string]uint64{}, warn: func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }}, &out, &said
}

func messageOf(l logLine) string {
	_, rest, _ := strings.Cut(string(l.Line), `"msg":"`)
	m, _, _ := strings.Cut(rest, `"`)
	return m
}

func TestMergedLogs(t *testing.T) {
	shared := ops.NewLogs(0)
	c1, w1 := newLogPort(t, "coordinator", "c1", shared), newLogPort(t, "worker", "w1", shared) // two roles of one process
	w2 := newLogPort(t, "worker", "w2", ops.NewLogs(0))
	gone := logSource{"worker", "w3", "127.0.0.1:1"}
	for i := range 6 { // times grow
		[]*logPort{w2, c1, w1}[i%3].log.Info(fmt.Sprint(i))
		time.Sleep(2 * time.Millisecond)
	}
	r, out, said := newLogReader(t)
	sources := []logSource{c1.source, w1.source, w2.source, gone}
	if err := r.history(t.Context(), sources); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "w2:0 c1:1 c1:2 w2:3 c1:4 c1:5 " {
		t.Error(got)
	}
	if got := said.String(); strings.Count(got, "worker w3: 127.0.0.1:1 does not answer") != 1 {
		t.Error(got)
	}
	out.Reset()
	w2.log.Info("6")
	if err := r.history(t.Context(), sources); err != nil || out.String() != "w2:6 " {
		t.Errorf("what was read comes again: %s, %v", out, err)
	}
	if err := r.history(t.Context(), sources[3:]); err == nil || !strings.Contains(err.Error(), "none of 1 processes of the fleet answers") {
		t.Error(err)
	}
	r.print = func(logLine) error { return errPrint }
	w2.log.Info("7")
	if err := r.history(t.Context(), sources); !errors.Is(err, errPrint) {
		t.Error(err)
	}
}

func TestFollowedLogs(t *testing.T) {
	a, b := newLogPort(t, "worker", "a", ops.NewLogs(0)), newLogPort(t, "worker", "b", ops.NewLogs(0))
	r, out, said := newLogReader(t)
	var mu sync.Mutex // of out, said and there
	print, warn := r.print, r.warn
	r.print = func(l logLine) error { mu.Lock(); defer mu.Unlock(); return print(l) }
	r.warn = func(f string, args ...any) { mu.Lock(); defer mu.Unlock(); warn(f, args...) }
	there := []logSource{a.source}
	find := func(context.Context) ([]logSource, error) { mu.Lock(); defer mu.Unlock(); return there, nil }
	await := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			found := strings.Contains(out.String()+said.String(), text)
			mu.Unlock()
			if found {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no %q in %s%s", text, out, said)
			}
		}
	}
	a.log.Info("before")
	end, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.follow(t.Context(), find, func(ctx context.Context) error {
			select {
			case <-end:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	await("a:before ")
	a.log.Info("one")
	await("a:one ")
	b.log.Info("early")
	mu.Lock()
	there = []logSource{a.source, b.source}
	mu.Unlock()
	await("b:early ")
	mu.Lock()
	there = []logSource{b.source}
	mu.Unlock()
	a.stop()
	await("worker a has left")
	b.log.Info("late")
	await("b:late ")
	close(end)
	b.log.Info("last") // within the grace, or read at the end
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := out.String(); got != "a:before a:one b:early b:late b:last " {
		t.Error(got)
	}
	// An interrupt ends it.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.follow(ctx, find, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestLogText(t *testing.T) {
	l := ops.NewLogs(0)
	p := newLogPort(t, "worker", "w1", l)
	p.log.Warn("a\x1b[31mb", plan.LogWorker, "w1", "incarnation", 3, plan.LogPipeline, 2, plan.LogErr, errors.New("disk \"full\""), "peer", "", "n", map[string]int{"x": 1})
	r, _, _ := newLogReader(t)
	var lines []logLine
	r.print = func(l logLine) error { lines = append(lines, l); return nil }
	if err := r.history(t.Context(), []logSource{p.source}); err != nil || len(lines) != 1 {
		t.Fatal(lines, err)
	}
	_, got, _ := strings.Cut(logText(lines[0]), " ")
	if want := `WARN  w1 a\x1b[31mb pipeline=2 err="disk \"full\"" peer="" n="{\"x\":1}"`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	var b bytes.Buffer
	if err := printer(&b, "json")(lines[0]); err != nil || !strings.HasPrefix(b.String(), `{"source":"w1","role":"worker","seq":1,"time":"`) || strings.Count(b.String(), "\n") != 1 {
		t.Errorf("%s, %v", b.String(), err)
	}
}
