package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"strait/plan/fault"
	"strait/plan/option"
)

const sourceAndSink = "source { FakeSource { } }\nsink { Console { } }\n"

func TestLimits(t *testing.T) {
	lines := func(n int, f func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(f(i))
		}
		return b.String()
	}
	f := func(name, text, want string, vars map[string]string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, _, err := Parse([]byte(text), Options{File: "x.conf", Vars: vars})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %.300v, want %s", err, want)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	f("100 MB", strings.Repeat("a = 1\n", 100<<20/6), "the file has 104857596 bytes; a job file has at most 8388608 (8 MiB)", nil)
	f("braces", strings.Repeat("{", 100_000), "x.conf:1: found \"{\" where a key is needed", nil)
	f("objects", strings.Repeat("a {\n", 100_000), "x.conf:201: ", nil)
	f("lists", "a = "+strings.Repeat("[", 100_000), "nesting deeper than 200", nil)
	f("arrows", strings.Repeat("a->", 1_000_000)+"a = 1", "nesting deeper than 200", nil)
	f("sections", strings.Repeat("source { ", 100_000), "nesting deeper than 200", nil)
	f("openers of types", "a = "+strings.Repeat("(<", 4<<20-10), "no source", nil)
	f("values", "a = ["+strings.Repeat("1,", 600_000)+"]", "more than 500000 values", nil)
	f("empty lists", "a = ["+strings.Repeat("[],", 600_000)+"]", "more than 500000 values", nil)
	f("empty objects", "a = ["+strings.Repeat("{},", 600_000)+"]", "more than 500000 values", nil)
	f("mistakes", strings.Repeat("a = *\n", 1_000_000), "x.conf:30: ", nil)
	f("quotes", strings.Repeat("a = \"\n", 1_000_000), "x.conf:30: ", nil)
	f("closers", strings.Repeat("}", 1_000_000), "closes nothing", nil)
	f("variables", `a = "`+strings.Repeat("${x}", 100_000)+`"`, "the values of the variables make the file larger than 64 MiB", map[string]string{"x": strings.Repeat("y", 1<<20)})
	f("variables outside quotes", strings.Repeat("a = ${x}b\n", 100_000)+"c = ["+strings.Repeat("${x} ${x},", 1000)+"]", "the values of the variables make the file larger than 64 MiB", map[string]string{"x": strings.Repeat("y", 1<<20)})
	f("text from keys", "n0 = xxxxxxxxxxxxxxxx\n"+lines(30, func(i int) string { return fmt.Sprintf("n%d = ${n%d}${n%d}\n", i+1, i, i) }),
		"the values of the variables make the file larger than 64 MiB", nil)
	f("lists from keys", "n0 = [1]\n"+lines(60, func(i int) string { return fmt.Sprintf("n%d = [${n%d}, ${n%d}]\n", i+1, i, i) }),
		"multiply the values of the file to more than 1000000", nil)
	f("joined lists", "n0 = [1]\n"+lines(60, func(i int) string { return fmt.Sprintf("n%d = ${n%d} ${n%d}\n", i+1, i, i) }),
		"multiply the values of the file to more than 1000000", nil)
	f("chain", lines(10_000, func(i int) string { return fmt.Sprintf("n%d = ${n%d}\n", i, i+1) }), "leads through more than 200 other keys", nil)
	f("circle", "a = ${b.x}\nb = ${a.y}${a.y}${c.z}\nc = ${b.x}${b.x}${a}", "break the circle", nil)
	f("plus equals", strings.Repeat("a += 1\n", 50_000), "no source", nil)
	f("joins", "a = [1]"+strings.Repeat(" [1]", 100_000), "multiply the values of the file to more than 1000000", nil)
	f("merges", "b = {x = 1}\na = ${b}"+strings.Repeat(" { x = 1, y = 2, z = 3, u = 4, v = 5 }", 100_000), "values", nil)
}

// TestHostileVariable gives values that cannot be read as anything: they are text.
func TestHostileVariable(t *testing.T) {
	for _, value := range []string{strings.Repeat("[", 100_000), "[a\nb=1", "{a=1", "[${x}]", "[1] 2", "{} = 1", "[\"]", "\"a", "\x00", "[\xff]", "#", "//", "include \"x\"", "a = 1", "1 2"} {
		job, _, err := Parse([]byte("a = ${x}, b = \"${x}\"\n"+sourceAndSink), Options{Vars: map[string]string{"x": value}})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b"} {
			if n := job.Root.Child(key); n.Kind != option.String || n.Text != value {
				t.Errorf("%s of %.50q is %v %.50q", key, value, n.Kind, n.Text)
			}
		}
	}
}

// TestWideObject has many keys in one object and many occurrences of one key.
func TestWideObject(t *testing.T) {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "k%d { a = %d }\nk { k%d = 1 }\n", i, i, i)
	}
	b.WriteString(sourceAndSink)
	job, _, err := Parse([]byte(b.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(job.Root.Child("k").Fields); got != 20_000 {
		t.Errorf("got %d", got)
	}
}

// TestSecretsStayOut plants a value in every kind of mistake and looks for it in the messages.
func TestSecretsStayOut(t *testing.T) {
	const secret = "hunter2Pw"
	for _, text := range []string{
		`password = hunter2Pw"`, `password = "hunter2Pw`, `password = """hunter2Pw`, `password = hunter2Pw = 1`,
		`password = hunter2Pw$`, `password = *hunter2Pw`, `password = "\hunter2Pw"`, `password = hunter2Pw { }`, `password = { } hunter2Pw`,
		`password = [1] hunter2Pw`, `password = hunter2Pw${list}`, `password = ${list}hunter2Pw`, `password hunter2Pw`, `password "hunter2Pw"`,
		`password = hunter2Pw//x`, "password = hunter2Pw\npassword = hunter2Pw", `password = [hunter2Pw`, `password = hunter2Pw }`, `password = ${pw}${list}`,
		`password += hunter2Pw, password = hunter2Pw, password += 1`, `password = ${x:hunter2Pw`, "password = \"hunter2Pw\nx\"",
	} {
		for _, in := range []string{"list = [1]\nenv { shade.identifier = base64 }\nsource { Jdbc {\n%s\n} }\nsink { Console { } }", "list = [1]\nenv { %s }\n" + sourceAndSink,
			"list = [1]\n%s\n" + sourceAndSink, "source = hunter2Pw\nsink { A { %s } }"} {
			_, warnings, err := Parse([]byte(fmt.Sprintf(in, text)), Options{Vars: map[string]string{"pw": secret}})
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s:\n%v", text, err)
			}
			for _, w := range warnings {
				if strings.Contains(w.Error(), secret) {
					t.Errorf("%s: warning %v", text, w)
				}
			}
		}
	}
}

// TestReplay parses once with an environment and again, as the coordinator does, with what was used of it.
func TestReplay(t *testing.T) {
	text := []byte("env { a = ${HOME}, b = \"${HOME}/${USER:nobody}\", c = ${?SHELL} }\n" + sourceAndSink)
	env := map[string]string{"HOME": "/home/me", "SHELL": "sh", "OTHER": "x"}
	first, _, err := Parse(text, Options{Env: FixedEnv(env)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"HOME": "/home/me", "SHELL": "sh"}, first.EnvUsed); diff != "" {
		t.Error(diff)
	}
	again, _, err := Parse(text, Options{Env: FixedEnv(first.EnvUsed)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Error(diff)
	}
}

func TestSubstitute(t *testing.T) {
	got := Substitute("${a}/${b:c}/${table_name}/${now}/${x}", Options{Vars: map[string]string{"a": "1"}})
	if want := "1/c/${table_name}/${now}/${x}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestErrorsCarryPositions(t *testing.T) {
	_, _, err := Parse([]byte("env {\n  a = \"grün\" *\n}\n"+sourceAndSink), Options{File: "x.conf"})
	var m *fault.Mistake
	if !errors.As(err, &m) {
		t.Fatal(err)
	}
	if want := (fault.Position{File: "x.conf", Line: 2, Column: 14}); m.Pos != want || m.Path != "env.a" {
		t.Errorf("got %+v %s", m.Pos, m.Path)
	}
}

// TestIsNumber holds the corner cases of HOCON's numbers.
func TestIsNumber(t *testing.T) {
	for _, s := range []string{"0", "-0", "12", "1.5", "1.", "-.5", "1e5", "1E-5", "1.e+3", "-1.5e10", "007", "9223372036854775807"} {
		if !isNumber(s) {
			t.Errorf("%s is a number", s)
		}
	}
	for _, s := range []string{"", "-", ".", ".5", "-.", "1e", "1e+", "1.2.3", "1-2", "--1", "0x1F", "1_0", "Inf", "NaN", "1 ", "+1", "9223372036854775808", "e5"} {
		if isNumber(s) {
			t.Errorf("%s is no number", s)
		}
	}
}

// walk visits every node below n.
func walk(n *option.Node, visit func(*option.Node)) {
	visit(n)
	for _, e := range n.List {
		walk(e, visit)
	}
	for _, f := range n.Fields {
		walk(f.Value, visit)
	}
}
