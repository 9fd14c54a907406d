package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"strait/plan/option"
)

// e2eDir is the folder of SeaTunnel's own job files, which lies beside the repository.
const e2eDir = "../../../shared/seatunnel-e2e"

// jobFiles lists the job files that have a golden parse.
func jobFiles(t testing.TB) []string {
	golden := filepath.Join(e2eDir, "golden-parse")
	var files []string
	err := filepath.WalkDir(golden, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(golden, path)
			files = append(files, strings.TrimSuffix(rel, ".json"))
		}
		return err
	})
	if err != nil || len(files) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatalf("SeaTunnel's job files are not at %s: %v", e2eDir, err)
		}
		t.Skipf("SeaTunnel's job files are not at %s: nothing is compared", e2eDir)
	}
	return files
}

var defaulted = regexp.MustCompile(`\$\{([A-Za-z_]+):[^}]*\}`)

// keepDefaults gives every ${name:default} of a text itself as its value: the golden files show SeaTunnel's parse
// before variables are replaced.
func keepDefaults(text []byte) map[string]string {
	vars := map[string]string{}
	for _, m := range defaulted.FindAllSubmatch(text, -1) {
		vars[string(m[1])] = string(m[0])
	}
	return vars
}

func TestGoldenParse(t *testing.T) {
	files := jobFiles(t)
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(e2eDir, name))
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join(e2eDir, "golden-parse", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			job, _, err := Parse(text, Options{File: name, Vars: keepDefaults(text)})
			if err != nil {
				t.Fatal(err)
			}
			dec := json.NewDecoder(bytes.NewReader(want))
			dec.UseNumber()
			for _, d := range compareGolden("", job.Root, readGolden(t, dec), false) {
				t.Error(d)
			}
		})
	}
	t.Logf("%d job files compared", len(files))
}

type goldenField struct {
	key   string
	value any
}

// readGolden reads one JSON value with the order of its keys: objects are []goldenField.
func readGolden(t *testing.T, dec *json.Decoder) any {
	tok, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch tok {
	case json.Delim('{'):
		fields := []goldenField{}
		for dec.More() {
			key, _ := dec.Token()
			fields = append(fields, goldenField{key.(string), readGolden(t, dec)})
		}
		_, _ = dec.Token()
		return fields
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			list = append(list, readGolden(t, dec))
		}
		_, _ = dec.Token()
		return list
	}
	return tok
}

// compareGolden lists the differences. Inside a plugin block SeaTunnel loses the order of the keys.
func compareGolden(path string, n *option.Node, want any, plugin bool) (diffs []string) {
	differ := func() []string { return []string{fmt.Sprintf("%s: got %s, want %v", path, n.Describe(), want)} }
	if n == nil {
		return differ()
	}
	switch want := want.(type) {
	case []goldenField:
		if n.Kind != option.Object || len(n.Fields) != len(want) {
			return differ()
		}
		for i, w := range want {
			child := n.Child(w.key)
			if !plugin && n.Fields[i].Key != w.key {
				diffs = append(diffs, fmt.Sprintf("%s: key %d is %q, want %q", path, i, n.Fields[i].Key, w.key))
			}
			if child == nil {
				diffs = append(diffs, fmt.Sprintf("%s: key %q is missing", path, w.key))
				continue
			}
			diffs = append(diffs, compareGolden(path+"/"+w.key, child, w.value, false)...)
		}
	case []any:
		if n.Kind != option.List || len(n.List) != len(want) {
			return differ()
		}
		last := path[strings.LastIndexByte(path, '/')+1:]
		section := last == "source" || last == "transform" || last == "sink"
		for i, w := range want {
			diffs = append(diffs, compareGolden(fmt.Sprintf("%s/%d", path, i), n.List[i], w, section)...)
		}
	case string:
		if n.Kind != option.String || n.Text != want {
			return differ()
		}
	case json.Number:
		a, okA := new(big.Rat).SetString(n.Text)
		b, okB := new(big.Rat).SetString(want.String())
		if n.Kind != option.Number || !okA || !okB || a.Cmp(b) != 0 {
			return differ()
		}
	case bool:
		if n.Kind != option.Bool || n.Text != fmt.Sprint(want) {
			return differ()
		}
	case nil:
		if n.Kind != option.Null {
			return differ()
		}
	}
	return diffs
}
