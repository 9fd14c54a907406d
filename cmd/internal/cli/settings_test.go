package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"strait/cmd/internal/settings"
)

// TestEverySettingIsRead: a setting that nobody reads does nothing, and says it does.
func TestEverySettingIsRead(t *testing.T) {
	read := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil {
					read[s] = true
				}
			}
			return true
		})
	}
	for i := range settings.Table {
		s := &settings.Table[i]
		// A secret's file is read together with it, the files of a group of certificates by the group's name.
		group := s.Path
		for _, part := range []string{"-file", ".ca", ".cert", ".key"} {
			group = strings.TrimSuffix(group, part)
		}
		if !read[s.Path] && !read[group] {
			t.Errorf("nobody reads the setting %s", s.Path)
		}
	}
}

// TestSettingsFile: the file reaches the commands, and its mistakes name file and line.
func TestSettingsFile(t *testing.T) {
	t.Chdir(t.TempDir())
	f := func(text, want string, args ...string) {
		t.Helper()
		if err := os.WriteFile("s.conf", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := stctl(t, args...); r.code != ExitFailed || r.stderr != want+"\n" {
			t.Errorf("%s\n%v: exit %d, said\n%swant\n%s", text, args, r.code, r.stderr, want)
		}
	}
	f("etcd.endpoints = [h]", "s.conf:1: etcd.endpoints h: write HOST:PORT, several with commas between them", "--settings", "s.conf", "worker", "list")
	f("etcd.endpoints = [h]", "--etcd-endpoints i: write HOST:PORT, several with commas between them", "worker", "list", "--settings", "s.conf", "--etcd-endpoints", "i")
	f("\nname = W_1", `s.conf:2: name: worker "W_1" is not a valid name; use 1 to 63 of a-z, 0-9 and '-', beginning with a letter or digit`,
		"serve", "worker", "--settings", "s.conf")
	f("worker.data.listen = 2379", "s.conf:1: worker.data.listen 2379: write HOST:PORT, for example 127.0.0.1:0 for any free port of this host",
		"serve", "worker", "--settings", "s.conf")
	f("etcd { listen = \"127.0.0.1:1\" }", "--etcd-endpoints and s.conf:1: etcd.listen exclude each other: the etcd is elsewhere or in this process",
		"serve", "coordinator", "--etcd-endpoints", "h:1", "--settings", "s.conf")
	f("etcd.enpoints = [h]", `s.conf:1: unknown option "etcd.enpoints"; did you mean "etcd.endpoints"?`, "job", "list", "--settings", "s.conf")
}
