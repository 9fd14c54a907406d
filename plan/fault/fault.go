package fault

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Position is a place in a text the user wrote. Line and Column count from 1; zero means unknown.
type Position struct {
	File   string
	Line   int
	Column int
}

// String gives file:line, as editors and compilers do.
func (p Position) String() string {
	switch {
	case p.File == "" && p.Line == 0:
		return ""
	case p.Line == 0:
		return p.File
	case p.File == "":
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// MarshalText gives file:line:column, the form in stored plans.
func (p Position) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%s:%d:%d", p.File, p.Line, p.Column), nil
}

// UnmarshalText is the inverse of MarshalText.
func (p *Position) UnmarshalText(b []byte) error {
	rest, column, ok := cutLast(string(b))
	file, line, ok2 := cutLast(rest)
	if !ok || !ok2 {
		return fmt.Errorf("%q is not a place in a file", b)
	}
	*p = Position{File: file, Line: line, Column: column}
	return nil
}

// cutLast takes the number behind the last colon.
func cutLast(s string) (rest string, n int, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(s[i+1:])
	return s[:i], n, err == nil && n >= 0
}

// IsZero says that nothing is known of the place.
func (p Position) IsZero() bool { return p.File == "" && p.Line == 0 }

// Mistake is one fault in what the user wrote: where it stands, the option path, what was found and what
// to write instead.
type Mistake struct {
	Pos    Position
	Path   string // option path such as source[0] (FakeSource): row.num; empty where there is none
	Found  string // what is wrong, in words
	Remedy string // what to write instead; may be empty
	Err    error  // what it wraps, such as ErrNotInBuild; not part of the text
}

// ErrNotInBuild is wrapped by errors about something that SeaTunnel has and this build does not: a plugin, a
// format, an option.
var ErrNotInBuild = errors.New("not in this build")

// Unwrap gives the cause, if there is one.
func (m *Mistake) Unwrap() error { return m.Err }

// Error gives one line: file:line: path: what was found; what to do.
func (m *Mistake) Error() string {
	var b strings.Builder
	if s := m.Pos.String(); s != "" {
		b.WriteString(s)
		b.WriteString(": ")
	}
	if m.Path != "" {
		b.WriteString(m.Path)
		b.WriteString(": ")
	}
	b.WriteString(m.Found)
	if m.Remedy != "" {
		b.WriteString("; ")
		b.WriteString(m.Remedy)
	}
	return b.String()
}

// List collects mistakes so that all of them are reported at once. The zero value is ready.
type List struct {
	errs []error
	warn []*Mistake
}

// Add records a mistake; Found and Remedy are as in Mistake.
func (l *List) Add(pos Position, path, found, remedy string) {
	l.errs = append(l.errs, &Mistake{Pos: pos, Path: path, Found: found, Remedy: remedy})
}

// AddError records an error of another kind; what Split takes apart is recorded one by one. nil is ignored.
func (l *List) AddError(err error) { l.errs = append(l.errs, Split(err)...) }

// Split takes a *Many and what errors.Join made apart, down to the single errors. An error that wraps others in
// a text of its own stays whole.
func Split(err error) []error {
	if err == nil {
		return nil
	}
	var parts []error
	if m, ok := err.(interface{ Unwrap() []error }); ok {
		parts = m.Unwrap()
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Error()
	}
	if len(parts) == 0 || slices.Contains(texts, "") || strings.Join(texts, "\n") != err.Error() {
		return []error{err}
	}
	var out []error
	for _, p := range parts {
		out = append(out, Split(p)...)
	}
	return out
}

// Warn records something that does not stop the job but that the user should read.
func (l *List) Warn(pos Position, path, found, remedy string) {
	l.warn = append(l.warn, &Mistake{Pos: pos, Path: path, Found: found, Remedy: remedy})
}

// AddWarning is Warn for a mistake that is already there.
func (l *List) AddWarning(m *Mistake) { l.warn = append(l.warn, m) }

// Warnings returns what Warn recorded, in order.
func (l *List) Warnings() []*Mistake { return l.warn }

// Len is the number of mistakes so far.
func (l *List) Len() int { return len(l.errs) }

// Err returns nil, or a *Many with every mistake, those with a position first by file and line. The error is
// fatal when one of them is: the same text fails the same way again.
func (l *List) Err() error {
	if len(l.errs) == 0 {
		return nil
	}
	errs := slices.Clone(l.errs)
	sort.SliceStable(errs, func(i, j int) bool {
		a, b := position(errs[i]), position(errs[j])
		if a.IsZero() || b.IsZero() {
			return !a.IsZero()
		}
		if a.File != b.File {
			return a.File < b.File
		}
		return a.Line < b.Line
	})
	return &Many{Errs: errs}
}

func position(err error) Position {
	var m *Mistake
	if errors.As(err, &m) {
		return m.Pos
	}
	var w *located
	if errors.As(err, &w) {
		return w.pos
	}
	return Position{}
}

// At says where in the user's text an error of another kind belongs. It is retryable or fatal as err is; nil
// stays nil.
func At(pos Position, path string, err error) error {
	if err == nil {
		return nil
	}
	return &located{pos: pos, path: path, err: err}
}

type located struct {
	pos  Position
	path string
	err  error
}

func (w *located) Error() string {
	return (&Mistake{Pos: w.pos, Path: w.path, Found: w.err.Error()}).Error()
}

func (w *located) Unwrap() error { return w.err }

// Many is the error of a List: one line a mistake.
type Many struct{ Errs []error }

// Error joins the mistakes, one a line.
func (m *Many) Error() string {
	lines := make([]string, len(m.Errs))
	for i, e := range m.Errs {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As look at every mistake.
func (m *Many) Unwrap() []error { return m.Errs }

// Fatal says that trying again is of no use: one of the errors is fatal.
func (m *Many) Fatal() bool { return slices.ContainsFunc(m.Errs, IsFatal) }

// Fatal says that trying again is of no use.
func (m *Mistake) Fatal() bool { return true }

type fatal struct{ err error }

func (f *fatal) Error() string { return f.err.Error() }
func (f *fatal) Unwrap() error { return f.err }
func (f *fatal) Fatal() bool   { return true }

// Fatal marks err as one that the same work would meet again: the job goes to FAILING without a retry.
// nil stays nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatal{err}
}

// Fatalf is Fatal of fmt.Errorf.
func Fatalf(format string, args ...any) error { return Fatal(fmt.Errorf(format, args...)) }

// IsFatal reports whether err, or one it wraps, is marked fatal.
func IsFatal(err error) bool {
	var f interface{ Fatal() bool }
	return errors.As(err, &f) && f.Fatal()
}
