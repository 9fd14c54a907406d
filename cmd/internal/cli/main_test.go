package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"strait/cmd/internal/settings"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	for _, kv := range os.Environ() { // what a developer has set is not what is tested
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "STRAIT_") {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv(settings.FileEnv, os.DevNull) // nor what this host has
	goleak.VerifyTestMain(m)
}

// result is what a command did.
type result struct {
	code           int
	stdout, stderr string
}

// stctl runs a command in this process.
func stctl(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(append([]string{"stctl"}, args...), &stdout, &stderr)
	r := result{code, stdout.String(), stderr.String()}
	wantPlain(t, r.stderr)
	return r
}

// unplain finds what no message for people holds: a stack, a failed format, a Go type.
var unplain = regexp.MustCompile(`panic|goroutine \d|\.go:\d|%!|0x[0-9a-f]{7,}|BUG|<nil>|&\{|map\[|\*?\b(errors|fs|os|net|json|kv|fault|option|config|logical|physical|record|plan|cli|fmt|time|context|strconv)\.[A-Z]\w*|context (deadline|canceled)|strconv\.`)

func wantPlain(t *testing.T, text string) {
	t.Helper()
	if m := unplain.FindString(text); m != "" {
		t.Errorf("a message for people holds %q:\n%s", m, text)
	}
}

// golden compares with testdata/name, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(packageDir, "testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// packageDir is where the tests start; some of them go elsewhere.
var packageDir = func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}()

// root is the top of the checkout.
var root = filepath.Join(packageDir, "..", "..", "..")
