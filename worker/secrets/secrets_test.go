package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strait/plan/fault"
)

func TestText(t *testing.T) {
	s := &Scrubber{}
	if got := s.Text("hunter2"); got != "hunter2" {
		t.Error(got)
	}
	s.Add("hunter2", "abc", "p@ss wörd/\"x\"", "hunter2longer", "line one of it\nsecond line\nx", "p%40ss%21")
	for in, want := range map[string]string{
		"a hunter2 b hunter2":                 "a " + Mark + " b " + Mark,
		"hunter2longer":                       Mark,
		"abc":                                 "abc", // too short to be looked for
		"p@ss wörd/\"x\"":                     Mark,
		fmt.Sprintf("%q", "p@ss wörd/\"x\""):  `"` + Mark + `"`,
		fmt.Sprintf("%+q", "p@ss wörd/\"x\""): `"` + Mark + `"`,
		"p%40ss+w%C3%B6rd%2F%22x%22":          Mark,
		"p@ss%20w%C3%B6rd%2F%22x%22":          Mark,
		"aHVudGVyMg==":                        Mark,
		"only second line here":               "only " + Mark + " here",
		"p@ss!":                               Mark,
	} {
		if got := s.Text(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	if got := (*Scrubber)(nil).Text("x"); got != "x" {
		t.Error(got)
	}
}

func TestClean(t *testing.T) {
	s := &Scrubber{}
	s.Add("hunter2")
	cause := errors.New("cause hunter2")
	err := s.Clean(fmt.Errorf("login: %w", cause))
	if err.Error() != "login: cause "+Mark || !errors.Is(err, cause) {
		t.Error(err)
	}
	var l fault.List
	l.Add(fault.Position{File: "f", Line: 2}, "p", "found hunter2", "")
	l.Add(fault.Position{File: "f", Line: 3}, "p", "other", "")
	err = s.Clean(l.Err())
	if parts := fault.Split(err); len(parts) != 2 || strings.Contains(err.Error(), "hunter2") || !fault.IsFatal(err) {
		t.Error(err)
	}
	if s.Clean(nil) != nil || s.Clean(l.Err().(*fault.Many).Errs[1]) != l.Err().(*fault.Many).Errs[1] {
		t.Error("an error without a secret changes")
	}
}

type odd struct{ password string }

func TestLogger(t *testing.T) {
	s := &Scrubber{}
	var b bytes.Buffer
	log := s.Logger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s.Add("hunter2")
	log.With("with", "hunter2").WithGroup("g").Debug("a hunter2", "err", errors.New("hunter2"), "n", 1, slog.Group("h", "x", "hunter2"), "odd", odd{"hunter2"}, "list", []string{"hunter2"})
	if out := b.String(); strings.Contains(out, "hunter2") || strings.Count(out, Mark) != 6 || !strings.Contains(out, "g.n=1") {
		t.Error(out)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "hunter2\r\n")
	write("b", "two\nlines\n\n")
	write("big", strings.Repeat("x", maxFile+1))
	write("bin", "\xff\xfe")
	read := Here(nil, dir).File
	for name, want := range map[string]string{"a": "hunter2", "b": "two\nlines\n", filepath.Join(dir, "a"): "hunter2"} {
		if got, err := read(name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"none": "it does not exist", "big": "more than", "bin": "not UTF-8", ".": "a folder"} {
		if _, err := read(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
