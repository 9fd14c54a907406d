package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"strait/plan/fault"
	"strait/plan/option"
)

var update = flag.Bool("update", false, "write the golden files anew")

// directives reads the lines "#! -i name=value" and "#! env name=value" of a test file.
func directives(text []byte) (vars, env map[string]string) {
	vars, env = map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		for prefix, set := range map[string]map[string]string{"#! -i ": vars, "#! env ": env} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				name, value, _ := strings.Cut(strings.TrimRight(rest, "\r\n"), "=")
				set[name] = value
			}
		}
	}
	return vars, env
}

func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.*.*")
	if err != nil || len(files) == 0 {
		t.Fatal("no test files", err)
	}
	for _, file := range files {
		base := filepath.Base(file)
		good := strings.Contains(base, ".good.")
		if strings.HasSuffix(base, ".golden") || !good && !strings.Contains(base, ".bad.") {
			continue
		}
		t.Run(base, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			vars, env := directives(text)
			job, warnings, err := Parse(text, Options{File: base, Vars: vars, Env: FixedEnv(env)})
			if good && err != nil {
				t.Fatal(err)
			}
			if !good && err == nil {
				t.Fatal("no error")
			}
			var got strings.Builder
			if err != nil {
				if !fault.IsFatal(err) {
					t.Error("the error is not fatal")
				}
				fmt.Fprintln(&got, err)
			} else {
				show(&got, job)
			}
			for _, w := range warnings {
				fmt.Fprintln(&got, "warning:", w)
			}
			golden := file + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// show writes what a test wants to see of a job.
func show(b *strings.Builder, job *Job) {
	node(b, job.Root, 0)
	b.WriteByte('\n')
	for _, section := range [][]*Block{job.Sources, job.Transforms, job.Sinks} {
		for _, bl := range section {
			fmt.Fprintf(b, "%s line %d inputs %q output %q\n", bl.Path(), bl.Pos.Line, bl.Inputs, bl.Output)
			for _, f := range bl.Options.Fields {
				if root := job.Root.Child(string(bl.Section)); root.Kind != option.List || len(root.List) <= bl.Ordinal || f.Value != root.List[bl.Ordinal].Child(f.Key) {
					fmt.Fprintf(b, "  %s = %s\n", f.Key, f.Value.Describe())
				}
			}
		}
	}
	names := make([]string, 0, len(job.EnvUsed))
	for name := range job.EnvUsed {
		names = append(names, name)
	}
	if len(names) > 0 {
		fmt.Fprintf(b, "environment used: %v\n", job.EnvUsed)
	}
}

// node writes a node as JSON with numbers as written; text without quotes is marked with a u.
func node(b *strings.Builder, n *option.Node, indent int) {
	in := strings.Repeat("  ", indent+1)
	switch n.Kind {
	case option.Object:
		if len(n.Fields) == 0 {
			b.WriteString("{}")
			return
		}
		b.WriteString("{\n")
		for _, f := range n.Fields {
			fmt.Fprintf(b, "%s%s: ", in, quote(f.Key))
			node(b, f.Value, indent+1)
			b.WriteByte('\n')
		}
		b.WriteString(in[2:] + "}")
	case option.List:
		b.WriteByte('[')
		for i, e := range n.List {
			if i > 0 {
				b.WriteString(", ")
			}
			node(b, e, indent+1)
		}
		b.WriteByte(']')
	case option.String:
		if !n.Quoted {
			b.WriteByte('u')
		}
		b.WriteString(quote(n.Text))
	case option.Null:
		b.WriteString("null")
	default:
		b.WriteString(n.Text)
	}
}

func quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}
