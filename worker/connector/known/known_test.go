package known

import (
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list() {
		if p.Section != "source" && p.Section != "transform" && p.Section != "sink" {
			t.Errorf("%+v: no section", p)
		}
		key := p.Section + " " + strings.ToLower(p.Name)
		if p.Name == "" || strings.TrimSpace(p.Name) != p.Name || seen[key] {
			t.Errorf("%+v is empty or stands twice", p)
		}
		seen[key] = true
	}
}

func TestFind(t *testing.T) {
	for _, want := range []Plugin{{"source", "Kafka", ""}, {"sink", "S3File", ""}, {"source", "MySQL-CDC", ""}, {"transform", "Sql", ""}} {
		if got := Find(want.Section, strings.ToUpper(want.Name)); got == nil || *got != want {
			t.Errorf("Find(%s, %s) = %v", want.Section, want.Name, got)
		}
	}
	if p := Find("transform", "dynamiccompile"); p == nil || !strings.Contains(p.Refused, "JVM") {
		t.Errorf("DynamicCompile: %v", p)
	}
	for _, c := range [][2]string{{"source", "Kafak"}, {"sink", "Blackhole"}, {"transform", "Kafka"}, {"source", ""}} {
		if p := Find(c[0], c[1]); p != nil {
			t.Errorf("Find(%s, %s) = %v", c[0], c[1], p)
		}
	}
	if n := len(Names("transform")); n < 20 {
		t.Errorf("%d transforms", n)
	}
}
