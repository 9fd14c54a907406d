package config

import (
	"strings"
	"testing"

	"strait/plan/option"
)

func TestParseSettings(t *testing.T) {
	env := FixedEnv(map[string]string{"PW": "s3cret", "now": "x"})
	f := func(text string, want ...string) {
		t.Helper()
		n, err := ParseSettings([]byte(text), Options{File: "x.conf", Env: env})
		if err != nil {
			t.Errorf("%s\n%v", text, err)
			return
		}
		for i := 0; i < len(want); i += 2 {
			if got := n.Lookup(want[i]); got == nil || got.Text != want[i+1] {
				t.Errorf("%s\n%s is %s, want %q", text, want[i], got.Describe(), want[i+1])
			}
		}
	}
	f("")
	f(" \n# nothing\n")
	f("a.b = 1, a { c = 2 }", "a.b", "1", "a.c", "2")
	f("a.b = 1\na { b = 2 }", "a.b", "2") // the later counts
	f("a { b = 2 }\na.b = 1", "a.b", "1")
	f("a.b.c = 1\na.b.d = 2\na { b.e = 3 }", "a.b.c", "1", "a.b.d", "2", "a.b.e", "3")
	f(`{"a": {"b": "x"}}`, "a.b", "x")
	f("a = ${PW}\nb = \"-${PW}-\"\nc = ${now}\nd = ${a}\ne = ${x:7}\nf = ${env:PW}", "f", "s3cret", "a", "s3cret", "b", "-s3cret-", "c", "x", "d", "s3cret", "e", "7")
	f("source { b = 1 }", "source.b", "1") // no section of plugins

	n, err := ParseSettings([]byte(`labels { "a.b/c" = x }`), Options{File: "x.conf"})
	if err != nil {
		t.Fatal(err)
	}
	s := &option.Spec{Options: []option.Option{{Name: "labels", Type: option.TStringMap}}}
	if p := s.Decode(n, "", nil).Pairs("labels"); len(p) != 1 || p[0].Key != "a.b/c" {
		t.Errorf("%v", p)
	}

	bad := func(text string, want ...string) {
		t.Helper()
		_, err := ParseSettings([]byte(text), Options{File: "x.conf", Env: env})
		if err == nil {
			t.Errorf("%s\nis accepted", text)
			return
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s\n%v\nwant %s", text, err, w)
			}
		}
	}
	bad("a = ${NONE}\nb = \"${NIX}\"", "x.conf:1: no value for ${NONE}; set the environment variable NONE, or write ${NONE:DEFAULT}", "x.conf:2: no value for ${NIX}")
	bad("a {\n b = 1\n", "x.conf:1: the { opened here is never closed")
	bad("[1]", "x.conf:1: the file begins with a list; write key = value or key { … }")
	bad("include \"y.conf\"", "a settings file stands for itself; put the included text into this file, or take values from the environment with ${NAME}")
	bad("a = \"\x00\"", "give a settings file in HOCON or JSON")
	bad("a = ${table_name}", "no value for ${table_name}")
	bad("a = ${env:NIX}\nb = ${file:/x}", "x.conf:1: no value for ${NIX}; set", "x.conf:2: ${file:…} is for job files")
}
