package fault

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestMistakeText(t *testing.T) {
	f := func(m Mistake, want string) {
		t.Helper()
		if got := m.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(Mistake{Found: "wrong"}, "wrong")
	f(Mistake{Pos: Position{File: "a.conf", Line: 3}, Path: "source[0] (X): n", Found: "wrong", Remedy: "do right"}, "a.conf:3: source[0] (X): n: wrong; do right")
	f(Mistake{Pos: Position{Line: 3}, Found: "wrong"}, "line 3: wrong")
	f(Mistake{Pos: Position{File: "a.conf"}, Found: "wrong"}, "a.conf: wrong")
}

func TestListOrder(t *testing.T) {
	var l List
	if l.Err() != nil || l.Len() != 0 {
		t.Fatal("an empty list has an error")
	}
	l.AddError(nil)
	l.Add(Position{}, "", "nowhere", "")
	l.Add(Position{File: "b", Line: 1}, "", "b1", "")
	l.Add(Position{File: "a", Line: 9}, "", "a9", "")
	l.AddError(At(Position{File: "a", Line: 2}, "p", io.EOF))
	l.Add(Position{File: "a", Line: 9}, "", "a9 again", "")
	l.Warn(Position{}, "", "careful", "")
	l.AddWarning(&Mistake{Found: "more"})
	want := "a:2: p: EOF\na:9: a9\na:9: a9 again\nb:1: b1\nnowhere"
	if got := l.Err().Error(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if l.Len() != 5 || len(l.Warnings()) != 2 || !errors.Is(l.Err(), io.EOF) {
		t.Error(l.Len(), l.Warnings())
	}
}

func TestSplit(t *testing.T) {
	f := func(err error, want ...string) {
		t.Helper()
		var got []string
		for _, e := range Split(err) {
			got = append(got, e.Error())
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	f(nil)
	f(a, "a")
	f(errors.Join(a, errors.Join(b, c)), "a", "b", "c")
	f(&Many{Errs: []error{a, errors.Join(b, c)}}, "a", "b", "c")
	f(fmt.Errorf("x: %w", errors.Join(a, b)), "x: a\nb")
	f(fmt.Errorf("%w and %w", a, b), "a and b")
}

func TestFatal(t *testing.T) {
	f := func(err error, want bool) {
		t.Helper()
		if IsFatal(err) != want {
			t.Errorf("%v: fatal is %v", err, !want)
		}
	}
	f(nil, false)
	f(io.EOF, false)
	f(Fatal(nil), false)
	f(Fatal(io.EOF), true)
	f(fmt.Errorf("reading: %w", Fatalf("no %s", "file")), true)
	f(&Mistake{}, true)
	f(At(Position{}, "", io.EOF), false)
	f(At(Position{}, "", &Mistake{}), true)
	f(&Many{Errs: []error{io.EOF, io.ErrNoProgress}}, false)
	f(&Many{Errs: []error{io.EOF, &Mistake{}}}, true)
	if At(Position{}, "", nil) != nil || !errors.Is(Fatal(io.EOF), io.EOF) {
		t.Error("wrapping")
	}
	if m := (&Mistake{Err: ErrNotInBuild}); !errors.Is(m, ErrNotInBuild) {
		t.Error("a mistake wraps its cause")
	}
}

func TestPositionText(t *testing.T) {
	for _, p := range []Position{{}, {Line: 3}, {File: `c:\a:b.conf`, Line: 1, Column: 2}, {File: "x"}} {
		b, err := p.MarshalText()
		var back Position
		if err != nil || back.UnmarshalText(b) != nil || back != p {
			t.Errorf("%+v: %s, %+v", p, b, back)
		}
	}
	for _, bad := range []string{"", "x", "x:1", "x:y:1", "x:1:y", "x:-1:2"} {
		if err := new(Position).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
