package secret

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func random() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{7}) }

func newKeys(t testing.TB, n int) []*Key {
	t.Helper()
	r := random()
	keys := make([]*Key, n)
	for i := range keys {
		var err error
		if keys[i], err = NewKey(r); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

func token(t testing.TB, text string) Token {
	t.Helper()
	p := Split(text)
	if len(p) != 1 || p[0].Kind != Sealed {
		t.Fatalf("%q is no token", text)
	}
	return p[0].Token
}

func TestSealOpen(t *testing.T) {
	k := newKeys(t, 3)
	old, now := NewKeyring(k[0]), NewKeyring(k[1], k[0])
	for _, text := range []string{"", "p", "hunter2", strings.Repeat("ü\n\x00\"", 1000)} {
		a, err := old.Seal(text, random())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := now.Open(token(t, a)); err != nil || got != text {
			t.Errorf("%q, %v", got, err)
		}
		b, _ := now.Seal(text, random())
		if Keys(a)[0] != k[0].ID || Keys(b)[0] != k[1].ID {
			t.Error("the first key does not seal")
		}
		_, err = old.Open(token(t, b))
		if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), k[1].ID) || !strings.Contains(err.Error(), "secret.key-file") {
			t.Error(err)
		}
	}
	r := random()
	a, _ := old.Seal("x", r)
	b, _ := old.Seal("x", r)
	if a == b {
		t.Error("one text gives one token twice")
	}
	if _, err := (*Keyring)(nil).Seal("x", random()); !errors.Is(err, ErrNoKey) {
		t.Error(err)
	}
}

// TestDamage: no token opens after a change of any of its characters, under another id, or under another key of its id.
func TestDamage(t *testing.T) {
	k := newKeys(t, 2)
	ring := NewKeyring(k...)
	text, _ := ring.Seal("hunter2", random())
	for i := range text {
		for _, c := range "Ab0-_." {
			changed := text[:i] + string(c) + text[i+1:]
			if changed == text {
				continue
			}
			for _, p := range Split(changed) {
				if p.Kind != Sealed {
					continue
				}
				if v, err := ring.Open(p.Token); err == nil {
					t.Fatalf("%s opens: %q", changed, v)
				}
			}
		}
	}
	moved := strings.Replace(text, k[0].ID, k[1].ID, 1)
	_, err := ring.Open(token(t, moved))
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), k[1].ID) {
		t.Error(err)
	}
	same, _ := newKey(k[0].ID, k[1].raw)
	if _, err := NewKeyring(same).Open(token(t, text)); err == nil {
		t.Error("another key of the same id opens")
	}
}

func TestKeyring(t *testing.T) {
	k := newKeys(t, 2)
	ring, err := ParseKeyring([]byte("# head\n\n"+k[0].Line()+"\r\n  "+k[1].Line()), "f")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{k[0].ID, k[1].ID}, ring.IDs()); diff != "" {
		t.Error(diff)
	}
	text, _ := NewKeyring(k[1]).Seal("x", random())
	if v, err := ring.Open(token(t, text)); err != nil || v != "x" {
		t.Error(v, err)
	}
	key := strings.Fields(k[0].Line())[1]
	for _, form := range []string{"%v", "%s", "%+v", "%#v"} {
		if out := fmt.Sprintf(form+form, ring, k[0]); strings.Contains(out, key) || strings.Contains(out, fmt.Sprint(k[0].raw)) {
			t.Errorf("%s shows the key: %s", form, out)
		}
	}
	f := func(text, want string) {
		t.Helper()
		_, err := ParseKeyring([]byte(text), "f")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), key[:20]) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f("", "f: no key in it")
	f(k[0].Line()+"\n"+k[0].Line(), "f:2: the key id "+k[0].ID+" stands twice")
	f(key, "f:1: not a key")
	f("K "+key, "f:1: not a key")
	f("k "+key[:20], "f:1: key k is not 32 bytes")
	f("k "+key+"x", "f:1: key k is not 32 bytes")
}

func TestSplit(t *testing.T) {
	tok, _ := NewKeyring(newKeys(t, 1)...).Seal("x", random())
	f := func(text string, want ...string) {
		t.Helper()
		var got []string
		for _, p := range Split(text) {
			got = append(got, fmt.Sprint(p.Kind, " ", p.Text, " ", p.Name))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	f("")
	f("a ${x} sealed(k.abc) ${env} ${env:} ${env:a${b}} $", "0 a ${x} sealed(k.abc) ${env} ${env:} ${env:a${b}} $ ")
	f("x://u:"+tok+"@h", "0 x://u: ", "1 "+tok+" ", "0 @h ")
	f(tok+tok, "1 "+tok+" ", "1 "+tok+" ")
	f("${env:A}-${ file : /a b:c }${?env:B}", "2 ${env:A} A", "0 - ", "3 ${ file : /a b:c } /a b:c", "2 ${?env:B} B")
	if Late("a"+tok) != "sealed" || Late("${env:A}") != "${env:A}" || Late("${table_name}") != "" {
		t.Error("Late")
	}
}

func FuzzSplit(f *testing.F) {
	keys := NewKeyring(newKeys(f, 1)...)
	tok, _ := keys.Seal("x", random())
	for _, s := range []string{"", tok, "sealed(", "sealed(a.b)", "${env:", "${env:A}${file:b}", tok[:len(tok)-1], "ssealed(" + tok} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		var b strings.Builder
		for _, p := range Split(text) {
			b.WriteString(p.Text)
			if p.Text == "" {
				t.Fatal("an empty part")
			}
			if p.Kind == Sealed {
				if again := Split(p.Text); len(again) != 1 || again[0].Kind != Sealed {
					t.Fatalf("%q is a token in %q only", p.Text, text)
				}
				_, _ = keys.Open(p.Token)
			}
		}
		if b.String() != text {
			t.Fatalf("%q became %q", text, b.String())
		}
		sealed, err := keys.Seal(value, random())
		if err != nil {
			t.Fatal(err)
		}
		if v, err := keys.Open(token(t, sealed)); err != nil || v != value {
			t.Fatalf("%q, %v", v, err)
		}
	})
}
