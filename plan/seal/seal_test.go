package seal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/plan/secret"
)

// random is a stream of bytes that is the same in every run.
func random() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{1}) }

func ring(t testing.TB, n int) *secret.Keyring {
	t.Helper()
	r := random()
	keys := make([]*secret.Key, n)
	for i := range keys {
		k, err := secret.NewKey(r)
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = k
	}
	return secret.NewKeyring(keys...)
}

type fakeCatalog struct{}

func (fakeCatalog) Lookup(_ config.Section, name string) logical.Plugin {
	inner := &option.Spec{Options: []option.Option{{Name: "url"}, {Name: "password", Secret: true}, {Name: "table"}}}
	return logical.Plugin{Name: name, Standing: logical.InBuild, Options: &option.Spec{Options: []option.Option{
		{Name: "url"}, {Name: "user"}, {Name: "password", Aliases: []string{"pass.word"}, Secret: true}, {Name: "list", Type: option.TStrings},
		{Name: "properties", Type: option.TStringMap}, {Name: "schema", Type: option.TObject, Columns: true},
		{Name: "port", Type: option.TInt}, {Name: "tables_configs", Type: option.TObjects, Sub: inner}}}}
}

var tokens = regexp.MustCompile(`sealed\([a-z0-9-]+\.[A-Za-z0-9_-]+\)`)

// shown is a text with every token as ‹what it seals›.
func shown(t testing.TB, keys *secret.Keyring, text string) string {
	return tokens.ReplaceAllStringFunc(text, func(token string) string {
		p := secret.Split(token)
		if len(p) != 1 || p[0].Kind != secret.Sealed {
			t.Fatalf("%s is no token", token)
		}
		v, err := keys.Open(p[0].Token)
		if err != nil {
			t.Fatal(err)
		}
		return "‹" + v + "›"
	})
}

const tail = "\nsource { S { } }\n"

// TestText: what is stored of a job, for every way a secret gets into it.
func TestText(t *testing.T) {
	keys := ring(t, 2)
	f := func(name, text, want string, set ...string) {
		t.Run(name, func(t *testing.T) {
			j := Job{File: "j.conf", Text: text + tail, Variables: map[string]string{}, Environment: map[string]string{}}
			var wantVars, wantWarn []string
			for _, s := range set {
				kind, rest, _ := strings.Cut(s, " ")
				k, v, _ := strings.Cut(rest, "=")
				switch kind {
				case "-i":
					j.Variables[k] = v
				case "env":
					j.Environment[k] = v
				case "keeps":
					wantVars = append(wantVars, rest)
				case "warns":
					wantWarn = append(wantWarn, rest)
				}
			}
			out, warnings, err := Text(j, fakeCatalog{}, keys, random())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want+tail, shown(t, keys, out.Text)); diff != "" {
				t.Error(diff)
			}
			for _, name := range wantVars {
				if _, ok := out.Variables[name]; !ok {
					if _, ok = out.Environment[name]; !ok {
						t.Errorf("%s is not stored", name)
					}
				}
			}
			if n := len(out.Variables) + len(out.Environment); n != len(wantVars) {
				t.Errorf("stored are %v and %v", out.Variables, out.Environment)
			}
			var told []string
			for _, w := range warnings {
				told = append(told, w.Error())
				if strings.Contains(w.Error(), "hunter2") {
					t.Errorf("a warning shows the secret: %v", w)
				}
			}
			if len(told) != len(wantWarn) {
				t.Errorf("warnings: %q", told)
			}
			for i := range wantWarn {
				if i < len(told) && !strings.Contains(told[i], wantWarn[i]) {
					t.Errorf("warning %q, want %q", told[i], wantWarn[i])
				}
			}
			// Sealing again changes nothing.
			again, _, err := Text(out, fakeCatalog{}, keys, random())
			if err != nil || again.Text != out.Text {
				t.Errorf("sealed again: %v\n%s", err, again.Text)
			}
		})
	}
	f("literal", `sink { Db { password = "hunter2", user = u } }`, `sink { Db { password = "‹hunter2›", user = u } }`)
	f("unquoted", "sink { Db {\n password = hunter2 # it\n user = u } }", "sink { Db {\n password = \"‹hunter2›\" # it\n user = u } }")
	f("number", `sink { Db { password = 123456 } }`, `sink { Db { password = "‹123456›" } }`)
	f("empty", `sink { Db { password = "" } }`, `sink { Db { password = "" } }`)
	f("alias", `sink { Db { pass { word = hunter2 } } }`, `sink { Db { pass { word = "‹hunter2›" } } }`)
	f("joined", `sink { Db { password = "hun"ter 2 } }`, `sink { Db { password = "‹hunter 2›" } }`)
	f("lines", "sink { Db { password = \"\"\"hun\nter\n2\"\"\", user = u\n url = x } }", "sink { Db { password = \"‹hun\nter\n2›\"\n\n, user = u\n url = x } }")
	f("escapes", `sink { Db { password = "a\"\\\nb" } }`, "sink { Db { password = \"‹a\"\\\nb›\" } }")
	f("command line", `sink { Db { password = ${pw}, user = "${user}" } }`, `sink { Db { password = "‹hunter2›", user = "${user}" } }`, "-i pw=hunter2", "-i user=u", "keeps user")
	f("quoted variable", `sink { Db { password = "x${pw}y" } }`, `sink { Db { password = "‹xhunter2y›" } }`, "-i pw=hunter2")
	f("environment", `sink { Db { password = ${PW}, user = ${WHO} } }`, `sink { Db { password = "‹hunter2›", user = ${WHO} } }`, "env PW=hunter2", "env WHO=u", "keeps WHO")
	f("default", `sink { Db { password = ${PW:hunter2} } }`, `sink { Db { password = "‹hunter2›" } }`)
	f("no value", `sink { Db { password = ${PW} } }`, `sink { Db { password = ${PW} } }`)
	f("shade", "env { shade.identifier = base64 }\nsink { Db { password = \"aHVudGVyMg==\", username = \"dQ==\" } }",
		"env { shade.identifier = base64 }\nsink { Db { password = \"‹hunter2›\", username = \"‹u›\" } }")
	f("url", `sink { Db { url = "mysql://u:hunter2@h:1/d?x=1", list = ["http://h/", "http://:hunter2@h"] } }`,
		`sink { Db { url = "mysql://u:‹hunter2›@h:1/d?x=1", list = ["http://h/", "http://:‹hunter2›@h"] } }`)
	f("url with variables", `sink { Db { url = "mysql://u:${pw}@${host}/${table_name}" } }`, `sink { Db { url = "mysql://u:‹hunter2›@h1/${table_name}" } }`, "-i pw=hunter2", "-i host=h1")
	f("url joined", `sink { Db { url = "mysql://u:"${pw}"@h/" } }`, `sink { Db { url = "mysql://u:‹hunter2›@h/" } }`, "-i pw=hunter2")
	f("url of a variable with braces", `sink { Db { url = ${url} } }`, `sink { Db { url = "‹mysql://u:hunter2@${x}/›" } }`, "-i url=mysql://u:hunter2@${x}/", "-i x=y")
	f("url parameter", `sink { Db { url = "jdbc:sqlserver://h;user=u;password=hunter2;x=1" } }`, `sink { Db { url = "jdbc:sqlserver://h;user=u;password=‹hunter2›;x=1" } }`)
	f("no secret in a url", `sink { Db { url = "http://git@h:80/x@y", list = "http://h:80/@" } }`, `sink { Db { url = "http://git@h:80/x@y", list = "http://h:80/@" } }`)
	f("map", `sink { Db { properties { db.password = hunter2, user = u, Authorization = "Bearer x" } } }`,
		`sink { Db { properties { db.password = "‹hunter2›", user = u, Authorization = "‹Bearer x›" } } }`)
	f("columns", `sink { Db { schema { fields { password = string } } } }`, `sink { Db { schema { fields { password = string } } } }`)
	f("list of tables", `sink { Db { tables_configs = [ { table = a, password = hunter2 }, { table = b, url = "x://u:hunter3@h" } ] } }`,
		`sink { Db { tables_configs = [ { table = a, password = "‹hunter2›" }, { table = b, url = "x://u:‹hunter3›@h" } ] } }`)
	f("list of a variable", `sink { Db { tables_configs = ${t} } }`, `sink { Db { tables_configs = [{"table": "a", "password": "‹hunter2›"}] } }`, `-i t=[{table = a, password = hunter2}]`)
	f("twice", "sink { Db { password = hunter2 }\n Db { password = hunter3 } }", "sink { Db { password = \"‹hunter2›\" }\n Db { password = \"‹hunter3›\" } }")
	f("constant", "pw = hunter2\nsink { Db { password = ${pw} } }", "pw = \"‹hunter2›\"\nsink { Db { password = ${pw} } }")
	f("constant in a url", "db { p = hunter2 }\nsink { Db { url = \"x://u:\"${db.p}\"@h\" } }", "db { p = \"‹hunter2›\" }\nsink { Db { url = \"x://u:‹hunter2›@h\" } }")
	f("constant named so", "db { token = hunter2 }\nsink { Db { user = ${db.token} } }", "db { token = \"‹hunter2›\" }\nsink { Db { user = ${db.token} } }")
	f("replaced value", "sink { Db {\n password = hunter2\n password = hunter3 } }", "sink { Db {\n password = \"‹hunter2›\"\n password = \"‹hunter3›\" } }")
	f("comment", "# password = hunter0\n// the hunter2 of old\n# text\nsink { Db { password = hunter2 } }", "#\n#\n# text\nsink { Db { password = \"‹hunter2›\" } }")
	f("references", `sink { Db { password = "${env:PW}", url = "x://u:${file:/p}@h", user = ${env:WHO} } }`, `sink { Db { password = "${env:PW}", url = "x://u:${file:/p}@h", user = ${env:WHO} } }`)
	f("reference within", `sink { Db { password = "a${env:PW}b" } }`, `sink { Db { password = "‹a›${env:PW}‹b›" } }`)
	f("reference of a variable is data", `sink { Db { password = ${pw} } }`, `sink { Db { password = "‹a${env:PW}b›" } }`, "-i pw=a${env:PW}b")
	f("used elsewhere", "sink { Db { password = ${pw}\n user = ${pw} } }", "sink { Db { password = \"‹hunter2›\"\n user = ${pw} } }", "-i pw=hunter2", "keeps pw",
		`warns j.conf:2: sink[0] (Db): user: has the value of a secret`, "warns -i pw has the value")
	f("same literal elsewhere", "sink { Db { password = hunter2\n user = xhunter2 } }", "sink { Db { password = \"‹hunter2›\"\n user = xhunter2 } }", "warns j.conf:2: the value of a secret stands in this line too")
	f("env", "env { custom_parameters { api-key = hunter2 } }\nsink { Db {} }", "env { custom_parameters { api-key = \"‹hunter2›\" } }\nsink { Db {} }")
	f("bom", "\ufeffsink { Db { password = hunter2 } }", "\ufeffsink { Db { password = \"‹hunter2›\" } }")
}

func TestTextJSON(t *testing.T) {
	keys := ring(t, 1)
	text := `{"env": {}, "source": [{"plugin_name": "S"}], "sink": [{"plugin_name": "Db", "password": "hunter2"}]}`
	out, _, err := Text(Job{File: "j.json", Text: text}, fakeCatalog{}, keys, random())
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(text, "hunter2", "‹hunter2›", 1); shown(t, keys, out.Text) != want {
		t.Error(shown(t, keys, out.Text))
	}
}

func TestNoKey(t *testing.T) {
	_, _, err := Text(Job{File: "j.conf", Text: "sink { Db {\n password = hunter2\n url = \"x://u:hunter3@h\"\n user = \"${env:U}\" } }" + tail}, fakeCatalog{}, nil, random())
	if !errors.Is(err, ErrPlain) {
		t.Fatal(err)
	}
	for _, want := range []string{"j.conf:2: sink[0] (Db): password: a secret in plain text", "j.conf:3: sink[0] (Db): url: ", "${file:PATH}", "--allow-plain-secrets", "--secret-key-file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter") {
		t.Error(err)
	}
	if _, _, err := Text(Job{Text: "sink { Db { password = hunter2"}, fakeCatalog{}, ring(t, 1), random()); err == nil {
		t.Error("a text that cannot be read was accepted")
	}
	if _, _, err := Text(Job{File: "j.conf", Text: `sink { Db { user = u, password = "${env:P}" } }` + tail}, fakeCatalog{}, nil, random()); err != nil {
		t.Error(err)
	}
}

func TestShadedAndPlainUse(t *testing.T) {
	text := "env { shade.identifier = base64 }\nc = \"aHVudGVyMg==\"\nsink { Db { password = ${c}, properties { password = ${c} } } }" + tail
	if _, _, err := Text(Job{File: "j.conf", Text: text}, fakeCatalog{}, ring(t, 1), random()); err == nil || !strings.Contains(err.Error(), "write it twice") {
		t.Error(err)
	}
}

// TestPlan: the leader seals what somebody put by hand, or refuses it.
func TestPlan(t *testing.T) {
	keys := ring(t, 1)
	parse := func(text string) *config.Job {
		job, _, err := config.Parse([]byte(text+tail), config.Options{File: "j.conf"})
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	job := parse("sink { Db { user = u\n password = hunter2\n url = \"x://u:hunter2@h\" } }")
	if _, err := Plan(job, fakeCatalog{}, nil, random()); !errors.Is(err, ErrPlain) || !strings.Contains(err.Error(), "j.conf:2") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
	places, err := Plan(job, fakeCatalog{}, keys, random())
	if err != nil || len(places) != 2 {
		t.Fatal(places, err)
	}
	o := job.Sinks[0].Options
	if got := shown(t, keys, o.Child("password").Text+" "+o.Child("url").Text+" "+o.Child("user").Text); got != "‹hunter2› x://u:‹hunter2›@h u" {
		t.Error(got)
	}
	if places, err = Plan(job, fakeCatalog{}, nil, random()); err != nil || len(places) != 0 {
		t.Error(places, err)
	}
}

func TestExpand(t *testing.T) {
	keys := ring(t, 2)
	token, err := keys.Seal("a${env:PW}", random())
	if err != nil {
		t.Fatal(err)
	}
	src := Sources{Keys: keys, Env: func(n string) (string, bool) {
		if n == "NONE" {
			return "", false
		}
		return "pw-" + n, true
	},
		File: func(p string) (string, error) {
			if p == "/none" {
				return "", errors.New("it does not exist")
			}
			return "text of " + p, nil
		}}
	job, _, err := config.Parse([]byte(fmt.Sprintf("sink { Db { password = \"%s-${env:X}\", list = [\"${file:/f}\", b], port = 5, user = ${?env:NONE} } }%s", token, tail)), config.Options{File: "j.conf"})
	if err != nil {
		t.Fatal(err)
	}
	var l fault.List
	before := job.Sinks[0].Options
	got, values := src.Expand(before, "sink[0] (Db)", &l)
	if l.Err() != nil {
		t.Fatal(l.Err())
	}
	if p := got.Child("password").Text; p != "a${env:PW}-pw-X" {
		t.Error(p)
	}
	if p := got.Child("list").List; p[0].Text != "text of /f" || p[1].Text != "b" || before.Child("list").List[0].Text != "${file:/f}" {
		t.Error(p[0], p[1])
	}
	if got.Child("user").Text != "" || got.Child("port") != before.Child("port") {
		t.Error("user or port")
	}
	if diff := cmp.Diff([]string{"a${env:PW}", "pw-X", "text of /f"}, values); diff != "" {
		t.Error(diff)
	}

	src.Keys = nil
	job.Sinks[0].Options.Child("list").List[1].Text = "${env:NONE}"
	job.Sinks[0].Options.Child("list").List[0].Text = "${file:/none}"
	src.Expand(before, "sink[0] (Db)", &l)
	for _, want := range []string{"sink[0] (Db): password: the value is sealed under key " + keys.IDs()[0], "secret.key-file",
		"sink[0] (Db): list[0]: the file /none cannot be read here: it does not exist", "sink[0] (Db): list[1]: the environment variable NONE is not set here"} {
		if !strings.Contains(l.Err().Error(), want) {
			t.Errorf("%q is not in\n%v", want, l.Err())
		}
	}
}

// FuzzText: whatever is sealed reads as the same job but for its secrets, keeps its lines and has no secret left.
func FuzzText(f *testing.F) {
	for _, s := range []string{"password = hunter2", "a = ${x}\n password = ${x}", "password += b", "password = [a, b]", "password = \"\"\"a\nb\"\"\" c", "properties = ${x} {password = p}",
		"url = \"x://a:b@c\"\nurl = ${url}d", "tables_configs = ${x}", "password = ${?y}", "password = a\npassword { b = c }", "a->password = b, password = ${sink}"} {
		f.Add(s, "hunter2", false)
		f.Add(s, `[{password = "x"}]`, true)
		f.Add(s, "mysql://u:p@${x}/sealed(k.abc)", false)
	}
	keys := ring(f, 1)
	f.Fuzz(func(t *testing.T, options, value string, shade bool) {
		text := "c = \"" + strings.NewReplacer("\"", "", "\\", "", "\n", "", "\x00", "").Replace(value) + "\"\nsource { S { } }\nsink { Db { " + options + "\n} }\n"
		if shade {
			text += "env { shade.identifier = base64 }"
		}
		j := Job{File: "j.conf", Text: text, Variables: map[string]string{"x": value}, Environment: map[string]string{"E": value}}
		job, _, err := config.Parse([]byte(text), j.options())
		if err != nil {
			return
		}
		out, _, err := Text(j, fakeCatalog{}, keys, random())
		if err != nil {
			if strings.Contains(err.Error(), "BUG") && !strings.Contains(text+value, "BUG") {
				t.Fatalf("%v\n%s", err, text)
			}
			return
		}
		if bytes.Count([]byte(out.Text), []byte("\n")) != strings.Count(text, "\n") {
			t.Fatalf("lines\n%s\n%s", text, out.Text)
		}
		again, _, err := config.Parse([]byte(out.Text), out.options())
		if err != nil {
			t.Fatalf("%v\n%s", err, out.Text)
		}
		s := &sealer{keys: keys}
		if at := s.differs(job, again); at != "" {
			t.Fatalf("%s differs\n%s\n%s", at, text, out.Text)
		}
		for _, v := range Find(again, fakeCatalog{}) {
			if plain(&v, "") && !strings.Contains(value, "${") && !strings.Contains(options, "${") {
				t.Fatalf("%s is plain\n%s", v.Path, out.Text)
			}
		}
	})
}
