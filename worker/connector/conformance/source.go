package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"strait/plan/option/optiontest"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/format/value"
)

// SourceCase is one configured source to check.
type SourceCase struct {
	Plugin      string // as registered; used with Options where New is nil
	Options     string // JSON
	Streaming   bool
	Parallelism int // default 2
	New         func(ctx context.Context) (connector.Source, error)

	// Rows is how many rows all splits give together; negative: not known.
	Rows int
	// Want are the rows as RowText gives them, in any order; nil: only Rows is checked.
	Want []string
}

// promptly is how long a call may go on after its context has ended.
const promptly = 2 * time.Second

// Source runs every check of a source.
func Source(t *testing.T, c SourceCase) {
	t.Helper()
	if c.Parallelism == 0 {
		c.Parallelism = 2
	}
	s := &sourceRun{SourceCase: c}
	s.splits = s.discover(t)
	all := s.readAll(t)
	t.Run("discovery resumes", func(t *testing.T) { s.cursors(t) })
	t.Run("parallel readers", func(t *testing.T) {
		for _, n := range []int{1, 2, 3} {
			if got := s.shared(t, n); !slices.Equal(got, sorted(all)) {
				t.Errorf("%d readers return %d rows, one reader a split returns %d, or others", n, len(got), len(all))
			}
		}
	})
	t.Run("resume inside a split", func(t *testing.T) { s.resume(t) })
	t.Run("small reads", func(t *testing.T) { s.limited(t) })
	t.Run("cancelled context", func(t *testing.T) { s.cancelled(t) })
	t.Run("no goroutine is left", func(t *testing.T) {
		before := goleak.IgnoreCurrent()
		s.discover(t)
		s.abandonHalfRead(t)
		goleak.VerifyNone(t, before)
	})
}

type sourceRun struct {
	SourceCase
	splits []connector.Split
}

func (s *sourceRun) source(t *testing.T) connector.Source {
	t.Helper()
	if s.New != nil {
		src, err := s.New(t.Context())
		if err != nil {
			t.Fatalf("new source: %v", err)
		}
		return src
	}
	f := connector.FindSource(s.Plugin)
	if f == nil {
		t.Fatalf("no source %q is registered", s.Plugin)
	}
	src, err := f.New(t.Context(), connector.SourceConfig{
		Options: optiontest.Values(t, f.Options, s.Options), Streaming: s.Streaming, Parallelism: s.Parallelism,
	})
	if err != nil {
		t.Fatalf("new source: %v", err)
	}
	return src
}

func (s *sourceRun) reader(t *testing.T, src connector.Source, subtask, parallelism int) (connector.Reader, []*batch.Schema) {
	t.Helper()
	schemas := batch.Schemas(src.Tables())
	r, err := src.NewReader(t.Context(), connector.ReaderContext{Subtask: subtask, Parallelism: parallelism, Schemas: schemas})
	if err != nil {
		t.Fatalf("new reader: %v", err)
	}
	return r, schemas
}

// discover collects the splits as the engine does.
func (s *sourceRun) discover(t *testing.T) []connector.Split {
	t.Helper()
	src := s.source(t)
	if a, b := src.Tables(), s.source(t).Tables(); len(a) == 0 || len(a) != len(b) {
		t.Fatalf("the source has %d tables, then %d", len(a), len(b))
	} else {
		for i := range a {
			if a[i].Path != b[i].Path || !a[i].SameRow(b[i]) {
				t.Fatalf("table %d is %v, then %v", i, a[i], b[i])
			}
		}
	}
	if src.Bounded() == s.Streaming {
		t.Logf("note: bounded is %v with streaming %v", src.Bounded(), s.Streaming)
	}
	splits := s.from(t, src, nil)
	seen := map[string]bool{}
	for _, sp := range splits {
		if sp.ID == "" || seen[sp.ID] {
			t.Fatalf("split id %q is empty or stands twice", sp.ID)
		}
		seen[sp.ID] = true
	}
	return splits
}

func (s *sourceRun) from(t *testing.T, src connector.Source, cursor []byte) (splits []connector.Split) {
	t.Helper()
	e, err := src.NewEnumerator(t.Context())
	if err != nil {
		t.Fatalf("new enumerator: %v", err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Errorf("close the enumerator: %v", err)
		}
	}()
	for quiet := 0; ; {
		d, err := e.Discover(t.Context(), cursor)
		if err != nil {
			t.Fatalf("discover: %v", err)
		}
		if len(d.Splits) > 10000 {
			t.Errorf("%d splits in one call", len(d.Splits))
		}
		splits = append(splits, d.Splits...)
		cursor = d.Cursor
		if d.Done {
			return splits
		}
		if len(d.Splits) == 0 {
			if quiet++; src.Bounded() && quiet > 1000 {
				t.Fatal("discovery of a bounded source does not end")
			}
			if !src.Bounded() {
				if d.Again == 0 {
					t.Fatal("discovery found nothing and asks to be called again at once")
				}
				return splits
			}
			time.Sleep(min(d.Again, 20*time.Millisecond))
		}
	}
}

// cursors discovers again from every cursor and wants what is missing.
func (s *sourceRun) cursors(t *testing.T) {
	src := s.source(t)
	e, err := src.NewEnumerator(t.Context())
	if err != nil {
		t.Fatalf("new enumerator: %v", err)
	}
	defer e.Close()
	var seen []connector.Split
	var cursor []byte
	for {
		d, err := e.Discover(t.Context(), cursor)
		if err != nil {
			t.Fatalf("discover: %v", err)
		}
		seen, cursor = append(seen, d.Splits...), d.Cursor
		rest := s.from(t, s.source(t), cursor)
		if len(seen)+len(rest) != len(s.splits) {
			t.Fatalf("%d splits before the cursor and %d behind it, %d in all", len(seen), len(rest), len(s.splits))
		}
		for i, sp := range append(slices.Clone(seen), rest...) {
			if sp.ID != s.splits[i].ID {
				t.Fatalf("split %d is %s, before it was %s", i, sp.ID, s.splits[i].ID)
			}
		}
		if d.Done || len(d.Splits) == 0 {
			return
		}
	}
}

// readSplit reads one split from a position to its end. stops receives every position on the way.
func readSplit(t *testing.T, r connector.Reader, schemas []*batch.Schema, sp connector.Split, position []byte, stops func(rows int, position []byte)) (rows []string) {
	t.Helper()
	if err := r.Open(t.Context(), sp, position); err != nil {
		t.Fatalf("open split %s at %q: %v", sp.ID, position, err)
	}
	out := connector.NewOutput(schemas, batch.Limit{})
	for idle := 0; ; {
		p, err := r.Read(t.Context(), out)
		if err != nil {
			t.Fatalf("read split %s: %v", sp.ID, err)
		}
		n := len(rows)
		for _, b := range out.Take() {
			rows = append(rows, Rows(b)...)
		}
		if stops != nil {
			stops(len(rows), slices.Clone(p.Position))
		}
		if p.Done {
			return rows
		}
		if len(rows) == n {
			if idle++; idle > 5000 {
				t.Fatalf("split %s does not end", sp.ID)
			}
			time.Sleep(min(p.Idle, 10*time.Millisecond))
		}
	}
}

func (s *sourceRun) readAll(t *testing.T) []string {
	t.Helper()
	var rows []string
	for _, sp := range s.splits {
		r, schemas := s.reader(t, s.source(t), 0, 1)
		rows = append(rows, readSplit(t, r, schemas, sp, nil, nil)...)
		closeReader(t, r)
	}
	if s.Rows >= 0 && len(rows) != s.Rows {
		t.Fatalf("the splits give %d rows, want %d", len(rows), s.Rows)
	}
	if s.Want != nil && !slices.Equal(sorted(rows), sorted(s.Want)) {
		t.Fatalf("the rows are\n%q, want\n%q", sorted(rows), sorted(s.Want))
	}
	return rows
}

func (s *sourceRun) shared(t *testing.T, n int) []string {
	t.Helper()
	src := s.source(t)
	var rows []string
	for i := range n {
		r, schemas := s.reader(t, src, i, n)
		for j := i; j < len(s.splits); j += n {
			rows = append(rows, readSplit(t, r, schemas, s.splits[j], nil, nil)...)
		}
		closeReader(t, r)
	}
	return sorted(rows)
}

func (s *sourceRun) resume(t *testing.T) {
	for _, sp := range s.splits[:min(len(s.splits), 8)] {
		type stop struct {
			rows     int
			position []byte
		}
		var stops []stop
		r, schemas := s.reader(t, s.source(t), 0, 1)
		whole := readSplit(t, r, schemas, sp, nil, func(rows int, position []byte) { stops = append(stops, stop{rows, position}) })
		closeReader(t, r)
		for _, st := range stops {
			r, schemas := s.reader(t, s.source(t), 1, 2)
			rest := readSplit(t, r, schemas, sp, st.position, nil)
			closeReader(t, r)
			if !slices.Equal(whole[st.rows:], rest) {
				t.Fatalf("split %s read on behind row %d gives %d rows, want the %d that are left", sp.ID, st.rows, len(rest), len(whole)-st.rows)
			}
		}
	}
}

// limited: a reader that is told to give little at once does, and says where it stands behind that.
func (s *sourceRun) limited(t *testing.T) {
	limit := batch.Limit{Rows: 3}
	for _, sp := range s.splits[:min(len(s.splits), 4)] {
		r, schemas := s.reader(t, s.source(t), 0, 1)
		whole := readSplit(t, r, schemas, sp, nil, nil)
		closeReader(t, r)
		r, schemas = s.reader(t, s.source(t), 0, 1)
		if err := r.Open(t.Context(), sp, nil); err != nil {
			t.Fatalf("open split %s: %v", sp.ID, err)
		}
		out := connector.NewOutput(schemas, limit)
		var head []string
		var position []byte
		done := false
		for range 50 {
			p, err := r.Read(t.Context(), out)
			if err != nil {
				t.Fatalf("read split %s: %v", sp.ID, err)
			}
			n := 0
			for _, b := range out.Take() {
				n += b.Rows
				head = append(head, Rows(b)...)
			}
			if n > limit.Rows {
				t.Fatalf("split %s: one Read gives %d rows, it was told to give %d", sp.ID, n, limit.Rows)
			}
			position = slices.Clone(p.Position)
			if done = p.Done; done {
				break
			}
		}
		closeReader(t, r)
		var rest []string
		if !done {
			r, schemas = s.reader(t, s.source(t), 1, 2)
			rest = readSplit(t, r, schemas, sp, position, nil)
			closeReader(t, r)
		}
		if got := append(head, rest...); !slices.Equal(got, whole) {
			t.Fatalf("split %s read in small steps gives %d rows, want %d, or others", sp.ID, len(got), len(whole))
		}
	}
}

func (s *sourceRun) cancelled(t *testing.T) {
	if len(s.splits) == 0 {
		t.Skip("there is no split")
	}
	r, schemas := s.reader(t, s.source(t), 0, 1)
	defer closeReader(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	soon(t, "Open and Read", func() {
		if err := r.Open(ctx, s.splits[0], nil); err == nil {
			_, _ = r.Read(ctx, connector.NewOutput(schemas, batch.Limit{}))
		}
	})
	e, err := s.source(t).NewEnumerator(t.Context())
	if err != nil {
		t.Fatalf("new enumerator: %v", err)
	}
	soon(t, "Discover", func() { _, _ = e.Discover(ctx, nil) })
	if err := e.Close(); err != nil {
		t.Errorf("close the enumerator: %v", err)
	}
}

// abandonHalfRead closes a reader in the middle of a split.
func (s *sourceRun) abandonHalfRead(t *testing.T) {
	if len(s.splits) == 0 {
		return
	}
	r, schemas := s.reader(t, s.source(t), 0, 1)
	if err := r.Open(t.Context(), s.splits[0], nil); err != nil {
		t.Fatalf("open: %v", err)
	}
	if _, err := r.Read(t.Context(), connector.NewOutput(schemas, batch.Limit{})); err != nil {
		t.Fatalf("read: %v", err)
	}
	closeReader(t, r)
}

func closeReader(t *testing.T, r connector.Reader) {
	t.Helper()
	soon(t, "Close", func() {
		if err := r.Close(); err != nil {
			t.Errorf("close the reader: %v", err)
		}
	})
}

func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(promptly):
		t.Fatalf("%s takes longer than %s", what, promptly)
	}
}

func sorted(rows []string) []string {
	out := slices.Clone(rows)
	slices.Sort(out)
	return out
}

// Rows writes the rows of a batch as text, one a row.
func Rows(b *batch.Batch) []string {
	out := make([]string, b.Rows)
	for i := range out {
		out[i] = RowText(b, i)
	}
	return out
}

// RowText writes a row as table, kind and values: t1 +I [1, a].
func RowText(b *batch.Batch, i int) string {
	return fmt.Sprintf("%s %s %s", b.Schema.Table.Path, b.Kind(i), value.AppendRow(nil, b, i))
}

// Table is a table of a few columns for tests: Table("t", schema.Col(…), …).
func Table(path string, columns ...schema.Column) *schema.Table {
	return &schema.Table{Path: schema.ParsePath(path), Columns: columns}
}
