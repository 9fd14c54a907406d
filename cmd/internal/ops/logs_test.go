package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"strait/plan"
)

// messages lists what is kept of a job.
func messages(t *testing.T, l *Logs, job string) string {
	t.Helper()
	var out []string
	for after := uint64(0); ; {
		es, _, _ := l.read(job, after, 1<<10)
		if len(es) == 0 {
			return strings.Join(out, " ")
		}
		for _, e := range es {
			_, rest, _ := strings.Cut(string(e.line), `"msg":"`)
			m, _, _ := strings.Cut(rest, `"`)
			out = append(out, m)
			after = e.seq
		}
	}
}

// check holds Logs to what it says of itself.
func (l *Logs) check(t *testing.T) {
	t.Helper()
	used := 0
	for name, j := range l.jobs {
		sum := 0
		for _, e := range j.entries {
			sum += e.size()
		}
		if sum != j.used || len(j.entries) == 0 || l.largest[j.at] != j || j.job != name {
			t.Fatalf("job %s: %d bytes of %d entries, counted %d", name, sum, len(j.entries), j.used)
		}
		used += sum
	}
	ring := 0
	for j := l.recent; j != nil && ring <= len(l.jobs); j = j.older {
		if ring++; j.older == l.recent {
			break
		}
	}
	if used != l.used || used > l.bytes || len(l.largest) != len(l.jobs) || ring != len(l.jobs) {
		t.Fatalf("%d bytes, counted %d, at most %d; %d jobs, %d in the heap, %d in the ring", used, l.used, l.bytes, len(l.jobs), len(l.largest), ring)
	}
}

func TestKeep(t *testing.T) {
	l := NewLogs(0)
	var said bytes.Buffer
	log := slog.New(l.Handler(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}), slog.LevelInfo))
	log.Info("of no job")
	log.Info("a", plan.LogJob, plan.JobID("j1")) // a type of its own
	of := log.With(plan.LogWorker, "w1").With(plan.LogJob, "j1", plan.LogPipeline, 2)
	of.Warn("b", plan.LogErr, errors.New("disk \"full\"\x1b[31m"))
	of.Debug("below both levels")
	of.WithGroup("g").Info("c", plan.LogJob, "other") // of j1: the attribute is in the group
	log.WithGroup("g").Info("d", plan.LogJob, "j1")   // of no job
	log.Info("e", plan.LogJob, "No Job Id")
	of.Info("f", "long", strings.Repeat("ä", 5000), "err", errors.New(strings.Repeat("x", 9000)))
	for i := range 20 {
		of = of.With(fmt.Sprint("k", i), strings.Repeat("y", 4000))
	}
	of.Info("too long")
	if got := messages(t, l, "j1"); got != "a b c f too long" {
		t.Errorf("kept: %s", got)
	}
	l.check(t)
	es, _, _ := l.read("j1", 0, 1<<20)
	if got := string(es[1].line); !strings.Contains(got, `"level":"WARN"`) || !strings.Contains(got, `"worker":"w1","job":"j1","pipeline":2,"err":"disk \"full\"\u001b[31m"}`) {
		t.Error(got)
	}
	if n := len(es[3].line); n > 2*mostValue+300 || !strings.Contains(string(es[3].line), "(10000 bytes)") {
		t.Errorf("a long value takes %d bytes", n)
	}
	if n := len(es[4].line); n > 500 {
		t.Errorf("a record of %d bytes is kept", n)
	}
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "msg=b") {
		t.Errorf("the log itself has: %s", got)
	}
}

func TestFairness(t *testing.T) {
	l := NewLogs(64 << 10) // room for eight shares
	log := slog.New(l.Handler(slog.DiscardHandler, slog.LevelInfo))
	for i := range 50 {
		log.Info(fmt.Sprint("quiet", i), plan.LogJob, "quiet")
	}
	for i := range 5000 {
		log.Info(fmt.Sprint("noisy", i), plan.LogJob, "noisy")
		l.check(t)
	}
	if got := strings.Fields(messages(t, l, "quiet")); len(got) != 50 {
		t.Errorf("a noisy job pushed out records of a quiet one, %d of 50 are left", len(got))
	}
	if got := messages(t, l, "noisy"); !strings.HasSuffix(got, "noisy4999") || strings.HasPrefix(got, "noisy0 ") {
		t.Error("of a noisy job the newest are kept")
	}
	_, lost, _ := l.read("noisy", 60, 1<<10)
	if _, whole, _ := l.read("quiet", 1, 1<<10); !lost || whole {
		t.Error("what was pushed out is told, what was not is not:", lost, whole)
	}
	for i := range 8 { // more jobs than shares
		log.Info("x", plan.LogJob, fmt.Sprint("j", i))
		l.check(t)
	}
	if messages(t, l, "quiet") != "" || messages(t, l, "j0") != "x" || messages(t, l, "j7") != "x" {
		t.Error("the job that was quiet for longest goes first")
	}
	log.Info("again", plan.LogJob, "quiet")
	if got := messages(t, l, "quiet"); got != "again" {
		t.Error(got)
	}
}

func TestConcurrentLogs(t *testing.T) {
	l := NewLogs(32 << 10)
	log := slog.New(l.Handler(slog.DiscardHandler, slog.LevelInfo))
	var g sync.WaitGroup
	for w := range 8 {
		g.Go(func() {
			for i := range 300 {
				log.Info("m", plan.LogJob, fmt.Sprint("j", (w+i)%5), "n", i)
				l.read("j1", uint64(i), 1<<10)
			}
		})
	}
	g.Wait()
	l.check(t)
}

// serve runs a port with logs.
func serve(t *testing.T, l *Logs) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s.HandleLogs(l)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestServeLogs(t *testing.T) {
	l := NewLogs(16 << 10)
	log := slog.New(l.Handler(slog.DiscardHandler, slog.LevelDebug))
	s := serve(t, l)
	c := NewClient()
	defer c.Close()
	all := func(job plan.JobID, q Query) string {
		t.Helper()
		st, err := c.Logs(t.Context(), s.Addr(), job, q)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if st.Process != l.Process() || st.Ahead > time.Minute || st.Ahead < -time.Minute {
			t.Errorf("process %s, %v ahead", st.Process, st.Ahead)
		}
		var out []string
		for {
			r, err := st.Next()
			if errors.Is(err, io.EOF) {
				return strings.Join(out, " ")
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Lost {
				out = append(out, "LOST")
				continue
			}
			out = append(out, fmt.Sprint(r.Seq, r.Level))
		}
	}
	if got := all("j1", Query{Level: slog.LevelDebug}); got != "" {
		t.Error(got)
	}
	log.Debug("a", plan.LogJob, "j1")
	log.Info("b", plan.LogJob, "j1")
	log.Error("c", plan.LogJob, "j1")
	log.Error("d", plan.LogJob, "j2")
	for q, want := range map[Query]string{
		{Level: slog.LevelDebug}: "1DEBUG 2INFO 3ERROR", {}: "2INFO 3ERROR", {Level: slog.LevelWarn}: "3ERROR",
		{After: 2}: "3ERROR", {After: 99}: "", {Since: time.Now().Add(time.Hour)}: "", {Since: time.Now().Add(-time.Hour)}: "2INFO 3ERROR",
	} {
		if got := all("j1", q); got != want {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
	for _, bad := range []string{"after=x", "since=x", "level=x", "follow=x"} {
		if code, text := get(t, s, "/logs/j1?"+bad); code != 400 || !strings.Contains(text, bad) {
			t.Errorf("%s: %d %s", bad, code, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()

	st, err := c.Logs(t.Context(), s.Addr(), "j1", Query{After: 3, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("other", plan.LogJob, "j2")
	log.Info("e", plan.LogJob, "j1")
	if r, err := st.Next(); err != nil || r.Seq != 6 || !strings.Contains(string(r.Line), `"msg":"e"`) {
		t.Errorf("%+v, %v", r, err)
	}
	st.Close()
	if _, err := st.Next(); err == nil {
		t.Error("a closed stream goes on")
	}
	for range 1000 {
		log.Info("f", plan.LogJob, "j1")
	}
	if got := all("j1", Query{After: 6}); !strings.HasPrefix(got, "LOST 9") {
		t.Errorf("a reader that came too late reads %.80s", got)
	}
}

// TestSlowReader: a reader that takes nothing holds up nobody, and is dropped.
func TestSlowReader(t *testing.T) {
	l := NewLogs(256 << 10)
	log := slog.New(l.Handler(slog.DiscardHandler, slog.LevelInfo))
	s := serve(t, l)
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /logs/j1?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for range 20_000 { // far more than the sockets take
		log.Info("m", plan.LogJob, "j1", "text", strings.Repeat("x", 1000))
	}
	l.check(t)
	if code, _ := get(t, s, "/healthz"); code != 200 {
		t.Error("the port does not answer others")
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestReadersAreLimited(t *testing.T) {
	l := NewLogs(0)
	s := serve(t, l)
	c := NewClient()
	defer c.Close()
	var open []*LogStream
	for range logReaders {
		st, err := c.Logs(t.Context(), s.Addr(), "j1", Query{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, st)
	}
	if _, err := c.Logs(t.Context(), s.Addr(), "j1", Query{}); err == nil || !strings.Contains(err.Error(), "others read logs here") {
		t.Error(err)
	}
	for _, st := range open {
		st.Close()
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	l := &limited{Listener: in, free: make(chan struct{}, 1)}
	got := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(got)
				return
			}
			got <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", in.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a := dial()
	defer a.Close()
	first := <-got
	b := dial()
	if _, err := b.Read(make([]byte, 1)); err == nil {
		t.Error("a connection beyond the limit is served")
	}
	_ = b.Close()
	_ = first.Close()
	_ = first.Close() // counts once
	c := dial()
	defer c.Close()
	_ = (<-got).Close()
	_ = in.Close()
	if _, more := <-got; more {
		t.Error("a third connection")
	}
}

func TestAboutAndSkew(t *testing.T) {
	var notReady error
	s, err := Listen("127.0.0.1:0", func() error { return notReady })
	if err != nil {
		t.Fatal(err)
	}
	s.HandleAbout(func(ctx context.Context) About {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		return About{Name: "w1", Storage: &Folder{Path: "/x", Mark: "m"}}
	})
	s.Handle("GET /logs/{job}", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "not JSON\n") }))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	c := NewClient()
	defer c.Close()
	a, err := c.About(t.Context(), s.Addr())
	if err != nil || a.Name != "w1" || a.NotReady != "" || a.Time.IsZero() || a.Storage.Mark != "m" {
		t.Errorf("%+v, %v", a, err)
	}
	notReady = errors.New("etcd is away")
	if a, err = c.About(t.Context(), s.Addr()); err != nil || a.NotReady != "etcd is away" {
		t.Errorf("%+v, %v", a, err)
	}
	if k, err := c.Skew(t.Context(), s.Addr()); err != nil || k.Within <= 0 || k.Ahead > k.Within || k.Ahead < -k.Within {
		t.Errorf("the clock of this host differs from itself: %+v, %v", k, err)
	}
	st, err := c.Logs(t.Context(), s.Addr(), "j", Query{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Next(); err == nil || !strings.Contains(err.Error(), "not readable") {
		t.Error(err)
	}
	st.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	if _, err := c.About(t.Context(), addr); err == nil || !strings.Contains(err.Error(), addr+" does not answer: ") || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	if _, err := c.get(t.Context(), s.Addr(), "/nothing"); err == nil || !strings.Contains(err.Error(), "older version") {
		t.Error(err)
	}
}

// TestSilentStream: a peer that is gone without a word ends the stream.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := net.Pipe()
		go func() { // answers, then says nothing any more
			_, _ = in.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n")
		}()
		defer in.Close()
		c := &Client{&http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return out, nil }}}}
		defer c.Close()
		st, err := c.Logs(t.Context(), "x:1", "j", Query{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if _, err := st.Next(); err == nil || errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}
