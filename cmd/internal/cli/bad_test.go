package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadFiles runs check, check --strict and run over each file of testdata/bad. All of them end before anything
// is started; what they say and their exit codes stand in the golden file beside.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.*")
	if err != nil || len(files) == 0 {
		t.Fatal("no test files", err)
	}
	t.Chdir("testdata/bad")
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasSuffix(name, ".golden") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			said := map[string][]string{}
			var order []string
			for _, c := range []string{"check", "check --strict", "run"} {
				r := stctl(t, append(strings.Fields(c), name)...)
				if c == "run" && r.code != ExitFailed {
					t.Fatalf("run: exit %d, want 1", r.code)
				}
				text := fmt.Sprintf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
				if said[text] == nil {
					order = append(order, text)
				}
				said[text] = append(said[text], c)
			}
			var got strings.Builder
			for _, text := range order {
				fmt.Fprintf(&got, "--- %s: %s", strings.Join(said[text], ", "), text)
			}
			golden(t, "bad/"+name+".golden", got.String())
		})
	}
}

// TestBadPaths: what the one job file of a command may be instead of a file.
func TestBadPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	huge, err := os.Create("huge.conf")
	if err != nil {
		t.Fatal(err)
	}
	if err := huge.Truncate(100_000_000); err != nil {
		t.Fatal(err)
	}
	if err := huge.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("folder", 0o755); err != nil {
		t.Fatal(err)
	}
	f := func(path, want string) {
		t.Helper()
		for _, c := range []string{"check", "plan", "run", "job submit"} {
			r := stctl(t, append(strings.Fields(c), path)...)
			if r.code != ExitFailed || r.stdout != "" || r.stderr != want+"\n" {
				t.Errorf("%s %s: exit %d, said %q, want %q", c, path, r.code, r.stdout+r.stderr, want)
			}
		}
	}
	f("missing.conf", "job file missing.conf does not exist")
	f("folder", "job file folder is a folder; name the file")
	f("folder/x/y.conf", "job file folder/x/y.conf does not exist")
	f("huge.conf/x", "job file huge.conf/x: not a directory")
	f("huge.conf", "huge.conf: the file has 100000000 bytes; a job file has at most 8388608 (8 MiB)")
	f("/dev/zero", "/dev/zero: it has more than 8388608 bytes (8 MiB), the most a job file may have")
}
