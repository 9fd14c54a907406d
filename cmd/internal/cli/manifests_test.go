package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

func manifest(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "scripts", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// accepts holds a command line of a manifest to the commands and flags that there are.
func accepts(t *testing.T, where string, words []string) {
	t.Helper()
	for i, w := range words { // what the supervisor puts in
		words[i] = regexp.MustCompile(`%i|\$\{[^}]*\}|\$\([^)]*\)`).ReplaceAllString(w, "1")
	}
	app := newApp(io.Discard, io.Discard)
	l, err := take(app, append([]string{"stctl"}, words...))
	if err != nil {
		t.Errorf("%s: stctl %s: %v", where, strings.Join(words, " "), err)
		return
	}
	if len(l.commands) < 2 || len(l.commands[len(l.commands)-1].Subcommands) > 0 {
		t.Errorf("%s: stctl %s: no command", where, strings.Join(words, " "))
	}
	if last := l.commands[len(l.commands)-1]; l.arguments > 0 && last.ArgsUsage == "" {
		t.Errorf("%s: stctl %s: it takes no arguments", where, strings.Join(words, " "))
	}
}

func TestSystemdUnits(t *testing.T) {
	lines := 0
	for _, name := range []string{"strait-coordinator.service", "strait-worker@.service"} {
		text := manifest(t, "systemd/"+name)
		for _, m := range regexp.MustCompile(`(?m)^Exec\w+=-?/usr/local/bin/stctl (.*)$`).FindAllStringSubmatch(text, -1) {
			accepts(t, name, strings.Fields(m[1]))
			lines++
		}
		if n := strings.Count(text, "\nExec"); n != strings.Count(text, "/usr/local/bin/stctl ") {
			t.Errorf("%s: %d lines run something", name, n)
		}
		for _, want := range []string{"Type=notify", "NotifyAccess=main", "WatchdogSec=", "Restart=on-failure"} {
			if !strings.Contains(text, "\n"+want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
	}
	if lines != 3 {
		t.Errorf("%d command lines", lines)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not on this machine")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "stctl") // the check wants to see what is run
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var units []string
	for name, as := range map[string]string{"strait-coordinator.service": "strait-coordinator.service", "strait-worker@.service": "strait-worker@w1.service"} {
		text := strings.ReplaceAll(manifest(t, "systemd/"+name), "/usr/local/bin/stctl", binary)
		text = regexp.MustCompile(`(?m)^(User|Group)=strait$`).ReplaceAllString(text, "$1=root") // which is no user here
		if err := os.WriteFile(filepath.Join(dir, as), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		units = append(units, filepath.Join(dir, as))
	}
	out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, units...)...).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("strait-")) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// hcl is as much of the format as this takes: blocks that close, strings that end, lists of words.
type hcl struct {
	lists [][]string // of words
	names []string   // of blocks and attributes
}

func readHCL(text string) (*hcl, error) {
	h := &hcl{}
	var open []rune
	var list []string
	word, line := "", 1
	for i := 0; i < len(text); i++ {
		switch c := rune(text[i]); {
		case c == '\n':
			line++
			word = ""
		case c == '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case c == '"':
			end := i + 1
			for depth := 0; end < len(text) && (text[end] != '"' || depth > 0); end++ {
				switch {
				case text[end] == '\n':
					return nil, fmt.Errorf("line %d: a string does not end", line)
				case strings.HasPrefix(text[end:], "${"):
					depth++
				case text[end] == '}' && depth > 0:
					depth--
				}
			}
			if len(open) > 0 && open[len(open)-1] == '[' {
				list = append(list, text[i+1:end])
			}
			i = end
		case c == '{' || c == '[' || c == '(':
			open = append(open, c)
			if c == '[' {
				list = nil
			}
		case c == '}' || c == ']' || c == ')':
			if len(open) == 0 || open[len(open)-1] != map[rune]rune{'}': '{', ']': '[', ')': '('}[c] {
				return nil, fmt.Errorf("line %d: %c closes nothing", line, c)
			}
			if open = open[:len(open)-1]; c == ']' {
				h.lists = append(h.lists, list)
			}
		case unicode.IsLetter(c) || c == '_':
			end := i
			for end < len(text) && (unicode.IsLetter(rune(text[end])) || unicode.IsDigit(rune(text[end])) || text[end] == '_' || text[end] == '.') {
				end++
			}
			if word == "" {
				word = text[i:end]
				h.names = append(h.names, word)
			}
			i = end - 1
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("%c is never closed", open[0])
	}
	return h, nil
}

func TestNomadJob(t *testing.T) {
	text := manifest(t, "nomad/strait.nomad.hcl")
	h, err := readHCL(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{text + "}", strings.Replace(text, "}", "", 1), strings.Replace(text, `"service"`, `"service`, 1)} {
		if _, err := readHCL(bad); err == nil {
			t.Error("a broken file passes")
		}
	}
	commands := 0
	for _, l := range h.lists {
		if slices.Contains(l, "serve") || slices.Contains(l, "fence") {
			accepts(t, "strait.nomad.hcl", l)
			commands++
		}
	}
	if commands != 3 || strings.Count(text, "args = [") != 3 || strings.Count(text, "command = var.stctl") != 3 {
		t.Errorf("%d command lines", commands)
	}
	for _, m := range regexp.MustCompile(`var\.(\w+)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(text, `variable "`+m[1]+`" {`) {
			t.Errorf("there is no variable %s", m[1])
		}
	}
	known := strings.Fields(`variable type description default job datacenters group count constraint distinct_hosts network port restart attempts interval delay mode
		task driver kill_signal kill_timeout config command args resources cpu memory service name provider check path timeout check_restart limit grace update max_parallel
		health_check min_healthy_time healthy_deadline lifecycle hook sidecar`)
	for _, n := range h.names {
		if !slices.Contains(known, n) {
			t.Errorf("%q is no word of a Nomad job that this test knows", n)
		}
	}
}
