package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"strait/checkpoint"
)

func open(t *testing.T) *Local {
	t.Helper()
	l, err := Open(filepath.Join(t.TempDir(), "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPutGet(t *testing.T) {
	ctx := context.Background()
	l := open(t)
	random := make([]byte, 1<<20)
	rand.New(rand.NewSource(1)).Read(random)
	for i, data := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("row "), 50_000), random} {
		name := StateName("j-17", 1, 3, 2, "w1", int64(40+i))
		h, err := l.Put(ctx, name, data)
		if err != nil {
			t.Fatal(err)
		}
		again, err := l.Put(ctx, name, data)
		if err != nil || again.SHA256 != h.SHA256 || again.Size != h.Size || again.Location != name {
			t.Fatalf("the same content again: %+v, %v; want %+v", again, err, h)
		}
		got, err := l.Get(ctx, h)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("get: %d bytes, %v; want %d", len(got), err, len(data))
		}
		if err := l.Stat(ctx, h); err != nil {
			t.Fatal(err)
		}
		_, err = l.Put(ctx, name, append(data[:len(data):len(data)], 'y'))
		if !errors.Is(err, ErrDifferent) {
			t.Fatalf("other content under one name: %v", err)
		}
	}
}

func TestInline(t *testing.T) {
	ctx := context.Background()
	l := open(t)
	h := Inline([]byte("small"))
	got, err := l.Get(ctx, h)
	if err != nil || string(got) != "small" || h.IsZero() {
		t.Fatalf("%q, %v", got, err)
	}
	h.Inline = []byte("smAll")
	if _, err := l.Get(ctx, h); !errors.Is(err, ErrDamaged) {
		t.Fatalf("changed inline content: %v", err)
	}
	if got, err := l.Get(ctx, checkpoint.Handle{}); err != nil || got != nil {
		t.Fatalf("no file: %q, %v", got, err)
	}
}

func TestDamage(t *testing.T) {
	ctx := context.Background()
	damage := map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"longer":    func(b []byte) []byte { return append(b, 0) },
		"bit flip":  func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"empty":     func([]byte) []byte { return nil },
	}
	for name, f := range damage {
		l := open(t)
		h, err := l.Put(ctx, "j/1/state", []byte(strings.Repeat("abc", 1000)))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(l.Dir(), "j/1/state")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f(b), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Get(ctx, h); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "j/1/state") {
			t.Errorf("%s: %v", name, err)
		}
		if err := l.Stat(ctx, h); name != "bit flip" && !errors.Is(err, ErrDamaged) {
			t.Errorf("stat, %s: %v", name, err)
		}
		if _, err := l.Put(ctx, "j/1/state", []byte(strings.Repeat("abc", 1000))); name != "longer" && !errors.Is(err, ErrDifferent) {
			t.Errorf("put over damaged, %s: %v", name, err)
		}
	}
	l := open(t)
	if _, err := l.Get(ctx, checkpoint.Handle{Location: "nope", Size: 1, SHA256: "00"}); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("missing: %v", err)
	}
}

func TestNames(t *testing.T) {
	ctx := context.Background()
	l := open(t)
	for _, name := range []string{"", ".", "..", "../x", "a/../../x", "/etc/x", "a//b", "a/", "a/./b", ".tmp-1", "a/.hidden", "a\\b", "a\x00b", strings.Repeat("x", 300)} {
		if _, err := l.Put(ctx, name, []byte("x")); err == nil {
			t.Errorf("put %q was allowed", name)
		}
		if name != "" {
			if _, err := l.Get(ctx, checkpoint.Handle{Location: name, Size: 1}); err == nil {
				t.Errorf("get %q was allowed", name)
			}
		}
		if err := l.Delete(ctx, name); err == nil {
			t.Errorf("delete %q was allowed", name)
		}
	}
	if _, err := l.List(ctx, "../x/"); err == nil {
		t.Error("list ../x/ was allowed")
	}
}

func TestListDelete(t *testing.T) {
	ctx := context.Background()
	l := open(t)
	for _, n := range []string{"a-1/1/x", "a-1/2/y", "a-10/1/z"} {
		if _, err := l.Put(ctx, n, []byte(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(l.Dir(), "a-1", tempPrefix+"123"), []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	list := func(prefix string) string {
		os, err := l.List(ctx, prefix)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, o := range os {
			names = append(names, o.Name)
		}
		return strings.Join(names, " ")
	}
	for prefix, want := range map[string]string{"": "a-1/1/x a-1/2/y a-10/1/z", "a-1/": "a-1/1/x a-1/2/y", "a-1": "a-1/1/x a-1/2/y a-10/1/z", "b/": "", "a-1/2/": "a-1/2/y"} {
		if got := list(prefix); got != want {
			t.Errorf("list %q: %q, want %q", prefix, got, want)
		}
	}
	for range 2 {
		if err := l.Delete(ctx, "a-10/1/z"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(l.Dir(), "a-10")); !os.IsNotExist(err) {
		t.Errorf("empty folder stays: %v", err)
	}
	if got := list(""); got != "a-1/1/x a-1/2/y" {
		t.Errorf("after delete: %q", got)
	}
}

// Many processes that put the same name at once: with one content all succeed, with several exactly one content wins.
func TestRace(t *testing.T) {
	ctx := context.Background()
	l := open(t)
	for round := range 20 {
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, errs[i] = l.Put(ctx, fmt.Sprintf("r/%d", round), []byte{byte(i % 2)})
			}()
		}
		wg.Wait()
		won := [2]int{}
		for i, err := range errs {
			if err == nil {
				won[i%2]++
			} else if !errors.Is(err, ErrDifferent) {
				t.Fatal(err)
			}
		}
		if won != [2]int{4, 0} && won != [2]int{0, 4} {
			t.Fatalf("won: %v", won)
		}
	}
	left, err := filepath.Glob(filepath.Join(l.Dir(), "r", tempPrefix+"*"))
	if err != nil || len(left) > 0 {
		t.Fatalf("left: %v, %v", left, err)
	}
}

// A full disk: the error says so and what to do, no partial file stays, and with space again the same Put succeeds.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	data := make([]byte, 200<<10)
	rand.New(rand.NewSource(2)).Read(data)
	if _, err := l.Put(ctx, "j/1/fits", data); err != nil {
		t.Fatal(err)
	}
	_, err = l.Put(ctx, "j/1/state", append(data[:len(data):len(data)], 1))
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "free space") || !strings.Contains(err.Error(), l.Dir()) {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "j/1/*")); err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "j/1", tempPrefix+"*")); err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	if err := l.Delete(ctx, "j/1/fits"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Put(ctx, "j/1/state", data); err != nil {
		t.Fatal(err)
	}
}

func TestOpen(t *testing.T) {
	if _, err := Open(""); err == nil {
		t.Error("no folder was accepted")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file as folder: %v", err)
	}
}
