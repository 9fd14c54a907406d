package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
)

// topLevel is what stands at the top of the repository beside dot files. It is fixed.
var topLevel = []string{"coordinator", "worker", "plan", "kv", "checkpoint", "transport", "cmd", "scripts", "integration",
	"go.mod", "go.sum", "README.md"}

// leaves may be imported by everybody and import nothing of ours.
var leaves = []string{"checkpoint/failpoint", "transport/queue", "plan/units", "plan/fault"}

// importTable says what of ours a package may import beside the leaves and its own subtree. The first row that
// fits counts; x/... is x and all below it. Words live below, machines above.
var importTable = []struct {
	pkg string
	may []string
}{
	{"plan/...", []string{"plan/..."}},
	{"checkpoint", []string{"plan/..."}},
	{"checkpoint/...", []string{"plan/...", "checkpoint/...", "kv/keys", "kv/record", "transport/stream"}},
	{"transport/...", []string{"plan/...", "checkpoint", "transport/..."}},
	{"kv", []string{"kv/internal/..."}},
	{"kv/...", []string{"plan/...", "checkpoint", "kv/..."}},

	{"worker/format/...", []string{"plan/...", "transport/batch", "worker/format/..."}},
	{"worker/expr/...", []string{"plan/...", "transport/batch"}},
	{"worker/connector", []string{"plan/...", "checkpoint", "transport/batch"}},
	{"worker/connector/all", []string{"worker/connector/..."}},
	{"worker/connector/...", []string{"plan/...", "checkpoint", "transport/batch", "worker/connector", "worker/format/..."}},
	{"worker/transform", []string{"plan/...", "transport/batch"}},
	{"worker/transform/all", []string{"worker/transform/..."}},
	{"worker/transform/...", []string{"plan/...", "transport/batch", "worker/transform", "worker/format/...", "worker/expr/..."}},
	{"worker/...", []string{"plan/...", "checkpoint/...", "transport/...", "kv/...", "worker/..."}},
	{"coordinator/...", []string{"plan/...", "checkpoint/...", "kv/...", "coordinator/..."}},

	{"cmd/...", []string{"plan/...", "checkpoint/...", "transport/...", "kv/...", "worker/...", "coordinator/...", "cmd/..."}},
	{"integration/...", []string{"plan/...", "checkpoint/...", "transport/...", "kv/...", "worker/...", "coordinator/...", "integration/..."}},
}

// walls says who may import which module of others. A module without a row is one that nobody decided about:
// add the row with the dependency.
var walls = map[string][]string{
	"go.etcd.io/etcd/server/v3":     {"kv/embed"},
	"go.etcd.io/raft/v3":            {"kv/embed"},
	"go.etcd.io/etcd/client":        {"kv/..."},
	"go.etcd.io/etcd/api/v3":        {"kv/..."},
	"google.golang.org/grpc":        {"kv/..."},
	"go.uber.org/zap":               {"kv/..."},
	"github.com/gurkankaymak/hocon": {"plan/config"},
	"github.com/klauspost/compress": {"kv/record", "transport/wire", "checkpoint/storage", "worker/format/...", "worker/connector/..."},
	"github.com/urfave/cli/v2":      {"cmd/..."},

	"github.com/apache/arrow-go/v18":     {"transport/...", "worker/..."},
	"github.com/valyala/fastjson":        {"worker/..."},
	"github.com/zeebo/xxh3":              {"transport/...", "worker/..."},
	"github.com/VictoriaMetrics/metrics": machines,
	"github.com/cenkalti/backoff/v5":     machines,
	"golang.org/x/sync":                  machines,
	"golang.org/x/sys":                   machines,
	"golang.org/x/time":                  machines,

	"github.com/anishathalye/porcupine": {}, // tests only
	"github.com/google/go-cmp":          {},
	"go.uber.org/goleak":                {},
	"pgregory.net/rapid":                {},
}

// machines is everybody but plan, which is pure.
var machines = []string{"checkpoint/...", "transport/...", "kv/...", "worker/...", "coordinator/...", "cmd/..."}

// goPackage is what `go list` says of one.
type goPackage struct {
	ImportPath string
	Dir        string
	Doc        string
	GoFiles    []string
	Imports    []string
	Error      *struct{ Err string }
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Doc,GoFiles,Imports,Error", "./...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, "strait/")
		pkgs = append(pkgs, p)
	}
}

// fits says whether a package is x, or x/... covers it.
func fits(pkg, pattern string) bool {
	tree, ok := strings.CutSuffix(pattern, "/...")
	return pkg == tree || ok && strings.HasPrefix(pkg, tree+"/")
}

func fitsAny(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(pkg, p) })
}

// testSupport says whether a package exists for tests only: kvtest, batchtest, conformance, integration.
func testSupport(pkg string) bool {
	base := pkg[strings.LastIndexByte(pkg, '/')+1:]
	return strings.HasSuffix(base, "test") || base == "conformance" || fits(pkg, "integration/...")
}

// mayImport holds an import of ours against the table.
func mayImport(pkg, imported string) (row string, ok bool) {
	if slices.Contains(leaves, pkg) {
		return "a leaf imports nothing of ours", false
	}
	if slices.Contains(leaves, imported) {
		return "", true
	}
	if plugin := pluginOf(pkg); plugin != "" && fits(imported, plugin+"/...") {
		return "", true
	}
	for _, r := range importTable {
		if fits(pkg, r.pkg) {
			return r.pkg + " may import " + strings.Join(r.may, ", "), fitsAny(imported, r.may)
		}
	}
	return "it is in no row of the import table", false
}

// pluginOf is the folder of the connector or transform a package belongs to.
func pluginOf(pkg string) string {
	parts := strings.Split(pkg, "/")
	if len(parts) >= 3 && parts[0] == "worker" && (parts[1] == "connector" || parts[1] == "transform") {
		return strings.Join(parts[:3], "/")
	}
	return ""
}

func TestImports(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, imported := range p.Imports {
			if own, ok := strings.CutPrefix(imported, "strait/"); ok {
				if row, ok := mayImport(p.ImportPath, own); !ok {
					t.Errorf("%s imports %s: %s", p.ImportPath, own, row)
				}
				continue
			}
			if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") || testSupport(p.ImportPath) {
				continue // the standard library; what is for tests only has no walls
			}
			module, allowed := wallOf(imported)
			if module == "" {
				t.Errorf("%s imports %s, which has no row in the table of walls", p.ImportPath, imported)
			} else if !fitsAny(p.ImportPath, allowed) {
				t.Errorf("%s imports %s: only %s may", p.ImportPath, imported, strings.Join(append(allowed, "tests"), ", "))
			}
		}
	}
}

func wallOf(imported string) (module string, allowed []string) {
	for m, who := range walls {
		if (imported == m || strings.HasPrefix(imported, m+"/")) && len(m) > len(module) {
			module, allowed = m, who
		}
	}
	return module, allowed
}

// TestImportTable holds the table itself against what the design says of it.
func TestImportTable(t *testing.T) {
	f := func(pkg, imported string, want bool) {
		t.Helper()
		if row, got := mayImport(pkg, imported); got != want {
			t.Errorf("%s may import %s: %v (%s)", pkg, imported, got, row)
		}
	}
	f("plan/logical", "plan/schema", true)
	f("plan/logical", "worker/connector", false)
	f("plan/fault", "plan/units", false)
	f("checkpoint", "plan/fault", true)
	f("transport/shuffle", "kv", false)
	f("transport/shuffle", "kv/record", false)
	f("coordinator", "worker/task", false)
	f("worker", "coordinator/job", false)
	f("worker/connector/jdbc", "worker/connector", true)
	f("worker/connector/jdbc", "worker/connector/jdbc/dialect", true)
	f("worker/connector/jdbc", "worker/connector/kafka", false)
	f("worker/connector/jdbc", "worker/format/json", true)
	f("worker/connector/jdbc", "kv", false)
	f("worker/connector/jdbc", "transport/shuffle", false)
	f("worker/connector/jdbc", "transport/queue", true)
	f("worker/transform/sql", "worker/transform/text", false)
	f("worker/task", "cmd/internal/ops", false)
	f("cmd/stctl", "integration/harness", false)
	f("elsewhere", "plan", false)
}

func TestTopLevel(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = ".."
	var names []string
	if out, err := cmd.Output(); err == nil {
		for _, f := range strings.Split(string(out), "\x00") {
			first, _, _ := strings.Cut(f, "/")
			names = append(names, first)
		}
	} else { // no repository: an unpacked archive
		entries, err := os.ReadDir("..")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	for _, name := range slices.Compact(names) {
		if name != "" && !strings.HasPrefix(name, ".") && !slices.Contains(topLevel, name) {
			t.Errorf("%s stands at the top level, which is fixed: %s", name, strings.Join(topLevel, " "))
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, p := range listPackages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment; say in doc.go what it owns and what it refuses to do", p.ImportPath)
		}
	}
}

// impure lists what plan may not import; functions of time that read the clock are looked for in the source.
var impure = []string{"os/...", "net/...", "syscall", "log/...", "math/rand/...", "crypto/rand", "sync/...", "runtime/...", "io/ioutil", "unsafe", "testing"}

var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// TestPlanIsPure: no I/O, no goroutines, no clock under plan.
func TestPlanIsPure(t *testing.T) {
	for _, p := range listPackages(t) {
		if !fits(p.ImportPath, "plan/...") || testSupport(p.ImportPath) {
			continue
		}
		for _, imported := range p.Imports {
			if fitsAny(imported, impure) {
				t.Errorf("%s imports %s; plan is pure", p.ImportPath, imported)
			}
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Error(err)
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s starts a goroutine; plan is pure", fset.Position(n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
						t.Errorf("%s reads the clock; plan is pure", fset.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
}

// TestReadmeNamesEveryTest: the tables of this folder's README are complete. Scenarios may stand there by their number.
func TestReadmeNamesEveryTest(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") || fn.Name.Name == "TestMain" {
				continue
			}
			name := fn.Name.Name
			number := "`" + name[:min(len(name), len("TestScenarioNN"))] + "…`"
			if !bytes.Contains(readme, []byte("`"+name+"`")) && !bytes.Contains(readme, []byte("`"+name+"/")) && !bytes.Contains(readme, []byte(number)) {
				t.Errorf("%s of %s has no row in README.md", name, path)
			}
		}
	}
}
