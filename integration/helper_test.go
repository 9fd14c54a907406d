package integration

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"sync"
	"testing"
)

// lockedText collects the output of a child that is read while it runs.
type lockedText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// opsOf is the operations port of a role, from the line with which it says that it is ready.
func opsOf(t *testing.T, told string) string {
	t.Helper()
	m := regexp.MustCompile(`ops (\S+)`).FindStringSubmatch(told)
	if m == nil {
		t.Fatalf("no operations port in %q", told)
	}
	return m[1]
}

// ask gets a page of a role; a status of 0: it did not answer.
func ask(addr, path string) (int, string) {
	cl := http.Client{Timeout: limit}
	defer cl.CloseIdleConnections()
	resp, err := cl.Get("http://" + addr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// get is ask of a role that has to answer.
func get(t *testing.T, addr, path string) string {
	t.Helper()
	code, body := ask(addr, path)
	if code == 0 {
		t.Fatalf("%s%s: %s", addr, path, body)
	}
	return body
}
