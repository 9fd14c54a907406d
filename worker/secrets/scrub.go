package secrets

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"sync"

	"strait/plan/fault"
)

// Mark stands in the place of a secret.
const Mark = "‹secret›"

// least is the length of the shortest value that is looked for.
const least = 4

// Scrubber takes secrets out of texts. The zero value knows none; nil does nothing. Safe for concurrent use.
type Scrubber struct {
	mu       sync.RWMutex
	known    map[string]bool
	replacer *strings.Replacer
}

// Add makes values known, with the forms that drivers print them in.
func (s *Scrubber) Add(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.known)
	for _, v := range values {
		if s.known == nil {
			s.known = map[string]bool{}
		}
		for _, f := range forms(v) {
			if len(f) >= least {
				s.known[f] = true
			}
		}
	}
	if len(s.known) == before {
		return
	}
	all := make([]string, 0, len(s.known))
	for f := range s.known {
		all = append(all, f)
	}
	// Of two that begin at one place the replacer takes the first: the longest must come first.
	sort.Slice(all, func(i, j int) bool {
		if len(all[i]) != len(all[j]) {
			return len(all[i]) > len(all[j])
		}
		return all[i] < all[j]
	})
	pairs := make([]string, 0, 2*len(all))
	for _, f := range all {
		pairs = append(pairs, f, Mark)
	}
	s.replacer = strings.NewReplacer(pairs...)
}

// forms are the ways a value is printed: as it is, quoted, as JSON, escaped for a URL and back, in base64, and each
// of its lines.
func forms(v string) []string {
	v = strings.TrimSpace(v)
	if len(v) < least {
		return nil
	}
	inner := func(q string) string { return q[1 : len(q)-1] }
	raw, _ := json.Marshal(v) // a string always marshals
	out := []string{v, inner(strconv.Quote(v)), inner(strconv.QuoteToASCII(v)), inner(string(raw)), url.QueryEscape(v), url.PathEscape(v),
		url.UserPassword("", v).String()[1:], base64.StdEncoding.EncodeToString([]byte(v)), base64.URLEncoding.EncodeToString([]byte(v))}
	if u, err := url.PathUnescape(v); err == nil {
		out = append(out, u)
	}
	if u, err := url.QueryUnescape(v); err == nil {
		out = append(out, u)
	}
	if strings.Contains(v, "\n") {
		for _, line := range strings.Split(v, "\n") {
			if line = strings.TrimSpace(line); len(line) >= 2*least {
				out = append(out, line)
			}
		}
	}
	return out
}

// Text is s without secrets.
func (s *Scrubber) Text(text string) string {
	if s == nil {
		return text
	}
	s.mu.RLock()
	r := s.replacer
	s.mu.RUnlock()
	if r == nil {
		return text
	}
	return r.Replace(text)
}

// Clean is err with texts without secrets. The mistakes of a *fault.Many stay single ones; what errors.Is and
// errors.As find stays.
func (s *Scrubber) Clean(err error) error {
	if err == nil || s.Text(err.Error()) == err.Error() {
		return err
	}
	parts := fault.Split(err)
	clean := make([]error, len(parts))
	for i, p := range parts {
		if m := (*fault.Mistake)(nil); errors.As(p, &m) && p == error(m) {
			clean[i] = s.Mistake(m)
			continue
		}
		clean[i] = &scrubbed{p, s.Text(p.Error())}
	}
	if len(clean) == 1 {
		return clean[0]
	}
	return &fault.Many{Errs: clean}
}

// Mistake is m without secrets.
func (s *Scrubber) Mistake(m *fault.Mistake) *fault.Mistake {
	c := *m
	c.Found, c.Remedy = s.Text(m.Found), s.Text(m.Remedy)
	return &c
}

type scrubbed struct {
	err  error
	text string
}

func (e *scrubbed) Error() string { return e.text }
func (e *scrubbed) Unwrap() error { return e.err }
