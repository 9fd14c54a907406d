package seal

import (
	"slices"
	"strings"

	"strait/plan/config"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/plan/secret"
)

// least is the length from which on a value is looked for elsewhere: shorter ones stand everywhere by chance.
const least = 4

// Catalog says what a plugin declares. logical.Catalog is one; nil declares nothing.
type Catalog interface {
	Lookup(section config.Section, name string) logical.Plugin
}

// Find gives the secrets of a job: of its plugins, of env, and of its constants.
func Find(job *config.Job, cat Catalog) []option.Secret {
	out := logical.EnvSpec.Secrets(job.Env, "env")
	for _, f := range job.Root.Fields {
		if constant(f.Key) {
			out = append(out, option.FreeSecrets(f.Value, f.Key, f.Key)...)
		}
	}
	for _, b := range blocks(job) {
		out = append(out, find(b, cat)...)
	}
	return out
}

func find(b *config.Block, cat Catalog) []option.Secret {
	var spec *option.Spec
	if cat != nil {
		spec = cat.Lookup(b.Section, b.Plugin).Options
	}
	return spec.Secrets(b.Options, b.Path(), logical.Common(b.Section)...)
}

// constant says that a key of the file's root is the user's own.
func constant(key string) bool {
	return !slices.Contains([]string{"env", string(config.Source), string(config.Transform), string(config.Sink)}, key)
}

func blocks(job *config.Job) []*config.Block {
	return slices.Concat(job.Sources, job.Transforms, job.Sinks)
}

// Values are the secret texts of a job that are long enough to be looked for in other texts.
func Values(job *config.Job, cat Catalog) []string {
	var out []string
	for _, s := range Find(job, cat) {
		for _, part := range s.Parts() {
			for _, p := range secret.Split(part) {
				if p.Kind == secret.Plain && len(p.Text) >= least {
					out = append(out, p.Text)
				}
			}
		}
	}
	return out
}

// plain says whether a secret has a part that is neither sealed nor filled in on the worker. written is how it stands
// in the text, empty where that is not known: what came in by a variable is data, ${…} in it too.
func plain(s *option.Secret, written string) bool {
	return slices.ContainsFunc(s.Parts(), func(part string) bool {
		return slices.ContainsFunc(pieces(part, written), func(p secret.Part) bool { return p.Kind == secret.Plain })
	})
}

// pieces takes a secret text apart; what the text of the file does not write as a reference is plain.
func pieces(text, written string) []secret.Part {
	if unfilled(text) && (written == "" || strings.Contains(written, text)) {
		return nil
	}
	var out []secret.Part
	for _, p := range secret.Split(text) {
		if (p.Kind == secret.Env || p.Kind == secret.File) && written != "" && !strings.Contains(written, p.Text) {
			p = secret.Part{Text: p.Text}
		}
		if n := len(out); n > 0 && p.Kind == secret.Plain && out[n-1].Kind == secret.Plain {
			out[n-1].Text += p.Text
			continue
		}
		out = append(out, p)
	}
	return out
}

// unfilled says that a text is a ${name} that nobody gave a value.
func unfilled(s string) bool {
	return strings.HasPrefix(s, "${") && strings.IndexByte(s, '}') == len(s)-1 && secret.Late(s) == ""
}

// each calls f for every single value below n, with its option path.
func each(n *option.Node, path string, f func(n *option.Node, path string)) {
	switch n.Kind {
	case option.List:
		for i, e := range n.List {
			each(e, path+index(i), f)
		}
	case option.Object:
		for _, fd := range n.Fields {
			each(fd.Value, option.JoinPath(path, fd.Key), f)
		}
	case option.Null:
	default:
		f(n, path)
	}
}
