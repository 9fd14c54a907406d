package option

import (
	"regexp"
	"slices"
	"sort"
	"strings"
)

// secretNames are the names that make an option of a free-form map, a constant of the file or a parameter of a URL a
// secret: the whole key, or its end behind a dot, dash or underscore. This is the one list of them; options that a
// plugin declares are secret where the declaration says so.
var secretNames = []string{
	"password", "passwd", "pwd", "passphrase", "secret", "token", "credential", "credentials", "auth", "authorization",
	"access_key", "accesskey", "secret_key", "secretkey", "access_secret", "access_key_id", "secret_access_key",
	"api_key", "apikey", "private_key", "privatekey", "account_key", "sas_token", "sasl_jaas_config", "cookie",
}

// SecretName says that a key is named like a secret.
func SecretName(key string) bool {
	key = strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(key)))
	if slices.Contains(secretNames, key) {
		return true
	}
	for i := range key {
		if key[i] == '_' && slices.Contains(secretNames, key[i+1:]) {
			return true
		}
	}
	return false
}

// maySecret are the types of options that may be secret: those that take any text, so that a sealed one passes.
func (t Type) maySecret() bool {
	switch t {
	case TString, TStrings, TStringMap, TObject, TList, TAny:
		return true
	}
	return false
}

// Secret is a value of a block that nobody but the plugin on its worker should see.
type Secret struct {
	Node *Node
	Path string // option path: source[0] (Jdbc): password
	// Spans are the parts of Node.Text that are secret, in order; nil: all of it. A URL is secret in its password.
	Spans [][2]int
}

// Parts are the secret texts of the value.
func (s *Secret) Parts() []string {
	if s.Spans == nil {
		return []string{s.Node.Text}
	}
	out := make([]string, len(s.Spans))
	for i, sp := range s.Spans {
		out[i] = s.Node.Text[sp[0]:sp[1]]
	}
	return out
}

// Secrets finds the secrets of a block in the order of the file: the values of options declared secret, of keys named
// like secrets where the spec declares nothing, and the passwords within URLs. A nil spec declares nothing. path is
// the block's name.
func (s *Spec) Secrets(n *Node, path string, common ...Option) []Secret {
	if s == nil {
		s = &Spec{}
	}
	f := &finder{}
	f.object(s.with(common), n, "", path)
	return f.found
}

type finder struct{ found []Secret }

func (f *finder) object(s *Spec, n *Node, prefix, path string) {
	if n == nil || n.Kind != Object {
		return
	}
	for _, fd := range n.Fields {
		key := prefix + fd.Key
		at := join(path, key)
		switch o := s.spelled(key); {
		case o != nil:
			f.declared(o, fd.Value, at)
		case fd.Value.Kind == Object && s.headOf(key):
			f.object(s, fd.Value, key+".", path)
		default:
			f.free(fd.Value, fd.Key, at)
		}
	}
}

// spelled finds an option by its name or an alias.
func (s *Spec) spelled(key string) *Option {
	for i := range s.Options {
		if o := &s.Options[i]; o.Name == key || slices.Contains(o.Aliases, key) {
			return o
		}
	}
	return nil
}

func (f *finder) declared(o *Option, n *Node, at string) {
	switch {
	case o.Secret:
		f.all(n, at)
	case o.Columns:
	case o.Sub != nil && n.Kind == List:
		for i, e := range n.List {
			f.object(o.Sub, e, "", at+"["+itoa(int64(i))+"]")
		}
	case o.Sub != nil:
		f.object(o.Sub, n, "", at)
	default:
		f.free(n, "", at)
	}
}

// free looks at a value that nothing is declared of but perhaps its name.
func (f *finder) free(n *Node, key, at string) {
	switch {
	case key != "" && SecretName(key):
		f.all(n, at)
	case n.Kind == Object:
		for _, fd := range n.Fields {
			f.free(fd.Value, fd.Key, join(at, fd.Key))
		}
	case n.Kind == List:
		for i, e := range n.List {
			f.free(e, "", at+"["+itoa(int64(i))+"]")
		}
	case n.Kind == String:
		if spans := urlSecrets(n.Text); len(spans) > 0 {
			f.found = append(f.found, Secret{n, at, spans})
		}
	}
}

// all takes every text and number below a node. A boolean keeps no secret.
func (f *finder) all(n *Node, at string) {
	switch n.Kind {
	case String, Number:
		if n.Text != "" {
			f.found = append(f.found, Secret{Node: n, Path: at})
		}
	case List:
		for i, e := range n.List {
			f.all(e, at+"["+itoa(int64(i))+"]")
		}
	case Object:
		for _, fd := range n.Fields {
			f.all(fd.Value, join(at, fd.Key))
		}
	}
}

// FreeSecrets is Secrets for values that belong to no plugin: env, and constants of the file.
func FreeSecrets(n *Node, key, path string) []Secret {
	f := &finder{}
	f.free(n, key, path)
	return f.found
}

var (
	urlStart   = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.\-]*://`)
	oracleThin = regexp.MustCompile(`(?i)jdbc:oracle:[a-z]+:[^/@\s]*/("[^"]*"|[^@\s]+)@`)
	parameter  = regexp.MustCompile(`[?&;]([A-Za-z][A-Za-z0-9_.\-]*)=([^&;#\s"'<>]*)`)
)

// urlSecrets finds the passwords within URLs: user:PASSWORD@ and, behind ?, & or ;, those of parameters that are
// named like secrets. A user without a password is none.
func urlSecrets(s string) [][2]int {
	if !strings.Contains(s, ":") {
		return nil
	}
	var spans [][2]int
	starts := urlStart.FindAllStringIndex(s, -1)
	for i, at := range starts {
		end := len(s)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		if from, to := userInfo(s[at[1]:end]); to > from {
			spans = append(spans, [2]int{at[1] + from, at[1] + to})
		}
	}
	for _, m := range oracleThin.FindAllStringSubmatchIndex(s, -1) {
		spans = append(spans, [2]int{m[2], m[3]})
	}
	if len(starts) > 0 || strings.Contains(s, "jdbc:") {
		for _, m := range parameter.FindAllStringSubmatchIndex(s, -1) {
			if m[4] < m[5] && SecretName(s[m[2]:m[3]]) {
				spans = append(spans, [2]int{m[4], m[5]})
			}
		}
	}
	return disjoint(spans)
}

// userInfo finds the password in what stands behind the :// of a URL; to is 0 where there is none. A password that
// was not escaped may hold the characters that end an authority: they end it only where no @ follows, or where what
// stands before them is a port.
func userInfo(s string) (from, to int) {
	if i := strings.IndexAny(s, " \t\r\n\"'<>"); i >= 0 {
		s = s[:i]
	}
	colon := strings.IndexByte(s, ':')
	if colon < 0 || strings.ContainsAny(s[:colon], "/?#@[") {
		return 0, 0
	}
	authority := len(s)
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		authority = i
	}
	if i := strings.LastIndexByte(s[:authority], '@'); i > colon {
		return colon + 1, i
	}
	at := strings.IndexByte(s[colon:], '@')
	if at < 0 || port(s[colon+1:authority]) {
		return 0, 0
	}
	return colon + 1, colon + at
}

// port says whether what stands behind the colon of an authority is a port, or a list of further hosts with ports.
func port(s string) bool {
	s, _, _ = strings.Cut(s, ",")
	return strings.Trim(s, "0123456789") == "" || strings.HasPrefix(s, "${")
}

// disjoint sorts spans and joins those that overlap.
func disjoint(spans [][2]int) [][2]int {
	sort.Slice(spans, func(i, j int) bool { return spans[i][0] < spans[j][0] })
	var out [][2]int
	for _, s := range spans {
		if n := len(out); n > 0 && s[0] < out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], s[1])
			continue
		}
		out = append(out, s)
	}
	return out
}

// Masked is a text with the passwords of its URLs left out, for messages.
func Masked(s string) string {
	var b strings.Builder
	at := 0
	for _, sp := range urlSecrets(s) {
		b.WriteString(s[at:sp[0]] + "***")
		at = sp[1]
	}
	return b.String() + s[at:]
}
