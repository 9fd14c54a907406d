package file

import (
	"path/filepath"
	"testing"

	"strait/plan/option/optiontest"
	"strait/worker/connector"
)

// A relative path starts where the job was submitted, on every worker.
func TestRelativePathsStartInTheFolder(t *testing.T) {
	if got, _ := absolute("/srv/jobs", "data/in.csv"); got != "/srv/jobs/data/in.csv" {
		t.Errorf("relative path: %s", got)
	}
	if got, _ := absolute("/srv/jobs", "file:///data/in.csv"); got != "/data/in.csv" {
		t.Errorf("absolute path: %s", got)
	}
	if got, _ := absolute("", "data/in.csv"); !filepath.IsAbs(got) {
		t.Errorf("without a folder: %s", got)
	}
}

// A check touches no file: a path that is not there is no mistake, and the tables are not known.
func TestCheckWithoutIO(t *testing.T) {
	f := connector.FindSource("LocalFile")
	v := optiontest.Values(t, f.Options, `{"path": "/no/such/folder", "file_format_type": "csv", "schema": {"fields": {"id": "int"}}}`)
	s, err := f.New(t.Context(), connector.SourceConfig{Options: v, Parallelism: 1, NoIO: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.Tables() != nil {
		t.Errorf("tables %v, want none: columns may come from the paths", s.Tables())
	}
	if _, err := f.New(t.Context(), connector.SourceConfig{Options: v, Parallelism: 1}); err == nil {
		t.Error("a run must refuse a path that is not there")
	}
}
