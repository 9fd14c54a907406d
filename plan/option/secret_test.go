package option

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"strait/plan/fault"
)

func TestSecretName(t *testing.T) {
	for _, yes := range []string{"password", "PASSWORD", "db.password", "ssl.keystore.password", "secret-key", "access_key", "X-Auth", "Authorization", "sasl.jaas.config", "api-key", "refresh_token", "pwd"} {
		if !SecretName(yes) {
			t.Errorf("%s is no secret", yes)
		}
	}
	for _, no := range []string{"", "user", "passwords_file", "max_tokens", "author", "tokenizer", "key", "primary_key", "secretary", "bypass"} {
		if SecretName(no) {
			t.Errorf("%s is a secret", no)
		}
	}
}

func TestURLSecrets(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		var got []string
		for _, s := range urlSecrets(text) {
			got = append(got, text[s[0]:s[1]])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	f("")
	f("no url: a@b")
	f("http://h/x")
	f("http://h:80/x@y")
	f("http://user@h:80/")
	f("mongodb://h1:27017,h2:27017/db@x")
	f("http://[::1]:80/@")
	f("http://u:${env:X}@h/", "${env:X}")
	f("http://h:${port}/a@b")
	f("http://u:p@h/", "p")
	f("redis://:p@h", "p")
	f("mysql://u:p@ss@h/db", "p@ss")
	f("mysql://u:p/ss?#@h/db", "p/ss?#")
	f("mongodb://u:p@h1:1,h2:2/db?authSource=admin", "p")
	f("a://u:p@h, b://v:q@i?token=t&x=1#password=z", "p", "q", "t")
	f("jdbc:mysql://h/d?user=u&password=p%40&x=y", "p%40")
	f("jdbc:sqlserver://h:1433;databaseName=d;user=u;password=p;encrypt=false", "p")
	f("jdbc:oracle:thin:scott/tiger@//h:1521/s", "tiger")
	f("say http://u:p@h/ and go", "p")
	f("http://u:@h/")
	if got := Masked("x http://u:p@h/?token=t y"); got != "x http://u:***@h/?token=*** y" {
		t.Error(got)
	}
	if got := (&Node{Kind: String, Text: "http://u:hunter2@h"}).Describe(); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
}

func TestSecrets(t *testing.T) {
	inner := &Spec{Options: []Option{{Name: "key", Secret: true}, {Name: "b"}}}
	inner.Options = append(inner.Options, Option{Name: "more", Type: TObjects, Sub: inner}) // a spec may hold itself
	s := &Spec{Options: []Option{
		{Name: "conn.password", Aliases: []string{"pw"}, Secret: true}, {Name: "url"}, {Name: "map", Type: TStringMap},
		{Name: "all", Type: TStringMap, Secret: true}, {Name: "columns", Type: TAny, Columns: true}, {Name: "inner", Type: TObject, Sub: inner},
	}}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	n := obj("conn", obj("password", "s1"), "pw", num("2"), "url", "x://u:s3@h", "map", obj("a.token", "s4", "b", "x", "in", obj("passwd", "s5")),
		"all", obj("any", "s6", "flag", "s7"), "columns", obj("password", "string"),
		"inner", obj("key", "s8", "b", "x", "more", list(obj("key", "s9"))), "undeclared", obj("auth", list("s10")), "password", "s11")
	var got []string
	for _, f := range s.Secrets(n, "sink[0] (S)") {
		got = append(got, f.Path+" "+strings.Join(f.Parts(), " "))
	}
	want := []string{"sink[0] (S): conn.password s1", "sink[0] (S): pw 2", "sink[0] (S): url s3", "sink[0] (S): map.a.token s4", "sink[0] (S): map.in.passwd s5",
		"sink[0] (S): all.any s6", "sink[0] (S): all.flag s7", "sink[0] (S): inner.key s8", "sink[0] (S): inner.more[0].key s9",
		"sink[0] (S): undeclared.auth[0] s10", "sink[0] (S): password s11"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := (*Spec)(nil).Secrets(n, "x"); len(got) == 0 {
		t.Error("without a spec names count")
	}
}

func TestSecretDeclarations(t *testing.T) {
	for _, o := range []Option{{Name: "password"}, {Name: "x", Type: TInt, Secret: true}, {Name: "x", Type: TAny, Secret: true, Columns: true}} {
		if (&Spec{Options: []Option{o}}).Validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestLateValues(t *testing.T) {
	s := &Spec{Options: []Option{{Name: "text"}, {Name: "n", Type: TInt}, {Name: "b", Type: TBool}, {Name: "e", Type: TEnum, Enum: []string{"A"}}, {Name: "d", Type: TDuration}}}
	var l fault.List
	v := s.Decode(obj("text", "${env:X}", "n", "${env:N}", "b", "${file:/b}", "e", "${env:E}", "d", "${other}"), "S", &l)
	if v.String("text") != "${env:X}" {
		t.Error(v.String("text"))
	}
	for _, want := range []string{`S: n: "${env:N}" is filled in on the worker, and the value is needed when the job is planned`, "S: b: ", "S: e: ", "S: d: \"${other}\" is a variable without a value"} {
		if !strings.Contains(l.Err().Error(), want) {
			t.Errorf("%q is not in\n%v", want, l.Err())
		}
	}
}
