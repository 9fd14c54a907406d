package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// screen is standard error, shared by the log, by lines that stay and, on a terminal, by a block of live lines that
// is rewritten in place. Whatever else writes to that terminal (rows of a Console sink) goes through beside, so
// that the block is out of the way first.
type screen struct {
	size func() (columns, rows int) // of the terminal; nil: none, nothing is rewritten

	mu    sync.Mutex
	out   io.Writer
	block []string // live lines that stand above the cursor
	open  bool     // the last text did not end its line, a block would begin in the middle of it
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if f, ok := out.(*os.File); ok && terminal(f) {
		s.size = func() (int, int) { return terminalSize(f) }
	}
	return s
}

// live says whether lines can be rewritten.
func (s *screen) live() bool { return s.size != nil }

// say prints a line that stays.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	fmt.Fprintf(s.out, format+"\n", args...)
	s.open = false
}

// Write implements io.Writer for the log.
func (s *screen) Write(p []byte) (int, error) { return s.through(s.out, p) }

func (s *screen) through(w io.Writer, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	n, err := w.Write(p)
	if n > 0 {
		s.open = p[n-1] != '\n'
	}
	return n, err
}

// beside is w for those who write while the screen is live. A w that is no terminal disturbs nothing.
func (s *screen) beside(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); !s.live() || ok && !terminal(f) {
		return w
	}
	return &besideScreen{s, w}
}

type besideScreen struct {
	s *screen
	w io.Writer
}

// Write implements io.Writer.
func (b *besideScreen) Write(p []byte) (int, error) { return b.s.through(b.w, p) }

// draw replaces the live block. Lines are cut to the width of the terminal, since a wrapped line could not be
// taken away again, and at its height.
func (s *screen) draw(lines []string) {
	if !s.live() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	columns, rows := s.size()
	if most := max(rows-2, 1); len(lines) > most {
		more := len(lines) - most + 1
		lines = append(lines[:most-1:most-1], fmt.Sprintf("  … and %d more", more))
	}
	block := make([]string, len(lines))
	for i, l := range lines {
		block[i] = cut(l, columns-1)
	}
	if slices.Equal(block, s.block) {
		return
	}
	s.erase()
	if s.open {
		return
	}
	for _, l := range block {
		fmt.Fprintln(s.out, l)
	}
	s.block = block
}

// clear takes the live block away.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
}

func (s *screen) erase() {
	if len(s.block) > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", len(s.block))
		s.block = nil
	}
}

// cut shortens a line to width characters.
func cut(line string, width int) string {
	line = strings.ReplaceAll(line, "\n", " ")
	if width < 1 || utf8.RuneCountInString(line) <= width {
		return line
	}
	r := []rune(line)
	return string(r[:width-1]) + "…"
}

// terminal says whether f is one that people look at: then lines may be rewritten in place.
func terminal(f *os.File) bool {
	if os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

func terminalSize(f *os.File) (columns, rows int) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 80, 24
	}
	return int(w.Col), int(w.Row)
}
