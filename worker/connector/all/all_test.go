package all

import (
	"testing"

	"strait/plan/option"
	"strait/worker/connector"
	"strait/worker/connector/known"
)

// TestReference: `stctl connector show` has a text for every option.
func TestReference(t *testing.T) {
	for _, f := range connector.AllSources() {
		check(t, "source "+f.Name, f.Doc, f.Claims, f.Options)
	}
	for _, f := range connector.AllSinks() {
		check(t, "sink "+f.Name, f.Doc, f.Claims, f.Options)
		if known.Find("sink", f.Name) == nil && f.Name != "Blackhole" && f.Name != "Tattle" {
			t.Errorf("sink %s: known has no such name, and it is not Strait's own", f.Name)
		}
	}
}

func check(t *testing.T, name, doc string, claims []string, spec option.Spec) {
	if doc == "" || len(claims) == 0 {
		t.Errorf("%s has no text or claims nothing", name)
	}
	documented(t, name, spec)
}

func documented(t *testing.T, at string, spec option.Spec) {
	for _, o := range spec.Options {
		if o.Doc == "" && !o.Hidden {
			t.Errorf("%s: option %s has no text", at, o.Name)
		}
		if o.Sub != nil {
			documented(t, at+": "+o.Name, *o.Sub)
		}
	}
}
