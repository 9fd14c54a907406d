package settings

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"strait/plan/option"
)

var update = flag.Bool("update", false, "write scripts/strait.conf anew")

// sampleFile is the sample as it ships.
var sampleFile = filepath.Join("..", "..", "..", "scripts", "strait.conf")

func TestMain(m *testing.M) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "STRAIT_") {
			_ = os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// TestTable holds what every line must have.
func TestTable(t *testing.T) {
	s := spec()
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	flags, variables := map[string]bool{FileFlag: true}, map[string]bool{FileEnv: true}
	for i := range Table {
		s := &Table[i]
		f := func(ok bool, what string) {
			t.Helper()
			if !ok {
				t.Errorf("%s: %s", s.Path, what)
			}
		}
		f(regexp.MustCompile(`^[a-z]+(-[a-z]+)*(\.[a-z]+(-[a-z]+)*)*$`).MatchString(s.Path), "a path is words of a-z with - and . between")
		f(s.Doc != "" && s.Roles != 0, "has no Doc or no Roles")
		f(s.Secret || strings.Count(s.Doc, "`") == 2, "Doc names no placeholder in back-quotes")
		f((s.Flag == "") == s.Secret, "a secret, and nothing else, has no flag")
		f(s.Default == "" || s.Example == "", "has a default and an example")
		f(s.Default != "" || s.Example != "", "has neither a default nor an example")
		f((s.Type == Enum) == (len(s.Enum) > 0), "Enum is for Enum")
		f(!flags[s.Flag] || s.Flag == "", "flag declared twice")
		f(!variables[s.Variable()], "variable declared twice")
		flags[s.Flag], variables[s.Variable()] = true, true
		if s.Secret {
			f(find(s.Path+"-file") != nil, "a secret needs a setting for its file")
		}
		if s.Default != "" {
			_, err := s.parse([]string{s.Default}, "")
			f(err == nil, "the default cannot be read")
		}
	}
}

func TestSample(t *testing.T) {
	if *update {
		if err := os.WriteFile(sampleFile, []byte(Sample()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	src, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(src) != Sample() {
		t.Fatalf("%s is not made from the table; go test ./cmd/internal/settings -update", sampleFile)
	}
	if v := load(t, Roles|Client, sampleFile); len(v.set) != 0 {
		t.Errorf("the sample sets something: %v", v.set)
	}
	// With every # taken off it sets everything, a default to the default.
	all := filepath.Join(t.TempDir(), "all.conf")
	text := regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(string(src), "$1")
	if err := os.WriteFile(all, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	v := load(t, Everyone, all)
	for i := range Table {
		s := &Table[i]
		got, ok := v.set[s.Path]
		if !ok {
			t.Errorf("%s is not in the sample", s.Path)
			continue
		}
		want := s.Default
		if want == "" {
			want = strings.NewReplacer("{ ", "", " }", "", " = ", "=").Replace(s.Example)
		}
		if is, err := s.parse([]string{want}, ""); err != nil || !equal(is, got.is) {
			t.Errorf("%s is %v in the sample, want %v, %v", s.Path, got.is, is, err)
		}
	}
}

func equal(a, b any) bool {
	list := func(x any) string {
		switch x := x.(type) {
		case []string:
			return strings.Join(x, ",")
		case []option.Pair:
			var out []string
			for _, p := range x {
				out = append(out, p.Key+"="+p.Value)
			}
			return strings.Join(out, ",")
		}
		return ""
	}
	if s := list(a); s != "" {
		return s == list(b)
	}
	return a == b
}

// tryLoad runs a command with flags of the roles and loads its settings.
func tryLoad(roles Role, args ...string) (v *Values, warnings []string, err error) {
	app := &cli.App{Name: "x", Flags: Flags(Client), Commands: []*cli.Command{{Name: "do", Flags: Flags(roles), Action: func(c *cli.Context) error {
		v, warnings, err = Load(c, roles)
		return nil
	}}}}
	if e := app.Run(append([]string{"x"}, args...)); e != nil {
		return nil, nil, e
	}
	return v, warnings, err
}

func load(t *testing.T, roles Role, file string) *Values {
	t.Helper()
	v, _, err := tryLoad(roles&^Run, "do", "--settings", file)
	if err == nil && roles&Run != 0 {
		v, _, err = tryLoad(roles, "do", "--settings", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.conf")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestStrength: the file is weakest, then the environment, then the flag before the command, then the one behind.
func TestStrength(t *testing.T) {
	file := write(t, "etcd { prefix = /file/, endpoints = [\"f:1\", \"f:2\"] }\nworker { slots = 3, labels { zone = a, \"k.io/x\" = y } }\nttl = 1m\n")
	f := func(want string, args ...string) {
		t.Helper()
		v, _, err := tryLoad(Worker|Client, args...)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.String("etcd.prefix"); got != want {
			t.Errorf("%v: %s, want %s", args, got, want)
		}
	}
	f("/strait/v1/", "do")
	f("/file/", "--settings", file, "do")
	f("/file/", "do", "--settings", file)
	t.Run("environment", func(t *testing.T) {
		t.Setenv("STRAIT_PREFIX", "/env/")
		t.Setenv(FileEnv, file)
		f("/env/", "do")
		f("/app/", "--prefix", "/app/", "do")
		f("/cmd/", "--prefix", "/app/", "do", "--prefix", "/cmd/")
	})
	v := load(t, Worker, file)
	if v.Int("worker.slots") != 3 || v.Pairs("worker.labels")["k.io/x"] != "y" || v.Duration("ttl").String() != "1m0s" ||
		strings.Join(v.List("etcd.endpoints"), " ") != "f:1 f:2" {
		t.Errorf("%v", v.set)
	}
	if v.Has("name") || !v.Has("ttl") || v.Name("ttl") != file+":3: ttl" || v.Name("name") != "--name" {
		t.Errorf("%v", v.set)
	}
	if v := load(t, Client, file); v.Has("worker.slots") {
		t.Error("a client reads a setting of the worker")
	}
	t.Setenv("STRAIT_SLOTS", "5")
	if v := load(t, Worker, file); v.Int("worker.slots") != 5 || v.Name("worker.slots") != "STRAIT_SLOTS" {
		t.Errorf("%v", v.set)
	}
	if _, _, err := tryLoad(Worker, "do", "--settings", file, "--slots", "6", "--label", "a=1,b=2", "--label", "c=3"); err != nil {
		t.Error(err)
	}
}

func TestMistakes(t *testing.T) {
	f := func(text, want string, args ...string) {
		t.Helper()
		file := write(t, text)
		_, _, err := tryLoad(Roles, append([]string{"do", "--settings", file}, args...)...)
		if err == nil {
			t.Errorf("%s %v is accepted", text, args)
			return
		}
		if got := strings.ReplaceAll(err.Error(), file, "x.conf"); got != want {
			t.Errorf("%s %v\n%s\nwant\n%s", text, args, got, want)
		}
	}
	f("worker.slts = 3", `x.conf:1: unknown option "worker.slts"; did you mean "worker.slots"?`)
	f("frobnicate = 3", "x.conf:1: unknown option \"frobnicate\"; `stctl serve --help` lists them")
	f("etcd = x", `x.conf:1: unknown option "etcd"; did you mean "etcd.name"?`)
	if v := load(t, Worker, write(t, "worker.slots = dynamic\n")); v.Int("worker.slots") != WordValue {
		t.Errorf("dynamic slots are %d", v.Int("worker.slots"))
	}
	f("worker { slots = 0 }", "x.conf:1: worker.slots: \"0\" is neither a whole number from 1 on nor dynamic; write worker.slots = 4")
	f("ttl = soon\nworker.slots = many\ncoordinator { strategy = wate }", `x.conf:1: ttl: "soon" is not a duration; write ttl = 10s
x.conf:2: worker.slots: "many" is neither a whole number from 1 on nor dynamic; write worker.slots = 4
x.conf:3: coordinator.strategy: "wate" is not one of wait, reject; write coordinator.strategy = wait or reject`) // all at once
	f("ttl = soon", `x.conf:1: ttl: "soon" is not a duration; write ttl = 10s
--strategy often is not known; write wait or reject
--slots none: not a whole number; write for example --slots 4, or dynamic`, "--slots", "none", "--strategy", "often")
	f("ttl {", "x.conf:1: the { opened here is never closed; write the closing }")
	f("", "--label a: write --label KEY=VALUE", "--label", "a")
	f("", "--slots 0: write a number from 1 on, or dynamic", "--slots", "0")

	_, _, err := tryLoad(Client, "do", "--settings", filepath.Join(t.TempDir(), "none"))
	if err == nil || !strings.HasPrefix(err.Error(), "--settings: the settings file: open ") {
		t.Error(err)
	}
	t.Setenv(FileEnv, "/none/none.conf")
	if _, _, err := tryLoad(Client, "do"); err == nil || err.Error() != "STRAIT_SETTINGS: the settings file: open /none/none.conf: no such file or directory" {
		t.Error(err)
	}
}

// TestDefaultFile: it may be missing; one that is there and cannot be read stops a role, not a client.
func TestDefaultFile(t *testing.T) {
	dir := t.TempDir()
	old := defaultFile
	t.Cleanup(func() { defaultFile = old })
	defaultFile = filepath.Join(dir, "strait.conf")
	if _, _, err := tryLoad(Client, "do"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(defaultFile, []byte("etcd.prefix = /d/"), 0o600); err != nil {
		t.Fatal(err)
	}
	if v, _, err := tryLoad(Client, "do"); err != nil || v.String("etcd.prefix") != "/d/" {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		return // root reads everything
	}
	if err := os.Chmod(defaultFile, 0); err != nil {
		t.Fatal(err)
	}
	if _, warnings, err := tryLoad(Client, "do"); err != nil || len(warnings) != 1 {
		t.Error(warnings, err)
	}
	if _, _, err := tryLoad(Worker, "do"); err == nil {
		t.Error("a role runs without its settings")
	}
}
