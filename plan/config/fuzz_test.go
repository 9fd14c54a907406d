package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"strait/plan/fault"
	"strait/plan/option"
)

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.*")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, ".golden") {
			f.Add(string(text), "[1, {a = b}]", false)
		}
	}
	for _, s := range []string{"a=${a}", "a+=1,a{b=${a}}", "a->b->c=[{}{}]", `a="\ud800\udc00"`, "a=\"\"\"\"\"\"\"", "source{a->b{}}", "a = ${b}{}[]"} {
		f.Add(s, "\"", true)
	}
	f.Fuzz(func(t *testing.T, text, value string, json bool) {
		o := Options{File: "x.conf", Vars: map[string]string{"x": value, "host": value}, Env: FixedEnv(map[string]string{"HOME": value})}
		if json {
			o.File = "x.json"
		}
		job, warnings, err := Parse([]byte(text), o)
		again, warningsAgain, errAgain := Parse([]byte(text), o)
		if (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
			t.Fatalf("two errors of one text: %v, %v", err, errAgain)
		}
		if diff := cmp.Diff(job, again); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(warnings, warningsAgain); diff != "" {
			t.Fatal(diff)
		}
		if err != nil {
			if strings.Contains(err.Error(), "BUG") && !strings.Contains(text, "BUG") && !strings.Contains(value, "BUG") {
				t.Fatal(err)
			}
			return
		}
		lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
		walk(job.Root, func(n *option.Node) { checkPlace(t, lines, n) })
	})
}

// checkPlace checks that a node's position is in the text, and that its text stands there.
func checkPlace(t *testing.T, lines []string, n *option.Node) {
	if n.Pos.Line < 1 || n.Pos.Line > len(lines) || n.Pos.Column < 1 {
		t.Fatalf("%s is at %+v of %d lines", n.Describe(), n.Pos, len(lines))
	}
	line := lines[n.Pos.Line-1]
	if n.Pos.Column > utf8.RuneCountInString(line)+1 {
		t.Fatalf("%s is at %+v of a line with %d characters", n.Describe(), n.Pos, utf8.RuneCountInString(line))
	}
	rest := string([]rune(line)[n.Pos.Column-1:])
	if n.Kind == option.Number && !strings.HasPrefix(rest, n.Text) && !strings.HasPrefix(rest, "${") {
		t.Fatalf("%s is not at %+v: %q", n.Text, n.Pos, rest)
	}
}

func FuzzLexer(f *testing.F) {
	f.Add("a b\n\"c\" ${d:${e}} 1e+5 http://x:1/y // z")
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		var list fault.List
		x := newLexer(text, "", &list)
		for !x.atEnd() {
			before := x.off
			at := x.pos()
			if want := place([]byte(text), before, ""); at.Line != want.Line || at.Column != want.Column {
				t.Fatalf("offset %d is %+v, want %+v", before, at, want)
			}
			x.blank()
			switch {
			case x.atEnd():
			case x.peek() == '"':
				x.quoted()
			case x.has("${"):
				x.variable()
			default:
				if x.word(true, true) == "" && x.off == before {
					x.advance(1)
				}
			}
		}
	})
}
