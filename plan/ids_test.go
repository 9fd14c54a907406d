package plan

import (
	"strings"
	"testing"
)

func TestTaskGroupText(t *testing.T) {
	for _, g := range []TaskGroup{{}, {1, 2, 3}, {12, 0, 9999}} {
		back, err := ParseTaskGroup(g.String())
		if err != nil || back != g {
			t.Errorf("%s: %v, %v", g, back, err)
		}
	}
	for _, bad := range []string{"", "1/2", "1/2/3/4", "1/x/3", "1/-2/3", "1/2/", "a"} {
		if g, err := ParseTaskGroup(bad); err == nil {
			t.Errorf("%q is read as %s", bad, g)
		}
	}
}

func TestRange(t *testing.T) {
	if n := (Range{From: 2, To: 5}).Len(); n != 3 {
		t.Error(n)
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "0", "orders-2", strings.Repeat("x", 63)} {
		if err := CheckName("job", good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "-a", "A", "a_b", "a/b", "a b", "a\n", strings.Repeat("x", 64)} {
		if err := CheckName("job", bad); err == nil {
			t.Errorf("%q is a name", bad)
		}
	}
	want := `worker "A" is not a valid name; use 1 to 63 of a-z, 0-9 and '-', beginning with a letter or digit`
	if err := CheckName("worker", "A"); err.Error() != want {
		t.Error(err)
	}
}
