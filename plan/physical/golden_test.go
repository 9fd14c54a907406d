package physical

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"strait/plan/logical"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-update writes it anew): %s", file, d)
	}
}

// TestGoldenPlans: a job file in testdata/plans, both plans as text beside it, and its encoding in testdata/v1.
func TestGoldenPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/plans/*.conf")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".conf")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			d := dagOf(t, name+".conf", string(text))
			p, err := Build(d)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(file, ".conf")+".txt", []byte(logical.Explain(d)+"\n"+Explain(p)))
			data, err := Encode(p)
			if err != nil {
				t.Fatal(err)
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, data, "", " "); err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/v1/"+name+".json", append(pretty.Bytes(), '\n'))
		})
	}
}

// TestGoldenEncodings: every plan of every format that was ever written is still read.
func TestGoldenEncodings(t *testing.T) {
	files, err := filepath.Glob("testdata/v*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Decode(data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if _, err := Encode(p); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestDotAndView(t *testing.T) {
	text, err := os.ReadFile("testdata/plans/changelog.conf")
	if err != nil {
		t.Fatal(err)
	}
	p := planOf(t, string(text))
	golden(t, "testdata/changelog.dot", []byte(Dot(p)))
	view, err := json.MarshalIndent(Show(p), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/changelog.view.json", append(view, '\n'))

	secret := planOf(t, `source { Fake { schema { fields { a = int } } } }
sink { Out { password = "hunter2" } }`)
	view, _ = json.Marshal(Show(secret))
	for _, text := range []string{string(view), Dot(secret), Explain(secret)} {
		if strings.Contains(text, "hunter2") {
			t.Error("a secret is shown")
		}
	}
}
