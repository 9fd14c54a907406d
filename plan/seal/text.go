package seal

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/secret"
)

// Job is a job as it is stored.
type Job struct {
	File        string
	Text        string
	Variables   map[string]string // -i
	Environment map[string]string // what the text asks for
}

func (j *Job) options() config.Options {
	return config.Options{File: j.File, Vars: j.Variables, Env: config.FixedEnv(j.Environment)}
}

// ErrPlain is wrapped by the mistakes of a job whose secrets cannot be sealed for want of a key.
var ErrPlain = errors.New("plain secrets")

// Text seals the secrets of a job. Warnings say what stays in clear. Without a key the error has one mistake for each
// secret, wrapping ErrPlain. A text that cannot be read is refused with its mistakes: nobody knows what is in it.
func Text(j Job, cat Catalog, keys *secret.Keyring, random io.Reader) (Job, []*fault.Mistake, error) {
	ed, _, err := config.ParseEditable([]byte(j.Text), j.options())
	if err != nil {
		return Job{}, nil, err
	}
	s := &sealer{ed: ed, keys: keys, random: random, edits: map[*option.Node]string{}, whole: map[*option.Node]bool{}}
	found := s.shaded(Find(ed.Job, cat))
	for i := range found {
		s.secret(&found[i])
	}
	if err := s.list.Err(); err != nil {
		return Job{}, nil, err
	}
	if err := s.constants(); err != nil {
		return Job{}, nil, err
	}
	if err := s.twins(); err != nil {
		return Job{}, nil, err
	}
	out := j
	if len(s.edits) > 0 || len(found) > 0 {
		text, err := ed.Replace(s.edits, s.telling)
		if err != nil {
			return Job{}, nil, fmt.Errorf("%s: the secrets cannot be sealed: %w", j.File, err)
		}
		out.Text = string(text)
	}
	again, _, err := config.ParseEditable([]byte(out.Text), j.options())
	if err != nil {
		return Job{}, nil, fmt.Errorf("BUG: the sealed text of the job cannot be read: %w", err)
	}
	if at := s.differs(ed.Job, again.Job); at != "" {
		return Job{}, nil, fmt.Errorf("%s: %s cannot be sealed where it is written; write the value itself there", j.File, at)
	}
	out.Environment = again.Job.EnvUsed
	out.Variables = map[string]string{}
	for name, v := range j.Variables {
		if again.Vars[name] {
			out.Variables[name] = v
		}
	}
	return out, s.left(out, again.Job, cat), nil
}

// sealer collects what is to change in a text.
type sealer struct {
	ed     *config.Editable
	keys   *secret.Keyring
	random io.Reader
	edits  map[*option.Node]string // by origin
	whole  map[*option.Node]bool   // edits of all of a value
	values []string                // the texts that were sealed
	list   fault.List
}

// shaded adds the values that stand encoded in the text.
func (s *sealer) shaded(found []option.Secret) []option.Secret {
	known := map[*option.Node]bool{}
	for i := range found {
		known[found[i].Node] = found[i].Spans == nil
	}
	for _, b := range blocks(s.ed.Job) {
		each(b.Options, b.Path(), func(n *option.Node, path string) {
			if s.ed.Shaded(n) && !known[n] && n.Text != "" {
				found = append(found, option.Secret{Node: n, Path: path})
			}
		})
	}
	return found
}

// secret seals one value where it is written.
func (s *sealer) secret(v *option.Secret) {
	written := s.ed.Written(v.Node)
	if !plain(v, written) {
		return
	}
	if s.keys.Empty() {
		s.list.AddError(&fault.Mistake{Pos: v.Node.Pos, Path: v.Path, Found: "a secret in plain text, and there is no fleet key to seal it with",
			Remedy: "write ${env:NAME} or ${file:PATH}, which the worker fills in; or give --secret-key-file (`stctl secret key new` makes one); or --allow-plain-secrets stores it as it is",
			Err:    ErrPlain})
		return
	}
	at := s.ed.Origin(v.Node)
	if s.whole[at] && s.text(at) == v.Node.Text {
		return
	}
	text, err := s.sealed(v, written)
	if err == nil && v.Spans != nil && strays(text, written) {
		all := option.Secret{Node: v.Node, Path: v.Path}
		v = &all
		text, err = s.sealed(v, "-")
	}
	if err != nil {
		s.list.AddError(err)
		return
	}
	if s.whole[at] && v.Spans == nil && s.text(at) != v.Node.Text {
		s.list.Add(v.Node.Pos, v.Path, "the value is used encoded and as it stands", "write it twice")
		return
	}
	if v.Spans == nil || s.edits[at] == "" {
		s.edits[at], s.whole[at] = text, v.Spans == nil
	}
}

// text is the value that the edit of an origin seals.
func (s *sealer) text(at *option.Node) string {
	var b strings.Builder
	for _, p := range secret.Split(s.edits[at]) {
		if p.Kind == secret.Sealed {
			if t, err := s.keys.Open(p.Token); err == nil {
				b.WriteString(t)
				continue
			}
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

// sealed is the text of a value with tokens in the place of its secret parts.
func (s *sealer) sealed(v *option.Secret, written string) (string, error) {
	text := v.Node.Text
	spans := v.Spans
	if spans == nil {
		spans = [][2]int{{0, len(text)}}
	}
	var b strings.Builder
	at := 0
	for _, sp := range spans {
		b.WriteString(text[at:sp[0]])
		for _, p := range pieces(text[sp[0]:sp[1]], written) {
			if p.Kind != secret.Plain {
				b.WriteString(p.Text)
				continue
			}
			token, err := s.keys.Seal(p.Text, s.random)
			if err != nil {
				return "", err
			}
			b.WriteString(token)
			s.values = append(s.values, p.Text)
		}
		at = sp[1]
	}
	b.WriteString(text[at:])
	return b.String(), nil
}

// strays says that a text has a ${ which came in by a variable: written into the file it would be filled in.
func strays(text, written string) bool {
	for rest := text; ; {
		i := strings.Index(rest, "${")
		if i < 0 {
			return false
		}
		end := strings.IndexByte(rest[i:], '}')
		if end < 0 || !strings.Contains(written, rest[i:i+end+1]) {
			return true
		}
		rest = rest[i+end+1:]
	}
}

// constants seals the constants of the file that a secret was put together from.
func (s *sealer) constants() error {
	var errs []error
	for _, f := range s.ed.Job.Root.Fields {
		if !constant(f.Key) {
			continue
		}
		each(f.Value, f.Key, func(n *option.Node, path string) {
			if n.Kind == option.Bool || len(n.Text) < least && !slices.Contains(s.values, n.Text) || !s.partOfOne(n.Text) {
				return
			}
			errs = append(errs, s.extra(n, path))
		})
	}
	return errors.Join(errs...)
}

func (s *sealer) partOfOne(text string) bool {
	return text != "" && secret.Late(text) == "" && slices.ContainsFunc(s.values, func(v string) bool { return strings.Contains(v, text) })
}

// twins seals the values that a later one of the same key replaces: they are still in the text.
func (s *sealer) twins() error {
	var errs []error
	for _, at := range slices.Collect(maps.Keys(s.edits)) {
		for _, n := range s.ed.Twins(at) {
			errs = append(errs, s.extra(n, ""))
		}
	}
	return errors.Join(errs...)
}

// extra seals all of a value that is no option's.
func (s *sealer) extra(n *option.Node, path string) error {
	at := s.ed.Origin(n)
	v := option.Secret{Node: n, Path: path}
	if at == nil || s.edits[at] != "" || !plain(&v, s.ed.Written(n)) {
		return nil
	}
	text, err := s.sealed(&v, s.ed.Written(n))
	if err == nil {
		s.edits[at], s.whole[at] = text, true
	}
	return err
}

var assignment = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.\-]*)"?\s*[=:]\s*\S`)

// telling says that a comment may hold a secret: one that was sealed, or a line that was commented out.
func (s *sealer) telling(comment string) bool {
	if option.Masked(comment) != comment || slices.ContainsFunc(s.values, func(v string) bool { return len(v) >= least && strings.Contains(comment, v) }) {
		return true
	}
	for _, m := range assignment.FindAllStringSubmatch(comment, -1) {
		if option.SecretName(m[1]) {
			return true
		}
	}
	return false
}

// differs names the first value of two jobs that is not the same once tokens are opened.
func (s *sealer) differs(a, b *config.Job) string {
	x, y := blocks(a), blocks(b)
	if len(x) != len(y) {
		return "the number of plugins"
	}
	if at := s.apart(a.Env, b.Env, "env"); at != "" {
		return at
	}
	for i := range x {
		if x[i].Path() != y[i].Path() || x[i].Output != y[i].Output || !slices.Equal(x[i].Inputs, y[i].Inputs) || x[i].Pos.Line != y[i].Pos.Line {
			return x[i].Path()
		}
		if at := s.apart(x[i].Options, y[i].Options, x[i].Path()); at != "" {
			return at
		}
	}
	return ""
}

func (s *sealer) apart(a, b *option.Node, path string) string {
	sealed := b.Kind == option.String && secret.HasToken(b.Text)
	switch {
	case a.Kind != b.Kind && !sealed, a.Pos.Line != b.Pos.Line, len(a.List) != len(b.List), len(a.Fields) != len(b.Fields), s.opened(a.Text) != s.opened(b.Text):
		return path
	}
	for i := range a.List {
		if at := s.apart(a.List[i], b.List[i], path+index(i)); at != "" {
			return at
		}
	}
	for i := range a.Fields {
		if a.Fields[i].Key != b.Fields[i].Key {
			return path
		}
		if at := s.apart(a.Fields[i].Value, b.Fields[i].Value, option.JoinPath(path, a.Fields[i].Key)); at != "" {
			return at
		}
	}
	return ""
}

// opened is a text with those tokens opened that a key is there for.
func (s *sealer) opened(text string) string {
	if !secret.HasToken(text) {
		return text
	}
	var b strings.Builder
	for _, p := range secret.Split(text) {
		if p.Kind == secret.Sealed {
			if t, err := s.keys.Open(p.Token); err == nil {
				p.Text = t
			}
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

// left says what stays in clear that has the value of a secret, and which tokens nobody here can open.
func (s *sealer) left(out Job, job *config.Job, cat Catalog) []*fault.Mistake {
	var list fault.List
	told := map[int]bool{}
	secrets := slices.DeleteFunc(slices.Clone(s.values), func(v string) bool { return len(v) < least })
	unknown := map[string]bool{}
	look := func(n *option.Node, path string) {
		for _, id := range secret.Keys(n.Text) {
			if !slices.Contains(s.keys.IDs(), id) && !unknown[id] && !s.keys.Empty() {
				unknown[id] = true
				list.Warn(n.Pos, path, "sealed under key "+id+", which is not in the key file here", "workers need it to run the job")
			}
		}
		if slices.Contains(secrets, n.Text) && !told[n.Pos.Line] {
			told[n.Pos.Line] = true
			list.Warn(n.Pos, path, "has the value of a secret, but is none itself: it is stored in clear", "use another value or variable there")
		}
	}
	each(job.Env, "env", look)
	for _, b := range blocks(job) {
		each(b.Options, b.Path(), look)
	}
	for i, line := range strings.Split(out.Text, "\n") {
		if !told[i+1] && slices.ContainsFunc(secrets, func(v string) bool { return len(v) > least+1 && strings.Contains(line, v) }) {
			list.Warn(fault.Position{File: out.File, Line: i + 1}, "", "the value of a secret stands in this line too: it is stored in clear", "take it out")
		}
	}
	for _, set := range []struct {
		what   string
		values map[string]string
	}{{"-i ", out.Variables}, {"the environment variable ", out.Environment}} {
		for _, name := range slices.Sorted(maps.Keys(set.values)) {
			if slices.Contains(secrets, set.values[name]) {
				list.Warn(fault.Position{File: out.File}, "", set.what+name+" has the value of a secret and is used where none is expected: it is stored in clear",
					"use a variable of its own for the secret")
			}
		}
	}
	return list.Warnings()
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }
