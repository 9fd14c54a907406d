package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strait/plan/secret"
)

// withInput runs stctl with something on standard input.
func withInput(t *testing.T, in string, args ...string) (string, string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	app := newApp(&out, &errs)
	app.Reader = io.Reader(strings.NewReader(in))
	l, err := take(app, append([]string{"stctl"}, args...))
	if err == nil {
		err = app.Run(l.args)
	}
	if err != nil && err.Error() != "" {
		errs.WriteString(err.Error() + "\n")
	}
	return out.String(), errs.String(), ExitCode(err)
}

func keysIn(t *testing.T, path string) *secret.Keyring {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := secret.ParseKeyring(text, path)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func opened(t *testing.T, ring *secret.Keyring, text string) string {
	t.Helper()
	var b strings.Builder
	for _, p := range secret.Split(text) {
		if p.Kind == secret.Sealed {
			v, err := ring.Open(p.Token)
			if err != nil {
				t.Fatal(err)
			}
			p.Text = "‹" + v + "›"
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

// TestSecretCommands walks through the life of a key as the README tells it.
func TestSecretCommands(t *testing.T) {
	dir := t.TempDir()
	keys, job := filepath.Join(dir, "k"), filepath.Join(dir, "job.conf")
	must := func(in string, args ...string) string {
		t.Helper()
		out, errs, code := withInput(t, in, args...)
		if code != 0 {
			t.Fatalf("%v: exit %d\n%s", args, code, errs)
		}
		return out
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if _, errs, code := withInput(t, "", args...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d, %s, want %q", args, code, errs, want)
		}
	}
	must("", "secret", "key", "new", "--file", keys)
	if info, err := os.Stat(keys); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	refused("is there already", "secret", "key", "new", "--file", keys)
	if _, err := secret.ParseKeyring([]byte(must("", "secret", "key", "new")), "x"); err != nil {
		t.Error(err)
	}
	first := keysIn(t, keys).IDs()[0]

	token := strings.TrimSpace(must("hunter2\n", "secret", "seal", "--secret-key-file", keys))
	if got := opened(t, keysIn(t, keys), token); got != "‹hunter2›" {
		t.Error(got)
	}
	var said struct{ Token, Key string }
	if err := json.Unmarshal([]byte(must("x", "secret", "seal", "--secret-key-file", keys, "-o", "json")), &said); err != nil || said.Key != first {
		t.Error(said, err)
	}
	refused("--secret-key-file is missing", "secret", "seal")
	refused("the value is empty", "secret", "seal", "--secret-key-file", keys)
	refused("k2 does not exist; `stctl secret key new", "secret", "seal", "--secret-key-file", keys+"2")
	refused("on standard input; a value on the command line", "secret", "seal", "--secret-key-file", keys, "hunter2", "x")

	text := "source { FakeSource { schema { fields { id = int } } } }\nsink { Console { url = \"x://u:hunter2@h\"\n properties { token = \"" + token + "\", t = \"${X}\" } } }\n"
	if err := os.WriteFile(job, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	sealed := must("", "secret", "seal", "--secret-key-file", keys, job)
	if got, want := opened(t, keysIn(t, keys), sealed), strings.NewReplacer("u:hunter2", "u:‹hunter2›", token, "‹hunter2›").Replace(text); got != want {
		t.Errorf("%s", got)
	}

	must("", "secret", "key", "rotate", "--file", keys)
	ring := keysIn(t, keys)
	if ids := ring.IDs(); len(ids) != 2 || ids[1] != first {
		t.Fatal(ids)
	}
	if info, _ := os.Stat(keys); info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
	must("", "secret", "reseal", "--secret-key-file", keys, job)
	after, _ := os.ReadFile(job)
	if k := secret.Keys(string(after)); len(k) != 1 || k[0] != ring.IDs()[0] {
		t.Error(k)
	}
	if got, want := opened(t, ring, string(after)), strings.Replace(text, token, "‹hunter2›", 1); got != want {
		t.Error(got)
	}
	if info, _ := os.Stat(job); info.Mode().Perm() != 0o640 {
		t.Error(info.Mode())
	}
	again := must("", "secret", "reseal", "--secret-key-file", keys, job, "-o", "json")
	if !strings.Contains(again, `"tokens": 0`) {
		t.Error(again)
	}
	other := filepath.Join(dir, "other")
	must("", "secret", "key", "new", "--file", other)
	refused("job.conf:3: the value is sealed under key "+ring.IDs()[0], "secret", "reseal", "--secret-key-file", other, job)
}

func TestShadeFlags(t *testing.T) {
	dir := t.TempDir()
	plain, coded := filepath.Join(dir, "plain.conf"), filepath.Join(dir, "coded.conf")
	text := "env { shade.identifier = base64 } # kept\nsource { Db { username = \"u\", password = hunter2, port = 5 } }\nsink { Db { password = ${pw}, auth = [a, \"b\"] } }\n"
	want := strings.NewReplacer(`"u"`, `"dQ=="`, "hunter2", `"aHVudGVyMg=="`, `[a, "b"]`, `["YQ==", "Yg=="]`).Replace(text)
	for path, text := range map[string]string{plain: text, coded: want} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"--encrypt", "-c", plain}, {"--encrypt", "--config", plain}, {"secret", "shade", "encrypt", plain}} {
		if out, errs, code := withInput(t, "", args...); code != 0 || out != want {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
		}
	}
	back := strings.NewReplacer("hunter2", `"hunter2"`, `[a, "b"]`, `["a", "b"]`).Replace(text)
	for _, args := range [][]string{{"--decrypt", "-c", coded}, {"secret", "shade", "decrypt", coded}} {
		if out, errs, code := withInput(t, "", args...); code != 0 || out != back {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
		}
	}
	for want, args := range map[string][]string{
		"exclude each other":      {"--encrypt", "--decrypt", "-c", plain},
		"name the job file":       {"--encrypt"},
		"write --encrypt or":      {"-c", plain},
		"is not base64":           {"--decrypt", "-c", plain},
		"takes one job file":      {"secret", "shade", "encrypt"},
		"does not exist":          {"--encrypt", "-c", plain + "x"},
		"nothing of the file is ": {"--encrypt", "-c", writeShadeless(t, dir)},
	} {
		if out, errs, code := withInput(t, "", args...); code != 1 || !strings.Contains(errs, want) || strings.Contains(errs+out, "hunter2") {
			t.Errorf("%v: exit %d, %s, want %q", args, code, errs, want)
		}
	}
}

func writeShadeless(t *testing.T, dir string) string {
	path := filepath.Join(dir, "none.conf")
	if err := os.WriteFile(path, []byte("source { Db { password = hunter2 } }\nsink { Db { } }"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
