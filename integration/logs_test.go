package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"strait/integration/harness"
	"strait/plan"
)

// otherNames are names of log attributes that mean what another name of plan/log.go is there for.
var otherNames = map[string]string{
	"error": plan.LogErr, "cause": plan.LogErr, "task": plan.LogGroup, "taskgroup": plan.LogGroup, "task_group": plan.LogGroup,
	"job_id": plan.LogJob, "jobid": plan.LogJob, "pipeline_id": plan.LogPipeline, "vertex_id": plan.LogVertex,
	"worker_name": plan.LogWorker, "checkpoint_id": plan.LogCheckpoint, "epoch": plan.LogAttempt,
}

// TestLogAttributes: the records of a job are found and read by the names of their attributes, in every process.
func TestLogAttributes(t *testing.T) {
	level := regexp.MustCompile(`^(Debug|Info|Warn|Error|With|log)(Context)?$`)
	calls := 0
	for _, top := range []string{"checkpoint", "cmd", "coordinator", "kv", "transport", "worker"} {
		err := filepath.WalkDir(filepath.Join(harness.Root(t), top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				f, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !level.MatchString(f.Sel.Name) || !strings.HasSuffix(strings.ToLower(receiver(f)), "log") && !strings.HasSuffix(strings.ToLower(receiver(f)), "logger") {
					return true
				}
				calls++
				for _, a := range call.Args {
					lit, ok := a.(*ast.BasicLit)
					if !ok || lit.Kind != token.STRING {
						continue
					}
					name, err := strconv.Unquote(lit.Value)
					if want := otherNames[name]; err == nil && want != "" {
						t.Errorf("%s: the log attribute %q is called %q", fset.Position(a.Pos()), name, want)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls < 40 {
		t.Errorf("only %d calls of a logger were found: the test looks at the wrong things", calls)
	}
}

// receiver is the last word of what a method is called on; for x.log(…) it is log.
func receiver(f *ast.SelectorExpr) string {
	if f.Sel.Name == "log" {
		return "log"
	}
	switch x := f.X.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}
