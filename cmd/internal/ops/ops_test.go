package ops

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + s.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestRolePaths(t *testing.T) {
	var notReady error
	s, err := Listen("127.0.0.1:0", func() error { return notReady })
	if err != nil {
		t.Fatal(err)
	}
	s.Handle("GET /counters/{job}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.PathValue("job"))
	}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer http.DefaultClient.CloseIdleConnections()

	if code, body := get(t, s, "/readyz"); code != 200 || body != "ready\n" {
		t.Errorf("ready role: %d %q", code, body)
	}
	notReady = errors.New("etcd is away")
	if code, body := get(t, s, "/readyz"); code != 503 || !strings.Contains(body, "etcd is away") {
		t.Errorf("role without etcd: %d %q", code, body)
	}
	if code, _ := get(t, s, "/healthz"); code != 200 {
		t.Errorf("healthz without etcd: %d, want 200", code)
	}
	if code, body := get(t, s, "/metrics"); code != 200 || !strings.Contains(body, "process_resident_memory_bytes") {
		t.Errorf("metrics: %d, %d bytes", code, len(body))
	}
	if _, body := get(t, s, "/counters/j1"); body != "j1" {
		t.Errorf("role's own path: %q", body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run after cancel: %v", err)
	}
}

func TestPortInUse(t *testing.T) {
	a, err := Listen("127.0.0.1:0", func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	_, err = Listen(a.Addr(), func() error { return nil })
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), a.Addr()) {
		t.Errorf("second listener: %v; want the address and the cause", err)
	}
}
