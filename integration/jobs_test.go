package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"strait/integration/harness"
)

// scenario is one job file of jobs/ with what must come of it.
type scenario struct {
	job    string
	code   int
	before string            // a job that runs first
	vars   map[string]string // beside out and tmp; OUT stands for the folder of all outputs

	rows  []string            // what Console prints behind the kind, in any order
	lines map[string][]string // below the job's output: folder → lines of its files, in any order
	files string              // how the output files end
	end   []string            // what the end says
}

var scenarios = []scenario{
	{job: "fake_to_console", end: []string{"FINISHED", "source.FakeSource.0", "2         0        10"}},
	{job: "fake_to_blackhole", end: []string{"FINISHED", "200,000"}},
	{job: "csv_to_json", files: ".json", lines: map[string][]string{"": {
		`{"id":1,"name":"Ada","town":"London, Marylebone","born":"1815-12-10","height":1.65}`,
		`{"id":2,"name":"Grace","town":"New York","born":"1906-12-09","height":1.68}`,
		`{"id":3,"name":"Katherine \"K.\" Johnson","town":"White Sulphur Springs","born":"1918-08-26","height":1.60}`,
		`{"id":4,"name":"Edsger","town":"Rotterdam","born":"1930-05-11","height":1.80}`,
		`{"id":5,"name":"Barbara","town":"Los Angeles","born":"1939-11-07","height":null}`,
	}}},
	{job: "text_to_csv", files: ".csv", lines: map[string][]string{"": {
		"id,name,born,member", "1,Ada,1815-12-10,true", "2,Grace,1906-12-09,false", "3,Katherine,1918-08-26,true"}}},
	{job: "json_to_parquet", files: ".parquet"},
	{job: "parquet_to_console", before: "json_to_parquet", vars: map[string]string{"in": "OUT/json_to_parquet"},
		rows: []string{"1, Ada, [maths, engines], [London, 1010]", "2, Grace, [], [New York, 10001]", "3, Katherine, [orbits], null"}},
	{job: "assert_holds", end: []string{"FINISHED"}},
	{job: "assert_fails", code: 1, end: []string{"FAILED",
		`Assert: table "default.default.default", row 2 of subtask 0, column name: the value null breaks the rule NOT_NULL; the row is +I [2, null]`}},
	{job: "inmemory_throws", code: 1, end: []string{"FAILED", "sink[0] (InMemory)", "the second one too", "job.retry.times"}},
	{job: "split", rows: []string{"1, Ada Lovelace, Ada, Lovelace", "2, Plato, Plato, null"}},
	{job: "replace", rows: []string{"1, +49 30 12-34", "2, +49 40 56-78"}},
	{job: "copy", rows: []string{"1, 20.5, 20.5, 1", "2, 21.0, 21.0, 2"}},
	{job: "rowkind", rows: []string{"1, Ada, INSERT", "1, Ada, UPDATE_BEFORE", "1, Augusta Ada, UPDATE_AFTER", "2, Grace, INSERT"}},
	{job: "project", rows: []string{"Ada, 1"}},
	{job: "many_tables", files: ".csv", end: []string{"FINISHED", "0        7"}},
	{job: "branch", files: ".txt", end: []string{"sink.Console.0", "sink.LocalFile.0"}},
	{job: "union", rows: []string{"1, Ada", "2, Grace", "1, Ada", "2, Grace", `3, Katherine "K." Johnson`, "4, Edsger", "5, Barbara"}},
	{job: "orders", files: ".parquet"}, // the main job, looked at more closely elsewhere
}

// TestJobs runs every job file that is shown to users.
func TestJobs(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.job, func(t *testing.T) {
			dir := t.TempDir()
			if s.before != "" {
				if r := runJobFile(t, dir, scenario{job: s.before}); r.Code != 0 {
					t.Fatalf("%s: exit %d\n%s", s.before, r.Code, r.Stderr)
				}
			}
			r := runJobFile(t, dir, s)
			if r.Code != s.code {
				t.Fatalf("exit %d, want %d\n%s\n%s", r.Code, s.code, r.Stdout, r.Stderr)
			}
			wantPlain(t, r.Stderr)
			for _, want := range s.end {
				if !strings.Contains(r.Stderr, want) {
					t.Errorf("the end says nothing of %q:\n%s", want, r.Stderr)
				}
			}
			if s.rows != nil {
				wantSame(t, "rows of the Console", consoleRows(r.Stdout), s.rows)
			}
			for folder, want := range s.lines {
				wantSame(t, "lines of the files", fileLines(t, filepath.Join(dir, s.job, folder)), want)
			}
			if s.files != "" {
				wantOnlyFiles(t, filepath.Join(dir, s.job), s.files)
			}
			if left := leftovers(t, filepath.Join(dir, "tmp")); len(left) > 0 {
				t.Errorf("left below the temporary folder: %v", left)
			}
			switch s.job {
			case "many_tables":
				if n, m := len(fileLines(t, filepath.Join(dir, "many_tables/customers"))), len(fileLines(t, filepath.Join(dir, "many_tables/orders"))); n != 3 || m != 4 {
					t.Errorf("%d customers and %d orders, want 3 and 4", n, m)
				}
			case "branch":
				rows := consoleRows(r.Stdout)
				if len(rows) != 12 {
					t.Errorf("%d rows on the Console, want 12", len(rows))
				}
				wantSame(t, "the two sinks", fileLines(t, filepath.Join(dir, "branch")), rows)
			case "fake_to_console":
				if again := runJobFile(t, dir, s); !slices.Equal(consoleRows(r.Stdout), consoleRows(again.Stdout)) {
					t.Errorf("the seed gave other rows:\n%s\n%s", r.Stdout, again.Stdout)
				}
			}
		})
	}
}

func runJobFile(t *testing.T, dir string, s scenario) harness.Result {
	t.Helper()
	args := []string{"run", "integration/jobs/" + s.job + ".conf", "-i", "out=" + filepath.Join(dir, s.job), "-i", "tmp=" + filepath.Join(dir, "tmp")}
	for k, v := range s.vars {
		args = append(args, "-i", k+"="+strings.ReplaceAll(v, "OUT", dir))
	}
	return harness.Run(t, harness.Root(t), limit, args...)
}

var consoleRow = regexp.MustCompile(`(?m)^subtaskIndex=.* SeaTunnelRow#kind=\w+ : (.*)$`)

// consoleRows are the values of the rows that Console printed, sorted.
func consoleRows(stdout string) []string {
	rows := []string{}
	for _, m := range consoleRow.FindAllStringSubmatch(stdout, -1) {
		rows = append(rows, m[1])
	}
	sort.Strings(rows)
	return rows
}

// fileLines are the lines of all files below dir, sorted.
func fileLines(t *testing.T, dir string) []string {
	t.Helper()
	lines := []string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			lines = append(lines, strings.TrimRight(line, "\r\n"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(lines)
	return lines
}

func wantSame(t *testing.T, what string, got, want []string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func wantOnlyFiles(t *testing.T, dir, ending string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		if !strings.HasSuffix(path, ending) || strings.HasPrefix(filepath.Base(path), ".") {
			t.Errorf("%s does not belong there", path)
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Errorf("%d files below %s, %v", n, dir, err)
	}
}

// TestEveryPluginHasAJob: every job file is run by TestJobs, and every plugin of this build stands in one of them.
func TestEveryPluginHasAJob(t *testing.T) {
	root := harness.Root(t)
	files, err := filepath.Glob(filepath.Join(root, "integration/jobs/*.conf"))
	if err != nil || len(files) == 0 {
		t.Fatal("no job files", err)
	}
	var all strings.Builder
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".conf")
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.job == name }) {
			t.Errorf("%s has no scenario", file)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	r := harness.Run(t, root, limit, "connector", "list", "--output", "json")
	var plugins []struct{ Section, Name string }
	if err := json.Unmarshal([]byte(r.Stdout), &plugins); err != nil || len(plugins) == 0 {
		t.Fatalf("%v\n%s", err, r.Stdout)
	}
	for _, p := range plugins {
		if p.Name == "Tattle" { // in the build of these tests only; TestNoSecretGetsOut uses it
			continue
		}
		if !regexp.MustCompile(`(?m)\b` + p.Name + `\s*\{`).MatchString(all.String()) {
			t.Errorf("no job file of integration/jobs shows the %s %s", p.Section, p.Name)
		}
	}
}
