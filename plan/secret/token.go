package secret

import (
	"encoding/base64"
	"strings"
)

const prefix = "sealed("

// Token is a sealed text.
type Token struct {
	Key  string // id
	data []byte // nonce, sealed text, tag
}

// Kind says what a part of a text is.
type Kind uint8

// The kinds of parts.
const (
	Plain Kind = iota
	Sealed
	Env  // ${env:NAME}
	File // ${file:PATH}
)

// Part is a piece of a text. The texts of all parts together are the text.
type Part struct {
	Kind  Kind
	Text  string // as it stands there
	Token Token  // Sealed
	Name  string // Env: of the variable; File: the path
	// Optional: ${?env:NAME}, which is empty where there is none.
	Optional bool
}

// Split takes a text apart.
func Split(text string) []Part {
	var parts []Part
	plain := 0
	for i := 0; i < len(text); {
		p, ok := partAt(text[i:])
		if !ok {
			i++
			continue
		}
		if plain < i {
			parts = append(parts, Part{Text: text[plain:i]})
		}
		parts = append(parts, p)
		i += len(p.Text)
		plain = i
	}
	if plain < len(text) {
		parts = append(parts, Part{Text: text[plain:]})
	}
	return parts
}

// partAt reads the token or reference that s begins with.
func partAt(s string) (Part, bool) {
	switch s[0] {
	case prefix[0]:
		return tokenAt(s)
	case '$':
		return referenceAt(s)
	}
	return Part{}, false
}

func tokenAt(s string) (Part, bool) {
	if !strings.HasPrefix(s, prefix) {
		return Part{}, false
	}
	rest := s[len(prefix):]
	dot := strings.IndexByte(rest[:min(len(rest), maxID+1)], '.')
	if dot < 0 || !ValidID(rest[:dot]) {
		return Part{}, false
	}
	data := rest[dot+1:]
	end := 0
	for end < len(data) && base64Char(data[end]) {
		end++
	}
	if end == len(data) || data[end] != ')' {
		return Part{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(data[:end])
	if err != nil || len(raw) < nonceBytes+tagBytes {
		return Part{}, false
	}
	return Part{Kind: Sealed, Text: s[:len(prefix)+dot+1+end+1], Token: Token{Key: rest[:dot], data: raw}}, true
}

func base64Char(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// referenceAt reads ${env:NAME} or ${file:PATH}; blanks may stand inside, and a ? that makes it optional.
func referenceAt(s string) (Part, bool) {
	end := strings.IndexByte(s, '}')
	if !strings.HasPrefix(s, "${") || end < 0 || strings.ContainsAny(s[2:end], "\n${") {
		return Part{}, false
	}
	inside := strings.TrimSpace(s[2:end])
	rest, optional := strings.CutPrefix(inside, "?")
	word, name, _ := strings.Cut(rest, ":")
	p := Part{Text: s[:end+1], Name: strings.TrimSpace(name), Optional: optional}
	switch strings.TrimSpace(word) {
	case "env":
		p.Kind = Env
	case "file":
		p.Kind = File
	}
	return p, p.Kind != Plain && p.Name != ""
}

// Late says that a text holds something whose value is known on the worker only, and what: "sealed" or the
// reference as it is written; empty: nothing.
func Late(text string) string {
	if !strings.Contains(text, prefix) && !strings.Contains(text, "${") {
		return ""
	}
	for _, p := range Split(text) {
		switch p.Kind {
		case Sealed:
			return "sealed"
		case Env, File:
			return p.Text
		}
	}
	return ""
}

// HasToken says that a text holds a token.
func HasToken(text string) bool { return len(Keys(text)) > 0 }

// Keys are the ids of the keys of the tokens in a text, each once, in the order of their first token.
func Keys(text string) []string {
	if !strings.Contains(text, prefix) {
		return nil
	}
	var ids []string
	seen := map[string]bool{}
	for _, p := range Split(text) {
		if p.Kind == Sealed && !seen[p.Token.Key] {
			seen[p.Token.Key] = true
			ids = append(ids, p.Token.Key)
		}
	}
	return ids
}
