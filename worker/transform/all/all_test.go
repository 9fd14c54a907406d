package all

import (
	"testing"

	"strait/worker/transform"
)

// TestReference: `stctl connector show` has a text for every option.
func TestReference(t *testing.T) {
	for _, f := range transform.All() {
		if f.Doc == "" {
			t.Errorf("%s has no text", f.Name)
		}
		for _, o := range f.Options.Options {
			if o.Doc == "" && !o.Hidden {
				t.Errorf("%s: option %s has no text", f.Name, o.Name)
			}
		}
	}
	if n := len(transform.All()); n < 7 {
		t.Errorf("%d transforms", n)
	}
}
